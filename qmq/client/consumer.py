"""Consumer: iterate, pull, receive batches, run a handler, retry, pause, close."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from qmq.client.batch import Batch
from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.delivery import Delivery, Pulled
from qmq.client.fetcher import Fetcher, Source, start_request
from qmq.client.handlers import THREAD_NAME, Handler, Invoke, invoker, is_coroutine_handler
from qmq.client.identity import ConsumerSlot, claim_slot
from qmq.client.middleware import Middleware, MiddlewareChain
from qmq.client.prefetch import Prefetch
from qmq.client.producer import Producer, client_failed
from qmq.client.reach import reach
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import (
    ClientClosed,
    ClientFailed,
    DeliveryAlreadySettled,
    IllegalName,
    LocalProtocolError,
    ProtocolError,
    QmqError,
    SendFailed,
)
from qmq.net.discovery import meta_url
from qmq.net.pool import Pool
from qmq.net.routing import READABLE, usable
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS, Backoff, Timeouts
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
from qmq.protocol.raw import decode_properties
from qmq.supervisor import Supervisor

if TYPE_CHECKING:
    from typing import Self

ATTEMPTS_MAX = 32
"""Attempts before a message becomes a dead letter, as in QMQ."""
CONCURRENCY_MAX = 10_000
"""Handlers of one consumer that can run at the same time."""
ROUTE_CHECK_SECONDS = 1.0
CANCELLED_SECONDS = 1.0
"""At most so long, `close` waits for handlers that it has cancelled."""

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
        middleware: hooks around what happens to deliveries, see `qmq.client.middleware`.
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
        middleware: Sequence[Middleware] = (),
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
        self._kind = split_subject(subject).kind
        # A message of the retry subject may name that one.
        self.delivered_subject = subject if self._kind == "real" else None
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
        self.middleware = MiddlewareChain(middleware, self.supervisor) if middleware else None
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
        self._prefetch = Prefetch(limits, self._ready)
        self._waiters: deque[asyncio.Future[None]] = deque()
        """Of those who wait for a delivery: each is woken for one."""
        self._workers: dict[asyncio.Task[None], Delivery | None] = {}
        """The tasks of `run`, with what each processes."""
        self._resumed = asyncio.Event()
        self._resumed.set()
        self._task: asyncio.Task[None] | None = None
        self._is_open = False
        self._is_closing = False

    def _make_sources(self) -> list[Source]:
        names = [self.subject]
        if self._kind == "real":
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
        self._wake(len(self._waiters))

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

    async def close(self, timeout: float | None = None) -> list[str]:
        """Stop pulling, let handlers of `run` finish, send pending acknowledgements, return unprocessed messages to the group,
        and close.

        Unprocessed messages are delivered to the group again after the brokers' retry delay (5 s), as the same attempt; with
        `at_most_once` they are lost. If the broker does not support that (the official server), this consumer sends them to the
        group's retry subject and acknowledges them.

        Args:
            timeout: seconds after which it returns at the latest, also if brokers do not respond. Handlers that still run after
                half of it are cancelled; one that runs in a thread continues, and its outcome is ignored. None: twice
                `Timeouts.ack`.

        Returns:
            IDs of the messages that were pulled and neither acknowledged nor retried. The brokers deliver them again, and also
            messages whose acknowledgement could not be stored, which is logged.

        Raises:
            ClientFailed: a background task has failed; the consumer is closed nevertheless.
        """
        if not self._is_open or self._is_closing:
            return []
        self._is_closing = True
        loop = asyncio.get_running_loop()
        seconds = 2 * self._timeouts.ack if timeout is None else timeout
        deadline = loop.time() + seconds
        self._wake(len(self._waiters))
        if self._at_most_once and self._ready:
            logger.warning(
                "%s, group %s: %d messages were acked and not handled; at most once they are lost",
                self.subject, self.group, len(self._ready),
            )  # fmt: skip
        # The broker delivers them to other consumers: an iterator that continues must not yield them as well.
        self._ready.clear()
        if self._task is not None:
            await self.supervisor.cancel(self._task)
        fetchers = list(self._fetchers.values())
        await asyncio.gather(*(fetcher.stop_pulling() for fetcher in fetchers))
        await self._stop_workers(loop.time() + seconds / 2, deadline)
        # The subject before its retry subject: what a broker moves there must not answer a pull of this consumer that still waits
        # there, because only leaving the retry subject afterwards returns such messages before the consumer's lease ends.
        ends: list[list[str] | BaseException] = []
        for source in self._sources:
            stops = [fetcher.stop(deadline) for fetcher in fetchers if fetcher.source is source]
            ends += await asyncio.gather(*stops, return_exceptions=True)
        # Handlers that still run, and fetchers that hand back, may send messages until here.
        producer_ends = await asyncio.gather(
            self._producer.close(max(0.0, deadline - loop.time())), return_exceptions=True
        )
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
        unsettled = [message_id for end in ends if isinstance(end, list) for message_id in end]
        if unsettled:
            logger.info("%s, group %s: closed with %d messages unprocessed", self.subject, self.group, len(unsettled))
        return unsettled

    async def _stop_workers(self, until: float, deadline: float) -> None:
        """Let handlers finish until a loop time, then cancel them and wait until another one at the latest."""
        loop = asyncio.get_running_loop()
        # A handler may close the consumer.
        tasks = [task for task in self._workers if task is not asyncio.current_task()]
        if not tasks:
            return
        _, running = await asyncio.wait(tasks, timeout=max(0.0, until - loop.time()))
        for task in running:
            task.cancel()
        if running:
            ids = [delivery.message_id for task in running if (delivery := self._workers.get(task)) is not None]
            logger.warning(
                "%s, group %s: %d handlers did not finish before the consumer closed and were cancelled: %s",
                self.subject, self.group, len(running), ", ".join(ids[:10]),
            )  # fmt: skip
            await asyncio.wait(running, timeout=max(0.0, min(CANCELLED_SECONDS, deadline - loop.time())))

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

    def _check_open(self) -> None:
        if not self._is_open or self._is_closing:
            raise ClientClosed("the consumer is not started or already closed")

    # --- receiving -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[Delivery]:
        ready = self._ready
        while True:
            while ready and self._failure is None:
                yield ready.popleft()
            delivery = await self._next(None)
            if delivery is None:
                return
            yield delivery

    def batches(self, max_messages: int = 500, max_seconds: float = 0.1) -> AsyncIterator[Batch]:
        """Receive deliveries in batches, until the consumer is closed.

        A batch has at least one delivery. It ends when it has `max_messages`, or `max_seconds` after its first delivery. One loop
        over a batch and one `Batch.ack` cost much less than as many single acknowledgements.

        Raises:
            LocalProtocolError: an argument is out of range.
            ClientFailed: while iterating: a background task failed; the message names it.
        """
        if max_messages < 1:
            raise LocalProtocolError(f"max_messages={max_messages}: must be at least 1")
        if not max_seconds >= 0:
            raise LocalProtocolError(f"max_seconds={max_seconds}: must be at least 0")
        return self._iterate_batches(max_messages, max_seconds)

    async def _iterate_batches(self, messages_max: int, seconds_max: float) -> AsyncIterator[Batch]:
        ready = self._ready
        while True:
            first = await self._next(None)
            if first is None:
                return
            deliveries = [first]
            deadline = asyncio.get_running_loop().time() + seconds_max
            try:
                while True:
                    count = min(messages_max - len(deliveries), len(ready))
                    if count == len(ready):
                        deliveries += ready
                        ready.clear()
                    else:
                        deliveries += [ready.popleft() for _ in range(count)]
                    if len(deliveries) >= messages_max:
                        break
                    following = await self._next_until(deadline)
                    if following is None:
                        break
                    deliveries.append(following)
            except BaseException:
                # The application has not received them: they go back to the front of the queue.
                if not self._is_closing:
                    ready.extendleft(reversed(deliveries))
                raise
            if self._is_closing:
                return
            yield Batch(deliveries)

    async def pull(self, messages_max: int = 1, timeout: float = 1.0) -> list[Delivery]:
        """Return up to `messages_max` deliveries. Waits up to `timeout` seconds for the first one, and not for the others.

        Raises:
            ClientClosed: the consumer is not started or already closed.
            ClientFailed: a background task failed; the message names it.
        """
        self._check_open()
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
        if self._ready and self._failure is None:
            return self._ready.popleft()
        return await self._next_until(None if timeout is None else asyncio.get_running_loop().time() + timeout)

    async def _next_until(self, deadline: float | None) -> Delivery | None:
        """As `_next`, with a loop time."""
        while self._failure is not None or not self._ready:
            if self._failure is not None:
                raise client_failed("consumer", self._failure)
            if self._is_closing:
                return None
            self._prefetch.wake()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                async with asyncio.timeout_at(deadline):
                    await waiter
            except TimeoutError:
                return self._ready.popleft() if self._ready and self._failure is None else None
            except BaseException:
                # It was woken for a delivery that it does not take.
                if waiter.done() and not waiter.cancelled() and self._ready:
                    self._wake(1)
                raise
            finally:
                if not waiter.done() or waiter.cancelled():
                    with suppress(ValueError):
                        self._waiters.remove(waiter)
        return self._ready.popleft()

    def _wake(self, count: int) -> None:
        """Wake as many of those who wait for a delivery."""
        waiters = self._waiters
        while count > 0 and waiters:
            waiter = waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                count -= 1

    # --- processing ------------------------------------------------------------------------------------------------

    async def run(self, handler: Handler, *, concurrency: int = 1) -> None:
        """Process messages with a handler until the consumer is closed.

        A message is acknowledged when the handler returns, and retried when it raises, with the class of the exception as cause. A
        handler that acknowledges or retries the delivery itself is left to it.

        Args:
            handler: `async def`, or `def`, which runs in a thread. Its first parameter gets the delivery. If that is annotated
                with another type than `Delivery`, it gets the body decoded as this type (`Delivery.decode`), and a second
                parameter gets the delivery. A body that can't be decoded is retried with the cause "BodyUndecodable".
            concurrency: handlers that run at the same time, and threads for a `def`.

        Raises:
            LocalProtocolError: the handler or the concurrency is invalid.
            ClientClosed: the consumer is not started or already closed.
            ClientFailed: a background task failed; the message names it.
        """
        if not 1 <= concurrency <= CONCURRENCY_MAX:
            raise LocalProtocolError(f"concurrency={concurrency}: must be 1 to {CONCURRENCY_MAX}")
        threads = None if is_coroutine_handler(handler) else ThreadPoolExecutor(concurrency, THREAD_NAME)
        invoke = invoker(handler, threads)
        self._check_open()
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(concurrency):
                    task = tasks.create_task(self._work(invoke, is_in_thread=threads is not None))
                    self._workers[task] = None
                    task.add_done_callback(lambda ended: self._workers.pop(ended, None))
        finally:
            if threads is not None:
                # A handler that hangs must not hang this coroutine.
                threads.shutdown(wait=False, cancel_futures=True)
        if self._failure is not None:
            raise client_failed("consumer", self._failure)

    async def _work(self, invoke: Invoke, *, is_in_thread: bool) -> None:
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                delivery = await self._next(None)
            except ClientFailed:
                return  # run raises it
            if delivery is None:
                return
            self._workers[task] = delivery
            try:
                await self._process(invoke, delivery)
            except asyncio.CancelledError:
                # `run` was cancelled, and others may receive from this consumer. A thread continues with its delivery.
                if not (self._is_closing or self._at_most_once or is_in_thread or delivery.is_settled):
                    self._ready.appendleft(delivery)
                    self._wake(1)
                raise
            self._workers[task] = None

    async def _process(self, invoke: Invoke, delivery: Delivery) -> None:
        """Call the handler with a delivery, and settle it."""
        error: BaseException | None = None
        if self.middleware is not None:
            self.middleware.before_process(delivery)
        try:
            await invoke(delivery)
        except Exception as raised:  # noqa: BLE001 - logged, and the message is retried
            error = raised
        except asyncio.CancelledError as raised:
            error = raised
            if _is_cancelled():
                raise
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self.middleware is not None:
                self.middleware.after_process(delivery, error)
        if error is not None:
            logger.error(
                "handling message %s failed, %s", delivery.message_id, self._what_follows(delivery), exc_info=error
            )
        try:
            if delivery.is_settled:
                return
            if error is None:
                await delivery.ack()
            else:
                await delivery.retry(cause=type(error).__name__)
        except DeliveryAlreadySettled:
            pass  # by the handler's own task, meanwhile
        except QmqError as failure:
            logger.error("message %s could not be retried, it comes again: %s", delivery.message_id, failure)

    def _what_follows(self, delivery: Delivery) -> str:
        """What happens to a message whose handler raised, for the log."""
        if delivery.is_settled:
            return "it was settled before"
        if self._at_most_once:
            return "it is lost, at most once"
        return "it becomes a dead letter" if self._next_attempt(delivery)[2] else "it is retried"

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
            owner=self,
            prefetch=self._prefetch,
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

    async def _may_pull(self, source: str, messages: int) -> int:
        while True:
            await self._resumed.wait()
            room = await self._prefetch.room(source, messages)
            if self._session.is_online(self.subject, self.group):
                return room
            await asyncio.sleep(ROUTE_CHECK_SECONDS)

    def _deliver(self, pulled: Pulled, head_bytes: list[int], may_have_attempts: bool) -> None:
        raws = pulled.raws
        skipped: set[int] = set()
        if may_have_attempts:
            for index, raw in enumerate(raws):
                assert raw is not None
                if not self._is_wanted(raw, head_bytes[index]):
                    pulled.skip(index)
                    skipped.add(index)
        deliveries = [
            Delivery(pulled, index, raw, head)
            for index, (raw, head) in enumerate(zip(raws, head_bytes, strict=True))
            if raw is not None
        ]
        if skipped and not self._at_most_once:
            pulled.on_settled()
        if not deliveries:
            return
        self._prefetch.add(len(deliveries), sum(len(raw) for raw in raws if raw is not None))
        self._ready.extend(deliveries)
        if self.middleware is not None:
            for delivery in deliveries:
                self.middleware.after_receive(delivery)
        self._wake(len(deliveries))

    def _is_wanted(self, raw: bytes, head_bytes: int) -> bool:
        try:
            properties = decode_properties(raw, head_bytes, len(raw))
        except ProtocolError:
            return True  # the handler gets this error when it reads the message
        group = properties.get(KEY_GROUP, "")
        # A dead letter names the group that gave it up; a consumer of the dead-letter subject is meant to get it.
        if group and group != self.group and self._kind != "dead":
            return False
        return not (self._at_most_once and _whole(properties.get(KEY_ATTEMPT), 1) > 1)

    def _next_attempt(self, delivery: Delivery) -> tuple[int, int, bool]:
        """The number of the next attempt, the most attempts of this message, and whether it becomes a dead letter instead."""
        attempts_max = _whole(delivery.message.properties.get(KEY_MAX_RETRY), self._attempts_max)
        if attempts_max < 0:
            attempts_max = self._attempts_max
        attempt = delivery.attempt + 1
        return attempt, attempts_max, attempt > attempts_max

    async def send_back(self, delivery: Delivery, cause: str) -> None:
        """Store the next attempt, or the dead letter; only then is this one acked. At most once: do nothing.

        A delivery that could not be sent back stays held and unsettled: nothing behind it is lost, and the prefetch limit stops the
        consumer from pulling ever more.

        Raises:
            SendFailed: the brokers reject the message, or the consumer is closing.
        """
        if self._at_most_once:
            return
        if self.middleware is not None:
            self.middleware.before_retry(delivery, cause)
        old = delivery.message
        attempt, attempts_max, is_dead_letter = self._next_attempt(delivery)
        target = dead_letter_subject if is_dead_letter else retry_subject
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
        await self._store(Message(subject, old.message_id, properties, old.tags, 0, now_ms, now_ms))
        if self.middleware is not None:
            self.middleware.after_retry(delivery, cause, is_dead_letter)

    async def _store(self, message: Message) -> None:
        failures = 0
        while True:
            try:
                await self._producer.send_message(message)
                return
            except SendFailed as error:
                if not error.retriable or self._is_closing:
                    raise
                failures += 1
                logger.warning("message %s could not be sent back yet: %s", message.message_id, error)
            await asyncio.sleep(self._backoff.pause(failures))


def _is_cancelled() -> bool:
    """Whether this task is cancelled; else a CancelledError comes from something that it awaited."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


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
