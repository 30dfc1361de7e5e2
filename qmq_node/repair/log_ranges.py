"""class LogRanges: reads ranges of the log for other members, and repairs its own from theirs.

A repair writes whole commits to the places where they were. Each follows on the one before, so the first one on the last valid
commit before the damage, by its CRC; and the commit behind the damage has to follow on the last one. What is written was therefore
part of this log, whichever member sent it. A valid commit that follows on what is before it is never overwritten.
"""

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from qmq.errors import LogError, ReadRefused
from qmq.protocol.replication import (
    COPY_BEYOND,
    COPY_DAMAGED,
    COPY_REMOVED,
    LOG_FILE,
    READ_COPY_BYTES_MAX,
    ReadRangeRequest,
    ReadRangeResponse,
)
from qmq_node.log.commit_ends import CommitEnds
from qmq_node.log.copied_log import COPIED_SEGMENT_BYTES_MAX, CopiedCommits, CopyRejected, checked_commits
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import OTHER_SEGMENT
from qmq_node.log.record import UNKNOWN_CHAIN, CommitHeader, Position
from qmq_node.log.recovery import Damage, Walker
from qmq_node.log.whole_pages import write_in_place
from qmq_node.repair.ranges import DamagedRange, RepairRejected, WantedRange
from qmq_node.replication.master.log_reader import read_batch


class LogUser(Protocol):
    """What a kind of node derives from its log, and knows of damage in it: `qmq_node.member.member_store.MemberStore`."""

    def unreadable_places(self) -> Iterable[tuple[int, int]]:
        """Return log offset and size of what readers could not read from the disk."""

    def log_damaged(self, damage: Damage) -> None:
        """Damage was found: add it to what is known."""

    async def log_repaired(self, begin: int, end: int) -> None:
        """Log offsets [begin, end) were repaired."""


