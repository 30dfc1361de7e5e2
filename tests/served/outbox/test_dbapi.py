"""Messages in transactions of DB-API connections, on a real database."""

import sqlite3
import sys
from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest
from psycopg.rows import dict_row

from qmq.errors import ClientClosed, IllegalName, LocalProtocolError, SettingError
from qmq.outbox.databases import Kind
from qmq.outbox.dbapi import Outbox
from qmq.sync import Consumer, Producer
from tests.served.outbox.conftest import NOWHERE
from tests.support.outbox import Orders, Outcomes, ScriptedProducer, unavailable
from tests.support.servers.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.database

MODES: dict[Kind, list[dict[str, Any]]] = {
    Kind.SQLITE: [{}, {"isolation_level": None}, {"isolation_level": "IMMEDIATE"}],
    Kind.POSTGRESQL: [{}, {"autocommit": True}, {"row_factory": dict_row}],
    Kind.MYSQL: [{}, {"autocommit": True}, {"cursorclass": pymysql.cursors.DictCursor}],
}
"""Options of connections."""
if sys.version_info >= (3, 12):
    MODES[Kind.SQLITE] += [{"autocommit": True}, {"autocommit": False}]


@pytest.fixture(params=range(max(map(len, MODES.values()))))
def connection(request: pytest.FixtureRequest, orders: Orders) -> Iterator[Any]:
    """The application's, in each of its modes."""
    modes = MODES[orders.address.kind]
    if request.param >= len(modes):
        pytest.skip("the driver has fewer modes")
    found = orders.open(**modes[request.param])
    yield found
    found.close()


@pytest.fixture
def plain(orders: Orders) -> Iterator[Any]:
    """The application's, as its driver opens it by default."""
    found = orders.open()
    yield found
    found.close()


@pytest.fixture
def outbox(orders: Orders, producer: Producer) -> Iterator[Outbox]:
    with Outbox(orders.open, producer) as found:
        yield found


def execute(connection: Any, statement: str) -> None:
    cursor = connection.cursor()
    cursor.execute(statement)
    cursor.close()


def add(connection: Any, name: str) -> None:
    execute(connection, f"INSERT INTO orders VALUES ('{name}')")


