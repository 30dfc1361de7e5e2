"""A program with SQLAlchemy's AsyncSession."""

import asyncio

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from qmq import Producer
from qmq.outbox.databases import Address, Kind
from qmq.outbox.sqlalchemy import AsyncOutbox
from tests.faults.outbox.points import BODIES, FLUSH_SECONDS, ORDERS, SUBJECT
from tests.faults.outbox.sqlalchemy import engine_url

_state: tuple[AsyncEngine, str]


def prepare(kind: Kind, database: Address, meta: str) -> None:
    """Make the engine, which connects later."""
    global _state
    _state = create_async_engine(engine_url(database, "sqlite+aiosqlite")), meta


def run(key: str) -> None:
    """One transaction, the second message in a savepoint."""
    asyncio.run(_run(key))


async def _run(key: str) -> None:
    engine, meta = _state
    async with Producer(meta) as producer, AsyncOutbox(engine, producer) as outbox:
        async with AsyncSession(engine) as session, session.begin():
            await session.execute(sa.text(f"INSERT INTO {ORDERS} VALUES (:name)"), {"name": key})
            outbox.send(session, SUBJECT, f"{key} {BODIES[0]}")
            async with session.begin_nested():
                outbox.send(session, SUBJECT, f"{key} {BODIES[1]}")
        assert await outbox.flush(FLUSH_SECONDS)
        await engine.dispose()
