"""Checks a SEND body and splits it into runs, without copies and without an object per message.

A SEND body is a row of entries (docs/reference/wire.md, section 4): an i64 CRC, then the *raw message* that is stored and delivered
unchanged. `BatchScanner` reads the row, rejects messages that would stop a consumer (trap T13) and returns *runs*: stretches of
good entries of one subject that can go into the log as they arrived. Sizes are bytes, places are relative to the body's first byte.

Nearly all messages of a subject have one shape (same lengths everywhere), so the layout of the last message is compiled to a
struct, and the next messages are compared with it, many in one call; a message with another layout is read field by field.
"""

from dataclasses import dataclass, field
from itertools import pairwise, repeat, takewhile
from struct import Struct, iter_unpack
from struct import error as StructError

from qmq.checksum import crc32
from qmq.errors import IllegalName, ProtocolError
from qmq.protocol.codes import SendResult
from qmq.protocol.commands import SendFailure
from qmq.protocol.frames import MESSAGE_BYTES_MAX
from qmq.protocol.messages import KEY_CREATED
from qmq.protocol.names import DEAD_PREFIX, RETRY_PREFIX, TAGS_MAX, VALUE_BYTES_MAX, check_subject, message_id_problem
from qmq.protocol.primitives import I32, I64, U16
from qmq.protocol.raw import (
    FLAG_TAGS,
    SHAPE_FIELDS_MAX,
    SUBJECT_AT,
    RawBytes,
    equal_step,
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
CREATED_DIGITS_MAX = 18
"""Digits of a create time."""
COPIED_BYTES_MAX = 450
"""Raw messages up to this size are copied for the check of their CRC. Python makes such small objects faster than views."""
LAYOUTS_MAX = 4096
"""Subjects whose messages' layout a scanner remembers, one for each length of message ids."""
LAYOUT_HEAD_BYTES_MAX = 512
"""A longer subject's layout is not remembered."""

SENT_BACK_BYTES = 4096
"""How much larger than other messages those of retry and dead-letter subjects may be: consumers add properties and lengthen the
subject of a message that was accepted before, and it has to be stored."""

_SENT_BACK = (RETRY_PREFIX.encode(), DEAD_PREFIX.encode())
_VISIBLE_ASCII = bytes(range(0x20, 0x7F))
_SUBJECT_AT = CRC_BYTES + SUBJECT_AT
_CREATED_KEY = U16.pack(len(KEY_CREATED)) + KEY_CREATED.encode()
_CREATED_VALUE_AT = len(_CREATED_KEY) + U16.size
_read_crc = I64.unpack_from
_read_length = U16.unpack_from


class BadChecksum(ProtocolError):
    """An entry's CRC does not match its bytes: damaged on the way, or not an entry at all."""

    code = "protocol.bad_crc"


@dataclass(frozen=True, slots=True)
class EntryLimits:
    """The most bytes of an entry. A larger one is a failure of its own; the rest of its batch is not affected."""

    new: int = MESSAGE_BYTES_MAX
    sent_back: int = MESSAGE_BYTES_MAX + SENT_BACK_BYTES
    """In retry and dead-letter subjects."""


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


def walk_stored(entries: memoryview, subject: str) -> Run:
    """The run of entries that a log record holds; they were checked when they came, so only their places are read.

    Raises:
        ProtocolError: the bytes are not entries.
    """
    data = bytes(entries)
    if step := equal_step(data, gap=CRC_BYTES):
        begins = [*range(CRC_BYTES, len(data), step)]
        crcs = [crc for (crc,) in iter_unpack(f">q{step - CRC_BYTES}x", data)]
        return Run(subject, 0, len(data), begins, crcs, [0] * len(begins))
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
    """The layout of entries without tags that have the same lengths everywhere."""

    lengths: Struct
    """Reads one whole entry: flag, lengths, and the bytes of the subject and of keys that are as long as the create time's;
    neighbours as one field."""
    expected: tuple[int | bytes, ...]
    """What it reads from each entry of this layout."""
    values: Struct
    """Reads one whole entry: its CRC, its message id and its create time."""
    raw: Struct | None
    """Reads one whole entry: its raw message. None: it is so large that a view of it costs less than a copy."""


@dataclass(eq=False, slots=True)
class _Layouts:
    """What the last accepted messages of one subject looked like, with message ids of one length."""

    subject: str
    is_sent_back: bool
    """Messages of retry and dead-letter subjects: their ids were accepted before."""
    template: _Template | None = None
    last_shape: tuple[int, ...] = ()

    def learn(self, data: RawBytes, position: int, shape: tuple[int, ...], id_end: int, created_at: int) -> None:
        """Compile the layout of the entry at `position`, once a shape has repeated: compiling costs more than plain walks.

        Args:
            shape: flag, then the lengths of keys and values in turn.
            id_end: where the message id ends, from the begin of `data`; the size of the properties follows.
            created_at: where the property with the create time begins.
        """
        if shape != self.last_shape:
            self.last_shape, self.template = shape, None
            return
        if len(shape) > SHAPE_FIELDS_MAX or self.template is not None:
            return
        id_at = _id_at(data, position)
        id_bytes = U16.unpack_from(data, id_at - U16.size)[0]
        crc_and_id = f">q{id_at - position - CRC_BYTES}x{id_bytes}s"
        head_bytes = id_end - id_bytes - position - _SUBJECT_AT
        form, at, created_value, fixed = f">8xb16x{head_bytes}s{id_bytes}x", id_end + I32.size, "", I32.size
        for key_bytes, value_bytes in zip(shape[1::2], shape[2::2], strict=True):
            fixed += U16.size
            if key_bytes == len(KEY_CREATED):
                fixed += key_bytes
            else:
                form, fixed = f"{form}{_field(fixed)}{key_bytes}x", 0
            form, fixed = f"{form}{_field(fixed + U16.size)}{value_bytes}x", 0
            at += 2 * U16.size + key_bytes + value_bytes
            if at - value_bytes == created_at + _CREATED_VALUE_AT:
                created_value = f"{crc_and_id}{at - value_bytes - id_end}x{value_bytes}s"
        lengths, values = Struct(form), Struct(f"{created_value}{at - position - Struct(created_value).size}x")
        raw_bytes = lengths.size - CRC_BYTES
        raw = Struct(f"{CRC_BYTES}x{raw_bytes}s") if raw_bytes <= COPIED_BYTES_MAX else None
        self.template = _Template(lengths, lengths.unpack_from(data, position), values, raw)


def _field(size: int) -> str:
    """The format of this number of bytes in a row. Short integers are read faster than bytes."""
    return "H" if size == U16.size else f"{size}s"


def _id_at(data: RawBytes, position: int) -> int:
    """Where the message id of the entry at `position` begins, behind its length."""
    subject_at = position + _SUBJECT_AT
    return subject_at + 2 * U16.size + int(_read_length(data, subject_at)[0])


@dataclass(eq=False, repr=False)
class BatchScanner:
    """Checks SEND bodies. It remembers how the messages of subjects looked, which makes it faster for those that follow."""

    _bytes_max: EntryLimits = EntryLimits()
    _layouts: dict[bytes, _Layouts] = field(default_factory=dict, init=False)
    """By the subject with its length, and the length of the message id."""

    def scan(
        self, data: bytes | bytearray, begin: int = 0, end: int | None = None
    ) -> tuple[list[Run], list[SendFailure]]:
        """Check a SEND body, data[begin:end], and cut it into runs; messages that may not be stored come back as failures.

        Places in the runs count from the start of `data`, which has to stay as it is.

        Raises:
            BadChecksum: an entry's CRC is wrong.
            ProtocolError: the bytes are not a row of entries, or an entry lacks its id or subject; nothing of it may be
                stored (the reference answers such a request 51 as a whole).
        """
        end = len(data) if end is None else end
        return _Scan(self._layouts, data, end, self._bytes_max).scan(begin)


class _Scan:
    """The scan of one batch."""

    __slots__ = ("_bytes_max", "_count", "_data", "_end", "_failures", "_layouts", "_run", "_runs", "_view")

    def __init__(
        self, layouts: dict[bytes, _Layouts], data: bytes | bytearray, end: int, bytes_max: EntryLimits
    ) -> None:
        self._layouts = layouts
        self._bytes_max = bytes_max
        self._data = data
        self._end = end
        self._view = memoryview(data)
        self._runs: list[Run] = []
        self._run: Run | None = None
        self._failures: list[SendFailure] = []
        self._count = 0

    def scan(self, position: int) -> tuple[list[Run], list[SendFailure]]:
        while position < self._end:
            try:
                head = bytes(self._view[position + _SUBJECT_AT : _id_at(self._data, position)])
                layouts = self._layouts.get(head)
                if layouts is not None and layouts.template is not None:
                    following = self._scan_alike(position, layouts, layouts.template)
                    if following > position:
                        position = following
                        continue
                position = self._scan_one(position, head, layouts)
            except (StructError, IndexError) as error:
                raise ProtocolError(f"message {self._count} of the batch, at byte {position}, is cut short") from error
            if self._count > BATCH_MESSAGES_MAX:
                raise ProtocolError(f"a SEND holds at most {BATCH_MESSAGES_MAX} messages; send smaller batches")
        return self._runs, self._failures

    def _scan_alike(self, position: int, layouts: _Layouts, template: _Template) -> int:
        """Take as many messages of the template's layout as follow; the place of the first that differs."""
        view, entry_bytes = self._view, template.lengths.size
        room = min((self._end - position) // entry_bytes, BATCH_MESSAGES_MAX - self._count)
        rows = template.lengths.iter_unpack(view[position : position + room * entry_bytes])
        count = len([*takewhile(template.expected.__eq__, rows)])
        if not count:
            return position
        crcs, ids, created = self._values(template, position, count)
        if not b"".join(created).isdigit():
            count = len([*takewhile(bytes.isdigit, created)])
        if not layouts.is_sent_back and b"".join(ids).translate(None, _VISIBLE_ASCII):
            count = min(count, len([*takewhile(_is_legal_id, ids)]))
        if not count:
            return position
        crcs = crcs[:count]
        end = position + count * entry_bytes
        begins = range(position + CRC_BYTES, end, entry_bytes)
        if template.raw is not None:
            found = [crc32(raw) for (raw,) in template.raw.iter_unpack(view[position:end])]
        else:
            raw_bytes = entry_bytes - CRC_BYTES
            found = [crc32(view[begin : begin + raw_bytes]) for begin in begins]
        if crcs != tuple(found):
            raise BadChecksum(f"one of the {count} messages from message {self._count} of the batch on has a wrong CRC")
        self._count += count
        run = self._run_at(position, layouts.subject)
        run.raw_begins.extend(begins)
        run.crcs.extend(crcs)
        run.tag_bits.extend(repeat(0, count))
        run.end = end
        return end

    def _values(
        self, template: _Template, position: int, count: int
    ) -> tuple[tuple[int, ...], tuple[bytes, ...], tuple[bytes, ...]]:
        """Return the CRCs, message ids and create times of this number of messages of a layout."""
        if count == 1:
            # Columns of a single row cost twice as much.
            crc, message_id, created = template.values.unpack_from(self._view, position)
            return (crc,), (message_id,), (created,)
        end = position + count * template.values.size
        crcs, ids, times = zip(*template.values.iter_unpack(self._view[position:end]), strict=True)
        return crcs, ids, times

    def _run_at(self, position: int, subject: str) -> Run:
        """The run that an entry of the subject continues, or a new one."""
        run = self._run
        if run is None or run.end != position or run.subject != subject:
            run = self._run = Run(subject, position, position)
            self._runs.append(run)
        return run

    def _scan_one(self, position: int, head: bytes, layouts: _Layouts | None) -> int:
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
        created_at, created_problem = self._created(properties_begin, lengths)
        is_sent_back = head.startswith(_SENT_BACK, U16.size)
        bytes_max = self._bytes_max.sent_back if is_sent_back else self._bytes_max.new
        if end - position > bytes_max:
            problem = f"{end - position} bytes, the limit of one message is {bytes_max} (message_bytes_max)"
        if not is_sent_back:
            problem = problem or _id_problem(bytes(data[subject_end + U16.size : id_end]))
        problem = problem or created_problem or _too_wide(lengths)
        self._count += 1
        if problem:
            self._refuse(data[subject_end + U16.size : id_end], SendResult.BLOCK, f"message rejected: {problem}")
            return end
        if layouts is None:
            layouts = self._new_layouts(head)
        if layouts is None:
            message_id = data[subject_end + U16.size : id_end]
            self._refuse(message_id, SendResult.SUBJECT_NOT_ASSIGNED, "message rejected")
            return end
        run = self._run_at(position, layouts.subject)
        run.raw_begins.append(begin)
        run.crcs.append(crc)
        run.tag_bits.append(tag_digest(tags) if tags else 0)
        run.end = end
        if not tags:
            layouts.learn(data, position, (flag, *lengths), id_end, created_at)
        return end

    def _created(self, at: int, lengths: list[int]) -> tuple[int, str]:
        """Where the property with the create time begins, of those at `at`; and what is wrong with it."""
        # Trap T11: without a numeric create time the official consumer dies on the message and never acks it.
        data, created_at = self._data, -1
        for key_bytes, value_bytes in zip(lengths[::2], lengths[1::2], strict=True):
            if data.startswith(_CREATED_KEY, at):
                if created_at >= 0:
                    return at, f"property {KEY_CREATED} occurs twice"
                created_at, value_at = at, at + _CREATED_VALUE_AT
                # The official consumer reads it as a long: 18 digits fit.
                if value_bytes > CREATED_DIGITS_MAX or not data[value_at : value_at + value_bytes].isdigit():
                    return at, f"property {KEY_CREATED} is not a number of milliseconds"
            at += 2 * U16.size + key_bytes + value_bytes
        return created_at, "" if created_at >= 0 else f"property {KEY_CREATED} is missing"

    def _new_layouts(self, head: bytes) -> _Layouts | None:
        """Remember a subject, at LAYOUTS_MAX instead of the oldest; None when its name is illegal."""
        try:
            name = head[U16.size : -U16.size].decode()
            check_subject(name)
        except (UnicodeDecodeError, IllegalName):
            return None
        layouts = _Layouts(name, head.startswith(_SENT_BACK, U16.size))
        if len(head) <= LAYOUT_HEAD_BYTES_MAX:
            self._layouts[head] = layouts
            if len(self._layouts) > LAYOUTS_MAX:
                del self._layouts[next(iter(self._layouts))]
        return layouts

    def _refuse(self, message_id: bytes | bytearray, result: SendResult, remark: str) -> None:
        self._failures.append(SendFailure(message_id.decode("utf-8", "replace"), result, remark))
        self._run = None


def _is_legal_id(message_id: bytes) -> bool:
    return not _id_problem(message_id)


def _id_problem(message_id: bytes) -> str:
    try:
        return message_id_problem(message_id.decode())
    except UnicodeDecodeError as error:
        return f"the message id is not UTF-8: {error.reason} at byte {error.start}"


def _too_wide(lengths: list[int]) -> str:
    # Trap T12: the official consumer reads longer lengths as negative and drops the message silently.
    if lengths and max(lengths) > VALUE_BYTES_MAX:
        return f"a property of {max(lengths)} bytes, the limit is {VALUE_BYTES_MAX}"
    return ""
