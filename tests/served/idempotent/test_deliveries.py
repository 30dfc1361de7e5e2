"""Decorated handlers behind real brokers: copies of a message, retries, and both kinds of apps."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import qmq
from qmq import sync
from qmq.idempotent.dbapi import mark, once
from qmq.idempotent.sqlalchemy import once as once_in_session
from qmq.outbox.dbapi import Outbox
from qmq.outbox.dialects import ddl_statements
from qmq_testing import Server, ServerSettings
from tests.served.idempotent.databases import Database, write
from tests.support.servers.system import System
from tests.support.waiting import eventually

pytestmark = pytest.mark.database


@dataclass
class Order:
    number: int


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(ServerSettings(retry_delay_seconds=0)) as found:
        yield found


def send(url: str, subject: str, *numbers: int) -> None:
    """Send orders, each twice: as a producer that has not got the first answer."""
    with sync.Producer(url) as producer:
        for number in numbers:
            for _ in range(2):
                producer.send(subject, Order(number), message_id=f"m{number}")


@contextmanager
def consuming(app: qmq.App | sync.App) -> Iterator[None]:
    """The app runs in a thread inside of the block."""
    loop = asyncio.new_event_loop()
    if isinstance(app, sync.App):
        run, stop = app.run, app.stop
    else:
        run, stop = partial(loop.run_until_complete, app.run()), partial(loop.call_soon_threadsafe, app.stop)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join()
        loop.close()


@pytest.mark.parametrize("kind", [qmq.App, sync.App])
def test_copies_and_retries_of_messages_take_effect_once_and_are_acknowledged(
    database: Database, server: Server, kind: type[qmq.App | sync.App]
) -> None:
    app, failed = kind(server.url), set[int]()

    @app.consumer("orders", group="billing", start="earliest", concurrency=4)
    @once(database.connect)
    def bill(order: Order, delivery: Any, *, connection: Any) -> None:
        write(connection, database, f"{order.number}")
        if order.number % 2 and order.number not in failed:
            failed.add(order.number)
            raise RuntimeError(f"attempt {delivery.attempt} fails")

    send(server.url, "orders", *range(10))
    with consuming(app):
        server.wait_drained("orders", "billing")
    assert database.effects == [f"{number}" for number in range(10)]
    assert failed == {1, 3, 5, 7, 9}
    assert server.dead_letters("orders", "billing") == []


def test_a_key_that_is_missing_makes_the_message_a_dead_letter_with_the_cause(
    database: Database, server: Server
) -> None:
    app = sync.App(server.url)

    @app.consumer("orders", group="billing", start="earliest", attempts_max=2)
    @once(database.connect, key="order")
    def bill(delivery: sync.Delivery, *, connection: Any) -> None:
        raise AssertionError("it was called")

    with sync.Producer(server.url) as producer:
        producer.send("orders", {"number": 1})
    with consuming(app):
        server.wait_drained("orders", "billing")
    (dead,) = server.dead_letters("orders", "billing")
    assert (dead.retry_cause, database.effects) == ("KeyInvalid", [])


def test_a_block_of_sqlalchemy_in_a_coroutine_handler(database: Database, server: Server) -> None:
    """On SQLite, whose asynchronous driver is always there: two consumers, one transaction at a time."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine

    if database.kind != "sqlite":
        pytest.skip("tests/served/idempotent/test_sqlalchemy.py has the other databases")
    app = qmq.App(server.url)
    engine = create_async_engine(f"sqlite+aiosqlite:///{database.address.database}", connect_args={"timeout": 60})
    new_session = async_sessionmaker(engine)

    @app.consumer("orders", group="billing", start="earliest", concurrency=4)
    async def bill(order: Order, delivery: qmq.Delivery) -> None:
        async with new_session() as session, once_in_session(delivery, session) as is_first:
            if is_first:
                await session.execute(sqlalchemy.text(f"INSERT INTO effects VALUES ('{order.number}')"))

    send(server.url, "orders", *range(5))
    with consuming(app):
        server.wait_drained("orders", "billing")
    asyncio.run(engine.dispose())
    assert database.effects == ["0", "1", "2", "3", "4"]


def test_two_groups_and_processes_of_nodes(database: Database, served: System) -> None:
    """The same on nodes that are processes: each group has its own effect."""
    app = sync.App(served.meta_url)
    for group in ("billing", "shipping"):

        @app.consumer(f"{database.kind}.idempotent", group=group, start="earliest", concurrency=2)
        @once(database.connect)
        def handle(order: Order, delivery: sync.Delivery, *, connection: Any) -> None:
            write(connection, database, f"{delivery.group} {order.number}")

    expected = sorted(f"{group} {number}" for group in ("billing", "shipping") for number in range(5))
    send(served.meta_url, f"{database.kind}.idempotent", *range(5))
    with consuming(app):
        eventually(lambda: database.effects == expected, what="both groups have processed all orders")
    assert database.count("qmq_processed") == 10


def test_marker_effect_and_a_message_of_the_outbox_are_one_transaction(database: Database, server: Server) -> None:
    """Of a handler that ends its transactions itself. The first attempt fails behind all three."""
    database.execute(*ddl_statements(database.kind))
    app, failed = sync.App(server.url), set[int]()
    connect = partial(database.connect, **({"check_same_thread": False} if database.kind == "sqlite" else {}))

    with sync.Producer(server.url) as producer, Outbox(connect, producer) as outbox:

        @app.consumer("orders", group="billing", start="earliest", concurrency=2)
        def bill(order: Order, delivery: sync.Delivery) -> None:
            with closing(database.connect()) as connection, outbox.transaction(connection) as transaction:
                if mark(delivery, connection):
                    write(connection, database, f"{order.number}")
                    transaction.send("billed", Order(order.number))
                    if order.number not in failed:
                        failed.add(order.number)
                        raise RuntimeError

        send(server.url, "orders", *range(5))
        with consuming(app):
            server.wait_drained("orders", "billing")
        assert outbox.flush(60)
    assert database.effects == [f"{number}" for number in range(5)]
    assert sorted(message.decode(Order).number for message in server.messages("billed")) == [*range(5)]
