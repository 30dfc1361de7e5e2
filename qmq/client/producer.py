"""Producer: send, send_soon, flush, close."""

import asyncio
import time
from collections.abc import Sequence
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
from qmq.client.pool import Pool
from qmq.client.sender import Sender
from qmq.client.session import MetaSession
from qmq.errors import ClientClosed, SendFailed
from qmq.net.discovery import meta_url
from qmq.protocol.messages import Message, encode_entry
from qmq.protocol.names import check_subject

if TYPE_CHECKING:
    from typing import Self

LINGER_SECONDS = 0.002
"""How long a message waits for company before a batch that is not full is sent."""


class Producer:
    """Sends messages. Use it as `async with`, or `start` and `close` it.

    Args:
        url: the metaserver: `host:port`, or the whole URL of its address page.
        app: the application's name; shown to operators.
        linger: seconds a message waits for others to share its batch.
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
    ) -> None:
        self._app = app
        self._limits = limits
        self._timeouts = timeouts
        self._accumulator: Accumulator[asyncio.Future[Receipt]] = Accumulator(limits)
        self._session = MetaSession(
            meta_url(url), app=app, client_id=default_client_id(app), timeouts=timeouts, backoff=backoff
        )
        self._pool = Pool(timeouts.connect)
        self._delayed = DelayedMessages(url, timeouts=timeouts, pool=self._pool)
        self._sender = Sender(
            self._accumulator,
            self._session,
            self._pool,
            limits=limits,
            timeouts=timeouts,
            backoff=backoff,
            linger=linger,
        )
        self._is_open = False

    async def start(self) -> None:
        """Begin; sends may be made from now on."""
        if not self._is_open:
            self._is_open = True
            self._session.start()
            self._sender.start()

    async def __aenter__(self) -> "Self":
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

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
        """Send one message; it is on disk when this returns. Waits while the queue is full.

        Args:
            delay: deliver it this much later.
            due: deliver it then; a datetime with a time zone. One that has passed is delivered at once.

        Returns:
            With a delay or due time, a handle with `cancel`, `reschedule` and `deliver`.

        Raises:
            LocalProtocolError, IllegalName: the message can't be sent as it is.
            SendFailed: it was not stored in time; the cause is in the text. Code `delay.too_far`: it is due later than the
                delay nodes keep messages.
            ClientClosed: the producer is closed.
        """
        message = self._build(subject, body, tags, message_id)
        due_ms = None if delay is None and due is None else due_ms_of(delay, due)
        if due_ms is not None:
            message = delayed_message(message, due_ms)
        entry = encode_entry(message)
        await self._sender.wait_for_room(len(entry))
        receipt = await self._queue(message, entry, is_delayed=due_ms is not None)
        if due_ms is None:
            return receipt
        return DelayedReceipt(
            receipt.message_id, receipt.subject, receipt.broker_group, receipt.attempts, due_ms, self._delayed
        )

    def send_soon(
        self, subject: str, body: Body, *, tags: Sequence[str] = (), message_id: str | None = None
    ) -> "asyncio.Future[Receipt]":
        """Queue one message and return at once; the future gets its receipt, or SendFailed.

        Raises:
            QueueFull: more wait than `Limits` allows.
            LocalProtocolError, IllegalName, ClientClosed: as `send`.
        """
        message = self._build(subject, body, tags, message_id)
        return self._queue(message, encode_entry(message))

    async def send_message(self, message: Message) -> Receipt:
        """Send a message as it is, protocol properties and all; what consumers' retries are made with."""
        if not self._is_open:
            raise ClientClosed("the producer is not started, or closed")
        entry = encode_entry(message)
        await self._sender.wait_for_room(len(entry))
        return await self._queue(message, entry)

    def _build(self, subject: str, body: Body, tags: Sequence[str], message_id: str | None) -> Message:
        if not self._is_open:
            raise ClientClosed("the producer is not started, or closed")
        check_subject(subject)
        return build_message(subject, body, tuple(tags), message_id, self._app, time.time_ns() // 1_000_000)

    def _queue(self, message: Message, entry: bytes, *, is_delayed: bool = False) -> "asyncio.Future[Receipt]":
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Receipt] = loop.create_future()
        give_up_at = loop.time() + self._timeouts.delivery
        self._sender.add(Waiting(message.subject, message.message_id, entry, give_up_at, future, is_delayed))
        return future

    @property
    def waiting(self) -> int:
        """Messages queued or on their way, not settled yet."""
        return self._sender.unsettled

    async def flush(self) -> None:
        """Return when everything queued so far is settled, one way or the other."""
        await self._sender.flush()

    async def close(self, timeout: float | None = None) -> list[str]:
        """Send what is queued, for `timeout` seconds at most (default: the delivery timeout), and end.

        Returns:
            Ids of the messages that were given up; their futures have SendFailed.
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
        await self._pool.close()
        return left
