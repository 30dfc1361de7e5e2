"""Checks of a deployment: `manage.py check --deploy`.

IDs are stable: console.E001 and on. Checks that only matter to a served system run with --deploy; the collation is checked with
--database.
"""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings
from django.core import checks
from django.db import Error, connections
from redis.connection import parse_url

from console.cluster.admin import node_secret
from console.http.proxies import wrong_proxies
from qmq.errors import SettingError

ANALYTICS_EVERY_SECONDS_MIN = 60
ANALYTICS_LAKE_DAYS_MIN = 3
SECRET_CHARS_MIN = 32
MFA_WORDS = ("off", "admins", "all")
ROLE_WORDS = ("viewer", "operator", "admin")


def register() -> None:
    """Register the checks."""
    checks.register(cookies, checks.Tags.security, deploy=True)
    checks.register(secret, checks.Tags.security, deploy=True)
    checks.register(hosts, checks.Tags.security, deploy=True)
    checks.register(redis_access, checks.Tags.security, deploy=True)
    checks.register(node_secret_set, checks.Tags.security, deploy=True)
    checks.register(proxies, checks.Tags.security)
    checks.register(collation, checks.Tags.database)
    checks.register(accounts, checks.Tags.security)
    checks.register(analytics)
    checks.register(metrics_networks)


