"""What users hold in their hands: a receipt for what they sent, a delivery of what they got."""

from dataclasses import replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from qmq.client.ack_window import BUSY, OPEN
from qmq.client.bodies import Body as Body
from qmq.client.bodies import body_bytes, body_text, decode_body, encode_body, visible_properties
from qmq.client.receipt import Receipt as Receipt
from qmq.errors import DeliveryAlreadySettled
from qmq.protocol.messages import (
    FLAG_DELAY,
    KEY_APP,
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_EXPIRE,
    KEY_RETRY_CAUSE,
    KEY_SCHEDULE,
    Message,
)
from qmq.protocol.raw import RawView, decode_properties

if TYPE_CHECKING:
    from typing import Self

    from qmq.client.pulled import Pulled

T = TypeVar("T")

CAUSE_CHARS_MAX = 120
"""Longest cause of a retry; the rest of a longer one is left out."""
EXPIRE_AFTER_MS = 15 * 60 * 1000
"""Properties that the official client writes and no program reads."""


_ATTEMPT = KEY_ATTEMPT.encode()
_CREATED = KEY_CREATED.encode()
_RETRY_CAUSE = KEY_RETRY_CAUSE.encode()


def build_message(subject: str, body: Body, tags: tuple[str, ...], message_id: str, app: str, now_ms: int) -> Message:
    """Build a new message with the properties that the protocol requires."""
    properties = {
        KEY_CREATED: str(now_ms),
        KEY_EXPIRE: str(now_ms + EXPIRE_AFTER_MS),
        KEY_APP: app,
        **encode_body(body),
    }
    return Message(subject, message_id, properties, tags, 0, now_ms, now_ms)


def delayed_message(message: Message, due_ms: int) -> Message:
    """The message as one that is due later."""
    properties = {**message.properties, KEY_SCHEDULE: str(due_ms)}
    return replace(message, properties=properties, flag=message.flag | FLAG_DELAY, time_ms=due_ms)


def cause_label(text: str) -> str:
    """A cause as it is stored: one line, at most CAUSE_CHARS_MAX characters, nothing that can't be written as UTF-8."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:CAUSE_CHARS_MAX].rstrip()


class Delivery:
    """One delivery of a message. Call `ack` or `retry`, or use it as `async with`.

    The message is decoded as its attributes are read.
    """

    __slots__ = ("_all", "_head_bytes", "_index", "_pulled", "_raw")

    def __init__(self, pulled: "Pulled", index: int, raw: bytes, head_bytes: int) -> None:
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
        """The body as text, decompressed; None if the message has none, or if it is bytes.

        Raises:
            BodyUndecodable: it is damaged, or needs a library that is not installed.
        """
        pulled = self._pulled
        if pulled.is_plain:
            raw = self._raw
            place = pulled.data_finder.place(raw, self._head_bytes, len(raw))
            if place is not None:
                return raw[place[0] : place[1]].decode("utf-8", "replace")
        return body_text(self._properties())

    @property
    def content(self) -> bytes | None:
        """The body as bytes, decoded and decompressed; a text in UTF-8. None if the message has no body.

        Raises:
            BodyUndecodable: as for `body`.
        """
        return body_bytes(self._properties())

    def decode(self, type_: type[T]) -> T:
        """Return the body as an instance of a type: `str`, `bytes`, `dict`, a dataclass, a model; see `qmq.client.bodies`.

        Raises:
            BodyUndecodable: the body does not fit the type; the message names the field.
        """
        return decode_body(self._properties(), type_)

    @property
    def tags(self) -> tuple[str, ...]:
        return RawView(self._raw).tags

    @property
    def attempt(self) -> int:
        """1 for the first delivery, increased by each retry."""
        try:
            return int(self._protocol_text(_ATTEMPT, "1"))
        except ValueError:
            return 1

    @property
    def retry_cause(self) -> str:
        """The cause of the previous attempt's failure, if its consumer set one; "" for the first attempt."""
        return self._protocol_text(_RETRY_CAUSE, "")

    @property
    def created_at(self) -> datetime:
        """When the message, or this attempt of it, was created, in UTC."""
        try:
            stamp = int(self._protocol_text(_CREATED, ""))
        except ValueError:
            stamp = RawView(self._raw).created_at_ms
        return datetime.fromtimestamp(stamp / 1000, UTC)

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

    def _protocol_text(self, key: bytes, default: str) -> str:
        # A search of the bytes is enough for most messages: they were not retried.
        if self._raw.find(key, self._head_bytes) < 0:
            return default
        text = RawView(self._raw).property_text(key)
        return default if text is None else text

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

    async def __aenter__(self) -> "Self":
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
