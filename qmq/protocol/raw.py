"""The layout of a raw message, described once. Pure.

    i8 flag · i64 create time · i64 schedule time, or the moment of writing · str subject · str message id ·
    [i8 tag count · str tag ...] when the flag has FLAG_TAGS · i32 property bytes · (str key · str value) ...

A string is its length as an unsigned i16, then its UTF-8 bytes. Integers are big-endian. Source: docs/reference/wire.md, section 4.

`RawView` reads one message where it lies, and `split_raws` finds the boundaries of messages back to back. Both raise ProtocolError
for bytes that are not messages, read nothing twice, and copy only what they return. Places are relative to the first byte of the
data. Text that is not UTF-8 is read with replacement characters: a consumer must not stop at a message that others stored.

Most neighbouring messages have the same shape, which is the lengths of their fields. A shape as a compiled struct checks a
message with one call; only messages of another shape are read field by field.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import Struct
from struct import error as StructError

from qmq.errors import ProtocolError
from qmq.protocol.primitives import I32, I64, U16

FLAG_DELAY = 2
FLAG_TAGS = 4

CREATED_AT = 1
"""Where the create time begins, from the message's first byte; the flag is that byte."""
TIME_AT = 9
"""Where the second time begins: the due time when the flag has FLAG_DELAY."""
SUBJECT_AT = 17
"""Where the subject begins, with its length; all that follows depends on lengths."""

SHAPE_FIELDS_MAX = 64
"""A message with more tags, or more keys and values, is always read field by field."""
SHAPES_MAX = 16
"""Messages whose shape one walk, or one `PropertyFinder`, learns at most; later ones of other shapes are read field by field."""

RawBytes = bytes | bytearray | memoryview

_read_length = U16.unpack_from
_read_property_bytes = I32.unpack_from
_read_time = I64.unpack_from


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


class RawView:
    """One raw message, decoded field by field as its attributes are read. Raises ProtocolError.

    Making a view checks the boundaries of everything but single properties; those are checked when properties are read.

    Args:
        data, begin: bytes that hold the message and must not change, and where it begins.
        limit: where the message ends at the latest; None: the end of the data.
    """

    __slots__ = ("_id_end", "_subject_end", "begin", "data", "end", "properties_begin")

    def __init__(self, data: RawBytes, begin: int = 0, limit: int | None = None) -> None:
        self.data = data
        self.begin = begin
        self._subject_end, self._id_end, self.properties_begin, self.end = message_places(
            data, begin, len(data) if limit is None else limit
        )

    @property
    def flag(self) -> int:
        """The sum of FLAG_ constants, -128 to 127."""
        flag = self.data[self.begin]
        return flag - 256 if flag > 127 else flag

    @property
    def created_at_ms(self) -> int:
        """The create time, in milliseconds since the epoch."""
        found: int = _read_time(self.data, self.begin + CREATED_AT)[0]
        return found

    @property
    def time_ms(self) -> int:
        """The due time of a delayed message, else the moment of writing; in milliseconds since the epoch."""
        found: int = _read_time(self.data, self.begin + TIME_AT)[0]
        return found

    @property
    def subject(self) -> str:
        return str(self.data[self.begin + SUBJECT_AT + 2 : self._subject_end], "utf-8", "replace")

    @property
    def message_id(self) -> str:
        return str(self.data[self._subject_end + 2 : self._id_end], "utf-8", "replace")

    @property
    def tags(self) -> tuple[str, ...]:
        if not self.data[self.begin] & FLAG_TAGS:
            return ()
        return tuple(str(tag, "utf-8", "replace") for tag in tags_at(self.data, self._id_end))

    @property
    def properties(self) -> dict[str, str]:
        """All properties. Of a key that occurs twice, the last value counts. Raises ProtocolError."""
        return decode_properties(self.data, self.properties_begin, self.end)

    def property_text(self, key: bytes) -> str | None:
        """The value of one property, by its key in UTF-8; None when the message does not have it. Raises ProtocolError."""
        data, found = self.data, None
        for key_begin, key_end, value_begin, value_end in property_places(data, self.properties_begin, self.end):
            if data[key_begin:key_end] == key:
                found = data[value_begin:value_end]
        return None if found is None else str(found, "utf-8", "replace")

    def shape_places(self) -> tuple[int, ...]:
        """Where the bytes of the flag and of all lengths are that `shape` reads of a message without tags, with the last size."""
        begin, subject_end, end = self.begin, self._subject_end, self.properties_begin
        lengths = (begin + SUBJECT_AT, begin + SUBJECT_AT + 1, subject_end, subject_end + 1)
        return (begin, *lengths, *range(end - I32.size, end))

    def message(self) -> Message:
        """The whole message, decoded. Raises ProtocolError."""
        return Message(
            self.subject, self.message_id, self.properties, self.tags, self.flag, self.created_at_ms, self.time_ms
        )

    def shape(self) -> tuple[str, tuple[int, ...]]:
        """A struct format without byte order that reads the flag, all lengths and the size of the properties, and what it reads.

        The size is left out of the values: a message of which the struct reads the same values has the same layout.
        """
        data = self.data
        subject_bytes = self._subject_end - self.begin - SUBJECT_AT - 2
        id_bytes = self._id_end - self._subject_end - 2
        formats = [f"b16xH{subject_bytes}xH{id_bytes}x"]
        values = [self.flag, subject_bytes, id_bytes]
        if data[self.begin] & FLAG_TAGS:
            sizes = [len(tag) for tag in tags_at(data, self._id_end)]
            formats += ["B", *(f"H{size}x" for size in sizes)]
            values += [len(sizes), *sizes]
        return "".join(formats) + "i", tuple(values)


