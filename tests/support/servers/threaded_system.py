"""A small system of real nodes in a thread with its own loop, for tests of synchronous code that asks them over sockets."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from delay_node.delay_node import DelayNode
from delay_node.options import DelayOptions
from metaserver import queries
from metaserver.services import broker_groups, routes
from metaserver.services.changes import METASERVER
from qmq import Consumer, Producer
from qmq.client.delivery import Delivery
from tests.support.drivers.in_process import SmallSystem, machine, now_ms, serving, small_system
from tests.support.waiting import eventually_async

T = TypeVar("T")
WAIT_SECONDS = 60.0


class ThreadedSystem:
    """What a test does with it; every method waits until it is done."""

    def __init__(self, loop: asyncio.AbstractEventLoop, small: SmallSystem) -> None:
        self._loop = loop
        self.small = small
        self._more_delay: list[DelayNode] = []

    def do(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a coroutine in the system's loop."""

        async def run() -> T:
            return await work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(WAIT_SECONDS)

    @property
    def meta_url(self) -> str:
        return self.small.meta_url

    def save_metadata(self) -> None:
        """What the metaserver knows, into the database: it keeps it in memory here."""
        metadata = self.small.meta.directory.metadata()
        for group in metadata.broker_groups:
            broker_groups.save_group(group, actor=METASERVER, reason="test")
        for node in metadata.nodes:
            broker_groups.save_node(node)
        known = set(queries.routes().values_list("subject__name", flat=True))
        for route in metadata.routes:
            if route.subject not in known:
                routes.save_route(route, actor=METASERVER, reason="test")

    def send(self, subject: str, count: int, first: int = 0, **properties: str) -> list[str]:
        """Send messages one after the other, so that every broker group gets some, each in a millisecond of its own; their ids."""

        async def work() -> list[str]:
            async with Producer(self.meta_url, app="test") as producer:
                ids = []
                for number in range(first, first + count):
                    body = {"n": number, **properties}
                    tags = ["odd" if number % 2 else "even"]
                    receipt = await producer.send(subject, body, message_id=f"m{number}", tags=tags)
                    ids.append(receipt.message_id)
                    moment = now_ms()
                    while now_ms() <= moment:  # noqa: ASYNC110 - nothing signals the next millisecond
                        await asyncio.sleep(0)
                return ids

        ids = self.do(work)
        self.save_metadata()
        return ids

    def consume(
        self,
        subject: str,
        group: str,
        count: int,
        *,
        settle: str = "ack",
        cause: str = "",
        at_once: bool = False,
        **options: Any,
    ) -> list[Delivery]:
        """Take messages from the beginning as one consumer, and "ack", "retry" or leave ("") them; fails when fewer come.

        Args:
            cause: why they are retried.
            at_once: settle each when it comes, so that further attempts count; else when all have come.
        """

        async def settled(deliveries: list[Delivery]) -> None:
            for delivery in deliveries:
                await (delivery.ack() if settle == "ack" else delivery.retry(cause=cause))

        async def work() -> list[Delivery]:
            got: list[Delivery] = []
            async with Consumer(self.meta_url, subject, group, start="earliest", **options) as consumer:
                while len(got) < count:
                    deliveries = await consumer.pull(count - len(got), timeout=10)
                    assert deliveries, f"{len(got)} of {count} messages came"
                    got += deliveries
                    if settle and at_once:
                        await settled(deliveries)
                if settle and not at_once:
                    await settled(got)
                return got

        return self.do(work)

    def make_dead(self, subject: str, group: str, count: int, cause: str = "") -> None:
        """Let a group give up messages, as its consumers do."""
        self.consume(subject, group, count, settle="retry", cause=cause, attempts_max=1)

    def stop_broker(self, group: str) -> None:
        self.do(self.small.brokers[group].close)

    def start_second_delay_group(self) -> DelayNode:
        """Delay group d2; stopped with the system."""

        async def work() -> DelayNode:
            options = DelayOptions(
                broker_group="d2", data_dir=str(self.small.folder / "d2"), port=0, admin_port=0, meta=self.meta_url,
                segment_bytes=16 << 20, stop_seconds=1.0,
            )  # fmt: skip
            disk = self.small.checked_disk()
            disk.node = node = DelayNode(options, machine(disk=disk))
            self._more_delay.append(node)
            await node.start()
            await eventually_async(lambda: "d2" in serving(self.small.meta), what="d2 is read_write")
            return node

        node = self.do(work)
        self.save_metadata()
        return node

    async def close(self) -> None:
        """Stop what was started beside the small system."""
        for node in self._more_delay:
            await node.close()


@contextmanager
def threaded_system(folder: Path, **settings: Any) -> Iterator[ThreadedSystem]:
    """A running system; `settings` as for `small_system`."""
    loop = asyncio.new_event_loop()
    started: asyncio.Future[ThreadedSystem] = asyncio.Future(loop=loop)
    stop = asyncio.Event()

    async def serve() -> None:
        try:
            async with small_system(folder, **settings) as small:
                system = ThreadedSystem(loop, small)
                started.set_result(system)
                await stop.wait()
                await system.close()
        except BaseException as error:
            if not started.done():
                started.set_exception(error)
            raise

    async def wait_started() -> ThreadedSystem:
        return await started

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="system")
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(wait_started(), loop).result(WAIT_SECONDS)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_SECONDS)
        loop.close()
        assert not thread.is_alive(), "the system did not stop"
