"""Commands for bulk reads of nodes (209 to 215): ranges of index and progress entries as they are stored.

As all own commands, maps of strings, followed by raw blocks (an i32 length, then bytes). Every request carries `token`; a node
with a `read_token` refuses another one. A refusal has header code PARAM_ERROR and a map of `code` and `message`; the codes are
constants here. Times are milliseconds since the epoch, ranges half-open.

Entries are copied as they are stored: 32 bytes each of the index (`broker_node.storage.consume_log`), 48 of a group's
progress (`broker_node.storage.progress_log`), 32 of a delay node's schedule (`delay_node.schedule_log`). Each answer
names what is stored *now* (`begin`, `end`) and its `first` entry: if `first` is above the requested begin, retention
has removed the entries in between.
"""

from dataclasses import dataclass, field
from typing import Annotated

from qmq.errors import ProtocolError
from qmq.protocol.delayed import DelayedState
from qmq.protocol.kinds import Block, Flag, Int, MapInt, Number, String, Text
from qmq.protocol.structures import Counted, Row, Structure

READ_BYTES_MAX = 4 << 20
"""Most bytes of entries and messages of one answer, but for a single message that is larger."""
RANGES_PAGE_MAX = 500
"""Most subjects of one page of LIST_RANGES."""
GROUP_CURSOR = "/"
"""Between subject and group in `after` of LIST_RANGES, which then continues behind this group: no name may contain it."""
HOURS_PAGE_MAX = 2_000
"""Most hours of one page of LIST_HOURS."""
NODES_MAX = 10_000
"""Most nodes of one answer of LIST_NODES."""
UNBOUNDED_MS = -1
"""In place of a time: no bound on this side."""

INDEX_ENTRY_BYTES = 32
PROGRESS_ENTRY_BYTES = 48
SCHEDULE_ENTRY_BYTES = 32
SIZE_BYTES = 4

FORBIDDEN = "reading.forbidden"
"""The token is not the node's."""
BUSY = "reading.busy"
"""Too many reads are under way; the same request may succeed later."""
UNKNOWN_SUBJECT = "reading.subject_unknown"
UNKNOWN_GROUP = "reading.group_unknown"
UNKNOWN_HOUR = "reading.hour_unknown"
WRONG_RANGE = "reading.range_wrong"
"""A range that begins below 0, or ends before it begins."""
UNREADABLE = "reading.unreadable"
"""The node can't read the bytes from its disk."""
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


# --- LIST_RANGES ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListRangesRequest(Structure):
    """A page of what a broker node stores, subject by subject. `after` is the `next_after` of the page before.

    With `from_ms` and `to_ms` (UNBOUNDED_MS: no bound) each range is also cut to what was stored, or done, in [from, to).
    """

    token: Text = ""
    after: Text = ""
    limit: Int = RANGES_PAGE_MAX
    from_ms: Int = UNBOUNDED_MS
    to_ms: Int = UNBOUNDED_MS


@dataclass(frozen=True, slots=True)
class GroupRange(Structure):
    """A group's history on a subject: entries [begin, end) are stored, [range_begin, range_end) lie in the requested time.

    `next_sequence` is the group's position; `consumers` are (key, consumer id) of those known now: entries carry the key.
    `began_at_ms` is the time of entry `begin` (-1: there is none, or it can't be read). Another time than before for the same
    `begin` means another history, whose numbers do not continue: the group was deleted and created again, or the node rebuilt
    its files.
    """

    name: Text
    broadcast: Flag
    next_sequence: Int
    begin: Int
    end: Int
    range_begin: Int
    range_end: Int
    consumers: Annotated[tuple[tuple[int, str], ...], Counted("i", Row(Number("Q"), String()), "consumers")] = ()
    began_at_ms: Int = -1


@dataclass(frozen=True, slots=True)
class SubjectRange(Structure):
    """A subject's messages: consume sequences [begin, end) are stored, [range_begin, range_end) in the requested time.

    A subject with very many groups comes in several parts, on consecutive pages, each with some of the groups. No sequence below
    `origin` belongs to it: the node removed an earlier subject of the name, or others, whose sequences are not used again.
    """

    name: Text
    begin: Int
    end: Int
    range_begin: Int
    range_end: Int
    groups: Annotated[tuple[GroupRange, ...], Counted("i", GroupRange, "groups")] = ()
    origin: Annotated[int, MapInt(is_optional=True)] = 0


@dataclass(frozen=True, slots=True)
class RangesPage(Structure):
    """Subjects by name. `next_after` is "" on the last page; `read_at_ms` is the node's time.

    All that was stored, or done, before `read_at_ms` is in the ranges. `log_id` identifies the log that the subjects
    are made from, the same on all members of the broker group: another one than before means that the group began again with an
    empty log, and its sequences at 0. "": the node has none.
    """

    broker_group: Text
    node_id: Text
    read_at_ms: Int
    subjects: Annotated[tuple[SubjectRange, ...], Counted("i", SubjectRange, "subjects")]
    next_after: Text = ""
    log_id: Text = ""


