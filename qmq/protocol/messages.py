"""Messages: the raw form that is stored and handed out, and the SEND entry (a CRC before it).

    i8 flag · i64 create time · i64 schedule time, or the moment of writing · str subject · str message id ·
    [i8 tag count · str tag ...] when the flag says so · i32 property bytes · (str key · str value) ...

Source: docs/reference/wire.md, section 4.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import error as StructError
from zlib import crc32

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol.names import MESSAGE_ID_CHARS_MAX, TAGS_MAX, VALUE_BYTES_MAX, characters
from qmq.protocol.primitives import I8, I32, I64, U16, Reader, encode_str

FLAG_LOW_RELIABILITY = 1
FLAG_DELAY = 2
FLAG_TAGS = 4

KEY_CREATED = "qmq_createTime"
KEY_EXPIRE = "qmq_expireTime"
KEY_APP = "qmq_appCode"
KEY_SCHEDULE = "qmq_scheduleReceiveTime"
KEY_MAX_RETRY = "qmq_maxRetryNum"
KEY_ATTEMPT = "qmq_times"
KEY_GROUP = "qmq_consumerGroupName"
KEY_PULL_OFFSET = "qmq_pullOffset"
KEY_RETRY_CAUSE = "qmq_retryCause"
"""Ours: why the attempt before was given back, a short label. Clients of QMQ hand it on unseen."""
KEY_CORRUPT = "qmq_corruptData"
KEY_ENV = "qmq_env"
KEY_SUB_ENV = "qmq_subEnv"
KEY_CONTENT_TYPE = "qmq_contentType"
KEY_CONTENT_ENCODING = "qmq_contentEncoding"
"""Ours: what the property `data` contains, and how it is encoded (qmq/client/bodies.py). Clients of QMQ ignore them."""
RESERVED_KEYS = frozenset(
    {
        KEY_CREATED,
        KEY_EXPIRE,
        KEY_APP,
        KEY_SCHEDULE,
        KEY_MAX_RETRY,
        KEY_ATTEMPT,
        KEY_GROUP,
        KEY_PULL_OFFSET,
        KEY_RETRY_CAUSE,
        KEY_CORRUPT,
        KEY_ENV,
        KEY_SUB_ENV,
        KEY_CONTENT_TYPE,
        KEY_CONTENT_ENCODING,
    }
)
"""Properties that belong to the protocol; users can't set them."""
TRACE_KEYS = frozenset({"traceparent", "tracestate", "baggage"})
"""W3C trace context. The names are those of other languages' libraries, so that their consumers continue a trace."""
HIDDEN_KEYS = RESERVED_KEYS | TRACE_KEYS
"""Properties that a consumer's handler does not get among those of the producer."""