def cookies(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E001: HTTPS, and cookies that browsers would send without it."""
    if not settings.IS_HTTPS:
        return []
    loose = [name for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE") if not getattr(settings, name)]
    if not loose:
        return []
    return [
        checks.Error(
            f"QMQ_HTTPS is on but {' and '.join(loose)} is not",
            hint="Browsers would also send the cookie over plain HTTP.",
            id="console.E001",
        )
    ]


def secret(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E002: a secret key that can be guessed."""
    key = settings.SECRET_KEY
    if len(key) >= SECRET_CHARS_MIN and len(set(key)) >= 8 and not key.startswith("django-insecure"):
        return []
    return [
        checks.Error(
            "QMQ_SECRET_KEY is too short or a default value, so sessions and tokens can be forged",
            hint=f"Use at least {SECRET_CHARS_MIN} random characters, or unset it to have one generated.",
            id="console.E002",
        )
    ]


def hosts(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E003: any host name is accepted."""
    wild = [host for host in settings.ALLOWED_HOSTS if host in ("*", ".") or host.startswith("*")]
    if not wild:
        return []
    return [
        checks.Error(
            f"QMQ_ALLOWED_HOSTS contains the wildcard {wild[0]!r}",
            hint="List the host names by which browsers reach the console.",
            id="console.E003",
        )
    ]


def node_secret_set(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E020: no node secret, or one that can't be used."""
    try:
        if node_secret() is not None:
            return []
        problem = (
            "no node secret is set: any machine that reaches metaservers and nodes can register nodes and change groups"
        )
    except SettingError as error:
        problem = str(error)
    hint = (
        "Set QMQ_NODE_TOKEN, or QMQ_NODE_TOKEN_FILE to a file of mode 0600, to the same random text of 32 characters or more for"
        " metaservers, nodes and the console (docs/security.md)."
    )
    return [checks.Error(problem, hint=hint, id="console.E020")]


def proxies(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E021: proxies that are no addresses, or all addresses."""
    wrong = wrong_proxies(settings.BEHIND_PROXY)
    if not wrong:
        return []
    return [
        checks.Error(
            f"QMQ_BEHIND_PROXY has {', '.join(map(repr, wrong))}",
            hint="List the addresses or networks of your proxies, such as 10.0.0.7,10.1.0.0/16. If all addresses were "
            "trusted, any client could forge its address.",
            id="console.E021",
        )
    ]


def collation(app_configs: Any, databases: Sequence[str] | None = None, **_: Any) -> list[checks.CheckMessage]:
    """E004: a MySQL or MariaDB database that takes `Orders` and `orders` for one subject."""
    found: list[checks.CheckMessage] = []
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "mysql":
            continue
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@collation_database")
                row = cursor.fetchone()
        except Error as error:
            found.append(checks.Warning(f"the collation can't be determined: {error}", id="console.W004"))
            continue
        name = str(row[0]) if row else "unknown"
        if not name.endswith(("_bin", "_cs")):
            found.append(
                checks.Error(
                    f"the collation {name} of the database is case-insensitive",
                    hint="ALTER DATABASE ... COLLATE utf8mb4_bin, before the tables are created.",
                    id="console.E004",
                )
            )
    return found


def redis_access(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E009: a Redis outside this machine that accepts commands without a password or a client certificate."""
    try:
        place = parse_url(settings.REDIS_URL)  # type: ignore[no-untyped-call]
    except ValueError:
        hint = "Use redis://:PASSWORD@HOST:PORT/0 or rediss://:PASSWORD@HOST:PORT/0."
        return [checks.Error("QMQ_REDIS_URL is not a valid Redis URL", hint=hint, id="console.E009")]
    if (
        place.get("password")
        or place.get("ssl_certfile")
        or "path" in place
        or _is_loopback(place.get("host", "localhost"))
    ):
        return []
    return [
        checks.Error(
            f"QMQ_REDIS_URL names {place['host']} without a password: its clients can lift rate limits and forge live numbers",
            hint="Set requirepass or an ACL user in Redis, and add it to the URL: rediss://USER:PASSWORD@HOST:PORT/0.",
            id="console.E009",
        )
    ]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def accounts(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E005, E006: words that are none; half of a single sign-on."""
    found: list[checks.CheckMessage] = []
    if settings.MFA_REQUIRED not in MFA_WORDS:
        found.append(
            checks.Error(
                f"QMQ_MFA_REQUIRED is {settings.MFA_REQUIRED!r}",
                hint=f"Use one of {', '.join(MFA_WORDS)}.",
                id="console.E005",
            )
        )
    wrong = sorted(set(settings.OIDC_ROLES.values()) - set(ROLE_WORDS))
    if wrong:
        hint = f"Roles are {', '.join(ROLE_WORDS)}; the setting is VALUE=ROLE,VALUE=ROLE."
        found.append(checks.Error(f"QMQ_OIDC_ROLES names {', '.join(wrong)}", hint=hint, id="console.E006"))
    if bool(settings.OIDC_ISSUER) != bool(settings.OIDC_CLIENT_ID):
        hint = "Set both QMQ_OIDC_ISSUER and QMQ_OIDC_CLIENT_ID, or neither."
        found.append(checks.Error("single sign-on is configured incompletely", hint=hint, id="console.E006"))
    return found


def analytics(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E007: summaries that would be forgotten at once, or their roll-ups before them. E008: jobs too often, or a lake that forgets
    what a job looks back on."""
    found: list[checks.CheckMessage] = []
    days = list(settings.ANALYTICS_KEEP_DAYS.values())
    if min(days) < 1 or days != sorted(days):
        names = ", ".join(f"{step} {kept}" for step, kept in settings.ANALYTICS_KEEP_DAYS.items())
        hint = "Each must be at least 1 and not shorter than that of the finer step."
        found.append(checks.Error(f"QMQ_ANALYTICS_..._ROWS_DAYS are invalid: {names}", hint=hint, id="console.E007"))
    every = settings.ANALYTICS_EVERY_SECONDS
    if every and every < ANALYTICS_EVERY_SECONDS_MIN:
        hint = f"Use 0 to disable the jobs, or at least {ANALYTICS_EVERY_SECONDS_MIN}, because starting Spark takes ten seconds."
        found.append(checks.Error(f"QMQ_ANALYTICS_EVERY_SECONDS is {every}", hint=hint, id="console.E008"))
    if settings.ANALYTICS_WATERMARK_SECONDS < 0:
        text = f"QMQ_ANALYTICS_WATERMARK_SECONDS is {settings.ANALYTICS_WATERMARK_SECONDS}"
        found.append(checks.Error(text, hint="Use 0 or more: rows can be late, never early.", id="console.E008"))
    short = [name for name, kept in settings.ANALYTICS_LAKE_DAYS.items() if kept < ANALYTICS_LAKE_DAYS_MIN]
    if short:
        hint = f"Each must be {ANALYTICS_LAKE_DAYS_MIN} or more, because a day is computed after it has ended."
        text = f"the lake's days are too few for {', '.join(short)} (QMQ_ANALYTICS_LAKE_..._DAYS)"
        found.append(checks.Error(text, hint=hint, id="console.E008"))
    return found


def metrics_networks(app_configs: Any, **_: Any) -> list[checks.CheckMessage]:
    """E022: QMQ_METRICS_NETWORKS holds something that is no network."""
    found: list[checks.CheckMessage] = []
    for text in settings.METRICS_NETWORKS:
        try:
            ip_network(text)
        except ValueError as error:
            hint = "Use networks such as 127.0.0.1/32 and 10.20.0.0/16, separated by commas."
            found.append(checks.Error(f"QMQ_METRICS_NETWORKS: {error}", hint=hint, id="console.E022"))
    return found
