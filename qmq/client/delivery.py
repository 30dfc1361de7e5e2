"""A message as an application receives it, alone or in a batch, and what its consumer keeps of it until it is settled."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self, TypeVar

from qmq.client.ack_window import BUSY, OPEN, SETTLED, Span
from qmq.client.bodies import KEY_DATA, body_bytes, body_text, decode_body, visible_properties
from qmq.client.message import cause_label
from qmq.client.middleware import MiddlewareChain
from qmq.client.prefetch import Prefetch
from qmq.errors import DeliveryAlreadySettled
from qmq.protocol.messages import KEY_ATTEMPT, KEY_CREATED, KEY_RETRY_CAUSE, Message, resent_entry
from qmq.protocol.raw import PropertyFinder, RawView, decode_properties
from qmq.protocol.values import TIME_MS_MAX, moment, whole_number

T = TypeVar("T")

_ATTEMPT = KEY_ATTEMPT.encode()
_CREATED = KEY_CREATED.encode()
_DATA = KEY_DATA.encode()
_RETRY_CAUSE = KEY_RETRY_CAUSE.encode()


def created_at(text: str | None, stored_ms: int) -> datetime:
    """When a message was created, in UTC: as its property says, else as its raw form says. Any text and any number is allowed."""
    return moment(whole_number(text, stored_ms, TIME_MS_MAX))


class Owner(Protocol):
    """What a delivery needs of its consumer."""

    group: str
    delivered_subject: str | None
    """The subject of all deliveries; None: each message's own."""

    @property
    def middleware(self) -> MiddlewareChain | None:
        """None when there is no middleware."""

    async def send_back(self, delivery: "Delivery", cause: str) -> None:
        """Store the next attempt or the dead letter."""
        ...


@dataclass(eq=False, repr=False, slots=True)
class Pulled(Span):
    """The messages of one answer. A raw message is released when it is settled, and `on_settled` is called then."""

    raws: list[bytes | None]
    _: KW_ONLY
    owner: Owner
    middleware: MiddlewareChain | None = field(init=False)
    prefetch: Prefetch
    broker_group: str
    received_at_ms: int
    is_plain: bool
    """No message has a body with a content type or encoding."""
    on_settled: Callable[[], None]
    data_finder: PropertyFinder = field(default_factory=lambda: PropertyFinder(_DATA), init=False)

    def __post_init__(self, count: int) -> None:
        super(Pulled, self).__post_init__(count)
        self.middleware = self.owner.middleware

    def skip(self, index: int) -> None:
        """Settle a message that is not delivered."""
        super(Pulled, self).settle(index)
        self.raws[index] = None

    def settle(self, index: int) -> None:
        """Settle a delivered message, which may allow the next pull and an ack."""
        # The body of Span.settle: this runs for each message.
        self.marks[index] = SETTLED
        self.open -= 1
        raw = self.raws[index]
        self.raws[index] = None
        self.prefetch.remove(1, 0 if raw is None else len(raw))
        self.on_settled()

    def settle_range(self, begin: int, end: int) -> int:
        is_whole = self.marks.count(OPEN, begin, end) == end - begin
        if is_whole:
            size = sum(map(len, self.raws[begin:end]))  # type: ignore[arg-type]  # none of them is settled
            self.raws[begin:end] = [None] * (end - begin)
        else:
            size = 0
            for index in range(begin, end):
                raw = self.raws[index]
                if raw is not None and not self.marks[index]:
                    size += len(raw)
                    self.raws[index] = None
        count = super(Pulled, self).settle_range(begin, end)
        if count:
            self.prefetch.remove(count, size)
            self.on_settled()
        return count


