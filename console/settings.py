"""Django's settings, from the environment (QMQ_...). One deployment shape with knobs; `console.checks` says what is wrong."""

import secrets
from pathlib import Path
from typing import Any

from console.options import ConsoleOptions, listed, named_urls, time_zone
from metaserver.stored.database import database_settings
from qmq.net.discovery import meta_urls
from qmq.private_files import keep_secret

BASE_DIR = Path(__file__).resolve().parent.parent
_HOME = BASE_DIR if (BASE_DIR / "manage.py").is_file() else Path.cwd()
_options = ConsoleOptions.read()
DATA_DIR = Path(_options.data_dir or _HOME / "var")
"""In the project's folder; where a wheel is installed, in the folder one is in."""


def _secret_key() -> str:
    """Return the key from the environment, else the one in the data folder, which the first start creates."""
    return _options.secret_key or keep_secret(str(DATA_DIR / "secret_key"), lambda: secrets.token_urlsafe(50))


SECRET_KEY = _secret_key()
SECRET_KEY_FALLBACKS = listed(_options.secret_key_fallbacks)
DEBUG = False
ALLOWED_HOSTS = listed(_options.allowed_hosts)
META_URL = ",".join(meta_urls(_options.meta))
"""The address pages of all metaservers, separated by commas."""
REDIS_URL = _options.redis_url
NODE_TOKEN = _options.node_token
"""The node secret: signs what is requested of nodes. `console.cluster.admin` reads it."""
NODE_TOKEN_FILE = _options.node_token_file
"""File with the node secret; default: the one that `up` made in the data folder, if there is one."""
IS_HTTPS = _options.https
"""Whether browsers reach the console by HTTPS: cookies and headers are stricter then."""

INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "metaserver",
    "console.accounts",
    "console.alerts",
    "console.analytics",
    "console.outbox",
    "console",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.headless",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "rest_framework",
    "django_filters",
    "drf_spectacular",
    "channels",
]
MIDDLEWARE = [
    "console.http.requests.RequestIdMiddleware",
    "console.http.static_files.StaticFilesMiddleware",
    "console.http.headers.HeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "console.http.middleware.CompressionMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "console.http.middleware.SlashMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.accounts.sessions.SessionLifeMiddleware",
    "console.accounts.known.KnownDeviceMiddleware",
    "console.accounts.sign_in.SignInDoors",
    "allauth.account.middleware.AccountMiddleware",
]
ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]

DATABASES = {"default": database_settings(_options.database_url, str(DATA_DIR / "meta"))}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"

# --- accounts ---------------------------------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "console.accounts.passwords.PredictablePasswordValidator"},
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
MFA_REQUIRED = _options.mfa_required.lower()
"""Who must have a second factor: off (no user), admins, all. Until it is set up, their sessions reach their own account only
and their tokens are refused."""

ACCOUNT_ADAPTER = "console.accounts.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_PRESERVE_USERNAME_CASING = False
ACCOUNT_USERNAME_VALIDATORS = "console.accounts.names.USERNAME_VALIDATORS"
ACCOUNT_REAUTHENTICATION_REQUIRED = True
ACCOUNT_REAUTHENTICATION_TIMEOUT = 300
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_ON_PASSWORD_CHANGE = False  # the session that changes it stays; the others end
ACCOUNT_RATE_LIMITS = {"login_failed": None}  # console.accounts.lockout counts passwords and codes instead
HEADLESS_ONLY = True
"""allauth's own HTML pages are off; what is left under /accounts/ is where an identity provider sends browsers back to."""
HEADLESS_CLIENTS = ("browser",)
HEADLESS_FRONTEND_URLS = dict.fromkeys(
    (
        "account_confirm_email", "account_reset_password", "account_reset_password_from_key", "account_signup",
        "socialaccount_login_error",
    ),
    "/sign-in",
)  # fmt: skip
MFA_ADAPTER = "console.accounts.adapters.SecondFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_TOLERANCE = 0  # allauth remembers a used code for one period: with a tolerance it could be used again after it
MFA_RECOVERY_CODES_SHOW_ONCE = True
SOCIALACCOUNT_ADAPTER = "console.accounts.adapters.SingleSignOnAdapter"
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {}
OIDC_ISSUER = _options.oidc_issuer.rstrip("/")
OIDC_CLIENT_ID = _options.oidc_client_id
OIDC_ROLE_CLAIM = _options.oidc_role_claim
"""The claim whose values say a user's role at each sign-in; without it new users become viewers and stay what they are."""
OIDC_ROLES = dict(item.rsplit("=", 1) for item in listed(_options.oidc_roles) if "=" in item)
"""Values of that claim and their roles, as VALUE=ROLE,VALUE=ROLE."""
if OIDC_ISSUER and OIDC_CLIENT_ID:
    SOCIALACCOUNT_PROVIDERS["openid_connect"] = {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "sso",
                "name": _options.oidc_name,
                "client_id": OIDC_CLIENT_ID,
                "secret": _options.oidc_client_secret,
                "settings": {"server_url": OIDC_ISSUER},
            }
        ],
    }
