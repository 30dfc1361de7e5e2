"""class StoredMessage: a message as a test sees it on the server."""

from dataclasses import dataclass
from datetime import UTC, datetime

from qmq.client.message import KEY_DATA
from qmq.protocol.messages import KEY_ATTEMPT, KEY_CREATED, KEY_RETRY_CAUSE, RESERVED_KEYS, Message


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message that a node has stored, with the attribute names of `qmq.Delivery`."""

    message: Message
    due_at: datetime | None = None
    """When it is due, in UTC; None: it was stored for immediate delivery, or has been delivered."""

    @property
    def message_id(self) -> str:
        return self.message.message_id

    @property
    def subject(self) -> str:
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
        """1 for the first attempt, increased by each retry."""
        return _whole(self.message.properties.get(KEY_ATTEMPT), 1)

    @property
    def retry_cause(self) -> str:
        """The cause of the previous attempt's failure; "" for the first attempt."""
        return self.message.properties.get(KEY_RETRY_CAUSE, "")

    @property
    def created_at(self) -> datetime:
        """When the message, or this attempt of it, was created, in UTC."""
        return moment(_whole(self.message.properties.get(KEY_CREATED), self.message.created_at_ms))


def moment(milliseconds: int) -> datetime:
    """A time in milliseconds since the epoch as a datetime in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


def _whole(text: str | None, default: int) -> int:
    try:
        return int(text) if text else default
    except ValueError:
        return default
