"""Messages in transactions of SQLAlchemy sessions, on a real database."""

import gc
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import event
from sqlalchemy.orm import (
    DeclarativeBase,
    Mapped,
    Session,
    SessionTransaction,
    mapped_column,
    scoped_session,
    sessionmaker,
)

from qmq.errors import ClientClosed, ClientForked, IllegalName, LocalProtocolError, SettingError
from qmq.outbox import committed, room
from qmq.outbox.databases import Kind
from qmq.outbox.sqlalchemy import Outbox
from qmq.sync import Consumer, Producer
from tests.served.outbox.conftest import NOWHERE
from tests.support.outbox import Orders, Outcomes, ScriptedProducer, unavailable
from tests.support.servers.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.database


class Base(DeclarativeBase):
    """Models of these tests."""


class Order(Base):
    """A row of the application."""

    __tablename__ = "orders"
    name: Mapped[str] = mapped_column(sa.String(50), primary_key=True)


@pytest.fixture
def engine(orders: Orders) -> Iterator[sa.Engine]:
    found = sa.create_engine(orders.engine_url())
    yield found
    found.dispose()


@pytest.fixture
def outbox(engine: sa.Engine, producer: Producer) -> Iterator[Outbox]:
    with Outbox(engine, producer) as found:
        yield found


@pytest.fixture
def statements(engine: sa.Engine) -> list[str]:
    """First words of the statements that the application's connections run."""
    found: list[str] = []

    @event.listens_for(engine, "before_cursor_execute")
    def _(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        found.append(" ".join(statement.replace('"', "").replace("`", "").split()[:3]))

    return found


INSERT = "INSERT INTO qmq_msg_queue"


def begin_at_once(engine: sa.Engine) -> None:
    """As SQLAlchemy's manual says for SQLite, whose driver does not begin a transaction before a savepoint by itself."""
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", lambda raw, _: setattr(raw, "isolation_level", None))
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))


def test_a_commit_writes_one_insert_and_sends_in_one_request(
    engine: sa.Engine,
    outbox: Outbox,
    orders: Orders,
    scripted: ScriptedProducer,
    outcomes: Outcomes,
    statements: list[str],
) -> None:
    with Session(engine) as session:
        session.add(Order(name="a"))
        first = outbox.send(session, "s", "1")
        rest = outbox.send_many(session, "s", ["2", "3"], tags=["t"])
        other = outbox.send(session, "other", "4", message_id="mine")
        assert not scripted.requests
        assert INSERT not in statements
        session.commit()
    assert outbox.flush(30)
    assert other == "mine"
    assert scripted.requests == [("s", [first, *rest]), ("other", ["mine"])]
    assert statements.count(INSERT) == 1
    assert orders.names == ["a"]
    assert orders.bodies == []
    assert outcomes.counts == {"stored": 4}


