"""Commands that read what nodes keep, in bulk (209 to 215): ranges of index and progress entries as they lie on disk.

As all of ours, maps of strings with raw blocks behind them (an i32 length, then bytes). Every request carries `token`; a node
with a `read_token` refuses another one. A refusal has header code PARAM_ERROR and a map of `code` and `message`; the codes are
constants here. Times are milliseconds since the epoch, ranges half-open.

Entries are copied as they lie on disk: 32 bytes each of the index (`broker_node.consume_log`), 48 of a group's progress
(`broker_node.progress_log`), 32 of a delay node's schedule (`delay_node.schedule_log`). Each answer says what is stored *now*
(`begin`, `end`) and which entry is its `first`: when `first` is above what was asked for, retention took what lies between.
"""

from dataclasses import dataclass, field

from qmq.errors import ProtocolError
from qmq.protocol.commands import Body
from qmq.protocol.delayed import DelayedState
from qmq.protocol.extensions import Fields, encode_fields
from qmq.protocol.primitives import Reader, Writer

READ_BYTES_MAX = 4 << 20
"""Most bytes of entries and messages of one answer, but for a single message that is larger."""
RANGES_PAGE_MAX = 500
"""Most subjects of one page of LIST_RANGES."""
GROUP_CURSOR = "/"
"""Between subject and group in `after` of LIST_RANGES, which then goes on behind this group: no name may hold it."""
HOURS_PAGE_MAX = 2_000
"""Most hours of one page of LIST_HOURS."""
NODES_MAX = 10_000
"""Most nodes of one answer of LIST_NODES."""
UNBOUNDED_MS = -1
"""In place of a time: no bound on this side."""

INDEX_ENTRY_BYTES = 32
PROGRESS_ENTRY_BYTES = 48
SCHEDULE_ENTRY_BYTES = 32

FORBIDDEN = "reading.forbidden"
"""The token is not the node's."""
BUSY = "reading.busy"
"""Too many reads are under way; asking again later may succeed."""
UNKNOWN_SUBJECT = "reading.subject_unknown"
UNKNOWN_GROUP = "reading.group_unknown"
UNKNOWN_HOUR = "reading.hour_unknown"
WRONG_RANGE = "reading.range_wrong"
"""A range that begins below 0, or ends before it begins."""
UNREADABLE = "reading.unreadable"
"""The node's disk could not give the bytes."""
RETRIABLE = frozenset({BUSY})

SCHEDULE_STATES: dict[int, DelayedState] = {
    0: DelayedState.PENDING,
    2: DelayedState.DELIVERING,
    3: DelayedState.DELIVERED,
    4: DelayedState.CANCELLED,
    5: DelayedState.MOVED,
    6: DelayedState.REFUSED,
    7: DelayedState.LOST,
}
"""What the state bytes of READ_SCHEDULE mean."""


def _block(writer: Writer, data: bytes | memoryview) -> Writer:
    return writer.i32(len(data)).raw(data)


def _read_block(reader: Reader) -> memoryview:
    return reader.bytes_(reader.i32())


def _entries(reader: Reader, entry_bytes: int) -> memoryview:
    data = _read_block(reader)
    if len(data) % entry_bytes:
        raise ProtocolError(f"{len(data)} bytes of entries, not a multiple of {entry_bytes}")
    return data


