"""A background task of the client that fails makes its callers fail; nothing hangs."""

import ast
import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qmq import App, Consumer, Delivery, Limits, Producer
from qmq.errors import ClientFailed, ProtocolError, RouteUnknown, SendFailed
from qmq.net.caller import Caller
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, Timeouts
from qmq.protocol.codes import BrokerGroupState, ClientType, Command
from qmq.protocol.commands import BrokerGroupRoute, ClientRegisterResponse
from qmq.protocol.frames import Frame
from qmq.supervisor import JobKind, Supervisor
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually_async

ALLOWED = {
    ("qmq/client/app.py", "run"): "a TaskGroup: it raises what its tasks raise",
    ("qmq/client/app.py", "_serve"): "a TaskGroup, as above",
    ("qmq/client/workers.py", "run"): "a TaskGroup, as above",
    ("qmq/client/delay_groups.py", "_watched"): "the caller waits for it, and gets what it raises",
    ("qmq/client/lifecycle.py", "close_all"): "from another thread, which waits for the result",
    ("qmq_node/server/listener.py", "_accept"): "the nodes' server, not the client",
}
"""Where a task may be made without the supervisor, and why."""


def tasks_made() -> Iterator[tuple[str, str]]:
    """File and function of each call that makes a task."""
    for folder in ("qmq/client", "qmq/net"):
        for path in sorted((PROJECT / folder).rglob("*.py")):
            functions = [
                node
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ]
            for function in functions:
                for node in ast.walk(function):
                    if isinstance(node, ast.Call):
                        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
                        if name in ("create_task", "ensure_future", "run_coroutine_threadsafe"):
                            yield str(path.relative_to(PROJECT)), function.name


def test_no_task_of_the_client_is_made_without_the_supervisor() -> None:
    assert set(tasks_made()) <= set(ALLOWED)


class Injected(Exception):
    """Not one that the code foresees."""


def inject(supervisor: Supervisor, name: str, error: BaseException) -> None:
    """Make what a running task waits for raise."""
    (task,) = (task for task in supervisor._tasks if task.get_name() == name)
    waits_for: asyncio.Future[Any] = task._fut_waiter  # type: ignore[attr-defined]
    assert waits_for is not None
    waits_for.set_exception(error)


async def waits(supervisor: Supervisor, name: str) -> None:
    """Until the task waits for something that can be made to raise."""

    def is_waiting() -> bool:
        return any(
            task.get_name() == name and (waiter := getattr(task, "_fut_waiter", None)) is not None and not waiter.done()
            for task in supervisor._tasks
        )

    await eventually_async(is_waiting, 20, f"{name} waits")


def critical(supervisor: Supervisor) -> list[str]:
    return [job.name for job in supervisor.status() if job.kind is JobKind.CRITICAL]


async def failure(work: Awaitable[object], kind: type[BaseException]) -> BaseException:
    """What it raises."""
    with pytest.raises(kind) as raised:
        await asyncio.wait_for(work, 20)
    return raised.value


async def started_consumer(system: SmallSystem, group: str) -> Consumer:
    """A consumer that pulls its subject and its retry subject."""
    consumer = Consumer(system.meta_url, "orders", group, start="earliest", timeouts=Timeouts(ack=1.0))
    await consumer.start()
    await eventually_async(lambda: len(critical(consumer.supervisor)) == CONSUMER_TASKS, 20, "all tasks run")
    return consumer


CONSUMER_TASKS = 6
"""The session, the routes, and a pull and an ack task for each of the two subjects."""