# --- READ_INDEX, READ_PROGRESS, READ_MESSAGES -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ReadRequest(Structure):
    """A range of consume sequences of a subject, or of entries of `group`'s history.

    The answer has entries of [begin, end) up to `bytes_max` bytes. Fewer than requested are no error: request the next ones.
    """

    token: Text = field(default="", kw_only=True)
    subject: Text
    group: Text = field(default="", kw_only=True)
    begin: Int
    end: Int
    bytes_max: Int = field(default=READ_BYTES_MAX, kw_only=True)


@dataclass(frozen=True, slots=True)
class EntriesPage(Structure):
    """[begin, end) is stored now; `data` has whole entries from number `first` on, zeros for one that the disk can't read.

    `data` is a view of the answer's bytes; empty when nothing of the requested range is stored (any more, or yet).
    """

    begin: Int
    end: Int
    first: Int
    data: Annotated[bytes | memoryview, Block()]


@dataclass(frozen=True, slots=True)
class IndexPage(EntriesPage):
    """The entries of a READ_INDEX."""

    data: Annotated[bytes | memoryview, Block(INDEX_ENTRY_BYTES)]


@dataclass(frozen=True, slots=True)
class ProgressPage(EntriesPage):
    """The entries of a READ_PROGRESS."""

    data: Annotated[bytes | memoryview, Block(PROGRESS_ENTRY_BYTES)]


@dataclass(frozen=True, slots=True)
class MessagesPage(Structure):
    """Index entries, and the raw messages they point at back to back in `raws`.

    Entry i's message is the next `size` bytes of `raws`; one that can't be read is withheld and has size 0.
    """

    begin: Int
    end: Int
    first: Int
    entries: Annotated[bytes | memoryview, Block(INDEX_ENTRY_BYTES)]
    raws: Annotated[bytes | memoryview, Block()]


# --- LIST_HOURS, READ_SCHEDULE --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListHoursRequest(Structure):
    """A page of the hours of due time that a delay node stores, from the one after `after` (hours since 1970, UTC) on.

    Subject names come with it, from number `subjects_from` on: an answer has READ_BYTES_MAX bytes of them at most.
    """

    token: Text = ""
    after: Int = -1
    limit: Int = HOURS_PAGE_MAX
    subjects_from: Int = 0


@dataclass(frozen=True, slots=True)
class HourCounts(Structure):
    """One hour: `count` messages were ever scheduled in it, of which `pending` and `refused` ones wait."""

    hour: Int
    count: Int
    pending: Int
    refused: Int
    data_bytes: Int


@dataclass(frozen=True, slots=True)
class HoursPage(Structure):
    """`next_after` is -1 with the last hours; `subjects` are the names from number `subjects_from` on,
    of `subjects_count` in all."""

    broker_group: Text
    node_id: Text
    hours: Annotated[tuple[HourCounts, ...], Counted("i", HourCounts, "hours")]
    subjects_from: Int
    subjects: Annotated[tuple[str, ...], Counted("i", String(), "subjects")]
    subjects_count: Int
    next_after: Int = -1


@dataclass(frozen=True, slots=True)
class ReadScheduleRequest(Structure):
    """Messages [begin, end) of an hour by number, up to `bytes_max` bytes."""

    token: Text = field(default="", kw_only=True)
    hour: Int
    begin: Int
    end: Int
    with_data: Flag = False
    bytes_max: Int = field(default=READ_BYTES_MAX, kw_only=True)


@dataclass(frozen=True, slots=True)
class SchedulePage(Structure):
    """The hour has messages [0, end); entries from number `first` on, with a state byte each (`SCHEDULE_STATES`).

    With data, `raws` has the raw messages back to back: of entry i as many bytes as `sizes` (a big-endian u32 each) says, 0 for
    one that can't be read. Without, both are empty.
    """

    end: Int
    first: Int
    entries: Annotated[bytes | memoryview, Block(SCHEDULE_ENTRY_BYTES)]
    states: Annotated[bytes | memoryview, Block()]
    sizes: Annotated[bytes | memoryview, Block(SIZE_BYTES)] = b""
    raws: Annotated[bytes | memoryview, Block()] = b""

    def check(self) -> None:
        """Refuse states or sizes that are not those of the entries. Raises ProtocolError."""
        count = len(self.entries) // SCHEDULE_ENTRY_BYTES
        if len(self.states) != count or len(self.sizes) not in (0, SIZE_BYTES * count):
            raise ProtocolError(
                f"{count} schedule entries with {len(self.states)} states and {len(self.sizes) // SIZE_BYTES} sizes"
            )


# --- LIST_NODES -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListNodesRequest(Structure):
    """Every node that the metaserver knows."""

    token: Text = ""


@dataclass(frozen=True, slots=True)
class NodeLine(Structure):
    """A node as the metaserver knows it. `kind`: broker or delay; `state`: its group's; addresses are `host:port`.

    `log_end` is in bytes; `seen_at_ms` -1: it has not reported since the metaserver started.
    """

    broker_group: Text
    node_id: Text
    kind: Text
    role: Text
    address: Text
    admin_address: Text
    state: Text
    epoch: Int
    log_end: Int
    seen_at_ms: Annotated[int, MapInt(missing=-1)]


@dataclass(frozen=True, slots=True)
class NodesPage(Structure):
    """All nodes, by broker group and id; `read_at_ms` is the metaserver's time."""

    read_at_ms: Int
    nodes: Annotated[tuple[NodeLine, ...], Counted("i", NodeLine, "nodes")]
