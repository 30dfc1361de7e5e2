"""Commands between a slave and its master (217 to 220), on the connection that the slave opens to the master's sync port, and
between any two members (226), on one that either opens to the sync port of the other.

AUTHENTICATE comes first, with a purpose of `qmq_node.replication.slave_claim`. FOLLOW and READ_COPY are requests of the slave.
Their bodies are maps of strings, as those of all own commands, so that fields can
be added. COMMITS and CONFIRM are one-way requests, of the master and of the slave. There is one for each commit, so their fields
have fixed places. Both sides agree on more of them with entries of FOLLOW: with `requests_time` and `states_time`, on those of
`TimedCommits`.

The CRC beside an offset is that of the commit that ends there, or 0 at the beginning of a log. Each commit names the CRC of the
commit before it, so logs that have the same CRC at an offset are equal below it. This module checks sizes, ranges and whether
the fields of a body fit together. The log checks commits: magic, CRC, chain, offsets and epochs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol.codes import FollowResult, FollowState
from qmq.protocol.kinds import Block, Choice, MapFlag, Rest
from qmq.protocol.limited_kinds import (
    I64_MAX,
    Count,
    Crc,
    MapChoice,
    MapCount,
    MapCrc,
    MapIncarnation,
    MapLogId,
    MapName,
    MapNote,
    MapRange,
    MapUuid,
    Ranged,
    Uuid,
)
from qmq.protocol.primitives import I32
from qmq.protocol.structures import Counted, Nested, Row, Structure
from qmq.protocol.values import TIME_MS_MAX

EPOCHS_MAX = 1_000
"""Most epochs of a FOLLOW. A slave whose log has more sends the newest ones."""
SEGMENTS_MAX = 100_000
"""Most segments of the answer to a FOLLOW."""
COMMITS_BYTES_MAX = (64 << 20) + 64
"""Most bytes of commits and index entries of a COMMITS: the largest commit of a log, with its header."""
DAMAGED_MAX = 1_000
"""Most damaged ranges of the answer to a FOLLOW."""
INDEX_ENTRY_BYTES = 32
"""Size of an index entry, see docs/architecture/storage.md. A message takes more in the log."""
READ_COPY_BYTES_MAX = 4 << 20
"""Most bytes of data of an answer to READ_COPY."""

COPY_FORBIDDEN = "copy.forbidden"
"""The sender would not be accepted by FOLLOW: another group or epoch, no member, or no proof of what it states."""
COPY_BUSY = "copy.busy"
"""Too many reads are in progress, or there is no checkpoint yet; the same request may succeed later."""
COPY_REMOVED = "copy.removed"
"""The master no longer keeps the state at the position of earlier reads. The slave reads a newer one from its beginning."""
COPY_NO_FILE = "copy.no_file"
"""The state does not count a file with this name."""
COPY_BEYOND = "copy.beyond"
"""The state counts fewer bytes of the file. Of a range: the node does not know that all of it was acknowledged."""
COPY_DAMAGED = "copy.damaged"
"""The range is damaged at this node, too, or the disk can't read it."""
LOG_FILE = "log"
"""Names the log in a READ_RANGE."""

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class FollowRequest(Structure):
    """A slave requests the master's commits.

    `boot_id` identifies the slave's process, `incarnation` its data folder. `epoch` and `promotion_id` are those that the slave has
    on disk. `epoch_chain` has a pair (epoch, begin) for each epoch that wrote commits of the slave's log, the oldest first: `begin`
    is the end of the last commit before that epoch. The log ends at `end`, with a commit whose CRC is `crc`. The master sends at
    most `window_bytes` of commits that the slave has not confirmed, but always at least one commit.

    A slave that copies states with `state_offset` the log offset of the state that it has read, 0 without one. While its log is
    empty, it takes the master's log from its begin on, if that is at or below `state_offset`.

    With `requests_time` it requests that COMMITS be `TimedCommits`.
    """

    broker_group: Annotated[str, MapName()]
    node_id: Annotated[str, MapName()]
    boot_id: Annotated[str, MapName()]
    epoch: MapCount
    promotion_id: Annotated[str, MapUuid()]
    end: MapCount
    crc: MapCrc
    window_bytes: Annotated[int, MapRange(1, I64_MAX)]
    state_offset: MapCount
    epoch_chain: Annotated[
        tuple[tuple[int, int], ...],
        Counted("i", Row(Ranged("q", 0, I64_MAX), Ranged("q", 0, I64_MAX)), "epochs", EPOCHS_MAX),
    ]
    incarnation: Annotated[str, MapIncarnation()] = ""
    requests_time: Annotated[bool, MapFlag(is_optional=True)] = False

    def check(self) -> None:
        """Reject epochs that are not in order, and an epoch that begins at the log's end. Raises ProtocolError."""
        for (epoch, begin), (following, following_begin) in zip(self.epoch_chain, self.epoch_chain[1:], strict=False):
            if epoch >= following or begin >= following_begin:
                raise ProtocolError(
                    f"FollowRequest.epoch_chain: epoch {following} from {following_begin} on is listed behind epoch {epoch}"
                    f" from {begin} on"
                )
        if self.epoch_chain and self.epoch_chain[-1][1] >= self.end:
            epoch, begin = self.epoch_chain[-1]
            raise ProtocolError(
                f"FollowRequest.epoch_chain: epoch {epoch} begins at {begin}, and the log ends at {self.end}"
            )