@dataclass(eq=False, repr=False)
class LogRanges:
    """The log of one node as `RepairableFiles`."""

    _log: SegmentedLog
    _epoch: Callable[[], int]
    """Returns the one on disk: no commit has a higher one."""
    _store: LogUser
    _known: Position = field(default=Position(0, UNKNOWN_CHAIN), init=False)
    """Where the last repair ended: the next one begins to read there, and not at the begin of the segment."""

    def damaged(self) -> Iterable[DamagedRange]:
        """As `RepairableFiles`."""
        stored = self._log.stored
        found = [(damage.begin, damage.end, damage.why) for damage in (*stored.damaged, *stored.unreadable)]
        found += [(at, at + size, "the disk can't read it") for at, size in self._store.unreadable_places()]
        return [DamagedRange(LOG_FILE, 0, begin, end, why) for begin, end, why in found]

    def add(self, damaged: DamagedRange) -> None:
        """As `RepairableFiles`."""
        self._store.log_damaged(Damage(damaged.begin, damaged.end, damaged.why))

    async def repaired(self, damaged: DamagedRange) -> None:
        """As `RepairableFiles`."""
        # A checkpoint that does not name the damage any more has all that was derived from the repaired range. Until then, the next
        # start names it again, and the repair is repeated.
        await self._store.log_repaired(damaged.begin, damaged.end)
        self._log.stored.repaired(damaged.begin, damaged.end)

    # --- for another member ----------------------------------------------------------------------------------------

    def read(self, request: ReadRangeRequest) -> ReadRangeResponse:
        """Return whole commits, as many as fit; as `RepairableFiles`."""
        log, begin = self._log, request.begin
        if begin >= log.high_watermark:
            raise ReadRefused(
                f"log offset {begin} is not below the high watermark {log.high_watermark} of this node",
                code=COPY_BEYOND,
            )
        if begin < log.begin:
            raise ReadRefused(f"the log of this node begins at {log.begin}, behind {begin}", code=COPY_REMOVED)
        try:
            bytes_max = min(READ_COPY_BYTES_MAX, request.end - begin)
            batch = read_batch(log, Position(begin, self._chain_at(request)), log.high_watermark, bytes_max)
            if batch.lost_from is not None:
                raise LogError(f"no commit follows on log offset {begin}", code="log.unreadable")
        except LogError as error:
            raise ReadRefused(f"this node does not have what follows: {error}", code=COPY_DAMAGED) from error
        info = log.stored.segment_at(batch.offset)
        if info is None or batch.offset >= request.end:
            raise ReadRefused(f"this node has no commit from {begin} to {request.end}", code=COPY_REMOVED)
        return ReadRangeResponse(batch.offset, info.base, info.bytes, b"".join(batch.buffers))

    def _chain_at(self, request: ReadRangeRequest) -> int:
        """The CRC that the first commit has to name. Raises LogError if this node can't know it."""
        if request.crc or not request.begin:
            return request.crc
        # Where the log of the other member begins, only the first commit names it.
        previous = self._log.stored.read_previous_crc(request.begin)
        if previous is None:
            raise LogError(f"no segment begins with a commit at {request.begin}", code="log.unreadable")
        return previous

    # --- from another member -----------------------------------------------------------------------------------------

    def repair(self, damaged: DamagedRange) -> Generator[WantedRange, ReadRangeResponse, None]:
        """As `RepairableFiles`."""
        at, end = self._before(damaged.begin), damaged.end
        # Of two commits that do not follow on one another, the one that other members have there replaces the later one.
        may_replace = damaged.begin == end or damaged.why == OTHER_SEGMENT
        while not self._is_whole(at := self._valid_from(at, end), end):
            if at.offset >= end and not may_replace and self._walker().commit_at(at.offset) is not None:
                raise RepairRejected(f"the commit behind log offset {at.offset} does not follow on the one before")
            self._known, limit = at, max(damaged.end, self._next_valid(at.offset))
            answer = yield WantedRange(LOG_FILE, 0, at.offset, max(limit, at.offset + 1), max(at.chain, 0))
            last = self._checked(at, answer)[-1]
            self._check_end(last, self._log.written_end if may_replace else limit, may_replace=may_replace)
            self._write(answer)
            at = Position(last.end, last.crc)
            end = max(end, last.end)
        self._known = at

    def _is_whole(self, at: Position, end: int) -> bool:
        """Whether all is valid up to `end`, and what is behind follows on it."""
        return at.offset > end or (at.offset == end and end >= self._log.written_end)

    def _before(self, offset: int) -> Position:
        """Return the end of the last valid commit at or before a log offset; where the log begins, with an unknown chain.

        Raises LogError if there is none in the segment nor in the one before.
        """
        infos = [info for info in self._log.stored.segments() if info.base <= offset]
        starts = [self._known] if infos and infos[-1].base <= self._known.offset <= offset else []
        starts += [Position(info.base, UNKNOWN_CHAIN) for info in reversed(infos[-2:])]
        for start in starts:
            if (found := self._last_valid(start, offset)) is not None:
                return found
        if len(infos) > 1:
            raise LogError(f"there is no valid commit before log offset {offset}", code="log.unreadable")
        return Position(offset if not infos else infos[0].base, UNKNOWN_CHAIN if offset else 0)

    def _last_valid(self, start: Position, offset: int) -> Position | None:
        """Return the end of the last valid commit from a position on that ends at or before a log offset; None if there is none."""
        ends = CommitEnds()
        if start.chain != UNKNOWN_CHAIN:
            ends.add(start.offset, start.chain)
        files = self._log.stored.files
        walker = Walker(
            files, lambda _: None, synced_to=offset, stop=lambda at: at >= offset, skip_unreadable=True, ends=ends
        )
        walker.walk(start)
        return ends.at_or_below(offset)

    def _valid_from(self, at: Position, end: int) -> Position:
        """Return the end of the last of the commits that follow on one another from a position on, up to the one behind `end`."""
        walker = Walker(
            self._log.stored.files,
            lambda _: None,
            stop=lambda offset: offset > end,
            skip_unreadable=True,
            stops_at_damage=True,
        )
        if self._log.stored.files.holding(at.offset) is None:
            return at
        found = walker.walk(at).position
        # Where the log begins, only the first commit names the CRC of the one before.
        return found if found.offset > at.offset else at

    def _checked(self, at: Position, answer: ReadRangeResponse) -> list[CommitHeader]:
        """Return the headers of the commits of an answer, which follow at `at`. Raises RepairRejected."""
        base, size, begin = answer.segment_base, answer.segment_bytes, answer.begin
        files = self._log.stored.files
        before, holding = files.holding(at.offset), files.holding(begin)
        if begin != at.offset and (begin != base or (before is not None and begin < before.end)):
            raise RepairRejected(f"the next commit begins at log offset {at.offset}, the answer at {begin}")
        if holding is not None and (holding.base, holding.bytes) != (base, size):
            raise RepairRejected(
                f"log offset {begin} is in a segment of {holding.bytes} bytes at {holding.base}, the answer is of one of"
                f" {size} at {base}"
            )
        if holding is None:
            self._check_new_segment(answer)
        epochs = (entry.epoch for entry in self._log.epochs if entry.begin < at.offset)
        copied = CopiedCommits(base, size, begin, memoryview(answer.data))
        try:
            return checked_commits(
                copied, None if at.chain == UNKNOWN_CHAIN else at.chain, max(epochs, default=0), self._epoch()
            )
        except CopyRejected as error:
            raise RepairRejected(str(error)) from error

    def _check_new_segment(self, answer: ReadRangeResponse) -> None:
        """Check that a segment which is lost here fits between the others. Raises RepairRejected."""
        base, size = answer.segment_base, answer.segment_bytes
        infos = self._log.stored.files.infos()
        overlapping = next((info for info in infos if info.base < base + size and base < info.end), None)
        if overlapping is not None or size > COPIED_SEGMENT_BYTES_MAX or answer.begin != base:
            raise RepairRejected(f"a segment of {size} bytes at {base} has no place in this log")

    def _check_end(self, last: CommitHeader, end: int, *, may_replace: bool) -> None:
        """Check that the commits end at or before `end`, and that the next one follows on them. Raises RepairRejected."""
        if last.end > end:
            raise RepairRejected(f"the commit at log offset {last.offset} ends at {last.end}, behind {end}")
        behind = self._walker().commit_at(last.end)
        if behind is not None and behind.previous_crc != last.crc and not may_replace:
            raise RepairRejected(
                f"the commit at log offset {behind.offset} follows one with CRC {behind.previous_crc}, the answer ends with"
                f" {last.crc}"
            )

    def _next_valid(self, offset: int) -> int:
        """Return where the next whole commit begins at or behind a log offset; where the log ends, if there is none."""
        found = self._walker().next_commit(offset)
        return self._log.written_end if found is None else found.offset

    def _walker(self) -> Walker:
        return Walker(self._log.stored.files, lambda _: None, skip_unreadable=True)

    def _write(self, answer: ReadRangeResponse) -> None:
        """Write commits to their place, durably. A segment that is lost is created with the size that other members have."""
        stored, base = self._log.stored, answer.segment_base
        if stored.segment_at(answer.begin) is None:
            stored.files.create(base, answer.segment_bytes)
        with closing(stored.disk.open(stored.files.path(base), writable=True)) as file:
            write_in_place(file, memoryview(answer.data), answer.begin - base)
            file.datasync()
