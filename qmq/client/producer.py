"""Producer: send, send_soon, send_many, flush, close."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import overload

from qmq.client.bodies import Body
from qmq.client.config import DEFAULT_LIMITS, Limits
from qmq.client.delay_clock import DelayClock
from qmq.client.delayed import DelayedMessages, DelayedReceipt
from qmq.client.encoder import Encoder, ObservedSends
from qmq.client.identity import default_client_id
from qmq.client.lifecycle import Client, client_failed, open_clients, reach
from qmq.client.message import MakeId, delay_ms_of, due_ms_of, new_message_id
from qmq.client.middleware import Middleware, MiddlewareChain
from qmq.client.outgoing import Encoded, Outcome, Token
from qmq.client.sender import Sender
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import ClientClosed, QmqError, SendFailed
from qmq.net.discovery import meta_urls
from qmq.net.pool import Pool
from qmq.net.session import MetaSession
from qmq.net.timing import DEFAULT_BACKOFF, DEFAULT_TIMEOUTS, Backoff, Timeouts
from qmq.protocol.codes import ClientType
from qmq.protocol.messages import Message, encode_entry
from qmq.protocol.names import check_subject
from qmq.receipt import Receipt
from qmq.supervisor import Supervisor

LINGER_SECONDS = 0.002
"""How long a batch that is not full waits for more messages, while other batches are in flight."""

logger = logging.getLogger("qmq.client")


async def _nothing() -> None:
    """No other thread hands messages over."""


class Producer(Client):
    """Sends messages. Use it as `async with`, or call `start` and `close`.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page; several are separated by commas.
        app: name of the application, shown to operators.
        linger: seconds that a message waits for others to share its batch while other batches are in flight. With nothing in
            flight, messages are sent at once.
        middleware: its hooks are called around each send.
        compress_above: compress bodies of more bytes than this with Zstandard, if they become smaller. Consumers of this library
            decompress them; the official client does not. None: never. Mappings are not compressed.
        make_id: makes the ids of messages that `send` gets none for.

    Raises:
        LocalProtocolError: `compress_above` needs a library that is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        app: str = "",
        linger: float = LINGER_SECONDS,
        limits: Limits = DEFAULT_LIMITS,
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        backoff: Backoff = DEFAULT_BACKOFF,
        middleware: Sequence[Middleware] = (),
        compress_above: int | None = None,
        clock: Clock = SYSTEM_CLOCK,
        make_id: MakeId = new_message_id,
    ) -> None:
        self._clock = clock
        self._timeouts = timeouts
        self._backoff = backoff
        self._session = MetaSession(
            meta_urls(url), app=app, client_id=default_client_id(app), timeouts=timeouts, backoff=backoff
        )
        self._pool = Pool(timeouts.connect)
        self._delayed = DelayedMessages(url, timeouts=timeouts, pool=self._pool, clock=clock)
        self._sender = Sender(
            self._session, self._pool, limits=limits, timeouts=timeouts, backoff=backoff, linger=linger
        )
        self._queue = self._sender.queue
        self.supervisor = Supervisor(clock, logger=logger, on_failure=self._failed)
        """Runs the background tasks."""
        self._chain = MiddlewareChain(middleware, self.supervisor)
        self.observed = ObservedSends(Encoder(app, clock, make_id, compress_above), self._chain)
        """Encodes messages and calls the middleware, in any thread."""
        self._nodes_clock = DelayClock(self._session, self._pool, timeouts, backoff, clock, self._queue.stopped)
        self.on_failure: Callable[[str, BaseException], None] | None = None
        """Called when a background task failed; the producer can't send any more then."""
        self.close_seconds = timeouts.delivery
        self._is_closing = False
        self.take_over: Callable[[], Awaitable[None]] = _nothing
        """Queues what other threads have handed over, for `flush` and `close`."""

    def _failed(self, name: str, error: BaseException) -> None:
        if self._is_open:
            self.warn_unclosed(f"its background tasks ended ({error})")
        self._queue.fail(error)
        if self.on_failure is not None:
            self.on_failure(name, error)

    async def start(self) -> None:
        """Start the background tasks; messages can be sent from now on."""
        self.check_process()
        if not self._is_open:
            self._opened()
            self._delayed.check_process()
            self._session.start(self.supervisor)
            self._sender.start(self.supervisor)

    async def wait_connected(self, subject: str, timeout: float, *, delayed: bool = False) -> None:
        """Wait until a node that accepts the subject's messages accepts a connection, at most `timeout` seconds.

        `delayed`: the messages have a delay or due time and go to a delay node. Raises RouteUnknown, which says why.
        """
        client_type = ClientType.DELAY_PRODUCER if delayed else ClientType.PRODUCER
        await reach(self._session, self._pool, subject, client_type, "", seconds=timeout, backoff=self._backoff)

    @overload
    async def send(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> Receipt: ...

    @overload
    async def send(
        self, subject: str, body: Body, *, delay: timedelta, tags: Sequence[str] = (), message_id: str | None = None
    ) -> DelayedReceipt: ...

    @overload
    async def send(
        self, subject: str, body: Body, *, due: datetime, tags: Sequence[str] = (), message_id: str | None = None
    ) -> DelayedReceipt: ...

    @overload
    async def send(
        self,
        subject: str,
        body: Body,
        *,
        delay: timedelta | None,
        due: datetime | None,
        tags: Sequence[str] = (),
        message_id: str | None = None,
    ) -> Receipt | DelayedReceipt: ...

    async def send(
        self,
        subject: str,
        body: Body,
        *,
        delay: timedelta | None = None,
        due: datetime | None = None,
        tags: Sequence[str] = (),
        message_id: str | None = None,
    ) -> Receipt | DelayedReceipt:
        """Send a message and return once it is on disk. Waits while the queue is full.

        Args:
            delay: time until delivery, from now on. It is counted by the clock of the delay nodes, whatever this machine's clock
                shows; the first such send asks them for the time, and then one a minute.
            due: time of delivery, a datetime with a time zone. A time in the past means immediate delivery.

        Returns:
            The receipt. With a delay or due time it has `cancel`, `reschedule` and `deliver`.

        Raises:
            LocalProtocolError, IllegalName: the message or the name is invalid.
            SendFailed: it was not stored in time; the message contains the cause. Code `delay.too_far`: it is due later than the
                delay nodes allow. Code `client.failed`: a background task failed; the message names it.
            ClientClosed: the producer is closed.
        """
        self._check_open()
        if delay is not None or due is not None:
            return await self._send_delayed(subject, body, delay, due, tags, message_id)
        message_id, entry, message = self.observed.encode(subject, body, tags, message_id)
        sending = self._queue.send((subject, ClientType.PRODUCER), message_id, entry)
        return await (sending if message is None else self.observed.observe(message, sending))

    async def _send_delayed(
        self,
        subject: str,
        body: Body,
        delay: timedelta | None,
        due: datetime | None,
        tags: Sequence[str],
        message_id: str | None,
    ) -> DelayedReceipt:
        due_ms, began = due_ms_of(delay, due, self._clock), self._clock.monotonic()
        check_subject(subject)
        with self._queue.pending():
            give_up_at = self._queue.loop.time() + self._timeouts.delivery
            if delay is not None:
                await self._nodes_clock.update(subject, give_up_at)
                if (nodes_ms := self._nodes_clock.wall_ms(began)) is not None:
                    due_ms = nodes_ms + delay_ms_of(delay)
            message_id, entry, message = self.observed.encode(subject, body, tags, message_id, due_ms)
            sending = self._queue.send((subject, ClientType.DELAY_PRODUCER), message_id, entry, give_up_at)
            receipt = await (sending if message is None else self.observed.observe(message, sending))
        return DelayedReceipt(receipt, due_ms, self._delayed)

    @overload
    def send_soon(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "asyncio.Future[Receipt]": ...

    @overload
    def send_soon(
        self,
        subject: str,
        body: Body,
        *,
        tags: Sequence[str] = (),
        message_id: str | None = None,
        callback: Callable[[Outcome], object],
    ) -> None: ...

    def send_soon(
        self,
        subject: str,
        body: Body,
        *,
        tags: Sequence[str] = (),
        message_id: str | None = None,
        callback: Callable[[Outcome], object] | None = None,
    ) -> "asyncio.Future[Receipt] | None":
        """Queue a message and return immediately.

        Args:
            callback: called on the event loop with the receipt or the SendFailed of the message. It must not block. An exception
                that it raises is logged and affects no message.

        Returns:
            A future that gets the receipt, or SendFailed; None with a callback.

        Raises:
            QueueFull: the queue is at a limit of `Limits`.
            LocalProtocolError, IllegalName, ClientClosed: as for `send`.
        """
        self._check_open()
        message_id, entry, message = self.observed.encode(subject, body, tags, message_id)
        future: asyncio.Future[Receipt] | None = self._queue.loop.create_future() if callback is None else None
        token: Token = callback or future  # type: ignore[assignment]  # one of them is there
        if message is not None:
            token = partial(self.observed.observed, message, token)
        try:
            self._queue.add((subject, ClientType.PRODUCER), message_id, entry, token)
        except QmqError as error:
            self.observed.failed(message, error)
            raise
        return future

    async def send_many(self, subject: str, bodies: Iterable[Body], *, tags: Sequence[str] = ()) -> list[Receipt]:
        """Send many messages of one subject and return when all are on disk: the fastest way to send.

        Encodes and sends batch by batch, and waits while the queue is full, so that `bodies` may be a generator of any length.
        If the caller is cancelled, the messages that are already queued are still sent. If the producer is closed meanwhile, no
        more bodies are taken.

        Args:
            tags: of each message.

        Returns:
            The receipts, in the order of the bodies.

        Raises:
            SendManyFailed: some messages were not stored or their bodies are invalid; `outcomes` has the receipt or error of each.
            IllegalName, ClientClosed: as for `send`. Nothing is sent.
        """
        self._check_open()
        check_subject(subject)
        return await self._queue.send_many(subject, bodies, tags, self.observed, lambda: self._is_open)

    async def send_message(self, message: Message) -> Receipt:
        """Send a message unchanged, including protocol properties."""
        return await self.send_entry(message.subject, message.message_id, encode_entry(message))

    async def send_entry(self, subject: str, message_id: str, entry: bytes) -> Receipt:
        """Send a message that is encoded already. Consumers use it for retries."""
        self._check_open()
        return await self._queue.send((subject, ClientType.PRODUCER), message_id, entry)

    def send_together(
        self,
        subject: str,
        messages: Sequence[Encoded],
        *,
        is_delayed: bool,
        seconds: float,
    ) -> None:
        """Queue messages of one subject, and return: all or none. Used by the outbox.

        They are sent in one request and stored one behind another, up to `Limits.batch_messages` and `batch_bytes`. Each has an
        outcome within `seconds`, on the event loop. Raises QueueFull, SendFailed, ClientClosed.
        """
        self._check_open()
        client_type = ClientType.DELAY_PRODUCER if is_delayed else ClientType.PRODUCER
        self._queue.add_together((subject, client_type), messages, seconds)

    def _check_open(self) -> None:
        if not self._is_open:
            self.check_process()
            raise ClientClosed("the producer is not started or already closed")

    @property
    def waiting(self) -> int:
        """Number of messages that are queued, waiting for room in the queue, or being sent."""
        return self._queue.unsettled

    async def flush(self) -> None:
        """Wait until every message queued so far has been stored or has failed."""
        self.check_process()
        await self.take_over()
        await self._queue.flush()

    def _unfinished(self) -> str:
        count = self._queue.unsettled
        return f"a producer has {count} messages that are not stored" if count else ""

    async def close(self, timeout: float | None = None) -> list[str]:
        """Send queued messages for at most `timeout` seconds (default: the delivery timeout) and close.

        Returns:
            IDs of the messages that were not stored; their futures have SendFailed. The number of messages that were not stored
            since the call is logged.

        Raises:
            ClientFailed: a background task has failed; the producer is closed nevertheless.
        """
        if not self._is_open or self._is_closing:
            return []
        self._is_closing = True
        failures_before = self._queue.failures
        with suppress(TimeoutError):
            async with asyncio.timeout(self.close_seconds if timeout is None else timeout):
                await self.take_over()
                self._is_open = False
                await self._queue.flush()
        self._is_open = False
        open_clients.discard(self)
        left = await self._sender.stop(SendFailed("the producer was closed before the message was stored"))
        if lost := self._queue.failures - failures_before:
            logger.warning("the producer was closed before %d messages were stored", lost)
        await self._session.close()
        await self.supervisor.close()
        await self._pool.close()
        if self._queue.failed is not None:
            raise client_failed("producer", self._queue.failed)
        return left