@dataclass(frozen=True, slots=True)
class FollowResponse(Structure):
    """Whether the master accepts the slave, and from where on it sends commits.

    `session` identifies the connection in COMMITS and CONFIRM. Both logs are equal up to `keep_to` if the slave's log has
    `keep_to_crc` there: the slave then truncates its log to `keep_to`, and the first COMMITS begins there. A slave with an empty
    log that has the master's state gets the begin of the master's log as `keep_to`. The master's log begins
    at `begin`. `segments` has a pair (base, bytes) for each of its segments, the oldest first. `log_id` identifies the log on all
    members. If the slave is not accepted, these fields are 0 or empty. With `states_time` all COMMITS of the session are
    `TimedCommits`; a master does so only if the slave has requested it. `damaged` has a pair (begin, end) for each damaged range of
    the master's log, the newest ones if there are more.
    """

    result: Annotated[FollowResult, MapChoice(FollowResult)]
    reason: Annotated[str, MapNote()]
    session: MapCount
    keep_to: MapCount
    keep_to_crc: MapCrc
    begin: MapCount
    high_watermark: MapCount
    segments: Annotated[
        tuple[tuple[int, int], ...],
        Counted("i", Row(Ranged("q", 0, I64_MAX), Ranged("q", 1, I64_MAX)), "segments", SEGMENTS_MAX),
    ]
    log_id: Annotated[str, MapLogId()] = ""
    states_time: Annotated[bool, MapFlag(is_optional=True)] = False
    damaged: Annotated[
        tuple[tuple[int, int], ...],
        Counted("i", Row(Ranged("q", 0, I64_MAX), Ranged("q", 0, I64_MAX)), "damaged ranges", DAMAGED_MAX),
    ] = ()

    @classmethod
    def rejection(cls, result: FollowResult, reason: str) -> "FollowResponse":
        """Return the answer to a slave that is not accepted; its numbers are 0."""
        return cls(result, reason, 0, 0, 0, 0, 0, ())

    def segment_of(self, offset: int) -> tuple[int, int] | None:
        """Return base and size of the segment with a log offset; None if the master has none."""
        return next(((base, size) for base, size in self.segments if base <= offset < base + size), None)

    def check(self) -> None:
        """Reject a `keep_to` below the log's begin, segments that overlap, and ranges that end before they begin. Raises
        ProtocolError."""
        if self.keep_to < self.begin:
            raise ProtocolError(f"FollowResponse.keep_to: {self.keep_to} is below the log's begin {self.begin}")
        for (base, size), (following, _) in zip(self.segments, self.segments[1:], strict=False):
            if base + size > following:
                raise ProtocolError(
                    f"FollowResponse.segments: the segment of {size} bytes at {base} overlaps the one at {following}"
                )
        for begin, end in self.damaged:
            if begin > end:
                raise ProtocolError(f"FollowResponse.damaged: a range from {begin} to {end}")


@dataclass(frozen=True, slots=True)
class CommitsHead(Structure):
    """The fields of a COMMITS before its commits. The master's log begins at `log_begin`: retention removed what is below it.

    `lost_from` is where the range begins that the master's log has lost to damage, and that ends at `offset`: the slave leaves it
    out. -1: nothing is lost before these commits. A master sends commits behind a lost range only to a slave that copies a state
    which stands behind it.
    """

    session: Count
    epoch: Count
    promotion_id: Annotated[str, Uuid()]
    high_watermark: Count
    log_begin: Count
    offset: Count
    segment_base: Count
    segment_bytes: Count
    lost_from: Annotated[int, Ranged("q", -1, I64_MAX)]


