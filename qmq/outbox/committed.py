"""Messages of transactions: before the commit as rows, after it on their way to brokers from memory."""

import atexit
import logging
import os
import threading
import weakref
from asyncio import AbstractEventLoop
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from qmq.client.bodies import Body
from qmq.client.encoder import ObservedSends
from qmq.client.message import due_ms_of
from qmq.client.middleware import OutgoingMessage
from qmq.client.producer import Producer
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import LocalProtocolError, QmqError, SendFailed
from qmq.outbox.deletion import Deletion
from qmq.outbox.dialects import key_of
from qmq.outbox.rows import content_of
from qmq.outbox.waking import Waking
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.receipt import Receipt

MEMORY_SECONDS = 20.0
"""How long messages are sent from memory after the commit; then they are left to the relay."""
EXIT_SECONDS = 5.0
"""How long a process that ends sends and deletes; its rows are safe, so it does not wait longer."""
INSERTED_ROWS = 500
"""Rows in one INSERT."""
INSERTED_BYTES = 4 << 20
"""Their contents, unless one is larger; servers limit statements (MariaDB: 16 MiB)."""
HANDED_OVER_MAX = 10_000
"""Messages that wait for the producer's event loop; those of further transactions are left to the relay."""

logger = logging.getLogger("qmq.outbox")


@dataclass(frozen=True, slots=True)
class Pending:
    """A message that a transaction is about to send."""

    message: OutgoingMessage
    entry: bytes
    """As a producer sends it."""
    content: str
    """As its row contains it."""
    observed: ObservedSends
    """Its middleware."""

    def report(self, outcome: Receipt | SendFailed) -> None:
        """Give middleware the outcome. Never raises."""
        self.observed.chain.after_send(self.message, outcome)


def inserts(pending: Iterable[Pending]) -> Iterator[list[Pending]]:
    """Messages in their order, in parts for one INSERT each."""
    part: list[Pending] = []
    size = 0
    for each in pending:
        if part and (len(part) >= INSERTED_ROWS or size + len(each.content) > INSERTED_BYTES):
            yield part
            part, size = [], 0
        part.append(each)
        size += len(each.content)
    if part:
        yield part


@dataclass(frozen=True, slots=True)
class Row:
    """A message whose row is committed."""

    id: int | None
    """None: its row is not deleted once it is sent, for example because a test rolls it back."""
    pending: Pending


_Group = tuple[str, bool]
"""A subject, and whether its messages are delayed."""