PropertyPlace = tuple[int, int, int, int]
"""Begin and end of a key, begin and end of its value; without their lengths."""


def message_places(data: RawBytes, begin: int, limit: int) -> tuple[int, int, int, int]:
    """The ends of subject and message id, the begin of the first property, and the end of a message. Raises ProtocolError."""
    try:
        subject_end: int = begin + SUBJECT_AT + 2 + _read_length(data, begin + SUBJECT_AT)[0]
        at = id_end = subject_end + 2 + _read_length(data, subject_end)[0]
        if data[begin] & FLAG_TAGS:
            count, at = data[at], at + 1
            for _ in range(count):
                at += 2 + _read_length(data, at)[0]
        property_bytes: int = _read_property_bytes(data, at)[0]
    except (StructError, IndexError) as error:
        raise ProtocolError(f"the message at byte {begin} is cut short") from error
    end = at + I32.size + property_bytes
    if property_bytes < 0 or end > limit:
        raise ProtocolError(
            f"the message at byte {begin} announces {property_bytes} bytes of properties, more than there are"
        )
    return subject_end, id_end, at + I32.size, end


def split_raws(
    data: RawBytes, begin: int = 0, end: int | None = None, *, gap: int = 0
) -> tuple[list[int], list[int], list[int]]:
    """The boundaries of raw messages back to back in data[begin:end]. Single properties are not checked. Raises ProtocolError.

    Args:
        gap: bytes before each message, such as the checksum of an entry.

    Returns:
        Where each message begins, behind its gap; where its first property begins; and where it ends.
    """
    limit = len(data) if end is None else end
    begins: list[int] = []
    properties_begins: list[int] = []
    ends: list[int] = []
    shapes = 0
    values: tuple[int, ...] = ()
    last_values: tuple[int, ...] = ()
    layout = Struct("")
    at = begin
    while at < limit:
        message_at = at + gap
        if values:
            read, head_bytes = layout.unpack_from, layout.size
            while message_at + head_bytes <= limit:
                found = read(data, message_at)
                if found[:-1] != values:
                    break
                properties_at = message_at + head_bytes
                at = properties_at + found[-1]
                if at < properties_at or at > limit:
                    raise ProtocolError(f"the message at byte {message_at} announces {found[-1]} bytes of properties")
                begins.append(message_at)
                properties_begins.append(properties_at)
                ends.append(at)
                message_at = at + gap
            if at >= limit:
                break
        view = RawView(data, message_at, limit)
        begins.append(message_at)
        properties_begins.append(view.properties_begin)
        at = view.end
        ends.append(at)
        if shapes < SHAPES_MAX:
            shapes += 1
            form, new_values = view.shape()
            # Compiling costs more than reading a few messages: only a shape that repeats is compiled.
            if new_values == last_values and len(new_values) <= SHAPE_FIELDS_MAX:
                layout, values = Struct(f">{form}"), new_values
            last_values = new_values
    return begins, properties_begins, ends


def equal_step(data: bytes, *, gap: int = 0) -> int:
    """Return the bytes from one raw message in `data` to the next, if all have the lengths of the first one and no tags; else 0.

    The messages are back to back, as in `split_raws`. Only flags and lengths are compared, each in one call for all messages.
    Raises ProtocolError if the first message is cut short.
    """
    if not data:
        return 0
    first = RawView(data, gap)
    step, count = first.end, len(data) // first.end
    if first.flag & FLAG_TAGS or step * count != len(data):
        return 0
    return step if count == 1 or all(data[at::step].count(data[at]) == count for at in first.shape_places()) else 0