@dataclass(frozen=True, slots=True)
class Commits(CommitsHead):
    """The master sends whole commits, as they are in its log from `offset` on, and its high watermark.

    All commits are of the segment at `segment_base`. `segment_bytes` is the size of that segment if they are its first ones, or
    follow on a lost range, else 0. Without commits it is a heartbeat, and `offset` is where the next ones begin.

    `index_entries` are those of all messages of the commit, in order, as the master has them in its index, or none: then the slave
    makes them from the messages. Only a single commit has any. They are no larger than the commit, and both together at most
    67,108,928 bytes.
    """

    index_entries: Annotated[bytes | memoryview, Block(INDEX_ENTRY_BYTES)]
    commits: Annotated[bytes | memoryview, Rest("bytes of commits", COMMITS_BYTES_MAX)]

    def check(self) -> None:
        """Reject commits outside of their segment, more index entries than they can have, and a lost range that does not end where
        they begin. Raises ProtocolError."""
        index_bytes = len(self.index_entries)
        if index_bytes > _index_bytes_max(len(self.commits)):
            raise ProtocolError(f"Commits.index_entries: {index_bytes} bytes for {len(self.commits)} bytes of commits")
        end = self.offset + len(self.commits)
        if self.offset < self.segment_base:
            raise ProtocolError(f"Commits.offset: {self.offset} is below the segment's base {self.segment_base}")
        if self.lost_from > self.offset or (self.lost_from >= 0 and not self.commits):
            raise ProtocolError(
                f"Commits.lost_from: {self.lost_from}, with {len(self.commits)} bytes of commits at {self.offset}"
            )
        if end > I64_MAX:
            raise ProtocolError(f"Commits.offset: {len(self.commits)} bytes from {self.offset} on end above {I64_MAX}")
        if self.segment_bytes and end > self.segment_base + self.segment_bytes:
            raise ProtocolError(
                f"Commits.segment_bytes: a segment of {self.segment_bytes} bytes at {self.segment_base} can't hold commits"
                f" up to {end}"
            )


@dataclass(frozen=True, slots=True)
class StatedTime(Structure):
    """The time of a group as its master states it: what its trusted clock showed (milliseconds since the epoch) when its monotonic
    clock showed `monotonic_us` (microseconds since any moment)."""

    time_ms: Annotated[int, Ranged("q", 1, TIME_MS_MAX)]
    monotonic_us: Count


@dataclass(frozen=True, slots=True)
class TimedCommits(Structure):
    """A COMMITS with the time at which it was sent, where both sides have agreed on that."""

    time: Annotated[StatedTime, Nested(StatedTime)]
    commits: Annotated[Commits, Nested(Commits)]


def commits_parts(
    head: CommitsHead,
    buffers: Sequence[Buffer] = (),
    index_entries: Sequence[Buffer] = (),
    time: StatedTime | None = None,
) -> list[Buffer]:
    """Return the body of a COMMITS in parts. `buffers` hold its commits; like `index_entries`, they are not copied.

    Index entries that a slave would reject, because they are too large, are left out. With a `time` they are `TimedCommits`.

    Raises:
        LocalProtocolError: the buffers hold more than COMMITS_BYTES_MAX, or the head has a value that the wire can't carry.
    """
    size, index_bytes = sum(map(len, buffers)), sum(map(len, index_entries))
    if size > COMMITS_BYTES_MAX:
        raise LocalProtocolError(f"{size} bytes of commits, at most {COMMITS_BYTES_MAX}")
    if index_bytes > _index_bytes_max(size):
        index_entries, index_bytes = (), 0
    stated = b"" if time is None else time.encode()
    return [stated + head.encode() + I32.pack(index_bytes), *index_entries, *buffers]


def _index_bytes_max(commits_bytes: int) -> int:
    """Return the most bytes of index entries beside this number of bytes of commits."""
    return min(commits_bytes, COMMITS_BYTES_MAX - commits_bytes)


@dataclass(frozen=True, slots=True)
class Confirm(Structure):
    """The slave has synced everything below `synced_end`, and has applied everything below `applied_end` to its derived state.

    `crc` is that of the commit that ends at `synced_end`. `state` is a `FollowState`.
    """

    session: Count
    epoch: Count
    synced_end: Count
    crc: Crc
    applied_end: Count
    state: Annotated[int, Choice("b", FollowState)]


