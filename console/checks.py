"""Checks of a deployment: `manage.py check --deploy`.

IDs are stable: console.E001 and on. Checks that only matter to a served system run with --deploy; the collation is checked with
--database.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings
from django.core import checks
from django.db import Error, connections
from redis.connection import parse_url

from console.cluster.admin import node_secret
from qmq.errors import SettingError

ANALYTICS_EVERY_SECONDS_MIN = 60
ANALYTICS_LAKE_DAYS_MIN = 3
SECRET_CHARS_MIN = 32
MFA_WORDS = ("off", "admins", "all")
ROLE_WORDS = ("viewer", "operator", "admin")

Found = Iterator[checks.CheckMessage]


def _check(*tags: str, deploy: bool = False) -> Callable[[Callable[..., Found]], Callable[..., list[Any]]]:
    """Register a function that yields what is wrong."""

    def register(look: Callable[..., Found]) -> Callable[..., list[Any]]:
        @functools.wraps(look)
        def check(app_configs: Any, **options: Any) -> list[checks.CheckMessage]:
            return list(look(**options))

        return checks.register(check, *tags, deploy=deploy)

    return register


@_check(checks.Tags.security, deploy=True)
def cookies(**_: Any) -> Found:
    """E001: HTTPS, and cookies that browsers would send without it."""
    loose = [name for name in ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE") if not getattr(settings, name)]
    if settings.IS_HTTPS and loose:
        hint = "Browsers would also send the cookie over plain HTTP."
        yield checks.Error(f"QMQ_HTTPS is on but {' and '.join(loose)} is not", hint, id="console.E001")


@_check(checks.Tags.security, deploy=True)
def secret(**_: Any) -> Found:
    """E002: a secret key that can be guessed."""
    key = settings.SECRET_KEY
    if len(key) < SECRET_CHARS_MIN or len(set(key)) < 8 or key.startswith("django-insecure"):
        text = "QMQ_SECRET_KEY is too short or a default value, so sessions and tokens can be forged"
        hint = f"Use at least {SECRET_CHARS_MIN} random characters, or unset it to have one generated."
        yield checks.Error(text, hint, id="console.E002")


@_check(checks.Tags.security, deploy=True)
def hosts(**_: Any) -> Found:
    """E003: any host name is accepted."""
    wild = [host for host in settings.ALLOWED_HOSTS if host == "." or host.startswith("*")]
    if wild:
        hint = "List the host names by which browsers reach the console."
        yield checks.Error(f"QMQ_ALLOWED_HOSTS contains the wildcard {wild[0]!r}", hint, id="console.E003")


@_check(checks.Tags.security, deploy=True)
def node_secret_set(**_: Any) -> Found:
    """E020: no node secret, or one that can't be used."""
    problem = (
        "no node secret is set: any machine that reaches metaservers and nodes can register nodes and change groups"
    )
    try:
        if node_secret() is not None:
            return
    except SettingError as error:
        problem = str(error)
    hint = (
        "Set QMQ_NODE_TOKEN, or QMQ_NODE_TOKEN_FILE to a file of mode 0600, to the same random text of 32 characters or more for"
        " metaservers, nodes and the console (docs/security.md)."
    )
    yield checks.Error(problem, hint, id="console.E020")


@_check(checks.Tags.security)
def proxies(**_: Any) -> Found:
    """E021: proxies that are no addresses, or all addresses."""
    wrong = [proxy for proxy in settings.BEHIND_PROXY if not _is_part_of_all(proxy)]
    if wrong:
        hint = (
            "List the addresses or networks of your proxies, such as 10.0.0.7,10.1.0.0/16. If all addresses were "
            "trusted, any client could forge its address."
        )
        yield checks.Error(f"QMQ_BEHIND_PROXY has {', '.join(map(repr, wrong))}", hint, id="console.E021")


@_check(checks.Tags.database)
def collation(databases: Sequence[str] | None = None, **_: Any) -> Found:
    """E004: a MySQL or MariaDB database that takes `Orders` and `orders` for one subject."""
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "mysql":
            continue
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT @@collation_database")
                row = cursor.fetchone()
        except Error as error:
            yield checks.Warning(f"the collation can't be determined: {error}", id="console.W004")
            continue
        name = str(row[0]) if row else "unknown"
        if not name.endswith(("_bin", "_cs")):
            hint = "ALTER DATABASE ... COLLATE utf8mb4_bin, before the tables are created."
            yield checks.Error(f"the collation {name} of the database is case-insensitive", hint, id="console.E004")