LARGE_PART_CHARS = 8192
"""A longer text is stored in pieces of this many characters under `key#part0`, `key#part1`, ..."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message as the wire knows it. Properties are text; times are milliseconds since the epoch.

    `time_ms` is the wire's second time: the due time of a delayed message, else the moment of writing. It is no expiry
    (trap T10).
    """

    subject: str
    message_id: str
    properties: dict[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    flag: int = 0
    created_at_ms: int = 0
    time_ms: int = 0


def encode_raw(message: Message) -> bytes:
    """The raw form; the tag bit of the flag follows from the tags.

    Raises:
        LocalProtocolError: a part can't be carried, or would stop the official consumer (traps T12, T13).
    """
    if not message.subject or not message.message_id:
        raise LocalProtocolError("a message needs a subject and a message id")
    if characters(message.message_id) > MESSAGE_ID_CHARS_MAX:
        raise LocalProtocolError(
            f"message id of {characters(message.message_id)} characters, the limit is {MESSAGE_ID_CHARS_MAX}"
        )
    if len(message.tags) > TAGS_MAX or not all(message.tags):
        raise LocalProtocolError(f"tags {message.tags!r}: at most {TAGS_MAX}, none empty")
    flag = message.flag & ~FLAG_TAGS | (FLAG_TAGS if message.tags else 0)
    properties = b"".join(_encode_property(key, value) for key, value in message.properties.items())
    parts = [
        I8.pack(flag),
        I64.pack(message.created_at_ms),
        I64.pack(message.time_ms),
        encode_str(message.subject),
        encode_str(message.message_id),
    ]
    if message.tags:
        parts.append(I8.pack(len(message.tags)))
        parts += [encode_str(tag) for tag in message.tags]
    parts += [I32.pack(len(properties)), properties]
    return b"".join(parts)


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
    """An entry with another due time, in the message's second time and in its property; everything else byte for byte.

    Raises:
        ProtocolError: the bytes are not an entry.
    """
    raw = bytearray(entry[I64.size :])
    try:
        raw[0] |= FLAG_DELAY
        I64.pack_into(raw, 9, due_ms)
        at = 17
        for _ in range(2):
            at += 2 + U16.unpack_from(raw, at)[0]
        if raw[0] & FLAG_TAGS:
            count, at = raw[at], at + 1
            for _ in range(count):
                at += 2 + U16.unpack_from(raw, at)[0]
        properties_at = at
        at += I32.size
        while at < len(raw):
            key_at = at
            at += 2 + U16.unpack_from(raw, at)[0]
            value_at = at
            at += 2 + U16.unpack_from(raw, at)[0]
            if raw[key_at + 2 : value_at] == KEY_SCHEDULE.encode():
                raw[value_at:at] = encode_str(str(due_ms))
                I32.pack_into(raw, properties_at, len(raw) - properties_at - I32.size)
                break
    except (StructError, IndexError) as error:
        raise ProtocolError("the bytes are not a message's entry") from error
    return I64.pack(crc32(raw)) + bytes(raw)


def decode_raw(view: memoryview | bytes, begin: int = 0) -> tuple[Message, int]:
    """One raw message from `begin` on, and where it ends.

    Text that is not UTF-8 is read with replacement characters: a consumer must not stop at a message that others stored.

    Raises:
        ProtocolError: the bytes are not a message.
    """
    data = memoryview(view)[begin:]
    reader = Reader(data)
    flag = reader.i8()
    created_at_ms, time_ms = reader.i64(), reader.i64()
    subject, message_id = _text(reader), _text(reader)
    tags: tuple[str, ...] = ()
    if flag & FLAG_TAGS:
        count = reader.count(reader.i8() & 0xFF, 2, "tags")
        tags = tuple(_text(reader) for _ in range(count))
    inner = Reader(reader.bytes_(reader.i32()))
    properties: dict[str, str] = {}
    while inner.remaining:
        key = _text(inner)
        properties[key] = _text(inner)
    end = begin + len(data) - reader.remaining
    return Message(subject, message_id, properties, tags, flag, created_at_ms, time_ms), end


def _text(reader: Reader) -> str:
    return str(reader.bytes_(U16.unpack(reader.bytes_(2))[0]), "utf-8", "replace")


def decode_raws(body: memoryview | bytes) -> list[Message]:
    """Raw messages back to back, as a pull's answer holds them."""
    messages: list[Message] = []
    at, end = 0, len(body)
    while at < end:
        message, at = decode_raw(body, at)
        messages.append(message)
    return messages


def decode_entries(body: memoryview | bytes, verify: bool = True) -> list[Message]:
    """The entries of a SEND.

    Raises:
        ProtocolError: the bytes are not entries, or with `verify` a CRC is wrong.
    """
    view = memoryview(body)
    messages: list[Message] = []
    at, end = 0, len(view)
    while at < end:
        if end - at < I64.size:
            raise ProtocolError(f"{end - at} bytes are too few for an entry")
        crc = I64.unpack_from(view, at)[0]
        message, after = decode_raw(view, at + I64.size)
        if verify and crc != crc32(view[at + I64.size : after]):
            raise ProtocolError(f"message {len(messages)} has a wrong CRC", code="protocol.bad_crc")
        messages.append(message)
        at = after
    return messages


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
