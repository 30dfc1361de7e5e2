"""Markers for sessions of SQLAlchemy 2, also asynchronous ones. With PostgreSQL, SQLite, MariaDB and MySQL."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, overload

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
from sqlalchemy.orm import Session, scoped_session

from qmq.errors import MarkerFailed, SettingError
from qmq.idempotent.handlers import AnyDelivery
from qmq.idempotent.keys import Key, marker_key
from qmq.idempotent.markers import Execute, Marker, log_skipped
from qmq.idempotent.tables import TABLE, Statements
from qmq.outbox.databases import Kind

_KINDS = {
    "sqlite": Kind.SQLITE,
    "postgresql": Kind.POSTGRESQL,
    "mysql": Kind.MYSQL,
    "mariadb": Kind.MYSQL,
}
"""By the name of SQLAlchemy's dialect."""
AnySession = Session | scoped_session[Any]
AnyAsyncSession = AsyncSession | async_scoped_session[Any]


@overload
def once(
    delivery: AnyDelivery, session: AnySession, *, key: Key = None, table: str = TABLE
) -> AbstractContextManager[bool]: ...


@overload
def once(
    delivery: AnyDelivery, session: AnyAsyncSession, *, key: Key = None, table: str = TABLE
) -> AbstractAsyncContextManager[bool]: ...


def once(
    delivery: AnyDelivery, session: AnySession | AnyAsyncSession, *, key: Key = None, table: str = TABLE
) -> AbstractContextManager[bool] | AbstractAsyncContextManager[bool]:
    """A transaction of the session that begins with the marker: `async with once(delivery, session) as is_first:`.

    What the block does with the session if `is_first` is true happens once for each consumer group and key. The end of the block
    commits, an exception rolls back. The block must do neither, and must not continue after an error of the database. Acknowledge
    after the block, also if `is_first` is false: handlers just return.

    Args:
        session: with an AsyncSession, use `async with`; with a Session, `with`. It must not be in a transaction, so it was not used
            since its last commit.
        key: None: the message ID; a text: the property of that name; a function: what it returns for the delivery.
        table: the table of markers, as `qmq idempotent ddl` makes it.

    Raises, at the beginning of the block:
        KeyInvalid: the key can't be stored.
        MarkerFailed: the session is in a transaction.
        SettingError: the database is not supported, or the table's name is illegal.
    """
    inner = session() if isinstance(session, scoped_session | async_scoped_session) else session
    if isinstance(inner, AsyncSession):
        return _once_async(delivery, inner, key, table)
    return _once(delivery, inner, key, table)


@contextmanager
def _once(delivery: AnyDelivery, session: Session, key: Key, table: str) -> Iterator[bool]:
    _check_is_unused(session)
    with session.begin():
        marker = _marker(delivery, session, key, table)
        is_first = marker.insert()
        if not is_first:
            log_skipped(delivery)
        yield is_first
        if is_first:
            marker.check()


@asynccontextmanager
async def _once_async(delivery: AnyDelivery, session: AsyncSession, key: Key, table: str) -> AsyncIterator[bool]:
    _check_is_unused(session)
    async with session.begin():
        marker = await session.run_sync(lambda inner: _marker(delivery, inner, key, table))
        is_first = await session.run_sync(lambda _: marker.insert())
        if not is_first:
            log_skipped(delivery)
        yield is_first
        if is_first:
            await session.run_sync(lambda _: marker.check())


def _check_is_unused(session: Session | AsyncSession) -> None:
    if session.in_transaction():
        raise MarkerFailed(
            "the session is in a transaction already, and the marker must be its first statement; use a new session, or commit"
            " first",
            code="idempotent.transaction_open",
        )


def _marker(delivery: AnyDelivery, session: Session, key: Key, table: str) -> Marker:
    dialect = session.get_bind().dialect.name
    kind = _KINDS.get(dialect)
    if kind is None:
        raise SettingError(f"markers in databases of {dialect!r} are not supported; supported: {', '.join(_KINDS)}")
    return Marker(_execute(session), kind, Statements(kind, table), marker_key(delivery, key))


def _execute(session: Session) -> Execute:
    def execute(sql: str, values: tuple[Any, ...]) -> tuple[int, Any]:
        # One value at most.
        result: Any = session.execute(text(sql.replace("?", ":value")), {"value": values[0]})
        return result.rowcount, result.first() if result.returns_rows else None

    return execute
