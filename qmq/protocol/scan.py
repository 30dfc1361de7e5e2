"""Checks a SEND body and splits it into runs, without copies and without an object per message.

A SEND body is a row of entries (docs/reference/wire.md, section 4): an i64 CRC, then the *raw message* that is stored and delivered
unchanged. `scan_batch` reads the row, rejects messages that would stop a consumer (trap T13) and returns *runs*: stretches of good
entries of one subject that can go into the log as they arrived. Sizes are bytes, places are relative to the body's first byte.

Nearly all batches hold messages of one shape (same lengths everywhere), so the layout of the last message is compiled to a
struct, and the next message is compared with it in one call; a message with another layout is read field by field.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from struct import Struct
from struct import error as StructError
from zlib import crc32

from qmq.errors import IllegalName, ProtocolError
from qmq.protocol.codes import SendResult
from qmq.protocol.commands import SendFailure
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.protocol.messages import KEY_CREATED
from qmq.protocol.names import MESSAGE_ID_CHARS_MAX, TAGS_MAX, VALUE_BYTES_MAX, check_subject
from qmq.protocol.primitives import I64, U16
from qmq.protocol.raw import (
    FLAG_TAGS,
    SHAPE_FIELDS_MAX,
    SUBJECT_AT,
    RawView,
    message_places,
    property_lengths,
    split_raws,
    tags_at,
    tags_of,
)

CRC_BYTES = 8
"""An entry's leading i64; the raw message begins behind it."""

BATCH_MESSAGES_MAX = 10_000
"""Most messages one SEND may hold. The official client sends 30, its delay node 50, our bench 500."""

_SUBJECT_AT = CRC_BYTES + SUBJECT_AT
_CREATED_KEY = U16.pack(len(KEY_CREATED)) + KEY_CREATED.encode()
_CREATED_VALUE_AT = len(_CREATED_KEY) + U16.size
_read_crc = I64.unpack_from


class BadChecksum(ProtocolError):
    """An entry's CRC does not match its bytes: damaged on the way, or not an entry at all."""

    code = "protocol.bad_crc"


@dataclass(slots=True)
class Run:
    """Neighbouring good entries of one subject inside a SEND body.

    `begin` and `end` bound the entries (CRCs included); `raw_begins[i]` is where message i's raw bytes start, and
    `tag_bits[i]` the 64-bit digest of its tags (0: none; see `tag_digest`).
    """

    subject: str
    begin: int
    end: int
    raw_begins: list[int] = field(default_factory=list)
    crcs: list[int] = field(default_factory=list)
    tag_bits: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.raw_begins)

    def raw_sizes(self) -> list[int]:
        """Bytes of each raw message."""
        begins = self.raw_begins
        sizes = [b - a - CRC_BYTES for a, b in pairwise(begins)]
        sizes.append(self.end - begins[-1])
        return sizes

    def part(self, first: int, last: int) -> "Run":
        """The messages [first, last) as a run of their own; at least one."""
        if (first, last) == (0, self.count):
            return self
        begin = self.raw_begins[first] - CRC_BYTES
        end = self.raw_begins[last] - CRC_BYTES if last < self.count else self.end
        return Run(
            self.subject, begin, end, self.raw_begins[first:last], self.crcs[first:last], self.tag_bits[first:last]
        )

    def split(self, bytes_max: int) -> "list[Run]":
        """Runs of at most `bytes_max` bytes each, in order; a larger message is a run of its own."""
        if self.end - self.begin <= bytes_max:
            return [self]
        parts = []
        first = 0
        for last in range(1, self.count + 1):
            end = self.raw_begins[last] - CRC_BYTES if last < self.count else self.end
            if last > first + 1 and end - (self.raw_begins[first] - CRC_BYTES) > bytes_max:
                parts.append(self.part(first, last - 1))
                first = last - 1
        parts.append(self.part(first, self.count))
        return parts


def tag_digest(tags: list[bytes]) -> int:
    """A 64-bit set of the tags, one bit a tag: a message can only match a filter whose bits it holds."""
    bits = 0
    for tag in tags:
        bits |= 1 << (crc32(tag) & 63)
    return bits