class Outgoing:
    """The messages of all transactions in one database.

    Args:
        producer: returns this process's started producer. It is called when a message is prepared; if that raises, the transaction
            fails before its INSERT.
        deletion: deletes rows of this database.

    Methods may be called in any thread.
    """

    def __init__(self, producer: Callable[[], Producer], deletion: Deletion, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._producer = producer
        self._deletion = deletion
        self._clock = clock
        self._loop: AbstractEventLoop
        self._forget()
        _all.add(self)

    def _forget(self) -> None:
        self._changed = threading.Condition()
        self._handed: deque[tuple[Producer, float, _Group, list[Row]]] = deque()
        self._handed_rows = 0
        self._unsettled = 0
        self._is_closed = False
        self._is_leaving = False
        self.left = 0
        """Messages left to the relay since the start."""

    def forked(self) -> None:
        """In a forked child: what is on its way is the parent's."""
        self._forget()
        self._deletion.forked()

    # --- before the commit -----------------------------------------------------------------------------------------

    def prepare(
        self,
        subject: str,
        body: Body,
        *,
        tags: Sequence[str] = (),
        delay: timedelta | None = None,
        due: datetime | None = None,
        message_id: str | None = None,
    ) -> Pending:
        """A message for this transaction. Middleware sees it now, in this thread. `send` or `drop` must follow.

        Args:
            delay: counted from now by this machine's clock.

        Raises:
            LocalProtocolError, IllegalName: the message or the name is invalid.
        """
        due_ms = None if delay is None and due is None else due_ms_of(delay, due, self._clock)
        producer = self._producer()
        self._loop = producer.loop
        observed = producer.observed
        message = observed.message(subject, body, tags, message_id, due_ms)
        entry = observed.entry(message)
        if len(entry) > MESSAGE_BYTES_MAX:
            error = LocalProtocolError(f"the message has {len(entry)} bytes, the limit is {MESSAGE_BYTES_MAX}")
            observed.failed(message, error)
            raise error
        return Pending(message, entry, content_of(message), observed)

    def prepare_many(self, subject: str, bodies: Iterable[Body], *, tags: Sequence[str] = ()) -> list[Pending]:
        """As `prepare`, for several messages of one subject. If it raises, none is pending."""
        prepared: list[Pending] = []
        try:
            for body in bodies:
                prepared.append(self.prepare(subject, body, tags=tags))
        except BaseException:
            self.drop(prepared, "another body of the same call is invalid")
            raise
        return prepared

    def drop(self, pending: Sequence[Pending], why: str) -> None:
        """The transaction was not committed: its messages are not sent. Never raises."""
        error = SendFailed(f"the message was not sent: {why}", code="outbox.rolled_back")
        for each in pending:
            each.report(error)

    def drop_later(self, pending: Sequence[Pending], why: str) -> None:
        """As `drop`, on the event loop, for callers that may not call hooks: where Python collects garbage. Takes no lock."""
        if pending and pending[0].observed.chain:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.drop, pending, why)

    # --- after the commit ------------------------------------------------------------------------------------------

    def send(self, rows: Sequence[Row]) -> None:
        """Send the messages of a committed transaction, in their order. Returns at once and never raises."""
        try:
            self._send(rows)
        except Exception as error:  # noqa: BLE001 - the transaction is committed, and its rows are in the table
            self.leave(rows, error)

    def _send(self, rows: Sequence[Row]) -> None:
        producer = self._producer()
        groups: dict[_Group, list[Row]] = {}
        for row in rows:
            message = row.pending.message
            groups.setdefault((message.subject, message.due_ms is not None), []).append(row)
        ends_at = self._clock.monotonic() + MEMORY_SECONDS
        with self._changed:
            if self._is_closed:
                raise SendFailed("the outbox is closed", retriable=True)
            if self._handed_rows and self._handed_rows + len(rows) > HANDED_OVER_MAX:
                raise SendFailed(f"{self._handed_rows} messages wait for the event loop already", retriable=True)
            is_first = not self._handed
            self._handed.extend((producer, ends_at, group, found) for group, found in groups.items())
            self._handed_rows += len(rows)
            self._unsettled += len(rows)
        if is_first:
            _waking.put(partial(self._wake, producer.loop))

    def _wake(self, loop: AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._take_over)
        except RuntimeError as error:  # the loop is closed
            self._take_over(SendFailed(str(error), retriable=True))

    def _take_over(self, failure: SendFailed | None = None) -> None:
        """On the producer's event loop: queue what threads have handed over until now. `failure`: leave it to the relay instead."""
        with self._changed:
            handed, self._handed = self._handed, deque()
            self._handed_rows = 0
        for producer, ends_at, (subject, is_delayed), rows in handed:
            try:
                if failure is not None:
                    raise failure
                producer.send_together(
                    subject,
                    [(row.pending.message.message_id, row.pending.entry, _Sent(self, row)) for row in rows],
                    is_delayed=is_delayed,
                    seconds=ends_at - self._clock.monotonic(),
                )
            except QmqError as error:
                self.leave(rows, error)
                self._count_settled(len(rows))

    def settle(self, row_id: int | None, key: str, pending: Pending | None, outcome: Receipt | QmqError) -> None:
        """A message has its outcome. `pending`: if middleware is to know."""
        if isinstance(outcome, Receipt):
            self._is_leaving = False
            if row_id is not None:
                self._deletion.add([(row_id, key)])
        else:
            self._count_left(1, outcome)
        if pending is not None:
            pending.report(outcome if isinstance(outcome, Receipt) else _left(outcome))
        self._count_settled(1)

    def _count_settled(self, count: int) -> None:
        with self._changed:
            self._unsettled -= count
            self._changed.notify_all()

    def leave(self, rows: Sequence[Row], error: Exception) -> None:
        """Leave these to the relay, because of an error. Never raises."""
        self._count_left(len(rows), error)
        for row in rows:
            row.pending.report(_left(error))

    def _count_left(self, count: int, error: Exception) -> None:
        self.left += count
        if not self._is_leaving:
            self._is_leaving = True  # until a message is stored again: an outage is one line, not a thousand
            logger.warning("messages in the outbox are left to the relay: %s", error)

    # --- end -------------------------------------------------------------------------------------------------------

    def flush(self, seconds: float) -> bool:
        """Wait until each message sent so far is deleted or left to the relay, at most this long. Returns whether all are."""
        ends_at = self._clock.monotonic() + seconds
        with self._changed:
            is_done = self._changed.wait_for(lambda: not self._unsettled, seconds)
        return self._deletion.flush(max(0.0, ends_at - self._clock.monotonic())) and is_done

    def close(self, seconds: float) -> bool:
        """As `flush`; messages of later commits are left to the relay."""
        is_done = self.flush(seconds)
        with self._changed:
            self._is_closed = True
        return self._deletion.close(0.0) and is_done


class _Sent:
    """A message without an outcome, called with it.

    During an outage there are many thousands, and each full garbage collection of the program visits them. So this is the only
    object of a message, apart from texts and bytes, that is kept until then, unless middleware gets the outcome.
    """

    __slots__ = ("_key", "_outgoing", "_pending", "_row_id")

    def __init__(self, outgoing: Outgoing, row: Row) -> None:
        self._outgoing = outgoing
        self._row_id = row.id
        self._key = key_of(row.pending.content)
        self._pending = row.pending if row.pending.observed.chain else None

    def __call__(self, outcome: Receipt | SendFailed) -> None:
        self._outgoing.settle(self._row_id, self._key, self._pending, outcome)


def _left(error: Exception) -> SendFailed:
    return SendFailed(f"left to the relay of the outbox: {error}", code="outbox.left", retriable=True)


_all: "weakref.WeakSet[Outgoing]" = weakref.WeakSet()
_waking = Waking()
"""One for all: at most one call of each `Outgoing` waits in it."""


def _close_all(clock: Clock = SYSTEM_CLOCK) -> None:
    """Within EXIT_SECONDS in all."""
    ends_at = clock.monotonic() + EXIT_SECONDS
    for each in list(_all):
        each.close(max(0.0, ends_at - clock.monotonic()))


def _forked() -> None:
    _waking.forked()
    for each in list(_all):
        each.forked()


# After the import of the producer, so that this runs before producers are closed.
atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