SILENCED_SYSTEM_CHECKS = ["security.W021", "models.W037"]
"""Preloading HSTS is a promise about a whole domain that only its owner can make. MariaDB has no indexes of some rows."""

# --- browser ----------------------------------------------------------------------------------------------------------

_COOKIE_PREFIX = "__Host-" if IS_HTTPS else ""
SESSION_COOKIE_NAME = f"{_COOKIE_PREFIX}qmq_session"
SESSION_COOKIE_SECURE = IS_HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 12 * 3600  # as console.accounts.sessions.LIFE_MAX, which decides
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_ENGINE = "console.accounts.session_store"
SESSION_SERIALIZER = "django.contrib.sessions.serializers.JSONSerializer"
DEVICE_COOKIE_NAME = f"{_COOKIE_PREFIX}qmq_device"
CSRF_COOKIE_NAME = f"{_COOKIE_PREFIX}qmq_csrf"
CSRF_COOKIE_SECURE = IS_HTTPS
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_TRUSTED_ORIGINS = listed(_options.trusted_origins)
SECURE_HSTS_SECONDS = 31_536_000 if IS_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = IS_HTTPS
SECURE_SSL_REDIRECT = IS_HTTPS
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
STATIC_URL = "/static/"
"""As `base` in frontend/vite.config.ts."""
SYSTEMS = named_urls(_options.systems, "QMQ_SYSTEMS")
"""Consoles of the switcher in the header."""
FRONTEND_DIR = BASE_DIR / "console/dist"
DOCS_DIR = BASE_DIR / "console/docs"
"""A link to `docs` of the project; a wheel contains the files."""
CSRF_FAILURE_VIEW = "api.problems.csrf_refused"
BEHIND_PROXY = listed(_options.behind_proxy)
"""Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted (`console.http.proxies`)."""
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 << 20
"""The largest request body; a larger one is answered with 413."""

METRICS_NETWORKS = listed(_options.metrics_networks)
"""Networks that may read /metrics without a token, like 127.0.0.1/32."""

# --- API --------------------------------------------------------------------------------------------------------------

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "api.authentication.TokenAuthentication",
        "api.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["api.permissions.HasRight"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["api.parsers.BoundedJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "api.schema.Schema",
    "DEFAULT_THROTTLE_CLASSES": ["api.throttles.PrincipalThrottle"],
    "DEFAULT_THROTTLE_RATES": {"principal": "1200/min", "browse": "300/min", "download": "20/min"},
    "EXCEPTION_HANDLER": "api.problems.handle",
    "URL_FORMAT_OVERRIDE": None,  # `?format=` is a download's (api.downloads), not the name of a renderer
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "PyQMQ",
    "DESCRIPTION": "Subjects, consumer groups, broker groups, messages and delayed messages of a PyQMQ system.",
    "VERSION": "1",
    "COMPONENT_SPLIT_REQUEST": True,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums", "api.schema.close", "api.schema.share"],
    "ENUM_NAME_OVERRIDES": {
        "GroupKind": [("broker", "broker"), ("delay", "delay")],
        "GroupState": [(state, state) for state in ("read_write", "read_only", "write_only", "offline")],
        "NodeRole": [("master", "master"), ("slave", "slave")],
        "UserRole": [("viewer", "viewer"), ("operator", "operator"), ("admin", "admin")],
        "StepKind": [(kind, kind) for kind in ("team", "subject", "consumer_group")],
        "GroupStart": "api.serializers.groups.STARTS",
        "GroupFinding": "api.serializers.groups.FINDINGS",
        "FindingSeverity": "api.serializers.groups.SEVERITIES",
        "LagState": "api.serializers.analytics.LAG_STATES",
        "NotDraining": "api.serializers.analytics.NOT_DRAINING",
        "AlertKind": "api.serializers.alerts.KINDS",
        "AlertSeverity": "api.serializers.alerts.SEVERITIES",
        "AlertState": "api.serializers.alerts.ALERT_STATES",
        "AlertChannelKind": "api.serializers.alerts.CHANNEL_KINDS",
        "NotificationState": "api.serializers.alerts.NOTIFICATION_STATES",
        "OutboxDatabaseKind": "api.serializers.outbox.KINDS",
        "OutboxTls": "api.serializers.outbox.TLS",
        "OutboxRowStatus": "api.serializers.outbox.ROW_STATUSES",
        "OutboxUnknown": "api.serializers.outbox.UNKNOWN",
        "SummaryStep": [(step, step) for step in ("minute", "ten_minutes", "hour", "day")],
        "SummaryState": [(state, state) for state in ("no_run_yet", "filled")],
        "RunState": [(state, state) for state in ("running", "succeeded", "failed")],
    },
}

# --- alerts -----------------------------------------------------------------------------------------------------------

