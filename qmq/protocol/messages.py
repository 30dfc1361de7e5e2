"""Messages: the raw form that is stored and delivered, and the SEND entry (a CRC before it).

The layout of the raw form is in `qmq.protocol.raw`. Source: docs/reference/wire.md, section 4.
"""

from collections.abc import Mapping, Sequence
from struct import Struct

from qmq.checksum import crc32
from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol.names import TAGS_MAX, VALUE_BYTES_MAX, characters, message_id_problem
from qmq.protocol.primitives import I32, I64, U16, encode_str, utf8
from qmq.protocol.raw import FLAG_DELAY as FLAG_DELAY
from qmq.protocol.raw import FLAG_TAGS as FLAG_TAGS
from qmq.protocol.raw import TIME_AT, RawBytes, RawView, message_places, property_places, split_raws
from qmq.protocol.raw import Message as Message

KEY_CREATED = "qmq_createTime"
KEY_EXPIRE = "qmq_expireTime"
KEY_APP = "qmq_appCode"
KEY_SCHEDULE = "qmq_scheduleReceiveTime"
KEY_MAX_RETRY = "qmq_maxRetryNum"
KEY_ATTEMPT = "qmq_times"
KEY_GROUP = "qmq_consumerGroupName"
KEY_PULL_OFFSET = "qmq_pullOffset"
KEY_RETRY_CAUSE = "qmq_retryCause"
"""PyQMQ's: the cause of the previous attempt's retry, a short label. Clients of QMQ pass it on unread."""
KEY_CORRUPT = "qmq_corruptData"
KEY_ENV = "qmq_env"
KEY_SUB_ENV = "qmq_subEnv"
KEY_CONTENT_TYPE = "qmq_contentType"
KEY_CONTENT_ENCODING = "qmq_contentEncoding"
"""PyQMQ's: what the property `data` contains, and how it is encoded (qmq/client/bodies.py). Clients of QMQ ignore them."""
RESERVED_KEYS = frozenset(key for name, key in dict(globals()).items() if name.startswith("KEY_"))
"""Properties that belong to the protocol; users can't set them."""
TRACE_KEYS = frozenset({"traceparent", "tracestate", "baggage"})
"""W3C trace context. The names are those of other languages' libraries, so that their consumers continue a trace."""
HIDDEN_KEYS = RESERVED_KEYS | TRACE_KEYS
"""Properties that a consumer's handler does not get among those of the producer."""

_SCHEDULE_KEY = KEY_SCHEDULE.encode()
_TIMES = Struct(">bqq").pack

LARGE_PART_CHARS = 8192
"""A longer text is stored in pieces of this many characters under `key#part0`, `key#part1`, ..."""


def encode_raw(message: Message) -> bytes:
    """The raw form; the tag bit of the flag follows from the tags. Raises LocalProtocolError (traps T12, T13)."""
    if not message.subject:
        raise LocalProtocolError("a message needs a subject")
    message_id = message_id_bytes(message.message_id)
    flag = message.flag & ~FLAG_TAGS | (FLAG_TAGS if message.tags else 0)
    properties = b"".join(_encode_property(key, value) for key, value in message.properties.items())
    return b"".join(
        (
            _TIMES(flag, message.created_at_ms, message.time_ms),
            encode_str(message.subject),
            U16.pack(len(message_id)),
            message_id,
            encode_tags(message.tags) if message.tags else b"",
            I32.pack(len(properties)),
            properties,
        )
    )


def message_id_bytes(message_id: str) -> bytes:
    """A message id without its length. Raises LocalProtocolError for an empty or illegal one."""
    if not message_id:
        raise LocalProtocolError("the message id is empty")
    if problem := message_id_problem(message_id):
        raise LocalProtocolError(problem)
    return utf8(message_id)


def encode_tags(tags: Sequence[str]) -> bytes:
    """Tags with their count. Raises LocalProtocolError for too many, or an empty one."""
    if len(tags) > TAGS_MAX or not all(tags):
        raise LocalProtocolError(f"tags {tuple(tags)!r}: at most {TAGS_MAX}, none empty")
    return b"".join((bytes((len(tags),)), *map(encode_str, tags)))


