"""The settings of console, API and background jobs: environment variables with their texts, units and limits."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from qmq.errors import SettingError
from qmq.net.discovery import DEFAULT_META_URL
from qmq.options import NODE_TOKEN_FILE_HELP, NODE_TOKEN_HELP, convert, option, variable_of


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """Each field is the environment variable QMQ_<NAME>; lists are separated by commas."""

    data_dir: str = option("", help="data folder; default: `var` in the project's folder, or in the current one")
    database_url: str = option(
        "", help="postgres://, mysql:// or sqlite:// URL; default: SQLite in the data folder", is_secret=True
    )
    redis_url: str = option("redis://127.0.0.1:6379/0", help="Redis server: redis:// or rediss://", is_secret=True)
    meta: str = option(DEFAULT_META_URL, help="addresses of all metaservers, host:port or URL, separated by commas")
    node_token: str = option("", help=NODE_TOKEN_HELP, is_secret=True)
    node_token_file: str = option("", help=NODE_TOKEN_FILE_HELP)
    read_token: str = option("", help="`read_token` of the nodes, for analytics", is_secret=True)
    secret_key: str = option(
        "",
        help="signs sessions and encrypts secrets of channels and second factors; default: generated into the data folder",
        is_secret=True,
    )
    secret_key_fallbacks: str = option("", help="previous secret keys, which are still accepted", is_secret=True)
    log_level: str = option("INFO", help="log level")

    allowed_hosts: str = option("localhost,127.0.0.1,[::1]", help="host names by which browsers reach the console")
    systems: str = option(
        "", help="consoles of several systems, for the switcher in the header: NAME=URL,NAME=URL, this one included"
    )
    https: bool = option(False, help="browsers use HTTPS: secure cookies, HSTS, redirects")
    trusted_origins: str = option("", help="additional origins that can send changes and open websockets")
    behind_proxy: str = option("", help="addresses and networks of reverse proxies whose X-Forwarded-For is trusted")
    metrics_networks: str = option("", help="networks that can read /metrics without a token, such as 127.0.0.1/32")

    mfa_required: str = option("off", help="which users must use two-factor authentication: off, admins or all")
    oidc_issuer: str = option("", help="address of the identity provider for single sign-on")
    oidc_client_id: str = option("", help="client ID at the identity provider")
    oidc_client_secret: str = option("", help="client secret", is_secret=True)
    oidc_name: str = option("Single sign-on", help="label on the sign-in page")
    oidc_role_claim: str = option("", help="claim that sets a user's role at each sign-in")
    oidc_roles: str = option("", help="roles by values of that claim: VALUE=ROLE,VALUE=ROLE")

    webhook_networks: str = option("", help="private networks that webhooks of alerts can reach, such as 10.20.0.0/16")
    smtp_host: str = option("localhost", help="mail server for alerts")
    smtp_port: int = option(25, help="port of the mail server", minimum=1, maximum=65_535)
    smtp_user: str = option("", help="username at the mail server")
    smtp_password: str = option("", help="password at the mail server", is_secret=True)
    smtp_starttls: bool = option(False, help="use STARTTLS")
    mail_from: str = option("pyqmq@localhost", help="sender of emails")

    outbox_networks: str = option(
        "", help="networks of the databases whose outbox can be relayed, such as 10.30.0.0/16; default: none"
    )
    outbox_sqlite_folder: str = option("", help="folder of SQLite databases whose outbox can be relayed; default: none")

    analytics_every_seconds: int = option(600, help="interval of the analytics jobs; 0 disables them", unit="s")
    analytics_master: str = option("local[2]", help="Spark master")
    analytics_memory: str = option("1g", help="heap of the jobs in Java's notation, such as 1g")
    analytics_batch_rows_max: int = option(
        0,
        help="maximum rows that a batch reads from the nodes; 0: 2,500,000 for each core of Spark",
        unit="rows",
        minimum=0,
    )
    analytics_lake: str = option(
        "", help="location of the lake, a folder or Hadoop URI; default: `lake` in the data folder"
    )
    analytics_watermark_seconds: int = option(
        120, help="how late rows may arrive and how far clocks may differ", unit="s"
    )
    analytics_minute_rows_max: int = option(
        20_000,
        help="rows of a summary table for a minute or ten minutes; of more, those with most lag or traffic are stored",
        minimum=1,
    )
    analytics_zone: str = option(
        "UTC", help="time zone whose clocks say which hours anomalies are compared with, such as Europe/Berlin"
    )
    analytics_minute_rows_days: int = option(7, help="retention of summaries per minute", unit="days")
    analytics_ten_minute_rows_days: int = option(30, help="per ten minutes", unit="days")
    analytics_hour_rows_days: int = option(400, help="per hour", unit="days")
    analytics_day_rows_days: int = option(1000, help="per day", unit="days")
    analytics_lake_index_days: int = option(15, help="retention of the lake's table `index`", unit="days")
    analytics_lake_progress_days: int = option(15, help="`progress`", unit="days")
    analytics_lake_retries_days: int = option(35, help="`retries`", unit="days")
    analytics_lake_dead_letters_days: int = option(35, help="`dead_letters`", unit="days")
    analytics_lake_nodes_days: int = option(35, help="`nodes`", unit="days")

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


SYSTEMS_MAX = 20
"""Most systems of the switcher."""


def named_urls(text: str, variable: str) -> list[dict[str, str]]:
    """Return the names and URLs of a list of NAME=URL.

    Raises:
        SettingError: an item is not of that form, a URL not http or https, a name not unique, or there are too many.
    """
    found: dict[str, str] = {}
    for item in listed(text):
        name, equals, url = (part.strip() for part in item.partition("="))
        parts = urlsplit(url)
        if not (name and equals and parts.scheme in ("http", "https") and parts.netloc):
            raise SettingError(f"{variable} has {item!r}: must be NAME=URL, with a URL of http or https")
        if name in found:
            raise SettingError(f"{variable} has the name {name!r} twice: each system needs its own")
        found[name] = url
    if len(found) > SYSTEMS_MAX:
        raise SettingError(f"{variable} has {len(found)} systems: the switcher shows at most {SYSTEMS_MAX}")
    return [{"name": name, "url": url} for name, url in found.items()]


def time_zone(name: str, variable: str) -> ZoneInfo:
    """Return a time zone.

    Raises:
        SettingError: there is no zone with this name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise SettingError(f"{variable} is {name!r}; must be a time zone such as UTC or Europe/Berlin") from error
