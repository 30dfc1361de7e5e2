"""QMQ's table `datasource_config`, which its watchdog reads: rows as registered databases. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from qmq.outbox.databases import PORTS, Kind, Tls
from qmq.outbox.dialects import TableName

QMQ_TABLE = "qmq_produce.qmq_msg_queue"
"""Where QMQ's Java client keeps rows, unless it is configured otherwise."""
SELECT = "SELECT id, url, user_name, password, status, room FROM datasource_config ORDER BY id"
ONLINE = 0
_KINDS = {"mysql": Kind.MYSQL, "mariadb": Kind.MYSQL, "postgresql": Kind.POSTGRESQL, "mmm": Kind.MYSQL}
_TLS = {
    "required": Tls.ENCRYPT, "trust": Tls.ENCRYPT, "require": Tls.ENCRYPT, "verify_ca": Tls.VERIFY, "verify-ca": Tls.VERIFY,
    "verify_identity": Tls.VERIFY, "verify-full": Tls.VERIFY,
}  # fmt: skip
"""Values of `sslMode` and `sslmode`."""
_PASSWORD = re.compile(r"(?i)(password=)[^&]*|(//[^/@]*:)[^/@]*@")


class NotImportable(ValueError):
    """A row that no registered database can be made of; the text says why."""


@dataclass(frozen=True, slots=True)
class Datasource:
    """A row of the table."""

    id: int
    url: str
    user: str
    password: str
    status: int
    room: str

    @property
    def shown_url(self) -> str:
        """Its URL without a password."""
        return _PASSWORD.sub(lambda found: f"{found[1]}***" if found[1] else f"{found[2]}***@", self.url)

    def values(self, table: str = QMQ_TABLE) -> dict[str, Any]:
        """The kind and the fields of a registered database. Raises NotImportable."""
        scheme, _, rest = self.url.removeprefix("jdbc:").partition("://")
        kind = _KINDS.get(scheme)
        if kind is None or not rest:
            raise NotImportable("the URL must begin with jdbc:mysql://, jdbc:mariadb://, jdbc:postgresql:// or mmm://")
        try:
            parts = urlsplit(f"//{rest}")
            host, port = parts.hostname, parts.port
        except ValueError as error:
            several = "it names several hosts; register the one that is written to" if "," in rest else str(error)
            raise NotImportable(several) from error
        if not host or "," in parts.netloc:
            raise NotImportable(
                "it names several hosts; register the one that is written to" if host else "it has no host"
            )
        database = unquote(parts.path.strip("/")) or TableName.parse(table).schema
        if not database:
            raise NotImportable("the URL names no database, and the table no schema")
        port = port or PORTS[kind]
        named, shown_host = parts.path.strip("/"), f"[{host}]" if ":" in host else host
        return {
            "kind": str(kind),
            "name": f"{shown_host}:{port}{f'/{named}' if named else ''}",
            "host": host,
            "port": port,
            "database": database,
            "user": self.user,
            "password": self.password or None,
            "table": table,
            "tls": str(_tls_of(dict(parse_qsl(parts.query)))),
            "is_enabled": self.status == ONLINE,
        }


def _tls_of(parameters: Mapping[str, str]) -> Tls:
    given = {name.lower(): value.lower() for name, value in parameters.items()}
    mode = given.get("sslmode")
    if mode is not None:
        return _TLS.get(mode, Tls.OFF)
    if given.get("usessl", given.get("ssl")) == "true":
        return Tls.VERIFY if given.get("verifyservercertificate") == "true" else Tls.ENCRYPT
    return Tls.OFF
