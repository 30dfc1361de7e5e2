"""Consumer: iterate, pull, ack, retry, pause, close."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from qmq.client.config import (
    DEFAULT_BACKOFF,
    DEFAULT_LIMITS,
    DEFAULT_TIMEOUTS,
    Backoff,
    Limits,
    Timeouts,
)
from qmq.client.fetcher import Fetched, Fetcher, Source, start_request
from qmq.client.identity import ConsumerSlot, claim_slot
from qmq.client.message import Delivery
from qmq.client.pool import Pool
from qmq.client.producer import Producer, client_failed
from qmq.client.reach import reach
from qmq.client.routing import READABLE, usable
from qmq.client.session import MetaSession
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import ClientClosed, ClientFailed, IllegalName, LocalProtocolError, SendFailed
from qmq.net.discovery import meta_url
from qmq.protocol.codes import ClientType, TagType
from qmq.protocol.commands import BrokerGroupRoute, TagFilter
from qmq.protocol.messages import (
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_GROUP,
    KEY_MAX_RETRY,
    KEY_PULL_OFFSET,
    KEY_RETRY_CAUSE,
    Message,
)
from qmq.protocol.names import (
    GROUP_CHARS_MAX,
    TAGS_MAX,
    characters,
    check_group,
    check_subject,
    dead_letter_subject,
    retry_subject,
    split_subject,
)
from qmq.supervisor import Supervisor

if TYPE_CHECKING:
    from typing import Self

ATTEMPTS_MAX = 32
"""Attempts before a message becomes a dead letter, as in QMQ."""
ROUTE_CHECK_SECONDS = 1.0

Start = Literal["earliest", "latest"] | datetime | int

logger = logging.getLogger("qmq.client")


class Consumer:
    """Receives a subject's messages for a consumer group. Use it as `async with`, or call `start` and `close`.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page.
        start: where a new group starts: "latest", "earliest", a time with a time zone, or a consume
            sequence. None: the broker's default, the end. Brokers of the official server support no other start:
            with them, any start but "latest" and None fails the first pull.
        tags: only messages with one (`tag_mode` "or") or all ("and") of these.
        broadcast: receive every message; the consumer is a group of its own.
        at_most_once: acknowledge each pulled batch and deliver it only after the broker has confirmed that. No
            message is delivered twice; messages pulled and not processed yet are lost when the consumer ends, also by `close`.
            The brokers' consumer lease must be longer than a minute, as it is by default.
        attempts_max: attempts before a message becomes a dead letter, unless the message sets its own limit.
        consumer_id: must be stable across restarts and unique among running consumers. None: `start` chooses the
            lowest ID of this program, subject and group that no other consumer on this host uses (`qmq.client.identity`);
            the attribute is "" until then. Set it if several containers share a host name.
    """

    def __init__(
        self,
        url: str,
        subject: str,
        group: str = "",
        *,
        app: str = "",
        consumer_id: str | None = None,
        start: Start | None = None,
        tags: Sequence[str] = (),
        tag_mode: Literal["or", "and"] = "or",
        broadcast: bool = False,
        at_most_once: bool = False,
        attempts_max: int = ATTEMPTS_MAX,
        limits: Limits = DEFAULT_LIMITS,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        backoff: Backoff = DEFAULT_BACKOFF,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        check_subject(subject)
        if not broadcast and (characters(group) > GROUP_CHARS_MAX or "%" in group or "@" in group):
            raise IllegalName(
                f"consumer group {group[:60]!r}: at most {GROUP_CHARS_MAX} characters, without % and @",
                code="group.name_illegal",
            )
        if not broadcast or consumer_id:
            check_group(consumer_id or "" if broadcast else group)
        if len(tags) > TAGS_MAX:
            raise LocalProtocolError(f"{len(tags)} tags, the limit is {TAGS_MAX}")
        self.subject = subject
        self.consumer_id = consumer_id or ""
        self.group = self.consumer_id if broadcast else group
        self._app = app
        self._start_place = None if start is None else _start_place(start)
        self._filters = (TagFilter(TagType.AND if tag_mode == "and" else TagType.OR, tuple(tags)),) if tags else ()
        self._broadcast = broadcast
        self._at_most_once = at_most_once
        self._attempts_max = attempts_max
        self._limits = limits
        self._timeouts = timeouts
        self._backoff = backoff
        self._clock = clock
        self._slot: ConsumerSlot | None = None
        self.supervisor = Supervisor(clock, logger=logger, on_failure=self._task_failed)
        """Runs the background tasks."""
        self._failure: BaseException | None = None
        self._session = MetaSession(
            meta_url(url), app=app, client_id=self.consumer_id, timeouts=timeouts, backoff=backoff
        )
        self._changed = asyncio.Event()
        self._session.on_change = lambda *_: self._changed.set()
        self._producer = Producer(
            url, app=app, linger=0.0, limits=limits, timeouts=timeouts, backoff=backoff, clock=clock
        )
        self._producer.on_failure = self._task_failed
        self._pool = Pool(timeouts.connect, limits.answer_bytes)
        self._sources: list[Source] = []
        self._fetchers: dict[tuple[str, str], Fetcher] = {}
        self._ready: deque[Delivery] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._held = 0
        self._task: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closing = False

    def _make_sources(self) -> list[Source]:
        names = [self.subject]
        if split_subject(self.subject).kind == "real":
            names.append(retry_subject(self.subject, self.group))
        sources = [Source(name, self.group, self.consumer_id, self._broadcast, self._filters) for name in names]
        if self._start_place is None:
            return sources
        place, value = self._start_place
        # Without a place, a group begins at the end by itself: that start needs no help of the broker.
        real = start_request(sources[0], place, value, is_required=place != "latest")
        return [real, *(start_request(s, "earliest", 0, is_required=False) for s in sources[1:])]

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start pulling."""
        if self._is_open:
            return
        self._is_open = True
        if not self.consumer_id:
            scope = "" if self._broadcast else self.group
            self._slot = await asyncio.to_thread(claim_slot, self._app, self.subject, scope)
            if self._is_closing:  # closed meanwhile
                self._slot.release()
                return
            self.consumer_id = self._session.client_id = self._slot.consumer_id
            if self._broadcast:
                self.group = self.consumer_id
        self._sources = self._make_sources()
        self._session.start(self.supervisor)
        await self._producer.start()
        for source in self._sources:
            self._session.register(source.subject, ClientType.CONSUMER, self.group)
        self._task = self.supervisor.critical("routes", self._follow_routes())

    def _task_failed(self, name: str, error: BaseException) -> None:
        self._failure = self._failure or error
        self._arrived.set()

    async def __aenter__(self) -> "Self":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ClientFailed:
            # The block's own exception says more, and may be this failure.
            if error is None:
                raise

    async def close(self) -> None:
        """Stop pulling, send pending acknowledgements, return unprocessed messages to the group, and close.

        Unprocessed messages are delivered to the group again after the brokers' retry delay (5 s), as the same attempt; with
        `at_most_once` they are lost. If the broker does not support that (the official server), this consumer sends them to the
        group's retry subject and acknowledges them.

        Raises:
            ClientFailed: a background task has failed; the consumer is closed nevertheless.
        """
        if not self._is_open or self._is_closing:
            return
        self._is_closing = True
        self._arrived.set()
        if self._at_most_once and self._ready:
            logger.warning(
                "%s, group %s: %d messages were acked and not handled; at most once they are lost",
                self.subject, self.group, len(self._ready),
            )  # fmt: skip
        # The broker delivers them to other consumers: an iterator that continues must not yield them as well.
        self._ready.clear()
        if self._task is not None:
            await self.supervisor.cancel(self._task)
        stops = [fetcher.stop(leave=True) for fetcher in self._fetchers.values()]
        ends = await asyncio.gather(*stops, return_exceptions=True)
        # Handlers that still run, and fetchers that hand back, may send messages until here.
        producer_ends = await asyncio.gather(self._producer.close(), return_exceptions=True)
        await self._session.close()
        await self.supervisor.close()
        await self._pool.close()
        if self._slot is not None:
            self._slot.release()
        if self._failure is not None:
            raise client_failed("consumer", self._failure)
        for end in (*ends, *producer_ends):
            if isinstance(end, BaseException):
                raise end

    async def wait_connected(self, timeout: float) -> None:
        """Wait until a broker that serves the subject accepts a connection.

        Args:
            timeout: seconds.

        Raises:
            RouteUnknown: none did in time; the message says why.
        """
        await reach(
            self._session, self._pool, self.subject, ClientType.CONSUMER, self.group, READABLE,
            seconds=timeout, backoff=self._backoff,
        )  # fmt: skip

    def pause(self) -> None:
        """Stop pulling until `resume`. Messages that were already pulled are still delivered."""
        self._resumed.clear()

    def resume(self) -> None:
        """Continue pulling."""
        self._resumed.set()

    # --- receiving -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Delivery]:
        while (delivery := await self._next(None)) is not None:
            yield delivery

    async def pull(self, messages_max: int = 1, timeout: float = 1.0) -> list[Delivery]:
        """Return up to `messages_max` deliveries. Waits up to `timeout` seconds for the first one, and not for the others.

        Raises:
            ClientClosed: the consumer is not started or already closed.
            ClientFailed: a background task failed; the message names it.
        """
        if not self._is_open or self._is_closing:
            raise ClientClosed("the consumer is not started or already closed")
        first = await self._next(timeout)
        if first is None:
            return []
        deliveries = [first]
        while self._ready and len(deliveries) < messages_max:
            deliveries.append(self._ready.popleft())
        return deliveries

    async def _next(self, timeout: float | None) -> Delivery | None:
        """The next delivery; None when the time is up or the consumer is closing.

        Raises:
            ClientFailed: a background task failed.
        """
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while self._failure is not None or not self._ready:
            if self._failure is not None:
                raise client_failed("consumer", self._failure)
            if self._is_closing:
                return None
            self._arrived.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        return self._ready.popleft()

    # --- inside ----------------------------------------------------------------------------------------------------

    async def _follow_routes(self) -> None:
        """Keep one fetcher per subject and readable broker group."""
        while True:
            self._changed.clear()
            for source in self._sources:
                routes = self._session.routes(source.subject, ClientType.CONSUMER)
                for route in usable(routes, READABLE):
                    key = (source.subject, route.name)
                    fetcher = self._fetchers.get(key)
                    if fetcher is None:
                        fetcher = self._fetchers[key] = self._make_fetcher(source, route)
                        fetcher.start()
                    elif fetcher.route.master != route.master:
                        fetcher.moved(route)
            try:
                async with asyncio.timeout(ROUTE_CHECK_SECONDS):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _make_fetcher(self, source: Source, route: BrokerGroupRoute) -> Fetcher:
        return Fetcher(
            source,
            route,
            self._pool,
            limits=self._limits,
            timeouts=self._timeouts,
            backoff=self._backoff,
            may_pull=self._may_pull,
            deliver=self._deliver,
            send=self._producer.send_message,
            on_trouble=lambda: self._session.refresh(source.subject, ClientType.CONSUMER),
            supervisor=self.supervisor,
            clock=self._clock,
            ack_first=self._at_most_once,
        )

    async def _may_pull(self) -> int:
        while True:
            await self._resumed.wait()
            await self._room.wait()
            if not self._session.is_online(self.subject, self.group):
                await asyncio.sleep(ROUTE_CHECK_SECONDS)
                continue
            return max(1, self._limits.prefetch_messages - self._held)

    def _deliver(self, fetcher: Fetcher, fetched: Fetched) -> None:
        message = fetched.message
        wanted = message.properties.get(KEY_GROUP, "")
        attempt = _whole(message.properties.get(KEY_ATTEMPT), 1)
        # A dead letter names the group that gave it up; whoever reads the dead-letter subject is meant to get it.
        is_anothers = bool(wanted) and wanted != self.group and split_subject(self.subject).kind != "dead"
        if is_anothers or (self._at_most_once and attempt > 1):
            self._done(fetcher, fetched.pull_sequence)
            return
        if message.subject != self.subject and split_subject(self.subject).kind == "real":
            # A message that comes by way of the retry subject may name that one.
            message = Message(
                self.subject,
                message.message_id,
                message.properties,
                message.tags,
                message.flag,
                message.created_at_ms,
                message.time_ms,
            )
        delivery = Delivery(
            message,
            self.group,
            fetcher.route.name,
            fetched.pull_sequence,
            fetched.received_at_ms,
            lambda settled, is_done, cause: self._settle(fetcher, settled, is_done, cause),
        )
        self._hold(1)
        self._ready.append(delivery)
        self._arrived.set()

    def _done(self, fetcher: Fetcher, pull_sequence: int) -> None:
        if not self._at_most_once:  # else it was acked before it was delivered
            fetcher.done(pull_sequence)

    def _hold(self, change: int) -> None:
        self._held += change
        if self._held >= self._limits.prefetch_messages:
            self._room.clear()
        elif self._held <= self._limits.prefetch_messages // 2:
            self._room.set()

    async def _settle(self, fetcher: Fetcher, delivery: Delivery, is_done: bool, cause: str) -> None:
        # A delivery that could not be sent back stays held and unsettled: nothing behind it is lost, and the prefetch
        # limit stops the consumer from taking ever more.
        if not is_done and not self._at_most_once:
            await self._send_back(delivery, cause)
        self._done(fetcher, delivery.pull_sequence)
        self._hold(-1)

    async def _send_back(self, delivery: Delivery, cause: str) -> None:
        """Store the next attempt, or the dead letter; only then is this one acked."""
        old = delivery.message
        attempts_max = _whole(old.properties.get(KEY_MAX_RETRY), self._attempts_max)
        if attempts_max < 0:
            attempts_max = self._attempts_max
        attempt = delivery.attempt + 1
        target = retry_subject if attempt <= attempts_max else dead_letter_subject
        now_ms = self._clock.wall_ms()
        properties = {
            **old.properties,
            KEY_ATTEMPT: str(attempt),
            KEY_CREATED: str(now_ms),
            KEY_GROUP: self.group,
            KEY_MAX_RETRY: str(attempts_max),
            KEY_PULL_OFFSET: str(delivery.pull_sequence),
            KEY_RETRY_CAUSE: cause,
        }
        if not cause:
            # The one before had a cause perhaps: it is not this one's.
            del properties[KEY_RETRY_CAUSE]
        subject = target(self.subject, self.group)
        message = Message(subject, old.message_id, properties, old.tags, 0, now_ms, now_ms)
        failures = 0
        while True:
            try:
                await self._producer.send_message(message)
                return
            except SendFailed as error:
                if not error.retriable or self._is_closing:
                    raise
                failures += 1
                logger.warning("message %s could not be sent back yet: %s", old.message_id, error)
            await asyncio.sleep(self._backoff.pause(failures))


def _whole(text: str | None, default: int) -> int:
    try:
        return int(text) if text else default
    except ValueError:
        return default


def _start_place(start: Start) -> tuple[str, int]:
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise LocalProtocolError(f"start={start!r} has no time zone; use an aware datetime")
        return "time", int(start.timestamp() * 1000)
    if isinstance(start, int):
        return "sequence", start
    return start, 0
