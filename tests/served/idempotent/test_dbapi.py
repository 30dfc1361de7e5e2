"""Markers with connections of sqlite3, psycopg and PyMySQL: once, after a wait, never too seldom."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import pytest

from qmq.client.delivery import Delivery
from qmq.errors import KeyInvalid, MarkerFailed, SettingError
from qmq.idempotent.dbapi import mark, once
from qmq.outbox.databases import Kind
from qmq_testing import delivery
from tests.served.idempotent.databases import Database, write
from tests.support.waiting import ASK_SECONDS, eventually

pytestmark = pytest.mark.database

MESSAGE = partial(delivery, "order 17", subject="order.paid", group="billing")


class Refused(Exception):
    """A handler's own error."""


def billing(database: Database, **options: Any) -> Callable[..., Any]:
    """A handler that writes the body of its message."""

    @once(database.connect, **options)
    def bill(body: str, delivery: Delivery, *, connection: Any) -> str:
        write(connection, database, body)
        return body

    return lambda delivery: bill(delivery.body, delivery)


@contextmanager
def in_thread(work: Callable[[], Any]) -> Iterator["Future[Any]"]:
    with ThreadPoolExecutor(1) as threads:
        yield threads.submit(work)


def test_the_effect_of_a_message_that_comes_twice_happens_once(database: Database) -> None:
    bill = billing(database)
    assert bill(MESSAGE(message_id="m1")) == "order 17"
    assert bill(MESSAGE(message_id="m1", attempt=2)) is None
    assert bill(MESSAGE(message_id="m2")) == "order 17"
    assert database.effects == ["order 17", "order 17"]


def test_each_consumer_group_and_each_subject_has_markers_of_its_own(database: Database) -> None:
    bill = billing(database)
    for subject, group in (("order.paid", "billing"), ("order.paid", "shipping"), ("order.sent", "billing")):
        assert bill(delivery("x", subject=subject, group=group, message_id="m1")) == "x"


KEYS = [
    "Key-A",
    "key-a",
    "Key-A ",
    " Key-A",
    "K\u00e9y-A",
    "Ke\u0301y-A",
    "\u017fkey",
    "p" * 250 + "1",
    "p" * 250 + "2",
    "Key\0",
]


def test_keys_that_differ_in_case_trailing_spaces_or_behind_100_characters_are_different(database: Database) -> None:
    bill = billing(database, key=lambda delivery: delivery.properties["key"])
    for _ in range(2):
        for key in KEYS:
            bill(delivery({"key": key, "data": ascii(key)}, subject="s", group="g"))
    assert database.effects == sorted(map(ascii, KEYS))


def test_a_key_too_long_is_an_error_and_nothing_is_marked(database: Database) -> None:
    with pytest.raises(KeyInvalid) as raised:
        billing(database, key=lambda delivery: "x" * 401)(MESSAGE())
    assert raised.value.code == "idempotent.key_too_long"
    assert database.count("qmq_processed") == 0


def test_an_exception_rolls_marker_and_effect_back(database: Database) -> None:
    failures = [Refused]

    @once(database.connect)
    def bill(delivery: Delivery, *, connection: Any) -> None:
        write(connection, database, "order 17")
        if failures:
            raise failures.pop()

    with pytest.raises(Refused):
        bill(MESSAGE(message_id="m1"))
    assert (database.effects, database.count("qmq_processed")) == ([], 0)
    bill(MESSAGE(message_id="m1", attempt=2))
    assert (database.effects, database.count("qmq_processed")) == (["order 17"], 1)


@pytest.mark.parametrize("first_fails", [False, True])
def test_a_second_delivery_waits_for_the_transaction_of_the_first(database: Database, first_fails: bool) -> None:
    inside, leave = threading.Event(), threading.Event()

    @once(database.connect)
    def bill(what: str, delivery: Delivery, *, connection: Any) -> str:
        write(connection, database, what)
        if what == "first":
            inside.set()
            leave.wait()
            if first_fails:
                raise Refused
        return what

    with in_thread(lambda: bill("first", MESSAGE(message_id="m1"))) as first:
        try:
            eventually(inside.is_set, what="the first delivery is in its handler")
            with in_thread(lambda: bill("second", MESSAGE(message_id="m1"))) as second:
                try:
                    eventually(database.has_waiting, what="the second delivery waits", every_s=ASK_SECONDS)
                    assert not second.done()
                finally:
                    leave.set()
                assert second.result() == ("second" if first_fails else None)
        finally:
            leave.set()
        assert isinstance(first.exception(), Refused if first_fails else type(None))
    assert database.effects == ["second" if first_fails else "first"]


