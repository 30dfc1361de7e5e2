"""Databases as the outbox uses them: where they are, and connections of its own, whose statements have a time limit.

psycopg, PyMySQL and sqlite3 are used as they are. SQL has `?` for values in all of them.
"""

import importlib
import re
import socket
import sqlite3
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import DatabaseFailed, SettingError
from qmq.words import nearest, printable

STATEMENT_SECONDS = 5.0
"""How long opening a connection, and each statement, may take."""
ERROR_CHARS_MAX = 300
"""Of a driver's text in our errors."""
_ANSWER_MARGIN_SECONDS = 1.0
"""How much longer than the server's own limit the client waits for an answer."""
_SQLITE_STEPS = 100_000
"""Steps of SQLite's machine between two checks of a statement's time."""


class Kind(StrEnum):
    """What speaks the database's SQL."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"
    MYSQL = "mysql"
    """MariaDB and MySQL."""


class Tls(StrEnum):
    """How connections are protected."""

    OFF = "off"
    ENCRYPT = "encrypt"
    """Encrypted; the server's certificate is not checked."""
    VERIFY = "verify"
    """Encrypted; the certificate and its name are checked with the system's authorities."""


_SCHEMES = {
    "sqlite": Kind.SQLITE, "postgresql": Kind.POSTGRESQL, "postgres": Kind.POSTGRESQL, "mysql": Kind.MYSQL, "mariadb": Kind.MYSQL,
}  # fmt: skip
PORTS = {Kind.POSTGRESQL: 5432, Kind.MYSQL: 3306, Kind.SQLITE: 0}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a database is, and the user who connects."""

    kind: Kind
    database: str
    """Its name; of SQLite, the path of its file."""
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    tls: Tls = Tls.OFF

    @classmethod
    def parse(cls, url: str, password: str = "") -> "Address":
        """From a URL: `postgresql://user@host:port/name`, `mysql://...`, `sqlite:////absolute/path`; `?tls=encrypt` or `verify`.

        Args:
            password: used if the URL has none. A URL with a password is visible to other users of the machine.

        Raises:
            SettingError: the URL is none of these.
        """
        shown = re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:***@", url)
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise SettingError(f"database {shown!r}: {error}") from error
        kind = _SCHEMES.get(parts.scheme)
        if kind is None:
            raise SettingError(f"database {shown!r}: must begin with postgresql://, mysql:// or sqlite:///")
        tls = Tls.OFF
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name != "tls":
                raise SettingError(f"database {shown!r}: the parameter {name!r} is unknown: {nearest(name, ('tls',))}")
            if value not in list(Tls):
                raise SettingError(f"database {shown!r}: tls is {value!r}; must be one of {', '.join(Tls)}")
            tls = Tls(value)
        path = unquote(parts.path[1:])
        if kind is Kind.SQLITE:
            if parts.netloc or parts.query or not path:
                raise SettingError(f"database {shown!r}: must be sqlite:/// and a path, without host and parameters")
            return cls(kind, path)
        if not parts.hostname or not path or "/" in path:
            raise SettingError(f"database {shown!r}: must have a host and the name of one database")
        user, own_password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(kind, path, parts.hostname, port or PORTS[kind], user, own_password or password, tls)

    def __str__(self) -> str:
        if self.kind is Kind.SQLITE:
            return f"sqlite:///{self.database}"
        user = f"{self.user}@" if self.user else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.kind}://{user}{host}:{self.port}/{self.database}"


class Connection:
    """A connection in autocommit with isolation READ COMMITTED, for one thread at a time.

    Args:
        raw: what the driver has returned. It is changed to autocommit.

    Raises:
        DatabaseFailed: as each method. After `database.unreachable` and `database.timeout`, only `close` may be called.
    """

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.kind = kind_of(raw)
        self._errors: type[Exception] = driver_of(raw).Error
        try:
            self._prepare()
        except DatabaseFailed:
            self.close()
            raise

    def _prepare(self) -> None:
        with self._converted():
            if self.kind is Kind.SQLITE:
                self.raw.isolation_level = None
                # Since Python 3.12, and stronger than the isolation level.
                if getattr(self.raw, "autocommit", None) is False:
                    self.raw.autocommit = True
            elif self.kind is Kind.POSTGRESQL:
                self.raw.autocommit = True
            else:
                self.raw.autocommit(True)
                # In InnoDB's default, deleting an ID that does not exist locks the gap up to the table's end against INSERTs.
                self._execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT, or of a statement with RETURNING."""
        with self._converted():
            cursor = self._execute(sql, values)
            try:
                return [tuple(row) for row in cursor.fetchall()]
            finally:
                cursor.close()

    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        with self._converted():
            cursor = self._execute(sql, values)
            try:
                return int(cursor.rowcount)
            finally:
                cursor.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction for the statements in the block; it is rolled back if the block raises."""
        self.change("BEGIN IMMEDIATE" if self.kind is Kind.SQLITE else "BEGIN")
        try:
            yield
            self.change("COMMIT")
        except BaseException:
            with suppress(DatabaseFailed):
                self.change("ROLLBACK")
            raise

    def close(self) -> None:
        """Close it, also when it does not work any more."""
        with suppress(Exception):
            self.raw.close()

    def _execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        cursor = self.raw.cursor()
        cursor.execute(sql if self.kind is Kind.SQLITE else sql.replace("?", "%s"), *((values,) if values else ()))
        return cursor

    @contextmanager
    def _converted(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise failure_of(error, self.kind) from error
        except OSError as error:
            raise DatabaseFailed(
                f"the connection failed: {error}", code="database.unreachable", retriable=True
            ) from error


_KINDS = {
    "sqlite3": Kind.SQLITE, "psycopg": Kind.POSTGRESQL, "psycopg2": Kind.POSTGRESQL, "pymysql": Kind.MYSQL, "MySQLdb": Kind.MYSQL,
}  # fmt: skip


def _driver_name(raw: Any) -> str:
    for each in type(raw).__mro__:
        name = each.__module__.partition(".")[0]
        if name in _KINDS:
            return name
    raise SettingError(
        f"connections of {type(raw).__module__}.{type(raw).__qualname__} are not supported; supported drivers: {', '.join(_KINDS)}"
    )


def driver_of(raw: Any) -> ModuleType:
    """The DB-API module of a connection. Raises SettingError for an unknown one."""
    return sys.modules[_driver_name(raw)]


def kind_of(raw: Any) -> Kind:
    """The kind of database that a DB-API connection belongs to. Raises SettingError for an unknown driver."""
    return _KINDS[_driver_name(raw)]


def connect(
    address: Address,
    *,
    host_address: str | None = None,
    seconds: float = STATEMENT_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
) -> Connection:
    """Open a connection on which each statement ends after `seconds`, whatever the server and the network do.

    Args:
        host_address: IP address to connect to, for callers that have resolved and checked the host's name. Certificates are
            still compared with the name.

    Raises:
        DatabaseFailed: it can't be opened; the text names the address and the cause.
    """
    try:
        return Connection(_OPENERS[address.kind](address, host_address, seconds, clock))
    except DatabaseFailed as error:
        raise DatabaseFailed(f"{address}: {error}", code=error.code, retriable=error.retriable) from error


def _open_sqlite(address: Address, host_address: str | None, seconds: float, clock: Clock) -> Any:
    try:
        # A file that is missing is an error, not a new database.
        raw = sqlite3.connect(
            f"file:{quote(address.database)}?mode=rw", timeout=seconds, uri=True, check_same_thread=False, isolation_level=None,
            factory=_LimitedSqlite,
        )  # fmt: skip
    except sqlite3.Error as error:
        raise failure_of(error, Kind.SQLITE) from error
    raw.limit_statements(seconds, clock)
    return raw


class _LimitedSqlite(sqlite3.Connection):
    """A connection whose statements are interrupted after a time."""

    _ends_at = 0.0

    def limit_statements(self, seconds: float, clock: Clock) -> None:
        self._seconds, self._clock = seconds, clock
        self.set_progress_handler(lambda: clock.monotonic() > self._ends_at, _SQLITE_STEPS)

    def cursor(self, *arguments: Any) -> Any:
        self._ends_at = self._clock.monotonic() + self._seconds
        return super().cursor(*arguments)


def _open_postgresql(address: Address, host_address: str | None, seconds: float, clock: Clock) -> Any:
    limited_connection = _limited_postgresql()
    milliseconds = int(seconds * 1000)
    options: dict[str, Any] = {"hostaddr": host_address} if host_address else {}
    if address.tls is Tls.VERIFY:
        options["sslrootcert"] = "system"
    psycopg = _driver("psycopg", "postgresql")
    try:
        raw = limited_connection.connect(
            host=address.host, port=address.port, dbname=address.database, user=address.user, password=address.password,
            connect_timeout=max(2, round(seconds)), application_name="qmq-outbox", sslmode=_SSL_MODES[address.tls],
            options=f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}", autocommit=True, **options,
        )  # fmt: skip
    except psycopg.Error as error:
        raise failure_of(error, Kind.POSTGRESQL) from error
    raw.seconds = seconds
    return raw


_SSL_MODES = {Tls.OFF: "disable", Tls.ENCRYPT: "require", Tls.VERIFY: "verify-full"}


def _limited_postgresql() -> Any:
    psycopg = _driver("psycopg", "postgresql")

    class LimitedConnection(psycopg.Connection):  # type: ignore[misc, name-defined]  # an optional dependency
        """A connection that waits `seconds` for an answer: a server that hangs does not enforce its own limits."""

        seconds: float | None = None

        def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
            """As psycopg's; a caller's own limit goes before ours."""
            if timeout is not None or self.seconds is None:
                return super().wait(gen, interval, timeout)
            try:
                return super().wait(gen, interval, self.seconds + _ANSWER_MARGIN_SECONDS)
            except psycopg.errors._WaitTimeout as error:
                # A late answer to this query must not be treated as the answer to the next one.
                self.pgconn.finish()
                raise psycopg.OperationalError(f"no response within {self.seconds:g} s") from error

    return LimitedConnection


def _open_mysql(address: Address, host_address: str | None, seconds: float, clock: Clock) -> Any:
    pymysql = _driver("pymysql", "mysql")
    tls: dict[str, Any] = {}
    if address.tls is not Tls.OFF:
        verify = address.tls is Tls.VERIFY
        tls = {"ssl": ssl.create_default_context() if verify else ssl._create_unverified_context()}
    try:
        raw = pymysql.connect(
            host=address.host, port=address.port, database=address.database, user=address.user, password=address.password,
            charset="utf8mb4", connect_timeout=seconds, read_timeout=seconds + _ANSWER_MARGIN_SECONDS,
            write_timeout=seconds + _ANSWER_MARGIN_SECONDS, autocommit=True, defer_connect=True,
            client_flag=pymysql.constants.CLIENT.FOUND_ROWS, **tls,
        )  # fmt: skip
        # PyMySQL compares the certificate with `host`, so the name stays there when the address was resolved before.
        raw.connect(socket.create_connection((host_address or address.host, address.port), timeout=seconds))
        _limit_mysql(raw, seconds)
    except pymysql.Error as error:
        raise failure_of(error, Kind.MYSQL) from error
    except OSError as error:
        raise DatabaseFailed(f"can't connect: {error}", code="database.unreachable", retriable=True) from error
    return raw


def _limit_mysql(raw: Any, seconds: float) -> None:
    is_mariadb = "MariaDB" in raw.get_server_info()
    limit = f"max_statement_time = {seconds}" if is_mariadb else f"max_execution_time = {int(seconds * 1000)}"
    with raw.cursor() as cursor:
        cursor.execute(f"SET SESSION {limit}, SESSION innodb_lock_wait_timeout = {max(1, round(seconds))}")


def connect_with(
    driver: ModuleType,
    parameters: Mapping[str, Any],
    *,
    seconds: float = STATEMENT_SECONDS,
    clock: Clock = SYSTEM_CLOCK,
) -> Any:
    """Open a driver's own connection by its own parameters, with limits of time as `connect` sets them.

    Raises:
        DatabaseFailed: it can't be opened.
        SettingError: the driver is not supported.
    """
    name = driver.__name__.partition(".")[0]
    kind = _KINDS.get(name)
    if kind is None:
        raise SettingError(f"the driver {driver.__name__} is not supported; supported drivers: {', '.join(_KINDS)}")
    milliseconds, wait = int(seconds * 1000), max(2, round(seconds))
    try:
        if kind is Kind.SQLITE:
            raw = driver.connect(**{**parameters, "timeout": seconds, "factory": _LimitedSqlite})
            raw.limit_statements(seconds, clock)
        elif kind is Kind.POSTGRESQL:
            limits = f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}"
            options = " ".join(filter(None, [parameters.get("options"), limits]))
            opener = _limited_postgresql() if name == "psycopg" else driver
            raw = opener.connect(**{**parameters, "connect_timeout": wait, "options": options})
            if name == "psycopg":
                raw.seconds = seconds
        else:
            answer = wait + round(_ANSWER_MARGIN_SECONDS)
            limits_of_waits = {"connect_timeout": wait, "read_timeout": answer, "write_timeout": answer}
            raw = driver.connect(**{**parameters, **limits_of_waits})
            _limit_mysql(raw, seconds)
    except driver.Error as error:
        raise failure_of(error, kind) from error
    except OSError as error:
        raise DatabaseFailed(f"can't connect: {error}", code="database.unreachable", retriable=True) from error
    return raw


_OPENERS: dict[Kind, Callable[[Address, str | None, float, Clock], Any]] = {
    Kind.SQLITE: _open_sqlite, Kind.POSTGRESQL: _open_postgresql, Kind.MYSQL: _open_mysql,
}  # fmt: skip


def _driver(module: str, extra: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise DatabaseFailed(
            f"the driver {module} is not installed. Install it with: pip install 'pyqmq[{extra}]'",
            code="database.driver_missing",
        ) from error


def failure_of(error: Exception, kind: Kind) -> DatabaseFailed:
    """A driver's exception as DatabaseFailed, with the code that says what it means."""
    code = {Kind.SQLITE: _sqlite_code, Kind.POSTGRESQL: _postgresql_code, Kind.MYSQL: _mysql_code}[kind](error)
    text = printable(" ".join(str(error).split()))[:ERROR_CHARS_MAX]
    return DatabaseFailed(text, code=f"database.{code}", retriable=code in _RETRIABLE)