def property_places(data: RawBytes, begin: int, end: int) -> Iterator[PropertyPlace]:
    """Where the keys and values of the properties in data[begin:end] lie, in order. Raises ProtocolError."""
    at = begin
    try:
        while at < end:
            key_end: int = at + 2 + _read_length(data, at)[0]
            value_begin = key_end + 2
            value_end: int = value_begin + _read_length(data, key_end)[0]
            if value_end > end:
                break
            yield at + 2, key_end, value_begin, value_end
            at = value_end
    except StructError as error:
        raise ProtocolError(f"the properties at byte {begin} are cut short") from error
    if at != end:
        raise ProtocolError(f"the properties at byte {begin} do not end where their length says")


def decode_properties(data: RawBytes, begin: int, end: int) -> dict[str, str]:
    """The properties in data[begin:end]. Of a key that occurs twice, the last value counts. Raises ProtocolError."""
    # The same walk as `property_places`, without a generator: it runs for each message that is decoded.
    properties: dict[str, str] = {}
    at = begin
    try:
        while at < end:
            key_end = at + 2 + _read_length(data, at)[0]
            value_begin = key_end + 2
            value_end = value_begin + _read_length(data, key_end)[0]
            properties[str(data[at + 2 : key_end], "utf-8", "replace")] = str(
                data[value_begin:value_end], "utf-8", "replace"
            )
            at = value_end
    except StructError as error:
        raise ProtocolError(f"the properties at byte {begin} are cut short") from error
    if at != end:
        raise ProtocolError(f"the properties at byte {begin} do not end where their length says")
    return properties


def property_lengths(data: RawBytes, begin: int, end: int) -> list[int]:
    """The lengths of keys and values of the properties in data[begin:end], in turn. Raises ProtocolError."""
    lengths: list[int] = []
    add, at = lengths.append, begin
    try:
        while at < end:
            size = _read_length(data, at)[0]
            at += 2 + size
            add(size)
            size = _read_length(data, at)[0]
            at += 2 + size
            add(size)
    except StructError as error:
        raise ProtocolError(f"the properties at byte {begin} are cut short") from error
    if at != end:
        raise ProtocolError(f"the properties at byte {begin} do not end where their length says")
    return lengths


def tags_at(data: RawBytes, id_end: int) -> list[bytes]:
    """The tags of a message whose message id ends at `id_end`, and whose flag has FLAG_TAGS; its places were checked before."""
    found = []
    at = id_end + 1
    for _ in range(data[id_end]):
        end = at + 2 + _read_length(data, at)[0]
        found.append(bytes(data[at + 2 : end]))
        at = end
    return found


def tags_of(data: RawBytes, begin: int = 0) -> list[bytes]:
    """The tags of the message at `begin`, without a view; its places were checked before."""
    if not data[begin] & FLAG_TAGS:
        return []
    subject_end = begin + SUBJECT_AT + 2 + _read_length(data, begin + SUBJECT_AT)[0]
    return tags_at(data, subject_end + 2 + _read_length(data, subject_end)[0])


class PropertyFinder:
    """Finds one property, by its key in UTF-8, in many messages; fast where the properties before it have the same lengths."""

    __slots__ = ("_key", "_known", "_last", "_shapes", "_stored_key")

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._stored_key = U16.pack(len(key)) + key
        self._known: tuple[Struct, tuple[object, ...]] | None = None
        self._last: tuple[object, ...] = ()
        self._shapes = 0

    def place(self, data: bytes | bytearray, begin: int, end: int) -> tuple[int, int] | None:
        """Begin and end of the value in the properties data[begin:end]; None without the key. Raises ProtocolError."""
        known = self._known
        if known is not None:
            layout, expected = known
            value_begin = begin + layout.size
            if value_begin <= end:
                found = layout.unpack_from(data, begin)
                if found[:-1] == expected:
                    value_end: int = value_begin + found[-1]
                    if value_end == end or (value_end < end and data.find(self._stored_key, value_end, end) < 0):
                        return value_begin, value_end
        if data.find(self._stored_key, begin, end) < 0:
            return None
        return self._search(data, begin, end)

    def _search(self, data: bytes | bytearray, begin: int, end: int) -> tuple[int, int] | None:
        place = None
        lengths: list[int] = []
        before: tuple[int, ...] = ()
        for key_begin, key_end, value_begin, value_end in property_places(data, begin, end):
            if data[key_begin:key_end] == self._key:
                place = value_begin, value_end
                before = tuple(lengths)
            lengths += (key_end - key_begin, value_end - value_begin)
        if place is not None and self._shapes < SHAPES_MAX and len(before) <= SHAPE_FIELDS_MAX:
            self._shapes += 1
            self._learn(before)
        return place

    def _learn(self, before: tuple[int, ...]) -> None:
        expected = (*before, len(self._key), self._key)
        if expected == self._last:
            form = "".join(f"H{length}x" for length in before)
            self._known = Struct(f">{form}H{len(self._key)}sH"), expected
        self._last = expected