def test_a_commit_writes_sends_and_deletes(
    connection: Any, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    scripted.held = {"held"}
    for number in range(2):
        with outbox.transaction(connection) as transaction:
            add(connection, f"{number}")
            first = transaction.send("s", "1")
            rest = transaction.send_many("s", ["2", "3"])
            transaction.send("held", f"held {number}")
            assert orders.bodies == [f"held {each}" for each in range(number)]
        eventually(lambda number=number: orders.bodies == [f"held {each}" for each in range(number + 1)])
        assert ("s", [first, *rest]) in scripted.requests
    for respond in scripted.waiting:
        respond()
    assert outbox.flush(30)
    assert (orders.names, orders.bodies) == (["0", "1"], [])
    assert outcomes.counts == {"stored": 8}


def test_a_block_that_raises_is_rolled_back(
    connection: Any, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with pytest.raises(ZeroDivisionError), outbox.transaction(connection) as transaction:
        add(connection, "a")
        transaction.send("s", "1")
        raise ZeroDivisionError
    assert outcomes.counts == {"outbox.rolled_back": 1}
    with outbox.transaction(connection) as transaction:
        add(connection, "b")
        transaction.send("s", "2")
    assert outbox.flush(30)
    assert (orders.names, orders.bodies, len(scripted.stored)) == (["b"], [], 1)


def test_a_block_without_messages_is_a_transaction_too(connection: Any, outbox: Outbox, orders: Orders) -> None:
    with outbox.transaction(connection):
        add(connection, "a")
    with pytest.raises(ZeroDivisionError), outbox.transaction(connection):
        add(connection, "b")
        raise ZeroDivisionError
    assert orders.names == ["a"]


def test_nested_blocks_are_refused(connection: Any, outbox: Outbox, orders: Orders) -> None:
    with outbox.transaction(connection) as transaction:
        add(connection, "a")
        transaction.send("s", "1")
        with pytest.raises(LocalProtocolError, match="open on this connection already"), outbox.transaction(connection):
            raise AssertionError
    assert outbox.flush(30)
    assert orders.names == ["a"]


def test_an_open_transaction_is_refused(plain: Any, outbox: Outbox, orders: Orders) -> None:
    add(plain, "a")
    with pytest.raises(LocalProtocolError, match="open on this connection already"), outbox.transaction(plain):
        raise AssertionError
    plain.rollback()
    with outbox.transaction(plain) as transaction:
        transaction.send("s", "1")
    assert outbox.flush(30)
    assert (orders.names, orders.bodies) == ([], [])


def test_a_failed_insert_rolls_back(plain: Any, outbox: Outbox, orders: Orders, outcomes: Outcomes) -> None:
    orders.connection.change("DROP TABLE qmq_msg_queue")
    with pytest.raises(Exception, match="qmq_msg_queue"), outbox.transaction(plain) as transaction:
        add(plain, "a")
        transaction.send("s", "1")
    assert orders.names == []
    assert outcomes.counts == {"outbox.rolled_back": 1}


def test_a_commit_with_an_unknown_outcome_sends_nothing_and_leaves_the_rows(
    plain: Any,
    outbox: Outbox,
    orders: Orders,
    scripted: ScriptedProducer,
    outcomes: Outcomes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lose_answer_to_commit(plain, monkeypatch)
    with pytest.raises(OSError, match="lost"), outbox.transaction(plain) as transaction:
        add(plain, "a")
        transaction.send("s", "1")
    assert outbox.flush(30)
    assert not scripted.requests
    assert (orders.names, orders.bodies) == (["a"], ["1"])
    assert outcomes.counts == {"outbox.rolled_back": 1}


def lose_answer_to_commit(connection: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database commits, and the client gets an error."""
    if isinstance(connection, sqlite3.Connection):
        pytest.skip("SQLite has no network")
    if isinstance(connection, pymysql.Connection):
        inner = connection.commit

        def commit() -> None:
            inner()
            raise OSError("lost")

        monkeypatch.setattr(connection, "commit", commit)
        return
    inner_transaction = psycopg.Transaction._commit_gen

    def commit_gen(self: Any) -> Any:
        yield from inner_transaction(self)
        raise OSError("lost")

    monkeypatch.setattr(psycopg.Transaction, "_commit_gen", commit_gen)


@pytest.mark.parametrize("sends_more", [True, False])
@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK", "CREATE TABLE other (id integer)"])
def test_a_block_whose_transaction_was_ended_inside_is_refused(
    end: str, sends_more: bool, plain: Any, outbox: Outbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    if end.startswith("CREATE") and orders.address.kind is not Kind.MYSQL:
        pytest.skip("DDL is part of transactions")
    with pytest.raises(LocalProtocolError, match="ended inside the block"), outbox.transaction(plain) as transaction:
        transaction.send("s", "1")
        execute(plain, end)
        if sends_more:
            transaction.send("s", "2")
    assert outbox.flush(30)
    assert (scripted.requests, orders.bodies) == ([], [])


def test_a_transaction_that_a_deadlock_has_rolled_back_is_refused(
    plain: Any, outbox: Outbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    if orders.address.kind is not Kind.MYSQL:
        pytest.skip("elsewhere the transaction stays open and has failed")
    plain.autocommit(True)
    with pytest.raises(LocalProtocolError, match="a deadlock"), outbox.transaction(plain) as transaction:
        add(plain, "a")
        transaction.send("s", "1")
        # What InnoDB does, without an error packet that says so.
        flags = plain.server_status
        execute(plain, "ROLLBACK")
        plain.server_status = flags
    assert outbox.flush(30)
    assert (scripted.requests, orders.bodies) == ([], [])


def test_send_after_the_transaction_failed_is_refused(
    plain: Any, outbox: Outbox, orders: Orders, outcomes: Outcomes
) -> None:
    if orders.address.kind is not Kind.POSTGRESQL:
        pytest.skip("only PostgreSQL ends a transaction by any error")
    with pytest.raises(LocalProtocolError, match="has failed"), outbox.transaction(plain) as transaction:
        with pytest.raises(psycopg.Error):
            execute(plain, "SELECT nonsense")
        transaction.send("s", "1")
    assert outcomes.begun == []


def test_a_rollback_of_psycopg_leaves_the_block_silently(
    plain: Any, outbox: Outbox, orders: Orders, outcomes: Outcomes
) -> None:
    if orders.address.kind is not Kind.POSTGRESQL:
        pytest.skip("only psycopg has this exception")
    with outbox.transaction(plain) as transaction:
        add(plain, "a")
        transaction.send("s", "1")
        raise psycopg.Rollback
    assert orders.names == []
    assert outcomes.counts == {"outbox.rolled_back": 1}


def test_send_behind_the_block_is_refused(plain: Any, outbox: Outbox, outcomes: Outcomes) -> None:
    with outbox.transaction(plain) as transaction:
        pass
    for send in (lambda: transaction.send("s", "1"), lambda: transaction.send_many("s", ["1"])):
        with pytest.raises(LocalProtocolError, match="block of this transaction has ended"):
            send()
    assert outcomes.begun == []


def test_invalid_messages_are_refused_at_the_call(
    plain: Any, outbox: Outbox, orders: Orders, outcomes: Outcomes
) -> None:
    with outbox.transaction(plain) as transaction:
        with pytest.raises(IllegalName):
            transaction.send("no subject!", "1")
        with pytest.raises(LocalProtocolError):
            transaction.send_many("s", ["1", object()])  # type: ignore[list-item]
        with pytest.raises(LocalProtocolError, match="the limit is 8388608"):
            transaction.send("s", "x" * (9 << 20))
        add(plain, "a")
    assert orders.names == ["a"]
    assert len(outcomes.begun) == len(outcomes.ended)


def test_ten_thousand_messages_in_one_transaction(
    plain: Any, outbox: Outbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    with outbox.transaction(plain) as transaction:
        kept = transaction.send_many("s", [f"{number}" for number in range(10_000)])
    assert outbox.flush(60)
    assert scripted.requests == [("s", kept)]
    assert orders.bodies == []


def test_only_failed_rows_stay(plain: Any, outbox: Outbox, orders: Orders, scripted: ScriptedProducer) -> None:
    scripted.answer = lambda subject, ids: {ids[1]: unavailable(), ids[3]: unavailable()}
    with outbox.transaction(plain) as transaction:
        transaction.send_many("s", ["0", "1", "2", "3"])
    assert outbox.flush(30)
    assert orders.bodies == ["1", "3"]


def test_connections_and_producers_that_cannot_be_used(
    plain: Any, outbox: Outbox, orders: Orders, producer: Producer, tmp_path: Any
) -> None:
    with pytest.raises(SettingError, match="a name, or a schema"):
        Outbox(orders.open, producer, table="a;b")
    with pytest.raises(SettingError, match=r"builtins\.object are not supported"), outbox.transaction(object()):
        raise AssertionError
    with outbox.transaction(plain):
        pass
    is_file = orders.address.kind is Kind.SQLITE
    other: Any = pymysql.Connection(defer_connect=True) if is_file else sqlite3.connect(tmp_path / "other")
    with pytest.raises(LocalProtocolError, match="this outbox is in a"), outbox.transaction(other):
        raise AssertionError
    if not is_file:
        other.close()
    unstarted = Outbox(orders.open, Producer(NOWHERE))
    with pytest.raises(ClientClosed, match="not started"), unstarted.transaction(plain) as transaction:
        transaction.send("s", "1")


def test_a_real_broker_stores_what_was_committed(served: System, plain: Any, orders: Orders) -> None:
    with Producer(served.meta_url) as producer, Outbox(orders.open, producer) as outbox:
        with outbox.transaction(plain) as transaction:
            add(plain, "a")
            transaction.send_many("dbapi.orders", ["a", "b"])
        assert outbox.flush(60)
    assert orders.bodies == []
    with Consumer(served.meta_url, "dbapi.orders", "tests", start="earliest") as consumer:
        found: list[str] = []
        for delivery in consumer:
            with delivery:
                found.append(delivery.properties["data"])
            if len(found) == 2:
                break
    assert found == ["a", "b"]
