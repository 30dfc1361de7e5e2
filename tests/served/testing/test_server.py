"""`qmq_testing.Server` in this process, without its plugin."""

import asyncio
import os
import socket
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest

from qmq import App, Consumer, Delivery, Producer, sync
from qmq.protocol.frames import HEADER_BYTES
from qmq.protocol.reasons import Reason
from qmq_node.log.disk import SystemDisk
from qmq_testing import Server, ServerSettings, nodes
from qmq_testing.loop_thread import LoopThread
from qmq_testing.nodes import _run_jobs


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as started:
        yield started


def test_a_server_owns_its_thread_and_folder() -> None:
    before = set(threading.enumerate())
    with Server() as server:
        folder = server.nodes._folder
        assert set(os.listdir(folder)) == {"broker", "delay", "meta"}
        server.start()  # it runs already
        assert "qmq-test-server" in {thread.name for thread in set(threading.enumerate()) - before}
    server.close()  # it is closed already
    assert not os.path.exists(folder)
    assert not set(threading.enumerate()) - before
    with server:  # it can be started again
        assert server.count("order.paid") == 0


def test_a_start_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(threading.enumerate())
    monkeypatch.setattr(nodes, "READY_SECONDS_MAX", 0.0)
    server = Server()
    with pytest.raises(TimeoutError):
        server.start()
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.url
    assert not set(threading.enumerate()) - before


async def test_an_app_and_the_group_it_makes(server: Server) -> None:
    bills: list[str] = []
    app = App(server.url)

    @app.consumer("order.paid", group="billing")
    async def bill(delivery: Delivery) -> None:
        bills.append(delivery.properties["order"])

    running = asyncio.create_task(app.run())
    await server.aio.wait_for_group("order.paid", "billing")
    async with Producer(server.url) as producer:
        for order in range(20):
            await producer.send("order.paid", {"order": order})
    await server.aio.wait_drained("order.paid", "billing")
    app.stop()
    await running
    assert bills == [str(order) for order in range(20)]


def test_clients_without_await_on_a_moved_broker(server: Server) -> None:
    """The broker's port is taken while it is stopped: it returns on another one, and clients find it."""
    with (
        sync.Producer(server.url) as producer,
        sync.Consumer(server.url, "order.paid", "billing", start="earliest") as consumer,
    ):
        producer.send("order.paid", {"order": 1})
        broker = server.nodes._broker
        assert broker is not None
        address = broker.server.address
        server.stop_broker()
        with socket.create_server(address):
            server.start_broker()
            broker = server.nodes._broker
            assert broker is not None
            assert broker.server.address != address
            producer.send("order.paid", {"order": 2})
            found: set[str] = set()
            while len(found) < 2:
                for delivery in consumer.pull(2, timeout=30):
                    with delivery:
                        found.add(delivery.properties["order"])
        server.wait_drained("order.paid", "billing", timeout=30)


def test_a_broker_returns_on_its_port(server: Server) -> None:
    assert server.nodes._broker is not None
    address = server.nodes._broker.server.address
    server.stop_broker()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=30)
    server.start_broker()
    server.start_broker()  # it runs already
    assert server.nodes._broker.server.address == address


def test_the_metaserver_expires_no_node_when_time_moves_in_small_steps(server: Server) -> None:
    """Steps below the lease of 4 s look like passing time, and heartbeats arrive once in a real second only."""
    meta = server.nodes._meta
    for _ in range(10):
        server.time.advance(timedelta(seconds=3))
        server.run(_run_jobs(meta.supervisor, "leases"))
    assert [str(live.state) for live in meta.directory.groups.values()] == ["read_write", "read_write"]


def test_settings_reach_the_nodes() -> None:
    with Server(ServerSettings(retry_delay_seconds=7, consumer_lease_seconds=8, delay_max_days=9)) as server:
        broker, delay = server.nodes._broker, server.nodes._delay
        assert broker is not None
        assert delay is not None
        assert (broker.options.retry_delay_seconds, broker.options.consumer_lease_seconds) == (7, 8)
        assert delay.options.delay_max_days == 9
        # Nothing expires in a test, however far its time moves.
        assert broker.options.retention_hours == delay.options.keep_hours > 24 * 365 * 99


def test_a_half_received_request_survives_a_jump(server: Server) -> None:
    broker = server.nodes._broker
    assert broker is not None
    with socket.create_connection(broker.server.address, timeout=30) as connection:
        connection.sendall(bytes(HEADER_BYTES - 1))

        async def received() -> None:
            await nodes._until(
                lambda: any(connection._unfinished.since is not None for connection in broker.server.connections)
            )

        server.run(received())
        server.time.advance(timedelta(days=1))
        server.run(_run_jobs(broker.supervisor, "connection_deadlines"))
        assert len(broker.server.connections) >= 1
        assert any(connection._unfinished.since is not None for connection in broker.server.connections)


