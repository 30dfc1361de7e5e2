"""Producer: send, send_soon, flush, close."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, overload

from qmq.client.accumulator import Accumulator, Waiting
from qmq.client.config import (
    DEFAULT_BACKOFF,
    DEFAULT_LIMITS,
    DEFAULT_TIMEOUTS,
    Backoff,
    Limits,
    Timeouts,
)
from qmq.client.delayed import DelayedMessages, DelayedReceipt, due_ms_of
from qmq.client.identity import default_client_id
from qmq.client.message import Body, Receipt, build_message, delayed_message
from qmq.client.message_ids import MakeId, new_message_id
from qmq.client.pool import Pool
from qmq.client.reach import reach
from qmq.client.routing import WRITABLE
from qmq.client.sender import Sender
from qmq.client.session import MetaSession
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import ClientClosed, ClientFailed, SendFailed
from qmq.net.discovery import meta_url
from qmq.protocol.codes import ClientType
from qmq.protocol.messages import Message, encode_entry
from qmq.protocol.names import check_subject
from qmq.supervisor import Supervisor

if TYPE_CHECKING:
    from typing import Self

LINGER_SECONDS = 0.002
"""How long a message waits for company before a batch that is not full is sent."""

logger = logging.getLogger("qmq.client")


def client_failed(what: str, error: BaseException) -> ClientFailed:
    """The error of a producer or consumer whose background task failed, with the task's exception as its cause."""
    failure = ClientFailed(f"the {what} failed: {error}")
    failure.__cause__ = error.__cause__ or error
    return failure