WEBHOOK_NETWORKS = listed(_options.webhook_networks)
"""Networks that are not public and that alerts' webhooks may be sent to, like 10.20.0.0/16."""
EMAIL_BACKEND = "console.alerts.mail.DeadlineBackend"
EMAIL_HOST = _options.smtp_host
EMAIL_PORT = _options.smtp_port
EMAIL_HOST_USER = _options.smtp_user
EMAIL_HOST_PASSWORD = _options.smtp_password
EMAIL_USE_TLS = _options.smtp_starttls
DEFAULT_FROM_EMAIL = _options.mail_from

# --- outbox -----------------------------------------------------------------------------------------------------------

OUTBOX_NETWORKS = listed(_options.outbox_networks)
"""Networks of databases whose outbox is relayed. No other address is connected to."""
OUTBOX_SQLITE_FOLDER = _options.outbox_sqlite_folder

# --- analytics --------------------------------------------------------------------------------------------------------
# console.options says what each of them means.

ANALYTICS_KEEP_DAYS = {
    "minute": _options.analytics_minute_rows_days,
    "ten_minutes": _options.analytics_ten_minute_rows_days,
    "hour": _options.analytics_hour_rows_days,
    "day": _options.analytics_day_rows_days,
}
ANALYTICS_MINUTE_ROWS_MAX = _options.analytics_minute_rows_max
ANALYTICS_ZONE = time_zone(_options.analytics_zone, "QMQ_ANALYTICS_ZONE")
"""Whose clocks say which hours anomalies are compared with."""
ANALYTICS_LAKE = _options.analytics_lake or str(DATA_DIR / "lake")
ANALYTICS_LAKE_DAYS = {
    "index": _options.analytics_lake_index_days,
    "progress": _options.analytics_lake_progress_days,
    "retries": _options.analytics_lake_retries_days,
    "dead_letters": _options.analytics_lake_dead_letters_days,
    "nodes": _options.analytics_lake_nodes_days,
}
"""Days that tables of the lake are kept, by their hours."""
ANALYTICS_TOKEN = _options.read_token
ANALYTICS_WATERMARK_SECONDS = _options.analytics_watermark_seconds
ANALYTICS_EVERY_SECONDS = _options.analytics_every_seconds
ANALYTICS_MEMORY = _options.analytics_memory
ANALYTICS_MASTER = _options.analytics_master
ANALYTICS_BATCH_ROWS_MAX = _options.analytics_batch_rows_max

# --- Redis, Channels, Celery ------------------------------------------------------------------------------------------

CACHES = {
    "default": {
        "BACKEND": "console.cache.JsonRedisCache",
        # A list: Django splits a string at commas and semicolons, which a password may contain.
        "LOCATION": [REDIS_URL],
        "KEY_PREFIX": "qmq",
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 1},
    }
}
CELERY_BROKER_URL = REDIS_URL
CELERY_ACCEPT_CONTENT = CELERY_RESULT_ACCEPT_CONTENT = ["json"]
CELERY_TASK_SERIALIZER = CELERY_RESULT_SERIALIZER = CELERY_EVENT_SERIALIZER = "json"
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
"""Workers take tasks from Redis, but no commands: a client of Redis can neither stop them nor resize their pools."""
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = False
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # no limit: a worker that stops trying must be restarted by hand
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "socket_connect_timeout": 3,
    "socket_timeout": 10,  # longer than a worker's own waiting for a word (1 s), or every quiet second would be a failure
    "socket_keepalive": True,
    "health_check_interval": 5,
}
CELERY_TASK_PUBLISH_RETRY = False
"""Beat does not wait for Redis: the word it could not send is late then, and the next one comes."""
CELERY_TASK_DEFAULT_QUEUE = "qmq"
ANALYTICS_QUEUE = "analytics"
"""Of the job that may take half an hour: a worker of its own keeps it from the others' places."""
OUTBOX_QUEUE = "outbox"
"""Of the job that relays outboxes: it runs nearly all the time."""
CELERY_TASK_QUEUES: dict[str, dict[str, str]] = {
    name: {} for name in (CELERY_TASK_DEFAULT_QUEUE, ANALYTICS_QUEUE, OUTBOX_QUEUE)
}
"""Default queues of a worker without `-Q`, so that no queue is left without a worker by an operator who knows of one only."""
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULER = "console.celery_beat:QuietScheduler"
"""In memory: what ran when is in the database, and there is no file to break."""
CELERY_WORKER_HIJACK_ROOT_LOGGER = False

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "client_faults": {"()": "console.http.log_filters.ClientFaults"},
        "request_id": {"()": "console.http.requests.RequestIdFilter"},
    },
    "formatters": {
        "plain": {
            "class": "console.http.requests.OneLineFormatter",
            "format": "%(asctime)s %(levelname)-7s %(name)s [%(request_id)s] %(message)s",
        }
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": "plain",
            "filters": ["client_faults", "request_id"],
        }
    },
    "root": {"handlers": ["console"], "level": _options.log_level.upper()},
}
