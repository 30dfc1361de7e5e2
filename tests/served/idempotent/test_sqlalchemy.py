"""Markers with sessions of SQLAlchemy, plain on every database, asynchronous where a driver is installed."""

import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from sqlalchemy import URL, Engine, create_engine, text
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from qmq.errors import KeyInvalid, MarkerFailed, SettingError
from qmq.idempotent.handlers import AnyDelivery
from qmq.idempotent.sqlalchemy import once
from qmq.outbox.databases import Kind
from qmq_testing import delivery
from tests.served.idempotent.databases import Database
from tests.support.waiting import ASK_SECONDS, eventually

pytestmark = pytest.mark.database

MESSAGE = partial(delivery, "order 17", subject="order.paid", group="billing")
INSERT = text("INSERT INTO effects (what) VALUES (:what)")


class Refused(Exception):
    """A handler's own error."""


def url_of(database: Database, driver: str) -> URL:
    at = database.address
    if database.kind is Kind.SQLITE:
        return URL.create(driver, database=at.database)
    return URL.create(driver, at.user, None, at.host, at.port, at.database)


@pytest.fixture
def engine(database: Database) -> Iterator[Engine]:
    driver = {Kind.SQLITE: "sqlite", Kind.POSTGRESQL: "postgresql+psycopg", Kind.MYSQL: "mysql+pymysql"}[database.kind]
    options = {"connect_args": {"ssl_disabled": True}} if database.kind is Kind.MYSQL else {}
    found = create_engine(url_of(database, driver), **options)
    yield found
    found.dispose()


@pytest.fixture
async def async_engine(database: Database) -> AsyncIterator[AsyncEngine]:
    if database.kind is Kind.MYSQL:
        pytest.skip("no asynchronous driver is installed")
    found = create_async_engine(
        url_of(database, "sqlite+aiosqlite" if database.kind is Kind.SQLITE else "postgresql+psycopg")
    )
    yield found
    await found.dispose()


def bill(delivery: AnyDelivery, session: Session, *, fails: bool = False) -> bool:
    with once(delivery, session) as is_first:
        if is_first:
            session.execute(INSERT, {"what": delivery.message_id})
            if fails:
                raise Refused
    return is_first


def test_the_effect_of_a_message_that_comes_twice_happens_once(database: Database, engine: Engine) -> None:
    with Session(engine) as session:
        assert [bill(MESSAGE(message_id=name), session) for name in ("m1", "m1", "M1", "m1 ", "m2")] == [
            True, False, True, True, True,
        ]  # fmt: skip
        with pytest.raises(Refused):
            bill(MESSAGE(message_id="m3"), session, fails=True)
        assert bill(MESSAGE(message_id="m3"), session)
    assert database.effects == ["M1", "m1", "m1 ", "m2", "m3"]


def test_the_session_is_usable_after_a_message_that_was_processed(database: Database, engine: Engine) -> None:
    """InnoDB's error 1062 is behind it."""
    bill_once = partial(bill, MESSAGE(message_id="m1"))
    with Session(engine) as session:
        bill_once(session)
        with once(MESSAGE(message_id="m1"), session) as is_first:
            assert not is_first
            session.execute(INSERT, {"what": "also this"})
    assert database.effects == ["also this", "m1"]


@pytest.mark.parametrize("first_fails", [False, True])
def test_a_second_delivery_waits_for_the_transaction_of_the_first(
    database: Database, engine: Engine, first_fails: bool
) -> None:
    inside, leave = threading.Event(), threading.Event()

    def first() -> None:
        with Session(engine) as session, once(MESSAGE(message_id="m1"), session) as is_first:
            assert is_first
            session.execute(INSERT, {"what": "first"})
            inside.set()
            leave.wait()
            if first_fails:
                raise Refused

    def second() -> bool:
        with Session(engine) as session:
            return bill(MESSAGE(message_id="m1"), session)

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(first)
        try:
            eventually(inside.is_set, what="the first delivery is in its block")
            other = threads.submit(second)
            eventually(database.has_waiting, what="the second delivery waits", every_s=ASK_SECONDS)
            assert not other.done()
        finally:
            leave.set()
        assert other.result() is first_fails
        assert isinstance(one.exception(), Refused if first_fails else type(None))
    assert database.effects == ["m1" if first_fails else "first"]


