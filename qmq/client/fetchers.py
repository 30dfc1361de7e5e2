"""All fetchers of one consumer: class Fetchers."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from qmq.client.delivery import Delivery, Pulled
from qmq.client.fetcher import Fetcher
from qmq.client.middleware import MiddlewareChain
from qmq.client.ready_queue import ReadyQueue
from qmq.client.source import Link, PullContext, Source, Subscription
from qmq.errors import ProtocolError
from qmq.net.routing import READABLE, usable
from qmq.net.session import MetaSession
from qmq.protocol.codes import ClientType
from qmq.protocol.messages import KEY_ATTEMPT, KEY_GROUP
from qmq.protocol.raw import decode_properties
from qmq.protocol.values import whole_number

ROUTE_CHECK_SECONDS = 1.0
"""How often routes are checked without a message of the metaserver, and whether a consumer that is offline may pull again."""


@dataclass(eq=False, repr=False)
class Fetchers:
    """Keeps a fetcher for each source and readable broker group, and queues what they pull."""

    _context: PullContext
    _middleware: MiddlewareChain | None
    _subscription: Subscription
    _session: MetaSession
    _ready: ReadyQueue
    _sources: list[Source] = field(default_factory=list, init=False)
    _fetchers: dict[tuple[str, str], Fetcher] = field(default_factory=dict, init=False)
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    resumed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set unless the consumer is paused."""
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _is_stopping: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._session.on_change = lambda *_: self._changed.set()
        self.resumed.set()

    def start(self, sources: list[Source]) -> None:
        self._sources = sources
        for source in sources:
            self._session.register(source.subject, ClientType.CONSUMER, source.group)
        self._task = self._context.supervisor.critical("routes", self._follow_routes())

    def forked(self) -> None:
        """This is a child of the consumer's process."""
        for fetcher in self._fetchers.values():
            fetcher.forked()

    async def stop_pulling(self) -> None:
        """Stop pulling. Acknowledgements are sent until `stop`, to other masters too when broker groups get them."""
        self._is_stopping = True
        await asyncio.gather(*(fetcher.stop_pulling() for fetcher in self._fetchers.values()))

    async def stop(self, deadline: float) -> list[list[str] | BaseException]:
        """Stop all fetchers until a loop time; for each, the IDs of messages that are not settled, or an error."""
        if self._task is not None:
            await self._context.supervisor.cancel(self._task)
        # The subject before its retry subject: what a broker moves there must not answer a pull of this consumer that still waits
        # there, because only leaving the retry subject afterwards returns such messages before the consumer's lease ends.
        ends: list[list[str] | BaseException] = []
        for source in self._sources:
            stops = [fetcher.stop(deadline) for fetcher in self._fetchers.values() if fetcher.link.source is source]
            ends += await asyncio.gather(*stops, return_exceptions=True)
        return ends

    async def _follow_routes(self) -> None:
        """Keep one fetcher per subject and readable broker group."""
        while True:
            self._changed.clear()
            for source in self._sources:
                for route in usable(self._session.routes(source.subject, ClientType.CONSUMER), READABLE):
                    key = (source.subject, route.name)
                    fetcher = self._fetchers.get(key)
                    if fetcher is None and not self._is_stopping:
                        failed = partial(self._session.refresh, source.subject, ClientType.CONSUMER)
                        link = Link(source, route, self._context, failed)
                        self._fetchers[key] = Fetcher(link, self._may_pull, self._deliver)
                    elif fetcher is not None and fetcher.link.route.master != route.master:
                        former = fetcher.link.route.master
                        fetcher.move(route)
                        self._context.pool.disconnect(former)
            with suppress(TimeoutError):
                async with asyncio.timeout(ROUTE_CHECK_SECONDS):
                    await self._changed.wait()

    async def _may_pull(self, source: str, messages: int) -> int:
        while True:
            await self.resumed.wait()
            room = await self._ready.prefetch.room(source, messages)
            if self._session.is_online(self._subscription.subject, self._context.owner.group):
                return room
            await asyncio.sleep(ROUTE_CHECK_SECONDS)

    def _deliver(self, pulled: Pulled, head_bytes: list[int], may_have_attempts: bool) -> None:
        raws = pulled.raws
        if may_have_attempts:
            for index, raw in enumerate(raws):
                assert raw is not None
                if not self._is_wanted(raw, head_bytes[index]):
                    pulled.skip(index)
        deliveries = [
            Delivery(pulled, index, raw, head)
            for index, (raw, head) in enumerate(zip(raws, head_bytes, strict=True))
            if raw is not None
        ]
        if len(deliveries) < len(raws) and not self._context.ack_first:
            pulled.on_settled()
        if not deliveries:
            return
        self._ready.prefetch.add(len(deliveries), sum(len(raw) for raw in raws if raw is not None))
        self._ready.add(deliveries)
        if self._middleware is not None:
            for delivery in deliveries:
                self._middleware.after_receive(delivery)

    def _is_wanted(self, raw: bytes, head_bytes: int) -> bool:
        try:
            properties = decode_properties(raw, head_bytes, len(raw))
        except ProtocolError:
            return True  # the handler gets this error when it reads the message
        group = properties.get(KEY_GROUP, "")
        # A dead letter names the group whose attempts it exhausted; a consumer of the dead-letter subject must receive it.
        if group and group != self._context.owner.group and self._subscription.kind != "dead":
            return False
        return not (self._context.ack_first and whole_number(properties.get(KEY_ATTEMPT), 1) > 1)
