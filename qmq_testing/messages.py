"""class StoredMessage: a message as a test sees it on the server."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from qmq.client.bodies import body_bytes, body_text, decode_body, visible_properties
from qmq.client.delivery import created_at
from qmq.protocol.messages import KEY_ATTEMPT, KEY_CREATED, KEY_RETRY_CAUSE, Message
from qmq.protocol.values import whole_number

T = TypeVar("T")


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
        return visible_properties(self.message.properties)

    @property
    def body(self) -> str | None:
        """The body as text, decompressed; None if the message has none, or if it is bytes."""
        return body_text(self.message.properties)

    @property
    def content(self) -> bytes | None:
        """The body as bytes, decoded and decompressed; a text in UTF-8. None if the message has no body."""
        return body_bytes(self.message.properties)

    def decode(self, type_: type[T]) -> T:
        """Return the body as an instance of a type, as `Delivery.decode` does.

        Raises:
            BodyUndecodable: the body does not fit the type; the message names the field.
        """
        return decode_body(self.message.properties, type_)

    @property
    def tags(self) -> tuple[str, ...]:
        return self.message.tags

    @property
    def attempt(self) -> int:
        """1 for the first attempt, increased by each retry."""
        return whole_number(self.message.properties.get(KEY_ATTEMPT), 1)

    @property
    def retry_cause(self) -> str:
        """The cause of the previous attempt's failure; "" for the first attempt."""
        return self.message.properties.get(KEY_RETRY_CAUSE, "")

    @property
    def created_at(self) -> datetime:
        """When the message, or this attempt of it, was created, in UTC."""
        return created_at(self.message.properties.get(KEY_CREATED), self.message.created_at_ms)