async def test_each_task_of_a_consumer_that_fails_ends_iteration_and_close(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        first = await started_consumer(system, "names")
        targets = [(False, name) for name in critical(first.supervisor)]
        targets += [(True, name) for name in critical(first._producer.supervisor)]
        await first.close()
        assert len(targets) == CONSUMER_TASKS + 2
        for number, (is_producers, name) in enumerate(targets):
            consumer = await started_consumer(system, f"g{number}")
            name = name.replace("names", f"g{number}")
            supervisor = consumer._producer.supervisor if is_producers else consumer.supervisor
            iteration = asyncio.create_task(anext(aiter(consumer)))  # type: ignore[arg-type]
            pull = asyncio.create_task(consumer.pull(1, timeout=600))
            await asyncio.sleep(0)
            error = Injected(name)
            # Nothing runs between the two: what the task waits for can't end meanwhile.
            await waits(supervisor, name)
            inject(supervisor, name, error)
            for work in (iteration, pull, consumer.pull(1), consumer.close()):
                raised = await failure(work, ClientFailed)
                assert f"{name!r}" in str(raised)
                assert raised.__cause__ is error
            assert not consumer.supervisor._tasks, "close left nothing"


async def test_each_task_of_a_producer_that_fails_ends_sends_and_close(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        async with Producer(system.meta_url) as first:
            names = critical(first.supervisor)
        assert len(names) == 2
        for name in names:
            producer = Producer(system.meta_url, limits=Limits(batches_in_flight=0))  # nothing is on its way
            await producer.start()
            sending = asyncio.create_task(producer.send("orders", "x"))
            soon = producer.send_soon("orders", "x")
            await asyncio.sleep(0)
            await waits(producer.supervisor, name)
            error = Injected(name)
            inject(producer.supervisor, name, error)
            for work in (sending, soon, producer.send("orders", "x")):
                raised = await failure(work, SendFailed)
                assert f"{name!r}" in str(raised)
                assert getattr(raised, "code", "") == "client.failed"
                assert raised.__cause__ is error
            assert (await failure(producer.close(), ClientFailed)).__cause__ is error


async def test_a_send_that_waits_for_its_route_fails_with_the_session() -> None:
    producer = Producer("127.0.0.1:1", timeouts=Timeouts(route=600.0, delivery=600.0))
    await producer.start()
    sending = asyncio.create_task(producer.send("orders", "x"))
    await eventually_async(lambda: any(job.name == "send_batch" for job in producer.supervisor.status()))
    await waits(producer.supervisor, "meta_session")
    error = Injected("lost")
    inject(producer.supervisor, "meta_session", error)
    assert (await failure(sending, SendFailed)).__cause__ is error
    await failure(producer.close(), ClientFailed)


async def test_a_batch_that_fails_unexpectedly_fails_its_messages_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call_soon = Caller.call_soon
    errors: list[Exception] = [Injected("once")]

    def failing(caller: Caller, code: int, *arguments: Any, **options: Any) -> "asyncio.Future[Frame]":
        if code == Command.SEND_MESSAGE and errors:
            raise errors[0]
        return call_soon(caller, code, *arguments, **options)

    monkeypatch.setattr(Caller, "call_soon", failing)
    async with small_system(tmp_path, with_delay=False) as system, Producer(system.meta_url) as producer:
        raised = await failure(producer.send("orders", "x"), SendFailed)
        assert "'send_batch'" in str(raised)
        assert raised.__cause__ is errors.pop()
        await producer.send("orders", "x")


async def test_an_app_whose_consumer_fails_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    consumers: list[Consumer] = []
    start: Callable[[Consumer], Awaitable[None]] = Consumer.start

    async def noted(consumer: Consumer) -> None:
        await start(consumer)
        consumers.append(consumer)

    monkeypatch.setattr(Consumer, "start", noted)
    app = App("127.0.0.1:1")

    @app.consumer("orders", group="a")
    @app.consumer("payments", group="b")
    async def handle(delivery: Delivery) -> None: ...

    running = asyncio.create_task(app.run())
    await eventually_async(lambda: len(consumers) == 2)
    await waits(consumers[0].supervisor, "routes")
    inject(consumers[0].supervisor, "routes", Injected())
    with pytest.RaisesGroup(ClientFailed, flatten_subgroups=True):
        await asyncio.wait_for(running, 20)


def answer(*masters: str) -> Frame:
    routes = tuple(
        BrokerGroupRoute(f"g{number}", master, 0, BrokerGroupState.READ_WRITE) for number, master in enumerate(masters)
    )
    body = ClientRegisterResponse(1, "orders", "g", True, int(ClientType.CONSUMER), routes).encode()
    return Frame(0, 9, 0, 0, 0, memoryview(body), bytearray(body), 0)


async def test_a_route_without_a_usable_address_is_reported_once_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    session = MetaSession(
        ["http://m/meta/address"], app="", client_id="c", timeouts=Timeouts(route=0.0), backoff=DEFAULT_BACKOFF
    )
    session.register("orders", ClientType.CONSUMER, "g")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            session._pushed(answer("h:1", "h:one", "", "h:70000", "nothing", ":5", "h:٣"))
    assert [route.master for route in session.routes("orders", ClientType.CONSUMER)] == ["h:1", ""]
    assert [record.getMessage().count("ignored") for record in caplog.records] == [1] * 5
    assert "'h:one' is not of the form host:port" in caplog.text
    other = MetaSession(
        ["http://m/meta/address"], app="", client_id="c", timeouts=Timeouts(route=0.0), backoff=DEFAULT_BACKOFF
    )
    other.register("orders", ClientType.CONSUMER, "g")
    other._pushed(answer("h:one"))
    with pytest.raises(RouteUnknown, match="h:one"):
        await other.wait_routes("orders", ClientType.CONSUMER, "g")


@pytest.mark.parametrize("address", ["h:one", "h:70000", "h:0", "h", ":1", "", "h:-1"])
async def test_the_pool_refuses_what_is_no_address(address: str) -> None:
    with pytest.raises(ProtocolError, match="not of the form host:port"):
        await Pool(1.0).get(address)


async def test_a_host_name_that_can_not_be_one_is_a_lost_connection() -> None:
    with pytest.raises(Exception, match="can't be reached") as raised:
        await Pool(1.0).get(f"{'x' * 70}.example:1")
    assert getattr(raised.value, "retriable", False)