def scan_batch(
    data: bytes | bytearray, begin: int = 0, end: int | None = None, *, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> tuple[list[Run], list[SendFailure]]:
    """Check a SEND body, data[begin:end], and cut it into runs; messages that may not be stored come back as failures.

    Places in the runs count from the start of `data`, which has to stay as it is. A message whose entry has more than
    `message_bytes_max` bytes is a failure of its own; the rest of the batch is not affected.

    Raises:
        BadChecksum: an entry's CRC is wrong.
        ProtocolError: the bytes are not a row of entries, or an entry lacks its id or subject; nothing of it may be
            stored (the reference answers such a request 51 as a whole).
    """
    return _Scanner(data, begin, len(data) if end is None else end, message_bytes_max).scan()


def walk_stored(entries: memoryview, subject: str) -> Run:
    """The run of entries that a log record holds; they were checked when they came, so only their places are read.

    Raises:
        ProtocolError: the bytes are not entries.
    """
    data = bytes(entries)
    begins = split_raws(data, gap=CRC_BYTES)[0]
    crcs = [_read_crc(data, begin - CRC_BYTES)[0] for begin in begins]
    tag_bits = [0] * len(begins)
    for i, begin in enumerate(begins):
        if data[begin] & FLAG_TAGS:
            tag_bits[i] = tag_digest(tags_of(data, begin))
    return Run(subject, 0, len(data), begins, crcs, tag_bits)


def walk_raws(body: memoryview) -> int:
    """How many raw messages lie back to back in a pull's answer, by their lengths alone. Raises ProtocolError."""
    return len(split_raws(body)[0])


@dataclass(slots=True)
class _Template:
    """The layout of a plain message (flag without tags): one struct over the whole entry."""

    layout: Struct
    lengths: tuple[int, ...]
    head: bytes
    """Length and bytes of the subject: compared, because the struct only checks lengths."""
    created_at: int
    """Where the create-time property begins, from the entry's first byte."""
    created_value_at: int
    created_value_end: int


class _Scanner:
    __slots__ = (
        "_begin",
        "_count",
        "_data",
        "_end",
        "_failures",
        "_last_shape",
        "_message_bytes_max",
        "_run",
        "_runs",
        "_stored_subject",
        "_template",
        "_view",
    )

    def __init__(self, data: bytes | bytearray, begin: int, end: int, message_bytes_max: int) -> None:
        self._message_bytes_max = message_bytes_max
        self._data = data
        self._begin = begin
        self._end = end
        self._view = memoryview(data)
        self._runs: list[Run] = []
        self._run: Run | None = None
        self._stored_subject = b""
        self._failures: list[SendFailure] = []
        self._template: _Template | None = None
        self._last_shape: tuple[int, ...] = ()
        self._count = 0

    def scan(self) -> tuple[list[Run], list[SendFailure]]:
        size = self._end
        position = self._begin
        while position < size:
            if self._template is not None and self._run is not None:
                position = self._scan_alike(position)
                if position >= size:
                    break
            try:
                position = self._scan_one(position)
            except (StructError, IndexError) as error:
                raise ProtocolError(f"message {self._count} of the batch, at byte {position}, is cut short") from error
            if self._count > BATCH_MESSAGES_MAX:
                raise ProtocolError(f"a SEND holds at most {BATCH_MESSAGES_MAX} messages; send smaller batches")
        return self._runs, self._failures

    def _scan_alike(self, position: int) -> int:
        """Take as many messages of the template's shape as follow; stops at the first that differs."""
        data, view, size = self._data, self._view, self._end
        template, run = self._template, self._run
        assert template is not None
        assert run is not None
        unpack, entry_bytes, lengths = template.layout.unpack_from, template.layout.size, template.lengths
        head, created_at = template.head, template.created_at
        value_at, value_end = template.created_value_at, template.created_value_end
        add_begin, add_crc, add_bits = run.raw_begins.append, run.crcs.append, run.tag_bits.append
        while position + entry_bytes <= size and self._count < BATCH_MESSAGES_MAX:
            found = unpack(data, position)
            if (
                found[1:] != lengths
                or not data.startswith(head, position + _SUBJECT_AT)
                or not data.startswith(_CREATED_KEY, position + created_at)
                or not data[position + value_at : position + value_end].isdigit()
            ):
                break
            end = position + entry_bytes
            crc = found[0]
            if crc32(view[position + CRC_BYTES : end]) != crc:
                raise BadChecksum(f"message {self._count} of the batch has a wrong CRC")
            add_begin(position + CRC_BYTES)
            add_crc(crc)
            add_bits(0)
            self._count += 1
            position = run.end = end
        return position

    def _scan_one(self, position: int) -> int:
        data = self._data
        crc = _read_crc(data, position)[0]
        begin = position + CRC_BYTES
        subject_end, id_end, properties_begin, end = message_places(data, begin, self._end)
        subject_bytes, id_bytes = subject_end - begin - SUBJECT_AT - U16.size, id_end - subject_end - U16.size
        if not subject_bytes or not id_bytes:
            raise ProtocolError(f"message {self._count} has an empty {'message id' if subject_bytes else 'subject'}")
        if crc32(self._view[begin:end]) != crc:
            raise BadChecksum(f"message {self._count} of the batch has a wrong CRC")
        problem = ""
        tags: list[bytes] = []
        flag = data[begin]
        if flag & FLAG_TAGS:
            tags = tags_at(data, id_end)
            if not 1 <= len(tags) <= TAGS_MAX:
                problem = f"{len(tags)} tags, the limit is {TAGS_MAX}"
            elif not all(tags):
                problem = "an empty tag"
        lengths = property_lengths(data, properties_begin, end)
        if data.startswith(_CREATED_KEY, properties_begin):
            value_at = properties_begin + _CREATED_VALUE_AT
            created: tuple[int, int, int] | None = (properties_begin, value_at, value_at + lengths[1])
        else:
            created = self._created(properties_begin, lengths)
        if end - position > self._message_bytes_max:
            problem = (
                f"{end - position} bytes, the limit of one message is {self._message_bytes_max} (message_bytes_max)"
            )
        if id_bytes > MESSAGE_ID_CHARS_MAX:
            problem = problem or _too_long(data[subject_end + U16.size : id_end])
        problem = problem or self._created_problem(created) or _too_wide(lengths)
        self._count += 1
        if problem:
            self._refuse(data[subject_end + U16.size : id_end], SendResult.BLOCK, f"message rejected: {problem}")
            return end
        run = self._run
        if run is None or run.end != position or not data.startswith(self._stored_subject, begin + SUBJECT_AT):
            run = self._begin_run(bytes(data[begin + SUBJECT_AT : subject_end]), position)
        if run is None:
            message_id = data[subject_end + U16.size : id_end]
            self._refuse(message_id, SendResult.SUBJECT_NOT_ASSIGNED, "message rejected")
            return end
        run.raw_begins.append(begin)
        run.crcs.append(crc)
        run.tag_bits.append(tag_digest(tags) if tags else 0)
        run.end = end
        if not tags and created is not None and id_bytes <= MESSAGE_ID_CHARS_MAX:
            self._learn(position, (flag, id_bytes, *lengths), created)
        return end

    def _created(self, at: int, lengths: list[int]) -> tuple[int, int, int] | None:
        """Where the first create time lies in the properties at `at`: (key with its length, value begin, value end)."""
        starts_with = self._data.startswith
        for key_bytes, value_bytes in zip(lengths[::2], lengths[1::2], strict=True):
            if starts_with(_CREATED_KEY, at):
                value_at = at + _CREATED_VALUE_AT
                return at, value_at, value_at + value_bytes
            at += 2 * U16.size + key_bytes + value_bytes
        return None

    def _created_problem(self, created: tuple[int, int, int] | None) -> str:
        # Trap T11: without a numeric create time the official consumer dies on the message and never acks it.
        if created is None:
            return f"property {KEY_CREATED} is missing"
        if not self._data[created[1] : created[2]].isdigit():
            return f"property {KEY_CREATED} is not a number of milliseconds"
        return ""

    def _begin_run(self, stored_subject: bytes, position: int) -> Run | None:
        """Begin a run of this subject, given with its length; None when the subject's name is illegal."""
        try:
            name = stored_subject[U16.size :].decode()
            check_subject(name)
        except (UnicodeDecodeError, IllegalName):
            return None
        run = self._run = Run(name, position, position)
        self._stored_subject = stored_subject
        self._runs.append(run)
        self._template, self._last_shape = None, ()
        return run

    def _refuse(self, message_id: bytes | bytearray, result: SendResult, remark: str) -> None:
        self._failures.append(SendFailure(message_id.decode("utf-8", "replace"), result, remark))
        self._run = None

    def _learn(self, position: int, shape: tuple[int, ...], created: tuple[int, int, int]) -> None:
        if shape != self._last_shape:
            # Building a struct costs more than a plain walk: only do it once a shape has repeated.
            self._last_shape = shape
            self._template = None
            return
        if len(shape) > SHAPE_FIELDS_MAX or self._template is not None:
            return
        view = RawView(self._data, position + CRC_BYTES, self._end)
        form, values = view.shape(with_properties=True)
        self._template = _Template(
            layout=Struct(f">q{form}"),
            lengths=values,
            head=self._stored_subject,
            created_at=created[0] - position,
            created_value_at=created[1] - position,
            created_value_end=created[2] - position,
        )


def _too_long(message_id: bytes | bytearray) -> str:
    characters = len(message_id.decode("utf-8", "replace").encode("utf-16-be")) // 2
    if characters <= MESSAGE_ID_CHARS_MAX:
        return ""
    return f"message id of {characters} characters, the limit is {MESSAGE_ID_CHARS_MAX}"


def _too_wide(lengths: list[int]) -> str:
    # Trap T12: the official consumer reads longer lengths as negative and drops the message silently.
    if lengths and max(lengths) > VALUE_BYTES_MAX:
        return f"a property of {max(lengths)} bytes, the limit is {VALUE_BYTES_MAX}"
    return ""
