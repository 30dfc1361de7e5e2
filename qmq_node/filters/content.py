"""What filters can name of a message: its properties, its body, and what the broker knows of it."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any

import orjson

from qmq.client.bodies import KEY_DATA as KEY_DATA
from qmq.client.bodies import body_bytes
from qmq.errors import BodyUndecodable
from qmq.protocol.masking import NO_MASKS, Masks
from qmq.protocol.messages import HIDDEN_KEYS, KEY_CONTENT_ENCODING, Message
from qmq.protocol.raw import RawView

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MAX_MS = 253_402_300_799_000
"""The end of the year 9999; CEL knows no later times, and no earlier ones than the year 1."""


class Content:
    """A message as filters see it, decoded as far as a filter asks for it.

    Args:
        source: the message, or a view of its bytes.
        size: of the message as it is stored, in bytes.
        masks: what filters see masked and decoded. `MASKED` has the values that depend on them.
    """

    __slots__ = ("_body_text", "_masks", "_properties", "sequence", "size", "source", "stored_at_ms")

    def __init__(
        self, sequence: int, source: Message | RawView, size: int, stored_at_ms: int, masks: Masks = NO_MASKS
    ) -> None:
        self.sequence = sequence
        self.source = source
        self.size = size
        self.stored_at_ms = stored_at_ms
        self._masks = masks
        self._properties: dict[str, str] | None = None
        self._body_text: str | None = None

    @property
    def properties(self) -> dict[str, str]:
        """All properties, as they are shown. Raises ProtocolError."""
        if self._properties is None:
            self._properties = self._masks.apply(self.source.properties).properties
        return self._properties

    @property
    def body_text(self) -> str | None:
        """The text of property `data`, decompressed and joined; None without one, or if it can't be decoded."""
        if self._body_text is None:
            self._body_text = _body_text(self.properties)
        return self._body_text

    @property
    def body(self) -> Any:
        """The body: JSON if it is JSON, else its text; without one the properties that the producer has set.

        JSON that orjson rejects counts as text: also one that is nested more than 1,024 levels.
        """
        text = self.body_text
        if text is None:
            return {key: value for key, value in self.properties.items() if key not in HIDDEN_KEYS}
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            return text

    @property
    def text(self) -> str:
        """The values of the properties that the producer has set, and the body, one per line."""
        hidden, data = HIDDEN_KEYS, f"{KEY_DATA}#"
        parts = [
            value
            for key, value in self.properties.items()
            if key not in hidden and key != KEY_DATA and not key.startswith(data)
        ]
        if self.body_text is not None:
            parts.append(self.body_text)
        return "\n".join(parts)


def _body_text(properties: dict[str, str]) -> str | None:
    if KEY_CONTENT_ENCODING not in properties and (text := properties.get(KEY_DATA)) is not None:
        return text
    try:
        data = body_bytes(properties)
    except BodyUndecodable:
        return None
    return None if data is None else data.decode("utf-8", "replace")


VALUES: dict[str, Callable[[Content], Any]] = {
    "body": attrgetter("body"),
    "properties": attrgetter("properties"),
    "tags": lambda content: list(content.source.tags),
    "text": attrgetter("text"),
    "size": attrgetter("size"),
    "time": lambda content: moment(content.stored_at_ms),
    "created": lambda content: moment(content.source.created_at_ms),
    "id": attrgetter("source.message_id"),
    "sequence": attrgetter("sequence"),
}
"""The values of a message, by the name that filters have for them. A filter never sees another part of a message."""
MASKED = frozenset({"body", "properties", "text"})
"""Those that come from properties, which masks change."""


def picked(value: Any, fields: Iterable[str] | None) -> Any:
    """Return an object with these fields only: the CEL library converts each value that it is given."""
    if fields is None or not isinstance(value, dict):
        return value
    return {key: value[key] for key in fields if key in value}


def moment(at_ms: int) -> datetime:
    """Return a time of a message as CEL knows it, within its limits."""
    return _EPOCH + timedelta(milliseconds=max(0, min(at_ms, _TIME_MAX_MS)))
