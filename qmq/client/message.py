"""What users hold in their hands: a receipt for what they sent, a delivery of what they got."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from qmq.errors import DeliveryAlreadySettled, LocalProtocolError
from qmq.protocol.messages import (
    FLAG_DELAY,
    KEY_APP,
    KEY_ATTEMPT,
    KEY_CREATED,
    KEY_EXPIRE,
    KEY_RETRY_CAUSE,
    KEY_SCHEDULE,
    RESERVED_KEYS,
    Message,
)

if TYPE_CHECKING:
    from typing import Self

Body = Mapping[str, str | int | float | bool] | str
"""Properties; or a text, which becomes the property `data`."""

KEY_DATA = "data"
CAUSE_CHARS_MAX = 120
"""Longest cause of a retry; the rest of a longer one is left out."""
EXPIRE_AFTER_MS = 15 * 60 * 1000
"""What the official client writes; nobody acts on it."""


def properties_of(body: Body) -> dict[str, str]:
    """A body as the wire's properties.

    Raises:
        LocalProtocolError: a name is reserved, or a value is no text, number or truth value.
    """
    if isinstance(body, str):
        return {KEY_DATA: body}
    properties = {}
    for key, value in body.items():
        if key in RESERVED_KEYS:
            raise LocalProtocolError(f"property {key!r} is reserved by the protocol and can't be set")
        if isinstance(value, bool):
            properties[key] = "true" if value else "false"
        elif isinstance(value, str | int | float):
            properties[key] = str(value)
        else:
            raise LocalProtocolError(
                f"property {key!r} is a {type(value).__name__}; allowed are str, int, float and bool"
            )
    return properties


def build_message(subject: str, body: Body, tags: tuple[str, ...], message_id: str, app: str, now_ms: int) -> Message:
    """A new message with what the protocol wants in it."""
    properties = {
        KEY_CREATED: str(now_ms),
        KEY_EXPIRE: str(now_ms + EXPIRE_AFTER_MS),
        KEY_APP: app,
        **properties_of(body),
    }
    return Message(subject, message_id, properties, tags, 0, now_ms, now_ms)


def delayed_message(message: Message, due_ms: int) -> Message:
    """The message as one that is due later."""
    properties = {**message.properties, KEY_SCHEDULE: str(due_ms)}
    return replace(message, properties=properties, flag=message.flag | FLAG_DELAY, time_ms=due_ms)


def cause_label(text: str) -> str:
    """A cause as it is stored: one line, at most CAUSE_CHARS_MAX characters, nothing that can't be written as UTF-8."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:CAUSE_CHARS_MAX].rstrip()


@dataclass(frozen=True, slots=True)
class Receipt:
    """The proof that a message is on disk: where, and with how many attempts."""

    message_id: str
    subject: str
    broker_group: str
    attempts: int


@dataclass(eq=False, slots=True)
class Delivery:
    """One handing of a message. Settle it with `ack` or `retry`, or use it as `async with`."""

    message: Message
    group: str
    broker_group: str
    pull_sequence: int
    received_at_ms: int
    _settle: "Callable[[Delivery, bool, str], Awaitable[None]]" = field(repr=False)
    _is_settled: bool = False

    @property
    def message_id(self) -> str:
        return self.message.message_id

    @property
    def subject(self) -> str:
        """The subject as the message names it; the same for every attempt."""
        return self.message.subject

    @property
    def properties(self) -> dict[str, str]:
        """What the producer sent, without the protocol's own properties."""
        return {key: value for key, value in self.message.properties.items() if key not in RESERVED_KEYS}

    @property
    def body(self) -> str | None:
        """The property `data`, if there is one."""
        return self.message.properties.get(KEY_DATA)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.message.tags

    @property
    def attempt(self) -> int:
        """1 for the first time, counted up by retries."""
        try:
            return int(self.message.properties.get(KEY_ATTEMPT, "1"))
        except ValueError:
            return 1

    @property
    def retry_cause(self) -> str:
        """Why the attempt before was given back, as far as its consumer said; "" for the first."""
        return self.message.properties.get(KEY_RETRY_CAUSE, "")

    @property
    def created_at(self) -> datetime:
        """When the message, or this attempt of it, was made; UTC."""
        try:
            stamp = int(self.message.properties.get(KEY_CREATED, ""))
        except ValueError:
            stamp = self.message.created_at_ms
        return datetime.fromtimestamp(stamp / 1000, UTC)

    async def ack(self) -> None:
        """Done: not to be delivered to this group again. Returns when noted; `close` makes sure that it is told.

        Raises:
            DeliveryAlreadySettled: it was settled before.
        """
        await self._settle_once(True, "")

    async def retry(self, *, cause: str = "") -> None:
        """Not done: try again after the brokers' retry delay; past the last attempt it becomes a dead letter.

        Returns when its next attempt is stored.

        Args:
            cause: why, as a short label such as "PaymentDeclined"; the next attempt carries it (`retry_cause`), and so does the
                dead letter. Statistics count by it: what differs from message to message does not belong there. Cut to
                CAUSE_CHARS_MAX characters.

        Raises:
            DeliveryAlreadySettled: it was settled before.
            SendFailed: the brokers refuse the message, or the consumer is closing; it is not settled then.
        """
        await self._settle_once(False, cause_label(cause))

    async def _settle_once(self, is_done: bool, cause: str) -> None:
        if self._is_settled:
            raise DeliveryAlreadySettled(f"delivery of {self.message_id} was already acknowledged or retried")
        self._is_settled = True
        try:
            await self._settle(self, is_done, cause)
        except BaseException:
            # Its next attempt is not stored: it can be settled again, and comes again by itself if it is not.
            self._is_settled = False
            raise

    @property
    def is_settled(self) -> bool:
        return self._is_settled

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ack when the block ended well; retry when it raised, with the exception's class as cause, and let it go on."""
        if self._is_settled:
            return
        if kind is None:
            await self.ack()
        else:
            await self.retry(cause=kind.__name__)
