"""What users hold in their hands: a receipt for what they sent, a delivery of what they got."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING

from qmq.client.receipt import Receipt as Receipt
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
"""Properties that the official client writes and no program reads."""


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
            raise LocalProtocolError(f"property {key!r} is a {type(value).__name__}; must be str, int, float or bool")
    return properties


def build_message(subject: str, body: Body, tags: tuple[str, ...], message_id: str, app: str, now_ms: int) -> Message:
    """Build a new message with the properties that the protocol requires."""
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


@dataclass(eq=False, slots=True)
class Delivery:
    """One delivery of a message. Call `ack` or `retry`, or use it as `async with`."""

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
        """The subject of the message, the same for every attempt."""
        return self.message.subject

    @property
    def properties(self) -> dict[str, str]:
        """The properties that the producer sent, without those of the protocol. All values are texts."""
        return {key: value for key, value in self.message.properties.items() if key not in RESERVED_KEYS}

    @property
    def body(self) -> str | None:
        """The property `data`, or None."""
        return self.message.properties.get(KEY_DATA)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.message.tags

    @property
    def attempt(self) -> int:
        """1 for the first delivery, increased by each retry."""
        try:
            return int(self.message.properties.get(KEY_ATTEMPT, "1"))
        except ValueError:
            return 1

    @property
    def retry_cause(self) -> str:
        """The cause of the previous attempt's failure, if its consumer set one; "" for the first attempt."""
        return self.message.properties.get(KEY_RETRY_CAUSE, "")

    @property
    def created_at(self) -> datetime:
        """When the message, or this attempt of it, was created, in UTC."""
        try:
            stamp = int(self.message.properties.get(KEY_CREATED, ""))
        except ValueError:
            stamp = self.message.created_at_ms
        return datetime.fromtimestamp(stamp / 1000, UTC)

    async def ack(self) -> None:
        """Acknowledge the message: it is not delivered to this group again.

        Returns once the acknowledgement is queued; `close()` waits until the broker has it.

        Raises:
            DeliveryAlreadySettled: it was already acknowledged or retried.
        """
        await self._settle_once(True, "")

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
        """Acknowledge if the block succeeded; retry if it raised, with the class of the exception as cause, and propagate it."""
        if self._is_settled:
            return
        if kind is None:
            await self.ack()
        else:
            await self.retry(cause=kind.__name__)