class Producer:
    """Sends messages. Use it as `async with`, or call `start` and `close`.

    Args:
        url: address of the metaserver, `host:port` or the URL of its address page.
        app: name of the application, shown to operators.
        linger: seconds that a message waits for others to share its batch.
        make_id: makes the ids of messages that `send` gets none for.
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
        clock: Clock = SYSTEM_CLOCK,
        make_id: MakeId = new_message_id,
    ) -> None:
        self._app = app
        self._clock = clock
        self._make_id = make_id
        self._limits = limits
        self._timeouts = timeouts
        self._backoff = backoff
        self._accumulator: Accumulator[asyncio.Future[Receipt]] = Accumulator(limits)
        self._session = MetaSession(
            meta_url(url), app=app, client_id=default_client_id(app), timeouts=timeouts, backoff=backoff
        )
        self._pool = Pool(timeouts.connect)
        self._delayed = DelayedMessages(url, timeouts=timeouts, pool=self._pool, clock=clock)
        self._sender = Sender(
            self._accumulator,
            self._session,
            self._pool,
            limits=limits,
            timeouts=timeouts,
            backoff=backoff,
            linger=linger,
        )
        self.supervisor = Supervisor(clock, logger=logger, on_failure=self._failed)
        """Runs the background tasks."""
        self.on_failure: Callable[[str, BaseException], None] | None = None
        """Called when a background task failed; the producer can't send any more then."""
        self._is_open = False

    def _failed(self, name: str, error: BaseException) -> None:
        self._sender.fail(error)
        if self.on_failure is not None:
            self.on_failure(name, error)

    async def start(self) -> None:
        """Start the background tasks; messages can be sent from now on."""
        if not self._is_open:
            self._is_open = True
            self._session.start(self.supervisor)
            self._sender.start(self.supervisor)

    async def wait_connected(self, subject: str, timeout: float, *, delayed: bool = False) -> None:
        """Wait until a node that accepts the subject's messages accepts a connection.

        Args:
            timeout: seconds.
            delayed: whether the messages have a delay or due time and go to a delay node.

        Raises:
            RouteUnknown: none did in time; the message says why.
        """
        client_type = ClientType.DELAY_PRODUCER if delayed else ClientType.PRODUCER
        await reach(
            self._session, self._pool, subject, client_type, "", WRITABLE, seconds=timeout, backoff=self._backoff
        )

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
            delay: time until delivery.
            due: time of delivery, a datetime with a time zone. A time in the past means immediate delivery.

        Returns:
            The receipt. With a delay or due time it has `cancel`, `reschedule` and `deliver`.

        Raises:
            LocalProtocolError, IllegalName: the message or the name is invalid.
            SendFailed: it was not stored in time; the message contains the cause. Code `delay.too_far`: it is due later than the
                delay nodes allow. Code `client.failed`: a background task failed; the message names it.
            ClientClosed: the producer is closed.
        """
        message = self._build(subject, body, tags, message_id)
        due_ms = None if delay is None and due is None else due_ms_of(delay, due, self._clock)
        if due_ms is not None:
            message = delayed_message(message, due_ms)
        entry = encode_entry(message)
        receipt = await self._queue_when_room(message, entry, is_delayed=due_ms is not None)
        if due_ms is None:
            return receipt
        return DelayedReceipt(
            receipt.message_id, receipt.subject, receipt.broker_group, receipt.attempts, due_ms, self._delayed
        )

    def send_soon(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "asyncio.Future[Receipt]":
        """Queue a message and return immediately. The future gets the receipt, or SendFailed.

        Raises:
            QueueFull: the queue is at a limit of `Limits`.
            LocalProtocolError, IllegalName, ClientClosed: as for `send`.
        """
        message = self._build(subject, body, tags, message_id)
        return self._queue(message, encode_entry(message))

    async def send_message(self, message: Message) -> Receipt:
        """Send a message unchanged, including protocol properties. Consumers use it for retries."""
        if not self._is_open:
            raise ClientClosed("the producer is not started or already closed")
        return await self._queue_when_room(message, encode_entry(message))

    def _build(self, subject: str, body: Body, tags: Sequence[str], message_id: str | None) -> Message:
        if not self._is_open:
            raise ClientClosed("the producer is not started or already closed")
        check_subject(subject)
        return build_message(
            subject, body, tuple(tags), message_id or self._make_id(), self._app, self._clock.wall_ms()
        )

    def _queue(self, message: Message, entry: bytes) -> "asyncio.Future[Receipt]":
        item = self._item(message, entry, is_delayed=False)
        self._sender.add(item)
        return item.token

    def _queue_when_room(
        self, message: Message, entry: bytes, *, is_delayed: bool = False
    ) -> "asyncio.Future[Receipt]":
        item = self._item(message, entry, is_delayed=is_delayed)
        self._sender.add_when_room(item)
        return item.token

    def _item(self, message: Message, entry: bytes, *, is_delayed: bool) -> "Waiting[asyncio.Future[Receipt]]":
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + self._timeouts.delivery
        return Waiting(message.subject, message.message_id, entry, give_up_at, loop.create_future(), is_delayed)

    @property
    def waiting(self) -> int:
        """Number of messages that are queued, waiting for room in the queue, or being sent."""
        return self._sender.unsettled

    async def flush(self) -> None:
        """Wait until every message queued so far has been stored or has failed."""
        await self._sender.flush()

    async def close(self, timeout: float | None = None) -> list[str]:
        """Send queued messages for at most `timeout` seconds (default: the delivery timeout) and close.

        Returns:
            IDs of the messages that were not stored; their futures have SendFailed.

        Raises:
            ClientFailed: a background task has failed; the producer is closed nevertheless.
        """
        if not self._is_open:
            return []
        self._is_open = False
        try:
            async with asyncio.timeout(self._timeouts.delivery if timeout is None else timeout):
                await self._sender.flush()
        except TimeoutError:
            pass
        left = await self._sender.stop(SendFailed("the producer was closed before the message was stored"))
        await self._session.close()
        await self.supervisor.close()
        await self._pool.close()
        if self._sender.failed is not None:
            raise client_failed("producer", self._sender.failed)
        return left