@_check(checks.Tags.security, deploy=True)
def redis_access(**_: Any) -> Found:
    """E009: a Redis outside this machine that accepts commands without a password or a client certificate."""
    try:
        place = parse_url(settings.REDIS_URL)  # type: ignore[no-untyped-call]
    except ValueError:
        hint = "Use redis://:PASSWORD@HOST:PORT/0 or rediss://:PASSWORD@HOST:PORT/0."
        yield checks.Error("QMQ_REDIS_URL is not a valid Redis URL", hint, id="console.E009")
        return
    has_credential = place.get("password") or place.get("ssl_certfile")
    if not has_credential and "path" not in place and not _is_loopback(place.get("host", "localhost")):
        text = f"QMQ_REDIS_URL names {place['host']} without a password: its clients can lift rate limits and forge live numbers"
        hint = "Set requirepass or an ACL user in Redis, and add it to the URL: rediss://USER:PASSWORD@HOST:PORT/0."
        yield checks.Error(text, hint, id="console.E009")


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


@_check(checks.Tags.security)
def accounts(**_: Any) -> Found:
    """E005, E006: words that are none; half of a single sign-on."""
    if settings.MFA_REQUIRED not in MFA_WORDS:
        yield checks.Error(
            f"QMQ_MFA_REQUIRED is {settings.MFA_REQUIRED!r}", f"Use one of {', '.join(MFA_WORDS)}.", id="console.E005"
        )
    wrong = sorted(set(settings.OIDC_ROLES.values()) - set(ROLE_WORDS))
    if wrong:
        hint = f"Roles are {', '.join(ROLE_WORDS)}; the setting is VALUE=ROLE,VALUE=ROLE."
        yield checks.Error(f"QMQ_OIDC_ROLES names {', '.join(wrong)}", hint, id="console.E006")
    if bool(settings.OIDC_ISSUER) != bool(settings.OIDC_CLIENT_ID):
        hint = "Set both QMQ_OIDC_ISSUER and QMQ_OIDC_CLIENT_ID, or neither."
        yield checks.Error("single sign-on is configured incompletely", hint, id="console.E006")


@_check()
def analytics(**_: Any) -> Found:
    """E007: summaries that would be forgotten at once, or their roll-ups before them. E008: jobs too often, or a lake that forgets
    what a job looks back on."""
    days = list(settings.ANALYTICS_KEEP_DAYS.values())
    if min(days) < 1 or days != sorted(days):
        names = ", ".join(f"{step} {kept}" for step, kept in settings.ANALYTICS_KEEP_DAYS.items())
        hint = "Each must be at least 1 and not shorter than that of the finer step."
        yield checks.Error(f"QMQ_ANALYTICS_..._ROWS_DAYS are invalid: {names}", hint, id="console.E007")
    every = settings.ANALYTICS_EVERY_SECONDS
    if every and every < ANALYTICS_EVERY_SECONDS_MIN:
        hint = f"Use 0 to disable the jobs, or at least {ANALYTICS_EVERY_SECONDS_MIN}, because starting Spark takes ten seconds."
        yield checks.Error(f"QMQ_ANALYTICS_EVERY_SECONDS is {every}", hint, id="console.E008")
    if settings.ANALYTICS_WATERMARK_SECONDS < 0:
        text = f"QMQ_ANALYTICS_WATERMARK_SECONDS is {settings.ANALYTICS_WATERMARK_SECONDS}"
        yield checks.Error(text, "Use 0 or more: rows can be late, never early.", id="console.E008")
    short = [name for name, kept in settings.ANALYTICS_LAKE_DAYS.items() if kept < ANALYTICS_LAKE_DAYS_MIN]
    if short:
        hint = f"Each must be {ANALYTICS_LAKE_DAYS_MIN} or more, because a day is computed after it has ended."
        text = f"the lake's days are too few for {', '.join(short)} (QMQ_ANALYTICS_LAKE_..._DAYS)"
        yield checks.Error(text, hint, id="console.E008")


@_check()
def metrics_networks(**_: Any) -> Found:
    """E022: QMQ_METRICS_NETWORKS holds something that is no network."""
    return _wrong_networks("console.E022", "QMQ_METRICS_NETWORKS", settings.METRICS_NETWORKS)


@_check()
def webhook_networks(**_: Any) -> Found:
    """alerts.E001: QMQ_WEBHOOK_NETWORKS holds something that is no network."""
    return _wrong_networks("alerts.E001", "QMQ_WEBHOOK_NETWORKS", settings.WEBHOOK_NETWORKS)


@_check()
def outbox_networks(**_: Any) -> Found:
    """outbox.E001: QMQ_OUTBOX_NETWORKS holds something that is no network."""
    return _wrong_networks("outbox.E001", "QMQ_OUTBOX_NETWORKS", settings.OUTBOX_NETWORKS)


def _is_part_of_all(proxy: str) -> bool:
    """Whether this is an address or a network, and not one of all addresses."""
    try:
        return ip_network(proxy).prefixlen > 0
    except ValueError:
        return False


def _wrong_networks(check_id: str, variable: str, networks: Sequence[str]) -> Found:
    for text in networks:
        try:
            ip_network(text)
        except ValueError as error:
            hint = "Use networks such as 127.0.0.1/32 and 10.20.0.0/16, separated by commas."
            yield checks.Error(f"{variable}: {error}", hint, id=check_id)