def _encode_property(key: str, value: str) -> bytes:
    try:
        return encode_str(key) + encode_str(value)
    except LocalProtocolError as error:
        raise LocalProtocolError(
            f"property {key[:60]!r}: {error}; values hold at most {VALUE_BYTES_MAX} bytes, use set_large_string for more"
        ) from error


def encode_entry(message: Message) -> bytes:
    """A message as an entry of a SEND: its CRC, then its raw form."""
    raw = encode_raw(message)
    return I64.pack(crc32(raw)) + raw


def redate_entry(entry: bytes | memoryview, due_ms: int) -> bytes:
    """An entry with another due time, in the message's second time and in its property. Raises ProtocolError."""
    raw = bytearray(entry[I64.size :])
    view = RawView(raw)
    if view.end != len(raw):
        raise ProtocolError(f"{len(raw) - view.end} bytes behind the end of the entry")
    due = str(due_ms).encode()
    places = list(property_places(raw, view.properties_begin, view.end))
    raw[0] |= FLAG_DELAY
    I64.pack_into(raw, TIME_AT, due_ms)
    for key_begin, key_end, value_begin, value_end in reversed(places):
        if raw[key_begin:key_end] == _SCHEDULE_KEY:
            raw[key_end:value_end] = U16.pack(len(due)) + due
            size = view.end - view.properties_begin + len(due) - (value_end - value_begin)
            I32.pack_into(raw, view.properties_begin - I32.size, size)
            break
    return I64.pack(crc32(raw)) + bytes(raw)


def resent_entry(raw: RawBytes, subject: str, now_ms: int, properties: Mapping[str, str | None]) -> bytes:
    """A raw message as an entry of another subject that is sent now, with some properties set, or removed (None).

    Message ID, tags and other properties are copied as bytes, so that any message that a broker has stored can be sent back.
    Raises ProtocolError for bytes that are no message, LocalProtocolError for a value that can't be sent.
    """
    subject_end, _, begin, end = message_places(raw, 0, len(raw))
    keys = {key.encode() for key in properties}
    parts = [
        bytes(raw[key_begin - U16.size : value_end])
        for key_begin, key_end, _, value_end in property_places(raw, begin, end)
        if bytes(raw[key_begin:key_end]) not in keys
    ]
    parts += [_encode_property(key, value) for key, value in properties.items() if value is not None]
    new = b"".join(
        (
            _TIMES(raw[0] & FLAG_TAGS, now_ms, now_ms),
            encode_str(subject),
            bytes(raw[subject_end : begin - I32.size]),
            I32.pack(sum(map(len, parts))),
            *parts,
        )
    )
    return I64.pack(crc32(new)) + new


def decode_raw(data: RawBytes, begin: int = 0) -> tuple[Message, int]:
    """One raw message from `begin` on, and where it ends. Raises ProtocolError for other bytes."""
    view = RawView(data, begin)
    return view.message(), view.end


def decode_raws(body: RawBytes) -> list[Message]:
    """Raw messages back to back, as a pull's answer holds them. Raises ProtocolError for other bytes."""
    return [RawView(body, begin).message() for begin in split_raws(body)[0]]


def set_large_string(properties: dict[str, str], key: str, text: str) -> None:
    """Put a text of any length into properties, in pieces if it is long, as the official client does."""
    if characters(text) <= LARGE_PART_CHARS:
        properties[key] = text
        return
    units = text.encode("utf-16-be", "surrogatepass")
    step = 2 * LARGE_PART_CHARS
    part, at = 0, 0
    while at < len(units):
        end = min(at + step, len(units))
        # A surrogate pair is not cut: half of one can't be written as UTF-8.
        if end < len(units) and 0xD8 <= units[end - 2] <= 0xDB:
            end -= 2
        properties[f"{key}#part{part}"] = units[at:end].decode("utf-16-be", "surrogatepass")
        part, at = part + 1, end


def get_large_string(properties: Mapping[str, str], key: str) -> str | None:
    """A text that was put with `set_large_string`; None when there is none."""
    if key in properties:
        return properties[key]
    pieces: list[str] = []
    while (piece := properties.get(f"{key}#part{len(pieces)}")) is not None:
        pieces.append(piece)
    return "".join(pieces) if pieces else None