def test_a_delivery_that_waits_too_long_for_a_lock_is_an_error_and_not_skipped(database: Database) -> None:
    @once(database.impatient)
    def bill(delivery: Delivery, *, connection: Any) -> None:
        raise AssertionError("it was called")

    with closing(database.connect()) as first:
        assert mark(MESSAGE(message_id="m1"), first)
        with pytest.raises(Exception, match=r"(?i)lock"):
            bill(MESSAGE(message_id="m1"))
        first.rollback()
    assert billing(database)(MESSAGE(message_id="m1")) == "order 17"


@pytest.mark.parametrize("is_caught", [False, True])
def test_a_deadlock_is_an_error_and_nothing_of_its_transaction_stays(database: Database, is_caught: bool) -> None:
    """Also if the handler catches it: InnoDB has rolled back, marker included, and the next statement begins a new transaction."""
    if database.kind is Kind.SQLITE:
        pytest.skip("one writer at a time: there are no deadlocks")
    at_both = threading.Barrier(2)

    @once(database.connect)
    def swap(order: tuple[str, str], delivery: Delivery, *, connection: Any) -> None:
        for number, name in enumerate(order):
            cursor = connection.cursor()
            try:
                cursor.execute(f"UPDATE effects SET what = {database.mark} WHERE what = {database.mark}", (name, name))
            except Exception:
                if not is_caught:
                    raise
            cursor.close()
            if not number:
                at_both.wait()
        if database.kind is Kind.MYSQL:
            write(connection, database, "after")

    database.execute("CREATE INDEX effects_what ON effects (what)", "INSERT INTO effects VALUES ('a'), ('b')")
    with ThreadPoolExecutor(2) as threads:
        done = [threads.submit(swap, order, MESSAGE(message_id=order[0])) for order in (("a", "b"), ("b", "a"))]
    (error,) = [error for found in done if (error := found.exception()) is not None]
    if not is_caught:
        assert "deadlock" in str(error).lower()
    else:
        assert isinstance(error, MarkerFailed)
    assert database.count("qmq_processed") == 1
    assert database.effects == ["a", *(["after"] if database.kind is Kind.MYSQL else []), "b"]


def test_a_serialization_failure_is_an_error_and_not_skipped(database: Database) -> None:
    """PostgreSQL can't say in REPEATABLE READ whether a key is there that its snapshot does not show."""
    if database.kind is not Kind.POSTGRESQL:
        pytest.skip("of PostgreSQL")
    import psycopg

    with closing(database.connect()) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        late.execute("SELECT count(*) FROM effects")
        billing(database)(MESSAGE(message_id="m1"))
        with pytest.raises(psycopg.errors.SerializationFailure):
            mark(MESSAGE(message_id="m1"), late)


def broken(connection: Any, database: Database) -> None:
    """A statement that the database refuses, whose error the handler catches."""
    cursor = connection.cursor()
    with pytest.raises(Exception, match="nothing_here"):
        cursor.execute("INSERT INTO nothing_here VALUES (1)")
    cursor.close()


def test_a_handler_that_catches_an_error_of_the_database_is_not_taken_for_done(database: Database) -> None:
    """PostgreSQL would roll back at the commit, without an error. In the others the transaction is usable."""

    @once(database.connect)
    def bill(delivery: Delivery, *, connection: Any) -> None:
        write(connection, database, "before")
        broken(connection, database)

    if database.kind is Kind.POSTGRESQL:
        with pytest.raises(Exception, match="gone before the commit"):
            bill(MESSAGE())
        assert (database.effects, database.count("qmq_processed")) == ([], 0)
    else:
        bill(MESSAGE())
        assert (database.effects, database.count("qmq_processed")) == (["before"], 1)


def test_a_handler_that_rolls_back_is_an_error_and_its_message_is_not_marked(database: Database) -> None:
    @once(database.connect)
    def bill(delivery: Delivery, *, connection: Any) -> None:
        write(connection, database, "before")
        connection.rollback()
        write(connection, database, "after")

    # psycopg forbids it.
    words = "Explicit rollback" if database.kind is Kind.POSTGRESQL else "gone before the commit"
    with pytest.raises(Exception, match=words) as raised:
        bill(MESSAGE())
    assert getattr(raised.value, "code", "") in ("", "idempotent.marker_lost")
    assert (database.effects, database.count("qmq_processed")) == ([], 0)


