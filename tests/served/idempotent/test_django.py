"""Markers in Django's databases, on the server of this run."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.utils import Error, IntegrityError

from qmq.client.delivery import Delivery
from qmq.errors import LocalProtocolError, MarkerFailed
from qmq.integrations.django.idempotent import once
from qmq_testing import delivery
from tests.support.waiting import ASK_SECONDS, eventually

pytestmark = [pytest.mark.database, pytest.mark.django_db(transaction=True)]

MESSAGE = partial(delivery, "order 17", subject="order.paid", group="billing")


class Refused(Exception):
    """A handler's own error."""


@pytest.fixture(autouse=True)
def tables(transactional_db: None) -> Iterator[None]:
    """The tables, as the migration makes and removes them."""
    migration = import_module("qmq.integrations.django.idempotent.migrations.0001_initial")
    with connection.schema_editor() as editor:
        migration.create(None, editor)
        editor.execute("CREATE TABLE effects (what varchar(100) NOT NULL UNIQUE)")
    yield
    with connection.schema_editor() as editor:
        migration.drop(None, editor)
        editor.execute("DROP TABLE effects")


def write(what: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO effects (what) VALUES (%s)", [what])


def effects() -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT what FROM effects")
        return sorted(row[0] for row in cursor.fetchall())


def markers() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM qmq_processed")
        return int(cursor.fetchone()[0])


def has_waiting() -> bool:
    """Whether a transaction waits for the lock of another. InnoDB's answer stays the same while it is asked for too often."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")
        else:
            cursor.execute("SELECT count(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'")
        return bool(cursor.fetchone()[0])


def in_own_connection(work: Callable[[], Any]) -> Any:
    try:
        return work()
    finally:
        connection.close()


@once()
def bill(what: str, delivery: Delivery) -> str:
    write(what)
    return what


def test_the_effect_of_a_message_that_comes_twice_happens_once() -> None:
    assert bill("a", MESSAGE(message_id="m1")) == "a"
    assert bill("b", MESSAGE(message_id="m1")) is None
    assert bill("c", MESSAGE(message_id="M1")) == "c"
    assert bill("d", MESSAGE(message_id="m1 ")) == "d"
    assert (effects(), markers()) == (["a", "c", "d"], 3)


def test_an_exception_rolls_marker_and_effect_back() -> None:
    @once()
    def fail(delivery: Delivery) -> None:
        write("a")
        raise Refused

    with pytest.raises(Refused):
        fail(MESSAGE(message_id="m1"))
    assert (effects(), markers()) == ([], 0)
    assert bill("b", MESSAGE(message_id="m1")) == "b"


def test_callbacks_on_commit_run_once() -> None:
    called: list[str] = []

    @once()
    def send(delivery: Delivery) -> None:
        transaction.on_commit(lambda: called.append(delivery.message_id))

    for name in ("m1", "m1", "m2"):
        send(MESSAGE(message_id=name))
    assert called == ["m1", "m2"]


@pytest.mark.parametrize("first_fails", [False, True])
def test_a_second_delivery_waits_for_the_transaction_of_the_first(first_fails: bool) -> None:
    if connection.vendor == "sqlite":
        pytest.skip("Django's test database is in memory, where no connection waits for another")
    inside, leave = threading.Event(), threading.Event()

    @once()
    def hold(delivery: Delivery) -> None:
        write("first")
        inside.set()
        leave.wait()
        if first_fails:
            raise Refused

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(in_own_connection, lambda: hold(MESSAGE(message_id="m1")))
        try:
            eventually(inside.is_set, what="the first delivery is in its handler")
            other = threads.submit(in_own_connection, lambda: bill("second", MESSAGE(message_id="m1")))
            eventually(has_waiting, what="the second delivery waits", every_s=ASK_SECONDS)
            assert not other.done()
        finally:
            leave.set()
        assert other.result() == ("second" if first_fails else None)
        assert isinstance(one.exception(), Refused if first_fails else type(None))
    assert effects() == ["second" if first_fails else "first"]


def test_an_error_of_the_database_that_the_handler_catches_is_an_error() -> None:
    """Django rolls back without an error at the end of the block, and so does PostgreSQL at the commit."""

    @once()
    def catch(delivery: Delivery) -> None:
        write("b")
        with pytest.raises(IntegrityError), transaction.atomic(savepoint=False):
            write("a")

    write("a")
    with pytest.raises(transaction.TransactionManagementError, match="'atomic' block"):
        catch(MESSAGE())
    assert (effects(), markers()) == (["a"], 0)


def test_an_error_that_has_left_a_block_of_the_handlers_own_is_none() -> None:
    @once()
    def catch(delivery: Delivery) -> None:
        with pytest.raises(IntegrityError), transaction.atomic():
            write("a")
        write("b")

    write("a")
    catch(MESSAGE())
    assert (effects(), markers()) == (["a", "b"], 1)


def test_a_raw_statement_that_fails_is_an_error_where_the_transaction_can_not_go_on() -> None:
    @once()
    def catch(delivery: Delivery) -> None:
        with pytest.raises(IntegrityError):
            write("a")
        if connection.vendor != "postgresql":
            write("b")

    write("a")
    if connection.vendor == "postgresql":
        with pytest.raises(Error, match="current transaction is aborted"):
            catch(MESSAGE())
        assert (effects(), markers()) == (["a"], 0)
    else:
        catch(MESSAGE())
        assert (effects(), markers()) == (["a", "b"], 1)


def test_the_transaction_is_usable_after_a_message_that_was_processed() -> None:
    """MariaDB's error 1062 must not make Django roll the block back."""
    bill("a", MESSAGE(message_id="m1"))
    bill("b", MESSAGE(message_id="m1"))
    assert not connection.needs_rollback
    write("c")
    assert effects() == ["a", "c"]


def test_an_open_transaction_is_refused() -> None:
    with transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
        bill("a", MESSAGE())
    transaction.set_autocommit(False)
    try:
        with pytest.raises(MarkerFailed) as raised:
            bill("a", MESSAGE())
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert raised.value.code == "idempotent.transaction_open"
    assert (effects(), markers()) == ([], 0)


def test_the_block_of_a_test_case_is_allowed() -> None:
    block = transaction.atomic()
    block._from_testcase = True  # type: ignore[attr-defined]  # as TestCase does
    with block:
        assert bill("a", MESSAGE(message_id="m1")) == "a"
        assert bill("b", MESSAGE(message_id="m1")) is None


def test_a_coroutine_function_is_an_error_when_it_is_declared() -> None:
    async def handle(delivery: Delivery) -> None: ...

    with pytest.raises(LocalProtocolError, match="transactions of Django need `def`"):
        once()(handle)


def test_a_named_database_and_table(settings: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE others AS SELECT * FROM qmq_processed")
        cursor.execute("CREATE UNIQUE INDEX others_k ON others (k)")
        if connection.vendor == "mysql":
            cursor.execute("ALTER TABLE others MODIFY update_at timestamp NOT NULL DEFAULT now()")
        cursor.execute("DELETE FROM others")
    try:

        @once(using="default", table="others", key=lambda delivery: delivery.body)
        def handle(delivery: Delivery) -> str:
            return delivery.message_id

        assert [handle(delivery("same", message_id=name)) for name in ("m1", "m2")] == ["m1", None]
        assert markers() == 0
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE others")