def test_nodes_run_while_the_application_sees_a_frozen_clock(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    before = server.time.now()
    for name in ("time", "monotonic", "time_ns", "monotonic_ns"):
        value = getattr(time, name)()
        monkeypatch.setattr(time, name, lambda value=value: value)
    with pytest.raises(TimeoutError, match="0 of 1 messages"):
        server.wait_for("order.paid", timeout=0.02)
    server.time.advance(timedelta(days=1))
    assert server.time.now() - before > timedelta(days=1)
    assert server.nodes._delay is not None
    assert server.nodes._delay.data.trusted.held is None


def test_advance_waits_for_what_can_not_be_delivered(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "ADVANCE_SECONDS_MAX", 0.05)
    with sync.Producer(server.url) as producer:
        producer.send("order.remind", {"order": 17}, delay=timedelta(hours=1))
    broker = server.nodes._broker
    assert broker is not None
    broker.registration.operator_read_only = Reason("read only: for this test")
    with pytest.raises(TimeoutError, match=r"of subject 'order.remind' is due and not delivered after 0.05 s"):
        server.time.advance(timedelta(hours=1))
    broker.registration.operator_read_only = Reason()
    monkeypatch.undo()
    server.time.advance(timedelta(0))
    assert server.count("order.remind") == 1


def test_answers_are_limited(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "MESSAGES_MAX", 2)
    with sync.Producer(server.url) as producer:
        for number in range(3):
            producer.send("order.paid", {"number": number})
            producer.send("order.remind", {"number": number}, delay=timedelta(hours=number + 1))
            if number == 1:
                assert len(server.messages("order.paid")) == len(server.delayed("order.remind")) == 2
    with pytest.raises(ValueError, match=r"has 3 messages; messages\(\) returns at most 2"):
        server.messages("order.paid")
    with pytest.raises(ValueError, match="more delayed messages than the limit of 2"):
        server.delayed("order.remind")
    assert server.count("order.paid") == 3


@pytest.mark.parametrize("syncs", [False, True])
def test_files_are_synced_on_request_only(monkeypatch: pytest.MonkeyPatch, syncs: bool) -> None:
    synced: list[str] = []
    fdatasync, sync_dir = os.fdatasync, SystemDisk.sync_dir
    monkeypatch.setattr(os, "fdatasync", lambda fd: synced.append("file") or fdatasync(fd))
    monkeypatch.setattr(SystemDisk, "sync_dir", lambda self, path: synced.append("folder") or sync_dir(self, path))
    with Server(ServerSettings(syncs=syncs)) as server:
        with sync.Producer(server.url) as producer:
            producer.send("order.paid", {"order": 17})
            producer.send("order.paid", {"order": 17}, delay=timedelta(hours=1))
        server.stop_broker()
        server.start_broker()
        assert len(server.messages("order.paid")) == 1
    assert set(synced) == ({"file", "folder"} if syncs else set())


async def test_an_interrupted_wait_ends_on_the_server_as_well(server: Server) -> None:
    wait = asyncio.create_task(server.aio.wait_for("order.paid", timeout=3600))
    await server.aio.count("order.paid")
    wait.cancel()
    with pytest.raises(asyncio.CancelledError):
        await wait

    async def others() -> list[str]:
        current = asyncio.current_task()
        names = [task.get_coro().__qualname__ for task in asyncio.all_tasks() if task is not current]  # type: ignore[union-attr]
        return [name for name in names if name.endswith("wait_for")]

    while await server.run_async(others()):
        await server.aio.count("order.paid")


def test_what_still_waits_ends_with_the_thread() -> None:
    with LoopThread("qmq-test-server") as thread:
        with Server(thread=thread) as server:
            waiting = thread.submit(server.nodes.wait_for("order.paid", 1, timeout=3600))
            assert server.count("order.paid") == 0
        assert not waiting.done()
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="has been closed"):
        thread.run(server.aio.count("order.paid"))


async def test_at_most_once_and_broadcast_consumers_survive_a_jump(server: Server) -> None:
    once = Consumer(server.url, "order.paid", "billing", start="earliest", at_most_once=True)
    each = Consumer(server.url, "order.paid", broadcast=True, start="earliest", consumer_id="one")
    async with Producer(server.url) as producer, once, each:
        for number in range(3):
            await producer.send("order.paid", {"number": number})
            await server.time.aio.advance(timedelta(days=100))
            for consumer in (once, each):
                (delivery,) = await consumer.pull(1, timeout=30)
                assert (delivery.properties["number"], delivery.attempt) == (str(number), 1)
                await delivery.ack()