def test_a_handler_that_ends_the_transaction_in_sql_is_an_error(database: Database) -> None:
    @once(database.connect)
    def bill(delivery: Delivery, *, connection: Any) -> None:
        write(connection, database, "before")
        cursor = connection.cursor()
        cursor.execute("ROLLBACK")
        cursor.close()

    with pytest.raises(MarkerFailed, match="gone before the commit"):
        bill(MESSAGE())
    assert (database.effects, database.count("qmq_processed")) == ([], 0)


def autocommit(database: Database) -> Any:
    if database.kind is Kind.SQLITE:
        return database.connect(isolation_level=None)
    return database.connect(autocommit=True)


def test_a_connection_in_autocommit_gets_a_transaction(database: Database) -> None:
    @once(lambda: autocommit(database))
    def bill(delivery: Delivery, *, connection: Any) -> None:
        write(connection, database, delivery.message_id)
        if delivery.message_id == "fails":
            raise Refused

    bill(MESSAGE(message_id="works"))
    with pytest.raises(Refused):
        bill(MESSAGE(message_id="fails"))
    assert (database.effects, database.count("qmq_processed")) == (["works"], 1)


def test_a_marker_alone_is_refused_outside_of_a_transaction(database: Database) -> None:
    with closing(autocommit(database)) as connection:
        with pytest.raises(MarkerFailed) as raised:
            mark(MESSAGE(), connection)
        assert raised.value.code == "idempotent.no_transaction"
        connection.cursor().execute("BEGIN")
        assert mark(MESSAGE(message_id="m1"), connection)
        connection.cursor().execute("COMMIT")
    assert database.count("qmq_processed") == 1


def test_a_connection_that_is_in_a_transaction_is_refused(database: Database) -> None:
    with closing(database.connect()) as used:
        write(used, database, "before")

        @once(lambda: pooled(used))
        def bill(delivery: Delivery, *, connection: Any) -> None: ...

        with pytest.raises(MarkerFailed) as raised:
            bill(MESSAGE())
        assert raised.value.code == "idempotent.transaction_open"
        used.rollback()
        bill(MESSAGE())
    assert database.count("qmq_processed") == 1


@contextmanager
def pooled(connection: Any) -> Iterator[Any]:
    """A connection as a pool lends it: it stays open."""
    yield connection


def test_connections_of_sqlalchemys_pools_work(database: Database) -> None:
    from sqlalchemy.pool import QueuePool

    pool = QueuePool(
        partial(database.connect, **({"check_same_thread": False} if database.kind is Kind.SQLITE else {}))
    )
    bill = once(pool.connect)(lambda delivery, *, connection: write(connection, database, "x"))
    for _ in range(2):
        bill(MESSAGE(message_id="m1"))
    assert (database.effects, pool.checkedout()) == (["x"], 0)
    pool.dispose()


def test_the_connection_is_closed_afterwards(database: Database) -> None:
    opened: list[Any] = []

    def connect() -> Any:
        opened.append(database.connect())
        return opened[-1]

    once(connect)(lambda delivery, *, connection: None)(MESSAGE())
    with pytest.raises(Exception, match=r"closed|\(0, ''\)"):
        opened[0].cursor().execute("SELECT 1")


def test_another_table_can_be_named(database: Database) -> None:
    database.execute("DROP TABLE effects")
    database.make_tables("other_markers")
    billing(database, table="other_markers")(MESSAGE())
    assert (database.count("other_markers"), database.count("qmq_processed")) == (1, 0)
    with pytest.raises(SettingError, match="table 'a;b'"):
        billing(database, table="a;b")


def test_a_missing_table_is_an_error(database: Database) -> None:
    with pytest.raises(Exception, match="nowhere"):
        billing(database, table="nowhere")(MESSAGE())
    assert database.effects == []


def test_an_asynchronous_connection_is_an_error(database: Database) -> None:
    if database.kind is not Kind.POSTGRESQL:
        pytest.skip("of psycopg")
    import psycopg

    with pytest.raises(SettingError, match="AsyncConnection are not supported"):
        mark(MESSAGE(), psycopg.AsyncConnection.__new__(psycopg.AsyncConnection))
