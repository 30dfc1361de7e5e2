"""What filters can name of a message: its properties, its body, and what the broker knows of it."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import orjson

from qmq.client.bodies import KEY_DATA, body_bytes
from qmq.errors import BodyUndecodable
from qmq.protocol.messages import HIDDEN_KEYS, KEY_CONTENT_ENCODING
from qmq.protocol.raw import RawBytes, RawView

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MAX_MS = 253_402_300_799_000
"""The end of the year 9999; CEL knows no later times, and no earlier ones than the year 1."""


@dataclass(eq=False)
class Content:
    """A message as filters see it, decoded as far as a filter asks for it."""

    sequence: int
    message_id: str
    properties: dict[str, str]
    tags: tuple[str, ...]
    size: int
    stored_at_ms: int
    created_at_ms: int

    @cached_property
    def body_text(self) -> str | None:
        """The text of property `data`, decompressed and joined; None without one, or if it can't be decoded."""
        properties = self.properties
        if KEY_CONTENT_ENCODING not in properties and (text := properties.get(KEY_DATA)) is not None:
            return text
        try:
            data = body_bytes(properties)
        except BodyUndecodable:
            return None
        return None if data is None else data.decode("utf-8", "replace")

    @cached_property
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

    @cached_property
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

    def picked(self, fields: Iterable[str] | None) -> Any:
        """Return the body with these fields only, if it is an object: the CEL library converts each value that it is given."""
        body = self.body
        if fields is None or not isinstance(body, dict):
            return body
        return {key: body[key] for key in fields if key in body}


VALUES: dict[str, Callable[[Content], Any]] = {
    "body": lambda content: content.body,
    "properties": lambda content: content.properties,
    "tags": lambda content: list(content.tags),
    "text": lambda content: content.text,
    "size": lambda content: content.size,
    "time": lambda content: moment(content.stored_at_ms),
    "created": lambda content: moment(content.created_at_ms),
    "id": lambda content: content.message_id,
    "sequence": lambda content: content.sequence,
}
"""The values of a message, by the name that filters have for them. A filter never sees another part of a message."""


def moment(at_ms: int) -> datetime:
    """Return a time of a message as CEL knows it, within its limits."""
    return _EPOCH + timedelta(milliseconds=max(0, min(at_ms, _TIME_MAX_MS)))


def read_content(sequence: int, raw: RawBytes, stored_at_ms: int) -> Content:
    """Return the content of a raw message. Masks apply here, before a filter is evaluated. Raises ProtocolError."""
    view = RawView(raw)
    return Content(
        sequence, view.message_id, view.properties, view.tags, len(raw), stored_at_ms, view.created_at_ms
    )  # fmt: skip