class Delivery:
    """One delivery of a message. Call `ack` or `retry`, or use it as `async with`.

    The message is decoded as its attributes are read.
    """

    __slots__ = ("_all", "_head_bytes", "_index", "_pulled", "_raw")

    def __init__(self, pulled: Pulled, index: int, raw: bytes, head_bytes: int) -> None:
        self._pulled = pulled
        self._index = index
        self._raw = raw
        self._head_bytes = head_bytes
        """Bytes before the first property."""
        self._all: dict[str, str] | None = None
        """All properties, once they were decoded."""

    def __repr__(self) -> str:
        return f"Delivery(message_id={self.message_id!r}, subject={self.subject!r}, attempt={self.attempt})"

    @property
    def message(self) -> Message:
        """The message as the wire knows it, with the properties of the protocol."""
        message = RawView(self._raw).message()
        return message if message.subject == self.subject else replace(message, subject=self.subject)

    @property
    def group(self) -> str:
        """The consumer group."""
        return self._pulled.owner.group

    @property
    def broker_group(self) -> str:
        """The broker group that stores the message."""
        return self._pulled.broker_group

    @property
    def pull_sequence(self) -> int:
        """The number by which the broker knows this delivery; it is unique for the consumer and broker group."""
        return self._pulled.first + self._index

    @property
    def received_at_ms(self) -> int:
        """When the consumer received the message, in milliseconds since the epoch."""
        return self._pulled.received_at_ms

    @property
    def message_id(self) -> str:
        return RawView(self._raw).message_id

    @property
    def subject(self) -> str:
        """The subject of the message, the same for every attempt."""
        subject = self._pulled.owner.delivered_subject
        return RawView(self._raw).subject if subject is None else subject

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the producer sent, without those of the protocol. All values are texts."""
        return visible_properties(self._properties())

    @property
    def body(self) -> str | None:
        """The body as text, decompressed; None if the message has none, or if it is bytes. Raises BodyUndecodable."""
        pulled = self._pulled
        if pulled.is_plain:
            raw = self._raw
            place = pulled.data_finder.place(raw, self._head_bytes, len(raw))
            if place is not None:
                return raw[place[0] : place[1]].decode("utf-8", "replace")
        return body_text(self._properties())

    @property
    def content(self) -> bytes | None:
        """The body as bytes, decompressed; a text in UTF-8. None if the message has no body. Raises BodyUndecodable."""
        return body_bytes(self._properties())

    def decode(self, type_: type[T]) -> T:
        """Return the body as an instance of a type: `str`, `bytes`, `dict`, a dataclass, a model; see `qmq.client.bodies`.

        Raises BodyUndecodable, which names the field that does not fit.
        """
        return decode_body(self._properties(), type_)

    @property
    def tags(self) -> tuple[str, ...]:
        return RawView(self._raw).tags

    @property
    def attempt(self) -> int:
        """1 for the first delivery, increased by each retry."""
        return whole_number(self._protocol_text(_ATTEMPT), 1)

    @property
    def retry_cause(self) -> str:
        """The cause of the previous attempt's failure, if its consumer set one; "" for the first attempt."""
        return self._protocol_text(_RETRY_CAUSE)

    @property
    def created_at(self) -> datetime:
        """When the message, or this attempt of it, was created, in UTC. A time outside of the calendar is its nearest end."""
        return created_at(self._protocol_text(_CREATED), RawView(self._raw).created_at_ms)

    @property
    def is_settled(self) -> bool:
        """Whether it was acknowledged or retried, or is being retried."""
        return self._pulled.marks[self._index] != OPEN

    def _properties(self) -> dict[str, str]:
        found = self._all
        if found is None:
            raw = self._raw
            found = self._all = decode_properties(raw, self._head_bytes, len(raw))
        return found

    def _protocol_text(self, key: bytes) -> str:
        """Return the value of a protocol property; "" if the message does not have it."""
        # A search of the bytes is enough for most messages: they were not retried.
        if self._raw.find(key, self._head_bytes) < 0:
            return ""
        return RawView(self._raw).property_text(key) or ""

    async def ack(self) -> None:
        """Acknowledge the message: it is not delivered to this group again.

        Returns once the acknowledgement is queued; `Consumer.close` waits until the broker has it.

        Raises:
            DeliveryAlreadySettled: it was already acknowledged or retried.
        """
        pulled, index = self._pulled, self._index
        if pulled.marks[index]:
            raise self._already_settled()
        middleware = pulled.middleware
        if middleware is None:
            pulled.settle(index)
            return
        middleware.before_ack(self)
        pulled.settle(index)
        middleware.after_ack(self)

    async def retry(self, *, cause: str = "") -> None:
        """Retry the message after the brokers' retry delay. After its last attempt it becomes a dead letter.

        Returns once the next attempt is stored.

        Args:
            cause: a short label such as "PaymentDeclined". The next attempt has it as `retry_cause`, and so does the
                dead letter. Statistics are grouped by it, so it must not contain IDs or texts of the message. Truncated to
                CAUSE_CHARS_MAX characters.

        Raises:
            DeliveryAlreadySettled: it was already acknowledged or retried.
            SendFailed: the brokers reject the message, or the consumer is closing. The delivery is unchanged.
        """
        pulled, index = self._pulled, self._index
        if pulled.marks[index]:
            raise self._already_settled()
        pulled.marks[index] = BUSY
        try:
            await pulled.owner.send_back(self, cause_label(cause))
        except BaseException:
            # Its next attempt is not stored: it can be settled again, and comes again by itself if it is not.
            pulled.marks[index] = OPEN
            raise
        pulled.settle(index)

    def _already_settled(self) -> DeliveryAlreadySettled:
        return DeliveryAlreadySettled(f"delivery of {self.message_id} was already acknowledged or retried")

    async def __aenter__(self) -> Self:
        if self._pulled.middleware is not None:
            self._pulled.middleware.before_process(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Acknowledge if the block succeeded; retry if it raised, with the class of the exception as cause, and propagate it."""
        if self._pulled.middleware is not None:
            self._pulled.middleware.after_process(self, error)
        if self.is_settled:
            return
        if kind is None:
            await self.ack()
        else:
            await self.retry(cause=kind.__name__)


def next_entry(delivery: Delivery, subject: str, now_ms: int, properties: Mapping[str, str | None]) -> bytes:
    """The message of a delivery as `resent_entry` makes it."""
    return resent_entry(delivery._raw, subject, now_ms, properties)


class Batch(list[Delivery]):
    """Deliveries of `Consumer.batches`, in the order in which they arrived."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Batch({len(self)} deliveries)"

    async def ack(self) -> None:
        """Acknowledge all deliveries that are not settled.

        Returns once the acknowledgements are queued; `Consumer.close` waits until the broker has them.
        """
        if self and self[0]._pulled.middleware is not None:
            for delivery in self:
                if not delivery.is_settled:
                    await delivery.ack()
            return
        at, count = 0, len(self)
        while at < count:
            first = self[at]
            pulled, begin = first._pulled, first._index
            length = min(count - at, len(pulled.marks) - begin)
            last = self[at + length - 1]
            if last._pulled is not pulled or last._index != begin + length - 1:
                # Messages in between were not delivered, or the rest of this answer is in another batch.
                length = 1
            pulled.settle_range(begin, begin + length)
            at += length

    async def retry(self, deliveries: Iterable[Delivery] | None = None, *, cause: str = "") -> None:
        """Retry deliveries of this batch, by default all that are not settled; returns once the next attempt of each is stored.

        Deliveries that are settled are skipped, the others stay open. `cause`: as for `Delivery.retry`.

        Raises:
            SendFailed: the next attempt of at least one is not stored; these stay unsettled.
        """
        chosen = self if deliveries is None else list(deliveries)
        retries = [delivery.retry(cause=cause) for delivery in chosen if not delivery.is_settled]
        for outcome in await asyncio.gather(*retries, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