@dataclass(frozen=True, slots=True)
class ReadCopyRequest(Structure):
    """A slave requests up to `bytes_max` bytes of the master's state, from byte `begin` on.

    `epoch` and `promotion_id` are as in FOLLOW. `position` is that of the answers before, 0 for the first request. `file` names a
    file that the checkpoint counts, as `schedule/2026112913.data` of a delay node; without it, the checkpoint is read. A file is
    read of the checkpoint at `position`, which is not 0. A refusal has one of the codes `copy.forbidden`, `copy.busy`,
    `copy.removed`, `copy.no_file`, `copy.beyond`.
    """

    broker_group: Annotated[str, MapName()]
    node_id: Annotated[str, MapName()]
    epoch: MapCount
    promotion_id: Annotated[str, MapUuid()]
    position: MapCount
    begin: MapCount
    bytes_max: Annotated[int, MapRange(1, READ_COPY_BYTES_MAX)]
    file: Annotated[str, MapName(may_be_empty=True)] = ""

    def check(self) -> None:
        """Reject a file of no checkpoint. Raises ProtocolError."""
        if self.file and not self.position:
            raise ProtocolError(f"ReadCopyRequest.file: {self.file[:40]!r} without the position of its checkpoint")


@dataclass(frozen=True, slots=True)
class ReadCopyResponse(Structure):
    """Bytes of the master's newest checkpoint, which has `total_bytes`, or of a file of which that counts `total_bytes`. An answer
    may have fewer bytes than were requested.

    The state is that of the log up to `position`, and later records of some subjects; all of it is below the high watermark.
    `log_id` is as in the answer to FOLLOW.
    """

    position: MapCount
    total_bytes: MapCount
    data: Annotated[bytes | memoryview, Rest("bytes of data", READ_COPY_BYTES_MAX)]
    log_id: Annotated[str, MapLogId()] = ""

    def check(self) -> None:
        """Reject more data than there is in all. Raises ProtocolError."""
        if len(self.data) > self.total_bytes:
            raise ProtocolError(
                f"ReadCopyResponse.total_bytes: {self.total_bytes}, with {len(self.data)} bytes of data"
            )


@dataclass(frozen=True, slots=True)
class ReadRangeRequest(Structure):
    """A member requests a range that is damaged on its own disk from another member, a master or a slave.

    `epoch` and `promotion_id` are as in FOLLOW. `file` is "log", or names a file as READ_COPY does. `since` is 0 for the log, else
    the log offset of the first record of the hour that the file belongs to: names are used again.

    Of the log, the range begins behind a commit with CRC `crc` that ends at `begin`; the CRC is 0 at the beginning of the log, and
    where the log of the sender begins. The answer has no commit that begins at or behind `end`. Of a file, `begin` and `end` are
    bytes, and `crc` is 0. A refusal has one of the codes `copy.forbidden`, `copy.busy`, `copy.removed`, `copy.no_file`,
    `copy.beyond`, `copy.damaged`.
    """

    broker_group: Annotated[str, MapName()]
    node_id: Annotated[str, MapName()]
    epoch: MapCount
    promotion_id: Annotated[str, MapUuid()]
    file: Annotated[str, MapName()]
    since: MapCount
    begin: MapCount
    end: MapCount
    crc: MapCrc = 0

    def check(self) -> None:
        """Reject an empty range. Raises ProtocolError."""
        if self.begin >= self.end:
            raise ProtocolError(f"ReadRangeRequest.end: {self.end} is not above its begin {self.begin}")


@dataclass(frozen=True, slots=True)
class ReadRangeResponse(Structure):
    """Bytes of a range, checked by the member that sends them, from `begin` on; at least one.

    Of the log they are whole commits of the segment at `segment_base`, which has `segment_bytes`, as many as READ_COPY_BYTES_MAX
    bytes hold or a single larger one. `begin` is above that of the request if the rest of the segment before is unused. Of a file
    both are 0, and there are at most READ_COPY_BYTES_MAX bytes.
    """

    begin: MapCount
    segment_base: MapCount
    segment_bytes: MapCount
    data: Annotated[bytes | memoryview, Rest("bytes of data", COMMITS_BYTES_MAX)]

    def check(self) -> None:
        """Reject an answer without data, and data outside of its segment. Raises ProtocolError."""
        end = self.begin + len(self.data)
        if not self.data:
            raise ProtocolError("ReadRangeResponse.data: there is none")
        if self.segment_bytes and not self.segment_base <= self.begin < end <= self.segment_base + self.segment_bytes:
            raise ProtocolError(
                f"ReadRangeResponse.begin: {len(self.data)} bytes at {self.begin} are not in the segment of"
                f" {self.segment_bytes} bytes at {self.segment_base}"
            )
