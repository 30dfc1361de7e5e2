"""The settings of console, API and background jobs: environment variables with their texts, units and limits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields

from qmq.net import node_secret
from qmq.net.discovery import DEFAULT_META_URL
from qmq.options import NODE_TOKEN_FILE_HELP, NODE_TOKEN_HELP, convert, option, variable_of


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Each field is an environment variable; lists are separated by commas."""

    data_dir: str = option(
        "", help="data folder; default: `var` in the project's folder, or in the current one", variable="QMQ_DATA_DIR"
    )
    database_url: str = option(
        "",
        help="postgres://, mysql:// or sqlite:// URL; default: SQLite in the data folder",
        variable="QMQ_DATABASE_URL",
        is_secret=True,
    )
    redis_url: str = option(
        "redis://127.0.0.1:6379/0", help="Redis server: redis:// or rediss://", variable="QMQ_REDIS_URL", is_secret=True
    )
    meta: str = option(
        DEFAULT_META_URL,
        help="addresses of all metaservers, host:port or URL, separated by commas",
        variable="QMQ_META",
    )
    node_token: str = option("", help=NODE_TOKEN_HELP, variable=node_secret.VARIABLE, is_secret=True)
    node_token_file: str = option("", help=NODE_TOKEN_FILE_HELP, variable=node_secret.FILE_VARIABLE)
    read_token: str = option(
        "", help="`read_token` of the nodes, for analytics", variable="QMQ_READ_TOKEN", is_secret=True
    )
    secret_key: str = option(
        "",
        help="signs sessions and encrypts secrets of channels and second factors; default: generated into the data folder",
        variable="QMQ_SECRET_KEY",
        is_secret=True,
    )
    secret_key_fallbacks: str = option(
        "", help="previous secret keys, which are still accepted", variable="QMQ_SECRET_KEY_FALLBACKS", is_secret=True
    )
    log_level: str = option("INFO", help="log level", variable="QMQ_LOG_LEVEL")

    allowed_hosts: str = option(
        "localhost,127.0.0.1,[::1]", help="host names by which browsers reach the console", variable="QMQ_ALLOWED_HOSTS"
    )
    https: bool = option(False, help="browsers use HTTPS: secure cookies, HSTS, redirects", variable="QMQ_HTTPS")
    trusted_origins: str = option(
        "", help="additional origins that can send changes and open websockets", variable="QMQ_TRUSTED_ORIGINS"
    )
    behind_proxy: str = option(
        "",
        help="addresses and networks of reverse proxies whose X-Forwarded-For is trusted",
        variable="QMQ_BEHIND_PROXY",
    )
    metrics_networks: str = option(
        "",
        help="networks that can read /metrics without a token, such as 127.0.0.1/32",
        variable="QMQ_METRICS_NETWORKS",
    )

    mfa_required: str = option(
        "off", help="which users must use two-factor authentication: off, admins or all", variable="QMQ_MFA_REQUIRED"
    )
    oidc_issuer: str = option(
        "", help="address of the identity provider for single sign-on", variable="QMQ_OIDC_ISSUER"
    )
    oidc_client_id: str = option("", help="client ID at the identity provider", variable="QMQ_OIDC_CLIENT_ID")
    oidc_client_secret: str = option("", help="client secret", variable="QMQ_OIDC_CLIENT_SECRET", is_secret=True)
    oidc_name: str = option("Single sign-on", help="label on the sign-in page", variable="QMQ_OIDC_NAME")
    oidc_role_claim: str = option(
        "", help="claim that sets a user's role at each sign-in", variable="QMQ_OIDC_ROLE_CLAIM"
    )
    oidc_roles: str = option("", help="roles by values of that claim: VALUE=ROLE,VALUE=ROLE", variable="QMQ_OIDC_ROLES")

    webhook_networks: str = option(
        "",
        help="private networks that webhooks of alerts can reach, such as 10.20.0.0/16",
        variable="QMQ_WEBHOOK_NETWORKS",
    )
    smtp_host: str = option("localhost", help="mail server for alerts", variable="QMQ_SMTP_HOST")
    smtp_port: int = option(25, help="port of the mail server", minimum=1, maximum=65_535, variable="QMQ_SMTP_PORT")
    smtp_user: str = option("", help="username at the mail server", variable="QMQ_SMTP_USER")
    smtp_password: str = option("", help="password at the mail server", variable="QMQ_SMTP_PASSWORD", is_secret=True)
    smtp_starttls: bool = option(False, help="use STARTTLS", variable="QMQ_SMTP_STARTTLS")
    mail_from: str = option("pyqmq@localhost", help="sender of emails", variable="QMQ_MAIL_FROM")

    analytics_every_seconds: int = option(
        600, help="interval of the analytics jobs; 0 disables them", unit="s", variable="QMQ_ANALYTICS_EVERY_SECONDS"
    )
    analytics_master: str = option("local[2]", help="Spark master", variable="QMQ_ANALYTICS_MASTER")
    analytics_memory: str = option(
        "1g", help="heap of the jobs in Java's notation, such as 1g", variable="QMQ_ANALYTICS_MEMORY"
    )
    analytics_lake: str = option(
        "",
        help="location of the lake, a folder or Hadoop URI; default: `lake` in the data folder",
        variable="QMQ_ANALYTICS_LAKE",
    )
    analytics_watermark_seconds: int = option(
        120,
        help="how late rows may arrive and how far clocks may differ",
        unit="s",
        variable="QMQ_ANALYTICS_WATERMARK_SECONDS",
    )
    analytics_minute_rows_days: int = option(
        7, help="retention of summaries per minute", unit="days", variable="QMQ_ANALYTICS_MINUTE_ROWS_DAYS"
    )
    analytics_ten_minute_rows_days: int = option(
        30, help="per ten minutes", unit="days", variable="QMQ_ANALYTICS_TEN_MINUTE_ROWS_DAYS"
    )
    analytics_hour_rows_days: int = option(400, help="per hour", unit="days", variable="QMQ_ANALYTICS_HOUR_ROWS_DAYS")
    analytics_day_rows_days: int = option(1000, help="per day", unit="days", variable="QMQ_ANALYTICS_DAY_ROWS_DAYS")
    analytics_lake_index_days: int = option(
        15, help="retention of the lake's table `index`", unit="days", variable="QMQ_ANALYTICS_LAKE_INDEX_DAYS"
    )
    analytics_lake_progress_days: int = option(
        15, help="`progress`", unit="days", variable="QMQ_ANALYTICS_LAKE_PROGRESS_DAYS"
    )
    analytics_lake_retries_days: int = option(
        35, help="`retries`", unit="days", variable="QMQ_ANALYTICS_LAKE_RETRIES_DAYS"
    )
    analytics_lake_dead_letters_days: int = option(
        35, help="`dead_letters`", unit="days", variable="QMQ_ANALYTICS_LAKE_DEAD_LETTERS_DAYS"
    )
    analytics_lake_nodes_days: int = option(35, help="`nodes`", unit="days", variable="QMQ_ANALYTICS_LAKE_NODES_DAYS")

    @classmethod
    def read(cls, environ: Mapping[str, str] = os.environ) -> "ConsoleOptions":
        """Return the settings of an environment; an empty variable counts as absent.

        Raises:
            SettingError: a value has the wrong type or is out of range; the message names variable and value.
        """
        values = {}
        for item in fields(cls):
            variable = variable_of(item, "")
            if environ.get(variable):
                values[item.name] = convert(item, environ[variable], variable)
        return cls(**values)


def listed(text: str) -> list[str]:
    """Return the items of a list separated by commas."""
    return [item.strip() for item in text.split(",") if item.strip()]
