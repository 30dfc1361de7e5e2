"""A program with SQLAlchemy."""

import sqlalchemy as sa
from sqlalchemy.orm import Session

from qmq.outbox.databases import Address, Kind
from qmq.outbox.sqlalchemy import Outbox
from qmq.sync import Producer
from tests.faults.outbox.points import BODIES, FLUSH_SECONDS, ORDERS, SUBJECT

_state: tuple[sa.Engine, str]


def prepare(kind: Kind, database: Address, meta: str) -> None:
    """Make the engine, which connects later."""
    global _state
    _state = sa.create_engine(engine_url(database)), meta


def engine_url(database: Address, sqlite: str = "sqlite") -> str:
    """For SQLAlchemy."""
    if database.kind is Kind.SQLITE:
        return f"{sqlite}:///{database.database}"
    driver = "postgresql+psycopg" if database.kind is Kind.POSTGRESQL else "mysql+pymysql"
    return f"{driver}://{database.user}@{database.host}:{database.port}/{database.database}"


def run(key: str) -> None:
    """One transaction, the second message in a savepoint."""
    engine, meta = _state
    with Producer(meta) as producer, Outbox(engine, producer) as outbox:
        with Session(engine) as session, session.begin():
            session.execute(sa.text(f"INSERT INTO {ORDERS} VALUES (:name)"), {"name": key})
            outbox.send(session, SUBJECT, f"{key} {BODIES[0]}")
            with session.begin_nested():
                outbox.send(session, SUBJECT, f"{key} {BODIES[1]}")
        assert outbox.flush(FLUSH_SECONDS)