def test_a_session_in_a_transaction_is_refused(database: Database, engine: Engine) -> None:
    with Session(engine) as session:
        session.execute(text("SELECT 1"))
        with pytest.raises(MarkerFailed) as raised, once(MESSAGE(), session):
            pass
        assert raised.value.code == "idempotent.transaction_open"
        session.rollback()
        assert bill(MESSAGE(), session)


def test_a_block_that_catches_an_error_of_the_database_is_not_taken_for_done(
    database: Database, engine: Engine
) -> None:
    """PostgreSQL would roll back at the commit, without an error. In the others the transaction is usable."""

    def catch() -> None:
        with Session(engine) as session, once(MESSAGE(message_id="m1"), session):
            session.execute(INSERT, {"what": "before"})
            with pytest.raises(Exception, match="nothing_here"):
                session.execute(text("INSERT INTO nothing_here VALUES (1)"))

    if database.kind is Kind.POSTGRESQL:
        with pytest.raises(Exception, match="current transaction is aborted"):
            catch()
        assert (database.effects, database.count("qmq_processed")) == ([], 0)
    else:
        catch()
        assert (database.effects, database.count("qmq_processed")) == (["before"], 1)


def test_a_savepoint_that_is_rolled_back_leaves_the_marker(database: Database, engine: Engine) -> None:
    with Session(engine) as session, once(MESSAGE(message_id="m1"), session):
        session.execute(INSERT, {"what": "before"})
        with pytest.raises(Refused), session.begin_nested():
            session.execute(INSERT, {"what": "inside"})
            raise Refused
    assert (database.effects, database.count("qmq_processed")) == (["before"], 1)


def test_scoped_sessions_keys_and_tables(database: Database, engine: Engine) -> None:
    session = scoped_session(sessionmaker(engine))
    for _ in range(2):
        with once(delivery({"order": "17"}), session, key="order") as is_first:
            if is_first:
                session.execute(INSERT, {"what": "x"})
    assert database.effects == ["x"]
    with pytest.raises(KeyInvalid), once(delivery({}), session, key="order"):
        pass
    with pytest.raises(SettingError), once(delivery({}), session, table="a;b"):
        pass
    session.remove()


async def bill_async(delivery: AnyDelivery, session: AsyncSession, *, fails: bool = False) -> bool:
    async with once(delivery, session) as is_first:
        if is_first:
            await session.execute(INSERT, {"what": delivery.message_id})
            if fails:
                raise Refused
    return is_first


async def test_an_asynchronous_session(database: Database, async_engine: AsyncEngine) -> None:
    async with AsyncSession(async_engine) as session:
        assert [await bill_async(MESSAGE(message_id=name), session) for name in ("m1", "m1", "M1")] == [
            True,
            False,
            True,
        ]
        with pytest.raises(Refused):
            await bill_async(MESSAGE(message_id="m3"), session, fails=True)
        assert await bill_async(MESSAGE(message_id="m3"), session)
        await session.execute(text("SELECT 1"))
        with pytest.raises(MarkerFailed):
            await bill_async(MESSAGE(message_id="m4"), session)
    assert database.effects == ["M1", "m1", "m3"]


async def test_an_asynchronous_scoped_session(database: Database, async_engine: AsyncEngine) -> None:
    session = async_scoped_session(async_sessionmaker(async_engine), scopefunc=lambda: None)
    for _ in range(2):
        async with once(MESSAGE(message_id="m1"), session) as is_first:
            if is_first:
                await session.execute(INSERT, {"what": "x"})
    await session.remove()
    assert database.effects == ["x"]


async def test_an_asynchronous_block_that_catches_an_error_is_not_taken_for_done(
    database: Database, async_engine: AsyncEngine
) -> None:
    if database.kind is not Kind.POSTGRESQL:
        pytest.skip("of PostgreSQL")
    async with AsyncSession(async_engine) as session:
        with pytest.raises(Exception, match="current transaction is aborted"):
            async with once(MESSAGE(message_id="m1"), session):
                with pytest.raises(Exception, match="nothing_here"):
                    await session.execute(text("INSERT INTO nothing_here VALUES (1)"))
    assert database.count("qmq_processed") == 0