def test_rows_are_committed_before_anything_is_sent_and_deleted_by_their_own_ids(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    scripted.held = {"held"}
    with Session(engine) as session:
        for name in ("held", "s", "held", "s"):
            outbox.send(session, name, f"{name} body")
        session.commit()
    eventually(lambda: scripted.waiting and scripted.stored)
    eventually(lambda: orders.bodies == ["held body"] * 2)
    scripted.waiting.pop()()
    assert outbox.flush(30)
    assert orders.bodies == []


@pytest.mark.parametrize("end", ["rollback", "close"])
def test_what_is_not_committed_is_not_sent(
    end: str, engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with Session(engine) as session:
        session.add(Order(name="a"))
        session.flush()
        outbox.send(session, "s", "1")
        getattr(session, end)()
        assert outcomes.counts == {"outbox.rolled_back": 1}
        outbox.send(session, "s", "2")
        session.commit()
    assert outbox.flush(30)
    assert len(scripted.stored) == 1
    assert orders.names == []
    assert outcomes.counts == {"outbox.rolled_back": 1, "stored": 1}


def test_a_savepoint_takes_its_messages_along_when_it_is_rolled_back(
    engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    with Session(engine) as session, session.begin():
        kept = [outbox.send(session, "s", "outer")]
        with session.begin_nested():
            kept.append(outbox.send(session, "s", "released"))
            with session.begin_nested() as inner:
                outbox.send(session, "s", "dropped")
                inner.rollback()
            with session.begin_nested():
                kept.append(outbox.send(session, "s", "released twice"))
        assert not scripted.requests
        with session.begin_nested() as around:
            with session.begin_nested():
                outbox.send(session, "s", "released and dropped")
            around.rollback()
        kept.append(outbox.send(session, "s", "last"))
    assert outbox.flush(30)
    assert scripted.requests == [("s", kept)]
    assert outcomes.counts == {"stored": 4, "outbox.rolled_back": 2}


def test_a_savepoint_is_released_and_the_outer_transaction_rolls_back(
    engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer, outcomes: Outcomes, orders: Orders
) -> None:
    with Session(engine) as session:
        session.add(Order(name="a"))
        with session.begin_nested():
            outbox.send(session, "s", "1")
        session.rollback()
    assert outbox.flush(30)
    assert (scripted.requests, orders.names, orders.bodies) == ([], [], [])
    assert outcomes.counts == {"outbox.rolled_back": 1}


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("commit", ["of the transaction", "of the session"])
def test_a_commit_with_open_savepoints_writes_all_messages(
    commit: str,
    depth: int,
    engine: sa.Engine,
    outbox: Outbox,
    orders: Orders,
    scripted: ScriptedProducer,
    statements: list[str],
) -> None:
    scripted.held = {"s"}
    with Session(engine) as session:
        transaction = session.begin()
        session.add(Order(name="a"))
        outbox.send(session, "s", "0")
        for number in range(depth):
            session.begin_nested()
            outbox.send(session, "s", f"{number + 1}")
        (transaction if commit == "of the transaction" else session).commit()
    assert orders.names == ["a"]
    assert orders.bodies == [f"{number}" for number in range(depth + 1)]
    eventually(lambda: [len(ids) for _, ids in scripted.requests] == [depth + 1])
    assert statements.count(INSERT) == 1
    scripted.waiting.pop()()


def test_a_failed_release_of_a_savepoint_writes_nothing(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, statements: list[str]
) -> None:
    orders.connection.change("INSERT INTO orders VALUES ('taken')")
    with Session(engine) as session, session.begin():
        outbox.send(session, "s", "outer")
        savepoint = session.begin_nested()
        outbox.send(session, "s", "inner")
        session.add(Order(name="taken"))
        with pytest.raises(sa.exc.IntegrityError):
            savepoint.commit()
        savepoint.rollback()
        with session.begin_nested():
            session.execute(sa.text("SELECT 1"))
        assert INSERT not in statements
    assert outbox.flush(30)
    assert [len(ids) for _, ids in scripted.requests] == [1]


@pytest.mark.parametrize("mode", ["conditional_savepoint", "rollback_only", "create_savepoint"])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_session_in_a_transaction_of_its_connection_leaves_sending_to_the_relay(
    is_committed: bool,
    mode: Any,
    engine: sa.Engine,
    outbox: Outbox,
    orders: Orders,
    scripted: ScriptedProducer,
    outcomes: Outcomes,
) -> None:
    begin_at_once(engine)
    with engine.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode=mode) as session:
            session.add(Order(name="a"))
            outbox.send(session, "s", "1")
            session.commit()
        assert outcomes.counts == {"outbox.left": 1}
        (outer.commit if is_committed else outer.rollback)()
    assert outbox.flush(30)
    assert not scripted.requests
    assert orders.bodies == (["1"] if is_committed else [])
    assert orders.names == (["a"] if is_committed else [])


def test_a_session_that_controls_the_transaction_of_its_connection_sends(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    with engine.connect() as connection:
        connection.begin()
        with Session(connection, join_transaction_mode="control_fully") as session:
            outbox.send(session, "s", "1")
            session.commit()
    assert outbox.flush(30)
    assert len(scripted.stored) == 1
    assert orders.bodies == []


def test_two_phases_write_at_prepare_and_send_after_the_commit(
    orders: Orders, engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer, statements: list[str]
) -> None:
    if orders.address.kind is not Kind.MYSQL:
        pytest.skip("only MariaDB has two-phase transactions without further settings")
    with Session(engine, twophase=True) as session:
        session.add(Order(name="a"))
        outbox.send(session, "s", "1")
        session.prepare()
        assert statements.count(INSERT) == 1
        assert not scripted.requests
        with pytest.raises(LocalProtocolError, match="is prepared"):
            outbox.send(session, "s", "2")
        session.commit()
    assert outbox.flush(30)
    assert len(scripted.stored) == 1
    assert (orders.names, orders.bodies) == (["a"], [])


def test_a_failed_insert_fails_the_commit(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    orders.connection.change("DROP TABLE qmq_msg_queue")
    with Session(engine) as session:
        session.add(Order(name="a"))
        outbox.send(session, "s", "1")
        with pytest.raises(sa.exc.DBAPIError, match="qmq_msg_queue"):
            session.commit()
        session.rollback()
        session.add(Order(name="b"))
        session.commit()
    assert orders.names == ["b"]
    assert not scripted.requests
    assert outcomes.counts == {"outbox.rolled_back": 1}


def test_nothing_is_raised_after_the_commit(
    engine: sa.Engine, producer: Producer, orders: Orders, outcomes: Outcomes, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug of ours")

    with Outbox(engine, producer) as outbox, Session(engine) as session:
        producer.inner.send_together = fail  # type: ignore[method-assign]
        outbox.outgoing._send = fail  # type: ignore[method-assign]
        outbox.send(session, "s", "1")
        session.commit()
        assert outcomes.counts == {"outbox.left": 1}
        outbox.outgoing.send = fail  # type: ignore[method-assign]
        outbox.send(session, "s", "2")
        with caplog.at_level(logging.ERROR):
            session.commit()
        assert "left to the relay" in caplog.text
    assert orders.bodies == ["1", "2"]


def test_messages_that_no_broker_stores_stay_in_the_table(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    scripted.answer = lambda subject, ids: unavailable()
    with Session(engine) as session:
        outbox.send(session, "s", "1")
        session.commit()
    assert outbox.flush(30)
    assert orders.bodies == ["1"]
    assert outcomes.counts == {"outbox.left": 1}


def test_send_after_a_failed_flush_is_refused_before_anything_is_kept(
    engine: sa.Engine, outbox: Outbox, orders: Orders, outcomes: Outcomes
) -> None:
    orders.connection.change("INSERT INTO orders VALUES ('taken')")
    with Session(engine) as session:
        session.add(Order(name="taken"))
        with pytest.raises(sa.exc.IntegrityError):
            session.flush()
        with pytest.raises(LocalProtocolError, match="has failed"):
            outbox.send(session, "s", "1")
        with pytest.raises(LocalProtocolError, match="has failed"):
            outbox.send_many(session, "s", ["1"])
        assert outcomes.begun == []


def test_send_in_after_commit_is_refused(engine: sa.Engine, outbox: Outbox, outcomes: Outcomes) -> None:
    with Session(engine) as session:
        raised: list[Exception] = []

        @event.listens_for(session, "after_commit")
        def _(committed_session: Session) -> None:
            try:
                outbox.send(committed_session, "s", "late")
            except LocalProtocolError as error:
                raised.append(error)

        outbox.send(session, "s", "1")
        session.commit()
        assert len(raised) == 1
        assert len(outcomes.begun) == 1


@pytest.mark.parametrize("has_first", [True, False])
@pytest.mark.parametrize("hook", ["before_commit", "before_flush", "after_flush", "after_flush_postexec"])
def test_messages_of_hooks_during_the_commit_are_written(
    hook: str, has_first: bool, engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    with Session(engine) as session:
        event.listen(session, hook, lambda *_: outbox.send(session, "s", "of the hook"))
        session.add(Order(name="a"))
        if has_first:
            outbox.send(session, "s", "first")
        session.commit()
    assert outbox.flush(30)
    assert len(scripted.stored) == 1 + has_first
    assert (orders.names, orders.bodies) == (["a"], [])


def test_a_hook_that_fails_behind_ours_leaves_nothing(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("another library")

    with Session(engine) as session:
        event.listen(session, "before_commit", fail)
        session.add(Order(name="a"))
        outbox.send(session, "s", "1")
        with pytest.raises(RuntimeError):
            session.commit()
        session.rollback()
        assert outcomes.counts == {"outbox.rolled_back": 1}
        event.remove(session, "before_commit", fail)
        outbox.send(session, "s", "2")
        session.commit()
    assert outbox.flush(30)
    assert len(scripted.stored) == 1
    assert (orders.names, orders.bodies) == ([], [])


def test_a_statement_that_fails_behind_ours_and_is_swallowed_leaves_sending_to_the_relay(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    """PostgreSQL rolls back then, and neither its driver nor SQLAlchemy says so."""

    def record(session: Session) -> None:
        with suppress(sa.exc.DBAPIError):
            session.execute(sa.text("INSERT INTO missing VALUES (1)"))

    with Session(engine) as session:
        event.listen(session, "before_commit", record)
        session.add(Order(name="a"))
        session.flush()
        outbox.send(session, "s", "1")
        session.commit()
        event.remove(session, "before_commit", record)
        outbox.send(session, "s", "2")
        session.commit()
    assert outbox.flush(30)
    is_rolled_back = orders.address.kind is Kind.POSTGRESQL
    assert orders.names == ([] if is_rolled_back else ["a"])
    assert orders.bodies == ([] if is_rolled_back else ["1"])
    assert [len(ids) for _, ids in scripted.requests] == [1]
    assert outcomes.counts == {"outbox.left": 1, "stored": 1}


def test_a_message_that_cannot_be_written_during_the_commit_is_not_kept(
    engine: sa.Engine, outbox: Outbox, orders: Orders, outcomes: Outcomes, scripted: ScriptedProducer
) -> None:
    fails = True

    @event.listens_for(engine, "before_cursor_execute")
    def _(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if fails and INSERT in statement.replace('"', "").replace("`", ""):
            raise RuntimeError("refused")

    def send_later(_: Session) -> None:
        nonlocal fails
        with pytest.raises(RuntimeError):
            outbox.send(session, "s", "1")
        fails = False
        outbox.send(session, "s", "2")

    with Session(engine) as session:
        event.listen(session, "before_commit", send_later)
        session.add(Order(name="a"))
        session.commit()
    assert outbox.flush(30)
    assert outcomes.counts == {"outbox.rolled_back": 1, "stored": 1}
    assert orders.bodies == []


def test_another_thread_can_continue_a_session_but_not_join_its_commit(
    engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    errors: list[Exception] = []

    def send(body: str) -> None:
        try:
            outbox.send(session, "s", body)
        except LocalProtocolError as error:
            errors.append(error)

    def in_thread(body: str) -> None:
        thread = threading.Thread(target=send, args=[body])
        thread.start()
        thread.join()

    with Session(engine) as session:
        in_thread("1")
        assert not errors
        event.listen(session, "before_commit", lambda _: in_thread("2"))
        session.commit()
    assert "another thread" in str(errors[0])
    assert outbox.flush(30)
    assert len(scripted.stored) == 1
    assert outcomes.counts == {"stored": 1}


def test_sends_of_many_threads_to_one_session_are_all_written_or_refused(
    engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    kept: list[str] = []
    ready = threading.Barrier(5)

    def send() -> None:
        ready.wait()
        for number in range(200):
            try:
                kept.append(outbox.send(session, "s", f"{number}"))
            except (LocalProtocolError, sa.exc.SQLAlchemyError):
                return

    with Session(engine) as session:
        session.begin()
        outbox.send(session, "s", "first")
        threads = [threading.Thread(target=send) for _ in range(4)]
        for thread in threads:
            thread.start()
        ready.wait()
        session.commit()
        for thread in threads:
            thread.join()
        session.rollback()
    assert outbox.flush(30)
    stored = set(scripted.stored)
    ended = dict(outcomes.ended)
    assert set(ended) == set(outcomes.begun)
    assert all((message_id in stored) == (ended[message_id] == "stored") for message_id in kept)


def test_a_session_that_is_deleted_leaves_nothing_behind(engine: sa.Engine, outbox: Outbox, outcomes: Outcomes) -> None:
    session = Session(engine)
    outbox.send(session, "s", "1")
    found = weakref.ref(session)
    del session
    gc.collect()
    assert found() is None
    eventually(lambda: outcomes.counts == {"outbox.rolled_back": 1})


def test_a_forked_child_is_refused_the_parents_producer_and_makes_its_own(
    orders: Orders, engine: sa.Engine, outbox: Outbox, producer: Producer, scripted: ScriptedProducer
) -> None:
    own: list[Producer] = []

    def make() -> Producer:
        own.append(Producer(NOWHERE))
        own[-1].inner.send_together = scripted.send_together  # type: ignore[method-assign]
        return own[-1]

    with Outbox(engine, make) as by_function, Session(engine) as session:
        by_function.send(session, "s", "of the parent")
        session.commit()
        assert by_function.flush(30)
        engine.dispose()

        def child() -> None:
            engine.dispose(close=False)
            with Session(engine) as mine:
                try:
                    outbox.send(mine, "s", "1")
                except ClientForked:
                    by_function.send(mine, "s", "of the child")
                    mine.add(Order(name="child"))
                    mine.commit()
                    if by_function.flush(30) and len(scripted.stored) == 2 and len(own) == 2:
                        os._exit(0)

        assert _exit_code(child) == 0
        assert (orders.names, orders.bodies) == (["child"], [])
        by_function.send(session, "s", "of the parent again")
        session.commit()
        assert by_function.flush(30)
    assert len(scripted.stored) == 2
    own[0].close()


def _exit_code(child: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            child()
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_ten_thousand_messages_in_one_transaction(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, statements: list[str]
) -> None:
    with Session(engine) as session:
        kept = [outbox.send(session, "s", f"{number}") for number in range(10_000)]
        session.commit()
    assert outbox.flush(60)
    assert scripted.requests == [("s", kept)]
    assert statements.count(INSERT) == 10_000 / committed.INSERTED_ROWS
    assert orders.bodies == []


def test_ids_are_those_of_the_rows_in_several_inserts(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committed, "INSERTED_ROWS", 3)
    monkeypatch.setattr(committed, "INSERTED_BYTES", 4000)
    scripted.answer = lambda subject, ids: {ids[0]: unavailable(), ids[4]: unavailable(), ids[7]: unavailable()}
    with Session(engine) as session:
        outbox.send_many(session, "s", [f"{number}" for number in range(7)])
        outbox.send(session, "s", "x" * 5000)
        outbox.send(session, "s", "last")
        session.commit()
    assert outbox.flush(30)
    assert orders.bodies == ["0", "4", "x" * 5000]


def test_a_transaction_has_limits(
    engine: sa.Engine, outbox: Outbox, outcomes: Outcomes, scripted: ScriptedProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "TRANSACTION_MESSAGES_MAX", 3)
    with Session(engine) as session:
        outbox.send_many(session, "s", ["1", "2"])
        with pytest.raises(LocalProtocolError, match="would have 4 messages"):
            outbox.send_many(session, "s", ["3", "4"])
        outbox.send(session, "s", "3")
        monkeypatch.setattr(room, "TRANSACTION_MESSAGES_MAX", 10)
        monkeypatch.setattr(room, "TRANSACTION_BYTES_MAX", 2000)
        with pytest.raises(LocalProtocolError, match="the limits are 10 and 2000: commit in between"):
            outbox.send(session, "s", "x" * 2000)
        session.commit()
    assert outbox.flush(30)
    assert outcomes.counts == {"outbox.rolled_back": 3, "stored": 3}


def test_several_databases_in_one_session(
    orders: Orders, engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer, tmp_path: Any, outcomes: Outcomes
) -> None:
    other = sa.create_engine(f"sqlite:///{tmp_path}/other.sqlite3")
    text = sa.text("SELECT 1")
    try:
        with Session(binds={Order: engine, Base: other}) as session:
            session.execute(text, bind_arguments={"bind": other})
            outbox.send(session, "s", "1")
            with pytest.raises(
                LocalProtocolError, match=r"uses Engine\(sqlite.*other.sqlite3.* not be committed together"
            ):
                session.commit()
            session.rollback()
            session.execute(text, bind_arguments={"bind": other})
            session.add(Order(name="a"))
            session.flush()
            outbox.send(session, "s", "2")
            session.commit()
            outbox.send(session, "s", "3")
            session.commit()
        with Session(engine.execution_options(logging_token="x")) as session:
            outbox.send(session, "s", "4")
            session.commit()
        assert outbox.flush(30)
    finally:
        other.dispose()
    assert orders.names == ["a"]
    assert outcomes.counts == {"outbox.rolled_back": 1, "stored": 3}


def test_autocommit_is_refused(engine: sa.Engine, outbox: Outbox, producer: Producer, orders: Orders) -> None:
    own = sa.create_engine(orders.engine_url(), isolation_level="AUTOCOMMIT")
    with Outbox(own, producer) as of_own:
        for found, box in ((engine.execution_options(isolation_level="AUTOCOMMIT"), outbox), (own, of_own)):
            with Session(found) as session:
                box.send(session, "s", "1")
                with pytest.raises(LocalProtocolError, match="AUTOCOMMIT"):
                    session.commit()
    own.dispose()
    assert orders.bodies == []


def test_a_session_without_autobegin_has_to_begin(
    engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer
) -> None:
    with Session(engine, autobegin=False) as session:
        with pytest.raises(LocalProtocolError, match=r"call session\.begin"):
            outbox.send(session, "s", "1")
        with session.begin():
            outbox.send(session, "s", "1")
    assert outbox.flush(30)
    assert len(scripted.stored) == 1


def test_a_scoped_session(engine: sa.Engine, outbox: Outbox, scripted: ScriptedProducer) -> None:
    registry = scoped_session(sessionmaker(engine))
    outbox.send(registry, "s", "1")
    outbox.send_many(registry, "s", ["2"])
    registry.commit()
    registry.remove()
    assert outbox.flush(30)
    assert len(scripted.stored) == 2


def test_invalid_messages_are_refused_at_the_call(engine: sa.Engine, outbox: Outbox, outcomes: Outcomes) -> None:
    with Session(engine) as session:
        for send in (
            lambda: outbox.send(session, "no subject!", "1"),
            lambda: outbox.send(session, "s", "1", delay=timedelta(days=10_000_000)),
            lambda: outbox.send(session, "s", "x" * (9 << 20)),
            lambda: outbox.send_many(session, "s", ["1", object()]),  # type: ignore[list-item]
        ):
            with pytest.raises((LocalProtocolError, IllegalName)):
                send()
        session.commit()
    assert set(outcomes.counts) <= {"outbox.rolled_back", "protocol.misuse"}
    assert len(outcomes.ended) == len(outcomes.begun)


def test_a_producer_that_was_never_started_is_refused(engine: sa.Engine) -> None:
    outbox = Outbox(engine, Producer(NOWHERE))
    with Session(engine) as session, pytest.raises(ClientClosed, match="not started"):
        outbox.send(session, "s", "1")


def test_a_closed_producer_leaves_messages_to_the_relay(engine: sa.Engine, orders: Orders) -> None:
    producer = Producer(NOWHERE)
    producer.start()
    with Outbox(engine, producer) as outbox, Session(engine) as session:
        outbox.send(session, "s", "1")
        producer.close()
        session.commit()
        outbox.send(session, "s", "2")
        session.commit()
        assert outbox.flush(30)
    assert orders.bodies == ["1", "2"]


def test_databases_that_are_not_supported(orders: Orders, producer: Producer) -> None:
    with pytest.raises(SettingError, match="in memory"):
        Outbox(sa.create_engine("sqlite://"), producer)
    with pytest.raises(SettingError, match="AsyncOutbox"):
        Outbox(sa.create_engine("sqlite+aiosqlite:///x"), producer)
    with pytest.raises(SettingError, match="a name, or a schema"):
        Outbox(sa.create_engine("sqlite:///x"), producer, table="a b")


def test_sent_messages_are_deleted_beside_a_pool_without_room(
    orders: Orders, producer: Producer, scripted: ScriptedProducer
) -> None:
    small = sa.create_engine(orders.engine_url(), pool_size=1, max_overflow=0, pool_timeout=0.01)
    with Outbox(small, producer) as outbox:
        with Session(small) as session:
            outbox.send(session, "s", "1")
            session.commit()
        with small.connect():
            assert outbox.flush(30)
    small.dispose()
    assert orders.bodies == []


def test_a_real_broker_stores_what_was_committed(served: System, engine: sa.Engine, orders: Orders) -> None:
    with Producer(served.meta_url) as producer, Outbox(engine, producer) as outbox:
        with Session(engine) as session:
            session.add(Order(name="a"))
            outbox.send(session, "sqla.orders", {"order": "a"})
            outbox.send_many(session, "sqla.orders", ["b", "c"], tags=["t"])
            outbox.send(session, "sqla.orders", "later", delay=timedelta(milliseconds=1))
            session.commit()
        assert outbox.flush(60)
    assert orders.bodies == []
    with Consumer(served.meta_url, "sqla.orders", "tests", start="earliest") as consumer:
        found: list[str] = []
        for delivery in consumer:
            with delivery:
                found.append(delivery.properties.get("data", delivery.properties.get("order", "")))
            if len(found) == 4:
                break
    assert sorted(found) == ["a", "b", "c", "later"]


ACTIONS = {
    "send": 6, "nest": 4, "release": 2, "undo": 2, "release all": 1, "undo all": 1, "commit": 1, "roll back": 1,
    "commit the outermost": 1, "roll back the outermost": 1, "flush": 1,
}  # fmt: skip
"""What a program may do, and how often."""


def act(action: str, name: str, session: Session, savepoints: list[SessionTransaction], outbox: Outbox) -> None:
    """One action of a program, if it is possible now."""
    root = session.get_transaction()
    if action == "send":
        session.add(Order(name=name))
        outbox.send(session, "s", name, message_id=name)
    elif action == "nest":
        savepoints.append(session.begin_nested())
    elif action in ("release", "undo") and savepoints:
        savepoint = savepoints.pop()
        (savepoint.commit if action == "release" else savepoint.rollback)()
    elif action in ("release all", "undo all") and savepoints:
        (savepoints[0].commit if action == "release all" else savepoints[0].rollback)()
        savepoints.clear()
    elif action == "flush":
        session.flush()
    elif action in ("commit", "roll back"):
        (session.commit if action == "commit" else session.rollback)()
        savepoints.clear()
    elif action.endswith("the outermost") and root is not None:
        (root.commit if action.startswith("commit") else root.rollback)()
        savepoints.clear()


def test_exactly_the_messages_of_committed_rows_are_sent_whatever_a_program_does(
    engine: sa.Engine, outbox: Outbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    begin_at_once(engine)

    @settings(max_examples=60)
    @given(st.lists(st.sampled_from([action for action, count in ACTIONS.items() for _ in range(count)]), max_size=30))
    def check(actions: list[str]) -> None:
        for found in (scripted.stored, scripted.requests, outcomes.begun, outcomes.ended):
            found.clear()
        orders.connection.change("DELETE FROM orders")
        with Session(engine) as session:
            savepoints: list[SessionTransaction] = []
            for number, action in enumerate(actions):
                act(action, f"{number:02}", session, savepoints, outbox)
        assert outbox.flush(60)
        assert scripted.stored == orders.names
        assert orders.bodies == []
        assert outcomes.counts.get("stored", 0) == len(orders.names)
        assert len(outcomes.ended) == len(outcomes.begun)

    check()
