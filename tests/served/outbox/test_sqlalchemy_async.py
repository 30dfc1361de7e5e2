"""Messages in transactions of SQLAlchemy's AsyncSession, on a real database."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)

from qmq import Consumer, Producer
from qmq.outbox import sqlalchemy as face
from qmq.outbox.databases import Kind
from qmq.outbox.sqlalchemy import AsyncOutbox
from tests.served.outbox.conftest import NOWHERE
from tests.support.outbox import Orders, Outcomes, ScriptedProducer
from tests.support.servers.system import System

pytestmark = pytest.mark.database

ORDERS = sa.table("orders", sa.column("name"))


def order(name: str) -> Any:
    return sa.insert(ORDERS).values(name=name)


@pytest.fixture
async def engine(orders: Orders) -> AsyncIterator[AsyncEngine]:
    if orders.address.kind is Kind.MYSQL and find_spec("aiomysql") is None:
        pytest.skip("aiomysql is not installed")
    found = create_async_engine(orders.engine_url(is_async=True))
    yield found
    await found.dispose()


@pytest.fixture
async def outbox(engine: AsyncEngine, outcomes: Outcomes, scripted: ScriptedProducer) -> AsyncIterator[AsyncOutbox]:
    async with Producer(NOWHERE, middleware=[outcomes]) as producer:
        producer.send_together = scripted.send_together  # type: ignore[method-assign]
        async with AsyncOutbox(engine, producer) as found:
            yield found


async def test_a_commit_writes_sends_and_deletes(
    engine: AsyncEngine, outbox: AsyncOutbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    scripted.held = {"held"}
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(order("a"))
        first = outbox.send(session, "s", "1")
        rest = outbox.send_many(session, "s", ["2", "3"])
        outbox.send(session, "held", "4")
    assert not await outbox.flush(0.2)
    assert orders.bodies == ["4"]
    scripted.waiting.pop()()
    assert await outbox.flush(30)
    assert scripted.requests == [("s", [first, *rest]), ("held", scripted.requests[1][1])]
    assert (orders.names, orders.bodies) == (["a"], [])
    assert outcomes.counts == {"stored": 4}


async def test_rollbacks_savepoints_and_closing(
    engine: AsyncEngine, outbox: AsyncOutbox, orders: Orders, scripted: ScriptedProducer, outcomes: Outcomes
) -> None:
    async with AsyncSession(engine) as session:
        await session.execute(order("a"))
        outbox.send(session, "s", "1")
        await session.rollback()
        await session.execute(order("b"))
        savepoint = await session.begin_nested()
        outbox.send(session, "s", "2")
        await savepoint.rollback()
        async with session.begin_nested():
            kept = outbox.send(session, "s", "3")
        await session.commit()
        outbox.send(session, "s", "4")
    assert await outbox.flush(30)
    assert scripted.stored == [kept]
    assert (orders.names, orders.bodies) == (["b"], [])
    assert outcomes.counts == {"stored": 1, "outbox.rolled_back": 3}


async def test_a_failed_insert_fails_the_commit(engine: AsyncEngine, outbox: AsyncOutbox, orders: Orders) -> None:
    orders.connection.change("DROP TABLE qmq_msg_queue")
    async with AsyncSession(engine) as session:
        await session.execute(order("a"))
        outbox.send(session, "s", "1")
        with pytest.raises(sa.exc.DBAPIError, match="qmq_msg_queue"):
            await session.commit()
    assert orders.names == []


async def test_a_scoped_session(engine: AsyncEngine, outbox: AsyncOutbox, scripted: ScriptedProducer) -> None:
    registry = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
    outbox.send(registry, "s", "1")
    await registry.commit()
    await registry.remove()
    assert await outbox.flush(30)
    assert len(scripted.stored) == 1


async def test_deletions_run_on_another_loop_and_survive_failures(
    engine: AsyncEngine,
    outbox: AsyncOutbox,
    orders: Orders,
    scripted: ScriptedProducer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loops: list[Any] = []
    inner = face._AsyncDeletion._delete

    async def delete(self: Any, connection: Any, ids: Any) -> None:
        loops.append((asyncio.get_running_loop(), threading.get_ident()))
        if len(loops) == 1:
            # The server ends the session, or the file is locked away: the next attempt opens another connection.
            await connection.invalidate()
        await inner(self, connection, ids)

    monkeypatch.setattr(face._AsyncDeletion, "_delete", delete)
    async with AsyncSession(engine) as session:
        outbox.send(session, "s", "1")
        await session.commit()
    assert await outbox.flush(60)
    assert orders.bodies == []
    assert all(loop is not asyncio.get_running_loop() and thread != threading.get_ident() for loop, thread in loops)


async def test_a_forked_child_opens_its_own_connection(
    engine: AsyncEngine, outbox: AsyncOutbox, orders: Orders, scripted: ScriptedProducer
) -> None:
    async with AsyncSession(engine) as session:
        outbox.send(session, "s", "1")
        await session.commit()
    assert await outbox.flush(30)
    pid = os.fork()
    if pid == 0:
        try:
            asyncio.set_event_loop(None)
            thread = threading.Thread(target=_delete_in_child, args=[outbox, orders])
            thread.start()
            thread.join()
        finally:
            os._exit(1)
    _, status = await asyncio.to_thread(os.waitpid, pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    async with AsyncSession(engine) as session:
        outbox.send(session, "s", "2")
        await session.commit()
    assert await outbox.flush(30)
    assert orders.bodies == []


def _delete_in_child(outbox: AsyncOutbox, orders: Orders) -> None:
    deletion = outbox.outgoing._deletion
    deletion.add([(1_000_000, "none")])
    if deletion.flush(30):
        os._exit(0)


async def test_a_real_broker_stores_what_was_committed(served: System, engine: AsyncEngine, orders: Orders) -> None:
    async with Producer(served.meta_url) as producer, AsyncOutbox(engine, producer) as outbox:
        async with AsyncSession(engine) as session, session.begin():
            outbox.send_many(session, "sqla.async", ["a", "b"])
        assert await outbox.flush(60)
    assert orders.bodies == []
    async with Consumer(served.meta_url, "sqla.async", "tests", start="earliest") as consumer:
        found: list[str] = []
        async for delivery in consumer:
            async with delivery:
                found.append(delivery.properties["data"])
            if len(found) == 2:
                break
    assert found == ["a", "b"]
