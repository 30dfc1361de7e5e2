"""Consumer: iterate, pull, receive batches, run a handler, retry, pause, close."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.delivery import Batch, Delivery
from qmq.client.fetchers import Fetchers
from qmq.client.handlers import Handler, arguments_of
from qmq.client.identity import ConsumerSlot, claim_slot
from qmq.client.lifecycle import Client, client_failed, client_forked, open_clients, reach
from qmq.client.middleware import Middleware, MiddlewareChain
from qmq.client.producer import Producer
from qmq.client.ready_queue import ReadyQueue
from qmq.client.source import PullContext, Subscription
from qmq.client.source import Start as Start
from qmq.client.workers import Retries, Workers
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import ClientClosed, LocalProtocolError
from qmq.net.discovery import meta_urls
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS, Backoff, Timeouts
from qmq.protocol.codes import ClientType
from qmq.supervisor import Supervisor
from qmq.words import printable

ATTEMPTS_MAX = 32
"""Attempts before a message becomes a dead letter, as in QMQ."""
CONCURRENCY_MAX = 10_000
"""Handlers of one consumer that can run at the same time."""

logger = logging.getLogger("qmq.client")


def check_concurrency(concurrency: int) -> None:
    """Raises LocalProtocolError unless it is in range."""
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise LocalProtocolError(f"concurrency={concurrency}: must be 1 to {CONCURRENCY_MAX}")


class Consumer(Client):
    """Receives a subject's messages for a consumer group. Use it as `async with`, or call `start` and `close`.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page; several are separated by commas.
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
            lowest ID of this program, subject and group that no other consumer of this host or container uses
            (`qmq.client.identity`); the attribute is "" until then. Set it if a new container continues the work of an old one.
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
        self._subscription = Subscription(subject, group, consumer_id, start, tags, tag_mode, broadcast)
        self.subject = subject
        self.consumer_id = consumer_id or ""
        self.group = self.consumer_id if broadcast else group
        # A message of the retry subject may name that one.
        self.delivered_subject = subject if self._subscription.kind == "real" else None
        self._app = app
        self._timeouts = timeouts
        self._backoff = backoff
        self._slot: ConsumerSlot | None = None
        self.close_seconds = 2 * timeouts.ack
        self.supervisor = Supervisor(clock, logger=logger, on_failure=self._task_failed)
        """Runs the background tasks."""
        self.middleware = MiddlewareChain(middleware, self.supervisor) if middleware else None
        self._session = MetaSession(
            meta_urls(url), app=app, client_id=self.consumer_id, timeouts=timeouts, backoff=backoff
        )
        self._producer = Producer(
            url, app=app, linger=0.0, limits=limits, timeouts=timeouts, backoff=backoff, clock=clock
        )
        self._producer.on_failure = self._task_failed
        self._producer.must_close_at_exit = False
        self._ready = ReadyQueue(limits)
        self._retries = Retries(
            subject, self._producer.send_entry, attempts_max=attempts_max, at_most_once=at_most_once, backoff=backoff,
            clock=clock,
        )  # fmt: skip
        self._workers = Workers(self._ready, self._retries, self.middleware)
        self._pool = Pool(timeouts.connect, limits.answer_bytes)
        context = PullContext(
            self, self._ready.prefetch, self._pool, limits, timeouts, backoff, self.supervisor, clock, at_most_once,
            self._producer.send_entry,
        )  # fmt: skip
        self._fetchers = Fetchers(context, self.middleware, self._subscription, self._session, self._ready)
        self._is_closing = False

    # --- life ------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start pulling."""
        self.check_process()
        if self._is_open:
            return
        self._opened()
        if not self.consumer_id:
            scope = "" if self._subscription.broadcast else self.group
            self._slot = await asyncio.to_thread(claim_slot, self._app, self.subject, scope)
            if self._is_closing:  # closed meanwhile
                self._slot.release()
                return
            self.consumer_id = self._session.client_id = self._slot.consumer_id
            if self._subscription.broadcast:
                self.group = self.consumer_id
        self._session.start(self.supervisor)
        await self._producer.start()
        self._fetchers.start(self._subscription.sources(self.group, self.consumer_id))

    def _task_failed(self, name: str, error: BaseException) -> None:
        if not self._is_closing:
            self.warn_unclosed(f"its background tasks ended ({error})")
        self._ready.fail(error)

    def forked(self) -> None:
        super().forked()
        self._ready.failure = client_forked()
        self._fetchers.forked()

    def _unfinished(self) -> str:
        held = self._ready.prefetch.messages
        if not held or self._is_closing or self._retries.at_most_once:
            return ""
        return (
            f"a consumer of {self.subject}, group {self.group}, holds {held} messages that are not acknowledged and are delivered"
            " again when it restarts or its lease ends"
        )

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
        open_clients.discard(self)
        loop = asyncio.get_running_loop()
        seconds = self.close_seconds if timeout is None else timeout
        deadline = loop.time() + seconds
        self._retries.is_stopped = True
        dropped = self._ready.close()
        if self._retries.at_most_once and dropped:
            logger.warning(
                "%s, group %s: %d messages were acknowledged and not processed; at most once they are lost",
                self.subject, self.group, dropped,
            )  # fmt: skip
        await self._fetchers.stop_pulling()
        if cancelled := await self._workers.stop(loop.time() + seconds / 2, deadline):
            logger.warning(
                "%s, group %s: %d handlers did not finish before the consumer closed and were cancelled: %s",
                self.subject, self.group, len(cancelled), printable(", ".join(cancelled[:10])),
            )  # fmt: skip
        ends = await self._fetchers.stop(deadline)
        # Handlers that still run, and fetchers that return messages, may send until here.
        producer_ends = await asyncio.gather(
            self._producer.close(max(0.0, deadline - loop.time())), return_exceptions=True
        )
        await self._session.close()
        await self.supervisor.close()
        await self._pool.close()
        if self._slot is not None:
            self._slot.release()
        if self._ready.failure is not None:
            raise client_failed("consumer", self._ready.failure)
        for end in (*ends, *producer_ends):
            if isinstance(end, BaseException):
                raise end
        unsettled = [message_id for end in ends if isinstance(end, list) for message_id in end]
        if unsettled:
            logger.info("%s, group %s: closed with %d messages unprocessed", self.subject, self.group, len(unsettled))
        return unsettled

    async def wait_connected(self, timeout: float) -> None:
        """Wait until a broker that serves the subject accepts a connection, at most `timeout` seconds. Raises RouteUnknown."""
        self.check_process()
        await reach(
            self._session, self._pool, self.subject, ClientType.CONSUMER, self.group,
            seconds=timeout, backoff=self._backoff,
        )  # fmt: skip

    def pause(self) -> None:
        """Stop pulling until `resume`. Messages that were already pulled are still delivered."""
        self.check_process()
        self._fetchers.resumed.clear()

    def resume(self) -> None:
        """Continue pulling."""
        self.check_process()
        self._fetchers.resumed.set()

    def _check_open(self) -> None:
        if not self._is_open or self._is_closing:
            self.check_process()
            raise ClientClosed("the consumer is not started or already closed")

    # --- receiving -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Delivery]:
        return self._ready.iterate()

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
        return self._ready.iterate_batches(max_messages, max_seconds)

    async def pull(self, messages_max: int = 1, timeout: float = 1.0) -> list[Delivery]:
        """Return up to `messages_max` deliveries. Waits up to `timeout` seconds for the first one, and not for the others.

        Raises:
            ClientClosed: the consumer is not started or already closed.
            ClientFailed: a background task failed; the message names it.
        """
        self._check_open()
        first = await self._ready.next(timeout)
        if first is None:
            return []
        queued = self._ready.deliveries
        return [first, *(queued.popleft() for _ in range(min(len(queued), messages_max - 1)))]

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
        check_concurrency(concurrency)
        arguments_of(handler)  # an invalid handler is reported also by a consumer that is not open
        self._check_open()
        await self._workers.run(handler, concurrency)

    async def send_back(self, delivery: Delivery, cause: str) -> None:
        """Store the next attempt of a delivery, see `Retries.send_back`."""
        await self._retries.send_back(delivery, cause, self.group, self.middleware)