_RETRIABLE = {"unreachable", "timeout", "conflict"}


def _sqlite_code(error: Exception) -> str:
    text = str(error)
    for part, code in (
        ("no such table", "table_missing"), ("no such column", "table_differs"), ("has no column", "table_differs"),
        ("readonly", "access_denied"), ("unable to open", "unreachable"), ("interrupted", "timeout"), ("is locked", "conflict"),
    ):  # fmt: skip
        if part in text:
            return code
    return "statement_failed"


_POSTGRESQL_CODES = {
    "42P01": "table_missing", "42703": "table_differs", "42804": "table_differs", "42501": "access_denied",
    "28P01": "access_denied", "28000": "access_denied",
    "25006": "access_denied", "3D000": "access_denied", "57014": "timeout", "55P03": "conflict",
    "40001": "conflict", "40P01": "conflict",
}  # fmt: skip


def _postgresql_code(error: Exception) -> str:
    state = getattr(error, "sqlstate", None)
    if state in _POSTGRESQL_CODES:
        return _POSTGRESQL_CODES[state]
    if state is None or state[:2] in ("08", "57", "53"):
        text = str(error)
        if "authentication failed" in text or "pg_hba.conf" in text or "does not exist" in text:
            return "access_denied"
        return "timeout" if "no response within" in text or "timeout expired" in text else "unreachable"
    return "statement_failed"


_MYSQL_CODES = {
    1146: "table_missing", 1054: "table_differs", 1044: "access_denied", 1045: "access_denied", 1049: "access_denied",
    1142: "access_denied", 1143: "access_denied", 1227: "access_denied", 1290: "access_denied", 1698: "access_denied",
    1205: "conflict", 1213: "conflict", 1969: "timeout", 3024: "timeout", 1317: "timeout",
    2002: "unreachable", 2003: "unreachable", 2006: "unreachable", 2013: "unreachable", 1040: "unreachable", 1053: "unreachable",
}  # fmt: skip
"""By error number of the server (1...) and of the client (2...)."""


def _mysql_code(error: Exception) -> str:
    number = error.args[0] if error.args else None
    if number in _MYSQL_CODES:
        code = _MYSQL_CODES[number]
        return "timeout" if code == "unreachable" and "timed out" in str(error) else code
    # PyMySQL raises InterfaceError(0) on a connection that it has closed.
    return "unreachable" if number in (0, None) else "statement_failed"
