"""Rows of the outbox: their statuses, and messages as their content. Pure.

The content is the JSON that Gson writes of QMQ's `BaseMessage`. All values of `attrs` are texts, because the Java relay's Gson
reads numbers as doubles. Reading accepts numbers and truth values, which Java producers write, and ignores fields of other
versions.
"""

import json
from enum import IntEnum
from typing import Any

from qmq.client.message import DUE_MS_MAX
from qmq.client.middleware import OutgoingMessage
from qmq.errors import ContentInvalid, IllegalName, LocalProtocolError
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.protocol.messages import FLAG_DELAY, KEY_CREATED, KEY_SCHEDULE, Message, encode_entry
from qmq.protocol.names import check_subject

CONTENT_BYTES_MAX = 6 * MESSAGE_BYTES_MAX
"""A longer content is no message: JSON escapes make six characters of one byte at most."""
LAST_ERROR_CHARS_MAX = 500
_PLACEHOLDER = "${"
"""Begins an unresolved placeholder of Spring's; Java's relay rejects such subjects, too."""


class Status(IntEnum):
    """What a row waits for. The values are QMQ's."""

    PENDING = 0
    FAILED = -1
    """A Java relay failed to send it and does not read it again; ours sends it as PENDING."""
    INVALID = -2
    """The content is no message, or too old for the relay. For an operator."""
    REFUSED = -100
    """A broker refuses the message permanently. For an operator."""


UNSENT = (Status.PENDING, Status.FAILED)
"""The rows that a relay sends."""

_QUOTE, _QUOTE_BY_NUMBER = '\\"', "\\u0022"
_quoted = json.encoder.encode_basestring_ascii
_decode = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).decode
"""Numbers stay as they are written, which is how Java converts them to text."""


def content_of(message: OutgoingMessage) -> str:
    """The content of a message's row, in ASCII: other characters are escaped, so that any text passes any database."""
    # By hand, because this is part of each transaction: an encoder takes three times as long.
    tags = ",".join(map(_quoted, message.tags))
    attributes = ",".join([f"{_quoted(key)}:{_quoted(value)}" for key, value in message.properties.items()])
    message_id = _quoted(message.message_id)
    if '"' in message.message_id:
        # So that the ID ends at the next quotation mark: deletions compare it in SQL.
        message_id = f'"{message_id[1:-1].replace(_QUOTE, _QUOTE_BY_NUMBER)}"'
    return (
        f'{{"messageId":{message_id},"subject":{_quoted(message.subject)},"tags":[{tags}],'
        f'"storeAtFailed":false,"durable":true,"attrs":{{{attributes}}}}}'
    )


def message_of(content: str, now_ms: int) -> Message:
    """The message that a row contains.

    Args:
        now_ms: time of creation of a message that has none.

    Raises:
        ContentInvalid: the content is no message that a broker could accept; the text says why.
    """
    try:
        found = _decode(content)
    except (ValueError, RecursionError) as error:
        raise ContentInvalid(f"the content is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise ContentInvalid(f"the content is a JSON {_kind(found)}, not an object")
    subject, message_id = _text(found, "subject"), _text(found, "messageId")
    if _PLACEHOLDER in subject:
        raise ContentInvalid(f"the subject {subject[:100]!r} has an unresolved placeholder")
    properties = _properties(found.get("attrs"))
    created_ms = _milliseconds(properties, KEY_CREATED)
    due_ms = _milliseconds(properties, KEY_SCHEDULE)
    if created_ms is None:
        created_ms = now_ms
        properties[KEY_CREATED] = str(now_ms)  # brokers refuse a message without
    try:
        check_subject(subject)
    except IllegalName as error:
        raise ContentInvalid(str(error)) from error
    flag = 0 if due_ms is None else FLAG_DELAY
    return Message(
        subject,
        message_id,
        properties,
        _tags(found.get("tags")),
        flag,
        created_ms,
        created_ms if due_ms is None else due_ms,
    )


def entry_of(message: Message) -> bytes:
    """The message as an entry of a SEND. Raises ContentInvalid."""
    try:
        entry = encode_entry(message)
    except LocalProtocolError as error:
        raise ContentInvalid(str(error)) from error
    if len(entry) > MESSAGE_BYTES_MAX:
        raise ContentInvalid(f"the message has {len(entry)} bytes, the limit is {MESSAGE_BYTES_MAX}")
    return entry


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if not isinstance(value, str) or not value:
        raise ContentInvalid(f"the content has no {name}" if value is None else f"{name} is {value!r:.100}, not a text")
    return value


def _tags(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(tag, str) for tag in value):
        raise ContentInvalid(f"tags are {value!r:.100}, not a list of texts")
    return tuple(value)


def _properties(value: Any) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ContentInvalid(f"attrs is a JSON {_kind(value)}, not an object")
    properties: dict[str, str] = {}
    for key, each in value.items():
        if isinstance(each, str):
            properties[key] = each
        elif isinstance(each, bool):
            properties[key] = "true" if each else "false"
        elif each is not None:
            raise ContentInvalid(
                f"property {key[:60]!r} is a JSON {_kind(each)}; must be a text, number or truth value"
            )
    return properties


def _milliseconds(properties: dict[str, str], key: str) -> int | None:
    text = properties.get(key)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 20 or int(text) > DUE_MS_MAX:
        raise ContentInvalid(f"{key} is {text[:60]!r}; must be 0 to {DUE_MS_MAX} milliseconds")
    return int(text)


def _kind(value: Any) -> str:
    return {dict: "object", list: "array", str: "text", bool: "truth value", type(None): "null"}.get(
        type(value), "value"
    )