# --- LIST_RANGES ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListRangesRequest:
    """LIST_RANGES: what a broker node holds, subject by subject; `after` as the page before gave it.

    With `from_ms` and `to_ms` (UNBOUNDED_MS: no bound) each range is also cut to what was stored, or done, in [from, to).
    """

    token: str = ""
    after: str = ""
    limit: int = RANGES_PAGE_MAX
    from_ms: int = UNBOUNDED_MS
    to_ms: int = UNBOUNDED_MS

    def encode(self, version: int) -> bytes:
        return encode_fields(
            token=self.token, after=self.after, limit=self.limit, from_ms=self.from_ms, to_ms=self.to_ms
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "ListRangesRequest":
        fields = Fields(body)
        return cls(
            fields.text("token"),
            fields.text("after"),
            fields.whole("limit", RANGES_PAGE_MAX),
            fields.whole("from_ms", UNBOUNDED_MS),
            fields.whole("to_ms", UNBOUNDED_MS),
        )


@dataclass(frozen=True, slots=True)
class GroupRange:
    """A group's history on a subject: entries [begin, end) are kept, [range_begin, range_end) lie in the time asked for.

    `next_sequence` is the group's position; `consumers` are (key, consumer id) of those known now: entries carry the key.
    `began_at_ms` is the time of entry `begin` (-1: there is none, or it can't be read). Another time than before for the same
    `begin` says that this is another history, whose numbers don't go on: the group was forgotten and came back, or the node rebuilt
    its files.
    """

    name: str
    broadcast: bool
    next_sequence: int
    begin: int
    end: int
    range_begin: int
    range_end: int
    consumers: tuple[tuple[int, str], ...] = ()
    began_at_ms: int = -1

    def write(self, writer: Writer) -> None:
        writer.raw(
            encode_fields(
                name=self.name,
                broadcast=self.broadcast,
                next_sequence=self.next_sequence,
                begin=self.begin,
                end=self.end,
                range_begin=self.range_begin,
                range_end=self.range_end,
                began_at_ms=self.began_at_ms,
            )
        ).i32(len(self.consumers))
        for key, consumer_id in self.consumers:
            writer.raw(key.to_bytes(8, "big")).str_(consumer_id)

    @classmethod
    def read(cls, reader: Reader) -> "GroupRange":
        fields = Fields(reader)
        count = reader.count(reader.i32(), 10, "consumers")
        return cls(
            fields.text("name"),
            fields.flag("broadcast"),
            fields.whole("next_sequence"),
            fields.whole("begin"),
            fields.whole("end"),
            fields.whole("range_begin"),
            fields.whole("range_end"),
            tuple((int.from_bytes(reader.bytes_(8), "big"), reader.str_()) for _ in range(count)),
            fields.whole("began_at_ms", -1),
        )


@dataclass(frozen=True, slots=True)
class SubjectRange:
    """A subject's messages: consume sequences [begin, end) are stored, [range_begin, range_end) in the time asked for.

    A subject with very many groups comes in several parts, on consecutive pages, each with some of the groups. No sequence below
    `origin` belongs to it: the node removed an earlier subject of the name, or others, whose sequences are not used again.
    """

    name: str
    begin: int
    end: int
    range_begin: int
    range_end: int
    groups: tuple[GroupRange, ...] = ()
    origin: int = 0

    def write(self, writer: Writer) -> None:
        writer.raw(
            encode_fields(
                name=self.name,
                begin=self.begin,
                end=self.end,
                range_begin=self.range_begin,
                range_end=self.range_end,
                **({"origin": self.origin} if self.origin else {}),
            )
        ).i32(len(self.groups))
        for group in self.groups:
            group.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> "SubjectRange":
        fields = Fields(reader)
        count = reader.count(reader.i32(), 6, "groups")
        return cls(
            fields.text("name"),
            fields.whole("begin"),
            fields.whole("end"),
            fields.whole("range_begin"),
            fields.whole("range_end"),
            tuple(GroupRange.read(reader) for _ in range(count)),
            fields.whole("origin"),
        )


@dataclass(frozen=True, slots=True)
class RangesPage:
    """A page of LIST_RANGES, subjects by name. `next_after` "": it is the last. `read_at_ms`: the node's time.

    All that was stored, or done, before `read_at_ms` is in the ranges. `incarnation` identifies the data folder that holds the
    subjects: another one than before means that the node was started with an empty folder, and that its sequences began again at
    0. "": the node is of a version that does not report it.
    """

    broker_group: str
    node_id: str
    read_at_ms: int
    subjects: tuple[SubjectRange, ...]
    next_after: str = ""
    incarnation: str = ""

    def encode(self, version: int) -> bytes:
        writer = Writer().raw(
            encode_fields(
                broker_group=self.broker_group,
                node_id=self.node_id,
                read_at_ms=self.read_at_ms,
                next_after=self.next_after,
                incarnation=self.incarnation,
            )
        )
        writer.i32(len(self.subjects))
        for subject in self.subjects:
            subject.write(writer)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "RangesPage":
        reader = Reader(body)
        fields = Fields(reader)
        count = reader.count(reader.i32(), 6, "subjects")
        return cls(
            fields.text("broker_group"),
            fields.text("node_id"),
            fields.whole("read_at_ms"),
            tuple(SubjectRange.read(reader) for _ in range(count)),
            fields.text("next_after"),
            fields.text("incarnation"),
        )


# --- READ_INDEX, READ_PROGRESS, READ_MESSAGES -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """READ_INDEX and READ_MESSAGES (consume sequences of a subject), READ_PROGRESS (entries of `group`'s history).

    The answer holds entries of [begin, end) up to `bytes_max` bytes: fewer than asked for are no error, ask for the next.
    """

    subject: str
    begin: int
    end: int
    group: str = ""
    token: str = ""
    bytes_max: int = READ_BYTES_MAX

    def encode(self, version: int) -> bytes:
        return encode_fields(
            token=self.token,
            subject=self.subject,
            group=self.group,
            begin=self.begin,
            end=self.end,
            bytes_max=self.bytes_max,
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "ReadRequest":
        fields = Fields(body)
        return cls(
            fields.text("subject"),
            fields.whole("begin"),
            fields.whole("end"),
            fields.text("group"),
            fields.text("token"),
            fields.whole("bytes_max", READ_BYTES_MAX),
        )


@dataclass(frozen=True, slots=True)
class EntriesPage:
    """READ_INDEX and READ_PROGRESS: [begin, end) is stored now; `data` holds whole entries from number `first` on.

    `data` is a view of the answer's bytes. Empty: nothing of what was asked for is stored (any more, or yet).
    """

    begin: int
    end: int
    first: int
    data: bytes | memoryview

    def encode(self, version: int) -> bytes:
        return _block(Writer().raw(self.head()), self.data).done()

    def head(self) -> bytes:
        """The map before the entries."""
        return encode_fields(begin=self.begin, end=self.end, first=self.first)

    @classmethod
    def decode(cls, body: Body, version: int, entry_bytes: int = 1) -> "EntriesPage":
        """`entry_bytes`: the size of what was asked for; a block of another multiple is refused."""
        reader = Reader(body)
        fields = Fields(reader)
        return cls(fields.whole("begin"), fields.whole("end"), fields.whole("first"), _entries(reader, entry_bytes))


@dataclass(frozen=True, slots=True)
class MessagesPage:
    """READ_MESSAGES: index entries, and the raw messages they point at back to back in `raws`.

    Entry i's message is the next `size` bytes of `raws`; one that can't be had is withheld and has size 0.
    """

    begin: int
    end: int
    first: int
    entries: bytes | memoryview
    raws: bytes | memoryview

    def encode(self, version: int) -> bytes:
        head = encode_fields(begin=self.begin, end=self.end, first=self.first)
        return _block(_block(Writer().raw(head), self.entries), self.raws).done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "MessagesPage":
        reader = Reader(body)
        fields = Fields(reader)
        return cls(
            fields.whole("begin"),
            fields.whole("end"),
            fields.whole("first"),
            _entries(reader, INDEX_ENTRY_BYTES),
            _read_block(reader),
        )


# --- LIST_HOURS, READ_SCHEDULE --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListHoursRequest:
    """LIST_HOURS: hours of due time that a delay node keeps, from the one after `after` (hours since 1970, UTC) on.

    Subject names come with it, from number `subjects_from` on: an answer holds READ_BYTES_MAX bytes of them at most.
    """

    token: str = ""
    after: int = -1
    limit: int = HOURS_PAGE_MAX
    subjects_from: int = 0

    def encode(self, version: int) -> bytes:
        return encode_fields(token=self.token, after=self.after, limit=self.limit, subjects_from=self.subjects_from)

    @classmethod
    def decode(cls, body: Body, version: int) -> "ListHoursRequest":
        fields = Fields(body)
        return cls(
            fields.text("token"),
            fields.whole("after", -1),
            fields.whole("limit", HOURS_PAGE_MAX),
            fields.whole("subjects_from"),
        )


@dataclass(frozen=True, slots=True)
class HourCounts:
    """One hour: `count` messages were ever scheduled in it, of which `pending` and `refused` ones wait."""

    hour: int
    count: int
    pending: int
    refused: int
    data_bytes: int

    def write(self, writer: Writer) -> None:
        writer.raw(
            encode_fields(
                hour=self.hour,
                count=self.count,
                pending=self.pending,
                refused=self.refused,
                data_bytes=self.data_bytes,
            )
        )

    @classmethod
    def read(cls, reader: Reader) -> "HourCounts":
        fields = Fields(reader)
        return cls(
            fields.whole("hour"),
            fields.whole("count"),
            fields.whole("pending"),
            fields.whole("refused"),
            fields.whole("data_bytes"),
        )


@dataclass(frozen=True, slots=True)
class HoursPage:
    """A page of LIST_HOURS. `next_after` -1: the last hours; `subjects` are the names from number `subjects_from` on,
    of `subjects_count` in all."""

    broker_group: str
    node_id: str
    hours: tuple[HourCounts, ...]
    subjects_from: int
    subjects: tuple[str, ...]
    subjects_count: int
    next_after: int = -1

    def encode(self, version: int) -> bytes:
        writer = Writer().raw(
            encode_fields(
                broker_group=self.broker_group,
                node_id=self.node_id,
                subjects_from=self.subjects_from,
                subjects_count=self.subjects_count,
                next_after=self.next_after,
            )
        )
        writer.i32(len(self.hours))
        for hour in self.hours:
            hour.write(writer)
        writer.i32(len(self.subjects))
        for name in self.subjects:
            writer.str_(name)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "HoursPage":
        reader = Reader(body)
        fields = Fields(reader)
        hours = tuple(HourCounts.read(reader) for _ in range(reader.count(reader.i32(), 2, "hours")))
        subjects = tuple(reader.str_() for _ in range(reader.count(reader.i32(), 2, "subjects")))
        return cls(
            fields.text("broker_group"),
            fields.text("node_id"),
            hours,
            fields.whole("subjects_from"),
            subjects,
            fields.whole("subjects_count"),
            fields.whole("next_after", -1),
        )


@dataclass(frozen=True, slots=True)
class ReadScheduleRequest:
    """READ_SCHEDULE: messages [begin, end) of an hour by number, up to `bytes_max` bytes."""

    hour: int
    begin: int
    end: int
    with_data: bool = False
    token: str = ""
    bytes_max: int = READ_BYTES_MAX

    def encode(self, version: int) -> bytes:
        return encode_fields(
            token=self.token,
            hour=self.hour,
            begin=self.begin,
            end=self.end,
            with_data=self.with_data,
            bytes_max=self.bytes_max,
        )

    @classmethod
    def decode(cls, body: Body, version: int) -> "ReadScheduleRequest":
        fields = Fields(body)
        return cls(
            fields.whole("hour"),
            fields.whole("begin"),
            fields.whole("end"),
            fields.flag("with_data"),
            fields.text("token"),
            fields.whole("bytes_max", READ_BYTES_MAX),
        )


@dataclass(frozen=True, slots=True)
class SchedulePage:
    """READ_SCHEDULE: the hour has messages [0, end); entries from number `first` on, a state byte each (SCHEDULE_STATES).

    With data asked for, `raws` holds the raw messages back to back: of entry i as many bytes as `sizes` (a big-endian u32
    each) says, 0 for one that can't be had. Without, both are empty.
    """

    end: int
    first: int
    entries: bytes | memoryview
    states: bytes | memoryview
    sizes: bytes | memoryview = field(default=b"")
    raws: bytes | memoryview = field(default=b"")

    def encode(self, version: int) -> bytes:
        writer = Writer().raw(encode_fields(end=self.end, first=self.first))
        for block in (self.entries, self.states, self.sizes, self.raws):
            _block(writer, block)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "SchedulePage":
        reader = Reader(body)
        fields = Fields(reader)
        entries = _entries(reader, SCHEDULE_ENTRY_BYTES)
        states, sizes, raws = _read_block(reader), _entries(reader, 4), _read_block(reader)
        count = len(entries) // SCHEDULE_ENTRY_BYTES
        if len(states) != count or len(sizes) not in (0, 4 * count):
            raise ProtocolError(f"{count} schedule entries with {len(states)} states and {len(sizes) // 4} sizes")
        return cls(fields.whole("end"), fields.whole("first"), entries, states, sizes, raws)


# --- LIST_NODES -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListNodesRequest:
    """LIST_NODES: every node that the metaserver knows of."""

    token: str = ""

    def encode(self, version: int) -> bytes:
        return encode_fields(token=self.token)

    @classmethod
    def decode(cls, body: Body, version: int) -> "ListNodesRequest":
        return cls(Fields(body).text("token"))


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node as the metaserver knows it. `kind`: broker or delay; `state`: its group's; addresses are `host:port`.

    `log_end` is in bytes; `seen_at_ms` -1: not heard since the metaserver started.
    """

    broker_group: str
    node_id: str
    kind: str
    role: str
    address: str
    admin_address: str
    state: str
    epoch: int
    log_end: int
    seen_at_ms: int

    def write(self, writer: Writer) -> None:
        writer.raw(
            encode_fields(
                broker_group=self.broker_group,
                node_id=self.node_id,
                kind=self.kind,
                role=self.role,
                address=self.address,
                admin_address=self.admin_address,
                state=self.state,
                epoch=self.epoch,
                log_end=self.log_end,
                seen_at_ms=self.seen_at_ms,
            )
        )

    @classmethod
    def read(cls, reader: Reader) -> "NodeLine":
        fields = Fields(reader)
        return cls(
            fields.text("broker_group"),
            fields.text("node_id"),
            fields.text("kind"),
            fields.text("role"),
            fields.text("address"),
            fields.text("admin_address"),
            fields.text("state"),
            fields.whole("epoch"),
            fields.whole("log_end"),
            fields.whole("seen_at_ms", -1),
        )


@dataclass(frozen=True, slots=True)
class NodesPage:
    """LIST_NODES: all nodes, by broker group and id; `read_at_ms` is the metaserver's time."""

    read_at_ms: int
    nodes: tuple[NodeLine, ...]

    def encode(self, version: int) -> bytes:
        writer = Writer().raw(encode_fields(read_at_ms=self.read_at_ms)).i32(len(self.nodes))
        for node in self.nodes:
            node.write(writer)
        return writer.done()

    @classmethod
    def decode(cls, body: Body, version: int) -> "NodesPage":
        reader = Reader(body)
        fields = Fields(reader)
        count = reader.count(reader.i32(), 2, "nodes")
        return cls(fields.whole("read_at_ms"), tuple(NodeLine.read(reader) for _ in range(count)))
