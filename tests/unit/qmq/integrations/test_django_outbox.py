"""The outbox in Django's transactions, with a producer whose brokers do what a test says."""

import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.db.transaction import TransactionManagementError, atomic

from qmq.errors import IllegalName, LocalProtocolError
from qmq.integrations.django import outbox, sending
from qmq.integrations.django.outbox import databases, transactions
from qmq.integrations.django.outbox.tables import kind_of
from qmq.outbox.committed import INSERTED_ROWS
from qmq.outbox.dialects import TABLE, ddl_statements
from qmq.sync import Producer
from tests.support.outbox import Outcomes, ScriptedProducer, unavailable
from tests.support.waiting import eventually

NOWHERE = "127.0.0.1:9"
"""No metaserver listens there."""
FLUSH_SECONDS = 30.0

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.database]


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def scripted(outcomes: Outcomes, monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[ScriptedProducer]:
    """The brokers of this process's producer; the tables are there."""
    found = ScriptedProducer()
    with connection.cursor() as cursor:
        for statement in ddl_statements(kind_of(connection)):
            cursor.execute(statement)
    with Producer(NOWHERE, app="tests", middleware=[outcomes]) as producer:
        producer.inner.send_together = found.send_together  # type: ignore[method-assign]
        monkeypatch.setattr(sending, "_producer", producer)
        monkeypatch.setattr(databases, "_databases", {})
        yield found
        assert outbox.flush(FLUSH_SECONDS)
        for each in databases.databases():
            each.outgoing.close(FLUSH_SECONDS)
    assert not connection.execute_wrappers
    with connection.cursor() as cursor:
        for name in (TABLE, "qmq_outbox_lease"):
            cursor.execute(f"DROP TABLE {name}")


def rows() -> int:
    """Rows that this connection sees."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT count(*) FROM {TABLE}")
        return int(cursor.fetchone()[0])


def is_in_memory() -> bool:
    """Whether the database is SQLite's in memory."""
    return connection.vendor == "sqlite" and connection.is_in_memory_db()  # type: ignore[attr-defined]


def sent(scripted: ScriptedProducer) -> list[tuple[str, list[str]]]:
    """The requests, when all is sent and deleted."""
    assert outbox.flush(FLUSH_SECONDS)
    return scripted.requests


def test_messages_of_a_transaction_are_sent_after_its_commit_by_subject_in_their_order(
    scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with atomic():
        first = outbox.send("orders", "1", tags=["paid"])
        other = outbox.send("other", {"a": 1})
        with atomic():
            second = outbox.send("orders", "2")
        transaction.on_commit(lambda: None)
        third = outbox.send("orders", "3", message_id="given")
        assert (third, rows(), scripted.requests) == ("given", 4, [])
    assert sent(scripted) == [("orders", [first, second, third]), ("other", [other])]
    assert (rows(), outcomes.counts) == (0, {"stored": 4})


def test_delayed_messages_are_sent_apart(scripted: ScriptedProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    kinds: list[bool] = []
    producer = sending.producer().inner

    def send_together(*arguments: Any, is_delayed: bool, **options: Any) -> None:
        kinds.append(is_delayed)
        scripted.send_together(*arguments, is_delayed=is_delayed, **options)

    monkeypatch.setattr(producer, "send_together", send_together)
    with atomic():
        outbox.send("orders", "1", delay=timedelta(hours=1))
        outbox.send("orders", "2", due=datetime.now(UTC))
        outbox.send("orders", "3")
    assert [len(ids) for _, ids in sent(scripted)] == [2, 1]
    assert kinds == [True, False]


def test_without_a_transaction_it_is_committed_and_sent_at_once(scripted: ScriptedProducer) -> None:
    one = outbox.send("orders", "1")
    many = outbox.send_many("orders", map(str, range(3)))
    assert sent(scripted) == [("orders", [one]), ("orders", many)]
    assert rows() == 0


def test_a_transaction_that_is_rolled_back_sends_nothing(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    with pytest.raises(ZeroDivisionError), atomic():
        outbox.send("orders", "1")
        with atomic():
            outbox.send("orders", "in a released savepoint")
        raise ZeroDivisionError
    assert not connection.execute_wrappers
    eventually(lambda: outcomes.counts == {"outbox.rolled_back": 2}, what="middleware gets the outcomes")
    assert (sent(scripted), rows()) == ([], 0)


def test_a_savepoint_that_is_rolled_back_drops_its_messages_only(
    scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with atomic():
        with pytest.raises(ZeroDivisionError), atomic():
            outbox.send("orders", "the first of all")
            raise ZeroDivisionError
        kept = [outbox.send("orders", "kept")]
        with pytest.raises(ZeroDivisionError), atomic():
            outbox.send("orders", "dropped")
            with atomic():
                outbox.send("orders", "dropped, in a released one")
            raise ZeroDivisionError
        with atomic():
            kept.append(outbox.send("orders", "kept, too"))
            with pytest.raises(ZeroDivisionError), atomic():
                outbox.send("orders", "dropped")
                raise ZeroDivisionError
            kept.append(outbox.send("orders", "kept after it"))
    assert sent(scripted) == [("orders", kept)]
    eventually(lambda: outcomes.counts == {"stored": 3, "outbox.rolled_back": 4}, what="middleware gets the outcomes")


def test_savepoints_without_a_block_drop_their_messages(scripted: ScriptedProducer) -> None:
    with atomic():
        before = transaction.savepoint()
        kept = outbox.send("orders", "kept")
        savepoint = transaction.savepoint()
        outbox.send("orders", "dropped")
        transaction.savepoint_rollback(savepoint)
        outbox.send("orders", "dropped by the second rollback")
        transaction.savepoint_rollback(savepoint)
        again = transaction.savepoint()
        after = outbox.send("orders", "kept after it")
        transaction.savepoint_commit(again)
    assert sent(scripted) == [("orders", [kept, after])]
    with atomic():
        before = transaction.savepoint()
        outbox.send("orders", "dropped")
        transaction.savepoint_rollback(before)
        with connection.cursor() as cursor:
            cursor.execute("savepoint mine")
            outbox.send("orders", "dropped, too")
            cursor.execute("Rollback to Mine;" if connection.vendor == "mysql" else "Rollback to mine;")
    assert len(sent(scripted)) == 1
    assert rows() == 0


def test_an_inner_block_without_savepoint_that_failed_rolls_everything_back(
    scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with atomic():
        outbox.send("orders", "1")
        with pytest.raises(ZeroDivisionError), atomic(savepoint=False):
            raise ZeroDivisionError
        with pytest.raises(TransactionManagementError, match="can't execute queries until the end"):
            outbox.send("orders", "2")
        assert len(outcomes.begun) == 1
    eventually(lambda: outcomes.counts == {"outbox.rolled_back": 1}, what="middleware gets the outcome")
    assert (sent(scripted), rows()) == ([], 0)


def test_a_connection_closed_in_its_transaction_sends_nothing(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    if is_in_memory():
        pytest.skip("Django does not close a database in memory")
    with atomic():
        outbox.send("orders", "1")
        connection.close()
    eventually(lambda: outcomes.counts == {"outbox.rolled_back": 1}, what="middleware gets the outcome")
    assert (sent(scripted), rows()) == ([], 0)


def test_a_commit_that_the_database_refuses_sends_nothing(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    if connection.vendor == "mysql":
        pytest.skip("MariaDB has no deferred constraints")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE deferred_parent (id integer PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE deferred (id integer REFERENCES deferred_parent (id) DEFERRABLE INITIALLY DEFERRED)"
        )
    try:
        with pytest.raises(IntegrityError), atomic():
            with connection.cursor() as cursor:
                cursor.execute("INSERT INTO deferred VALUES (1)")
            outbox.send("orders", "1")
        eventually(lambda: outcomes.counts == {"outbox.rolled_back": 1}, what="middleware gets the outcome")
        assert (sent(scripted), rows()) == ([], 0)
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE deferred")
            cursor.execute("DROP TABLE deferred_parent")


def test_a_failed_statement_that_was_swallowed(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    """PostgreSQL rolls the transaction back and reports no error for the commit. MariaDB does after a deadlock."""

    def fail(statement: str = "SELECT 1 FROM missing_table") -> None:
        with pytest.raises(DatabaseError), connection.cursor() as cursor:
            cursor.execute(statement)

    is_postgresql = connection.vendor == "postgresql"
    with atomic():
        ids = [outbox.send("orders", "1")]
        fail()
    assert sent(scripted) == ([] if is_postgresql else [("orders", ids)])
    assert (rows(), outcomes.counts) == (0, {"outbox.left" if is_postgresql else "stored": 1})
    with atomic():
        ids = [outbox.send("orders", "2")]
        with pytest.raises(DatabaseError), atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM missing_table")
        ids.append(outbox.send("orders", "3"))
    assert sent(scripted)[-1] == ("orders", ids)
    if connection.vendor == "mysql":
        with atomic():
            outbox.send("orders", "4")
            fail("SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213")
        assert sent(scripted)[-1] == ("orders", ids)
        # No deadlock has rolled it back here.
        assert (rows(), outcomes.counts["outbox.left"]) == (1, 1)


def test_a_callback_before_ours_that_raises_leaves_the_row_to_the_relay(scripted: ScriptedProducer) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), atomic():
        transaction.on_commit(fail)
        outbox.send("orders", "left")
    assert (sent(scripted), rows()) == ([], 1)
    with atomic():
        after = outbox.send("orders", "after it")
    assert sent(scripted) == [("orders", [after])]
    assert rows() == 1


def test_a_callback_sends_in_autocommit_and_in_a_transaction_of_its_own(scripted: ScriptedProducer) -> None:
    found: list[str] = []

    def callback() -> None:
        found.append(outbox.send("orders", "in autocommit"))
        with atomic():
            found.append(outbox.send("orders", "in its own transaction"))

    with atomic():
        transaction.on_commit(callback)
        last = outbox.send("orders", "of the transaction")
    assert sent(scripted) == [("orders", [each]) for each in (*found, last)]


def test_manual_transactions_are_rejected_before_the_insert(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises(TransactionManagementError, match="'default' are managed manually"):
            outbox.send("orders", "1")
        with atomic(), pytest.raises(TransactionManagementError, match="'default' are managed manually"):
            outbox.send_many("orders", ["1"])
        assert rows() == 0
        transaction.rollback()
    finally:
        transaction.set_autocommit(True)
    assert not outcomes.begun


@pytest.mark.parametrize("options", [{"subject": "a/b"}, {"body": object()}, {"delay": timedelta(1), "due": 1}])
def test_an_invalid_message_is_rejected_before_the_insert(
    scripted: ScriptedProducer, outcomes: Outcomes, options: dict[str, Any]
) -> None:
    with atomic():
        with pytest.raises((IllegalName, LocalProtocolError)):
            outbox.send(**{"subject": "orders", "body": "1", **options})
        kept = outbox.send("orders", "kept")
        assert rows() == 1
    assert sent(scripted) == [("orders", [kept])]
    assert outcomes.counts == {"stored": 1}


def test_a_missing_url_is_an_error_before_the_insert(
    scripted: ScriptedProducer, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(sending, "_producer", None)
        settings.QMQ_URL = ""
        with atomic():
            with pytest.raises(ImproperlyConfigured, match="QMQ_URL is ''"):
                outbox.send("orders", "1")
            assert rows() == 0


def test_a_row_that_can_not_be_written_is_an_error_and_an_outcome(
    scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TABLE} RENAME TO away")
    try:
        with pytest.raises(DatabaseError), atomic():
            outbox.send("orders", "1")
        assert outcomes.counts == {"outbox.rolled_back": 1}
    finally:
        with connection.cursor() as cursor:
            cursor.execute(f"ALTER TABLE away RENAME TO {TABLE}")
    assert sent(scripted) == []


def test_send_many_writes_with_one_statement_for_each_part(
    scripted: ScriptedProducer, django_assert_num_queries: Callable[..., Any]
) -> None:
    # MariaDB is asked for the distance of IDs.
    asked = 1 if connection.vendor == "mysql" else 0
    with atomic():
        with django_assert_num_queries(1 + asked):
            outbox.send_many("orders", map(str, range(INSERTED_ROWS)), tags=["a"])
        with django_assert_num_queries(2 * (1 + asked) + 2):
            outbox.send_many("orders", map(str, range(2 * INSERTED_ROWS)))
        assert outbox.send_many("orders", []) == []
        assert rows() == 3 * INSERTED_ROWS
    assert [len(ids) for _, ids in sent(scripted)] == [3 * INSERTED_ROWS]
    assert rows() == 0


@pytest.mark.parametrize("has_block", [True, False])
def test_send_many_sends_all_or_none(scripted: ScriptedProducer, outcomes: Outcomes, has_block: bool) -> None:
    def bodies() -> Iterator[str]:
        yield from map(str, range(2 * INSERTED_ROWS + 1))
        raise ZeroDivisionError

    def attempt() -> None:
        with pytest.raises(ZeroDivisionError):
            outbox.send_many("orders", bodies())

    if has_block:
        with atomic():
            kept = [outbox.send("orders", "kept")]
            attempt()
    else:
        attempt()
        kept = [outbox.send("orders", "kept")]
    assert sent(scripted) == [("orders", kept)]
    expected = {"outbox.rolled_back": 2 * INSERTED_ROWS + 1, "stored": 1}
    eventually(lambda: outcomes.counts == expected, what="middleware gets the outcomes")


def test_ten_thousand_messages_of_a_transaction_are_sent_and_further_ones_left(
    scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    count = transactions.KEPT_MESSAGES_MAX
    with atomic():
        ids = outbox.send_many("orders", map(str, range(count + 2)))
    assert sent(scripted) == [("orders", ids[:count])]
    assert rows() == 2
    assert outcomes.counts == {"stored": count, "outbox.left": 2}


def test_messages_above_the_bytes_of_a_transaction_are_left(
    scripted: ScriptedProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "KEPT_BYTES_MAX", 1_500)
    with atomic():
        ids = outbox.send_many("orders", ["x" * 500] * 4)
    assert sent(scripted) == [("orders", ids[:2])]
    assert rows() == 2


def test_a_message_that_no_broker_takes_is_left_to_the_relay(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    scripted.answer = lambda subject, ids: unavailable()
    with atomic():
        outbox.send("orders", "1")
    sent(scripted)
    assert (rows(), outcomes.counts) == (1, {"outbox.left": 1})


def test_threads_have_transactions_of_their_own(scripted: ScriptedProducer) -> None:
    if is_in_memory():
        pytest.skip("two transactions can't write to a database in memory")
    ids: dict[str, list[str]] = {}
    turn = threading.Barrier(2)

    def work(name: str) -> None:
        try:
            with atomic():
                ids[name] = [outbox.send(name, "1")]
                turn.wait(30)
                ids[name].append(outbox.send(name, "2"))
                turn.wait(30)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sent(scripted)) == [("a", ids["a"]), ("b", ids["b"])]


def test_other_wrappers_and_callbacks_of_the_connection_are_left_alone(scripted: ScriptedProducer) -> None:
    seen: list[str] = []

    def wrapper(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        seen.append(sql)
        return execute(sql, *arguments)

    ran: list[str] = []
    with atomic():
        transaction.on_commit(lambda: ran.append("first"))
        with connection.execute_wrapper(wrapper):
            outbox.send("orders", "1")
            assert connection.execute_wrappers[-1] is wrapper
        assert wrapper not in connection.execute_wrappers
        outbox.send("orders", "2")
        transaction.on_commit(lambda: ran.append("second"))
    assert (len(seen), ran) == (1, ["first", "second"])
    assert [len(ids) for _, ids in sent(scripted)] == [2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_leaves_the_transaction_to_its_parent(scripted: ScriptedProducer, outcomes: Outcomes) -> None:
    with atomic():
        kept = outbox.send("orders", "of the parent")
        child = os.fork()
        if child == 0:
            dropped: list[object] = []
            databases.database_of(connection).outgoing.drop_later = lambda *found: dropped.append(found)  # type: ignore[method-assign]
            connection.run_on_commit.clear()
            os._exit(bool(dropped))
        _, status = os.waitpid(child, 0)
        assert status == 0
    assert sent(scripted) == [("orders", [kept])]
    assert outcomes.counts == {"stored": 1}


@pytest.mark.django_db
class TestInsideATest:
    """Transactions that a test rolls back."""

    pytestmark = pytest.mark.django_db

    def test_callbacks_that_are_run_by_hand_send_and_delete_nothing(
        self, scripted: ScriptedProducer, django_capture_on_commit_callbacks: Callable[..., Any]
    ) -> None:
        with pytest.raises(ZeroDivisionError), atomic():
            connection.atomic_blocks[-1]._from_testcase = True
            with django_capture_on_commit_callbacks(execute=True) as callbacks:
                with atomic():
                    ids = [outbox.send("orders", "1"), outbox.send("orders", "2")]
                with atomic():
                    ids.append(outbox.send("orders", "3"))
            assert len(callbacks) == 1
            with django_capture_on_commit_callbacks(execute=True):
                again = outbox.send("orders", "4")
            assert sent(scripted) == [("orders", ids), ("orders", [again])]
            assert rows() == 4
            raise ZeroDivisionError
        assert rows() == 0
