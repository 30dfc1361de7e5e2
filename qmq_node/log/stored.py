"""class StoredSegments: what is there of a log: reading it, what is damaged in it, and dropping it."""

import logging
from collections import deque
from collections.abc import Callable, Iterable

from qmq.errors import LogError, ReadFailed
from qmq_node.log.lost_ranges import Range
from qmq_node.log.opening import Inspection, added
from qmq_node.log.record import HEADER_BYTES, UNKNOWN_CHAIN, CommitHeader, Position, decode_header
from qmq_node.log.recovery import Commit, Damage, Walker
from qmq_node.log.segment import SegmentInfo

logger = logging.getLogger("qmq_node.log")

WARM_BYTES = 256 << 10
"""Read at a time ahead of need: a sync that has to wait for the disk to finish one of 1 MiB takes four times as long."""
PIECE_BYTES = 1 << 20
"""Bytes read at once by what reads a whole range."""


class StoredSegments:
    """The part of a log that is on disk. Reading is for any thread; the rest belongs to the event loop's."""

    def __init__(self, found: Inspection) -> None:
        walked = found.walked
        self.disk = found.disk
        self.files = found.segments
        self.damaged = found.damaged
        self.unreadable: tuple[Damage, ...] = ()
        """Ranges that the disk could not read when they were read again."""
        self.lost = found.lost
        self.written_end = walked.position.offset
        """The first offset not yet written."""
        self._begin_file = found.begin_file
        self._missing_from = found.missing_from
        """Where the log began before its first segments were lost; None: they are there."""
        self._hidden: deque[int] = deque()
        """Bases of dropped segments whose files are still there, oldest first."""

    @property
    def begin(self) -> int:
        """The oldest log offset kept."""
        if self._missing_from is not None:
            return self._missing_from
        begin = self.files.begin
        return self.written_end if begin is None else begin

    def record_begin(self) -> None:
        """Record where a log begins that was never recorded. A failure is logged: retention records it, or the next start. Until
        then a lost first segment goes unnoticed.
        """
        if self._begin_file.exists or self.files.begin is None:
            return
        try:
            self._begin_file.write(self.begin)
        except OSError as error:
            logger.error("the offset where the log begins can't be recorded: %s", error)

    # --- damage ----------------------------------------------------------------------------------------------------

    def add_damage(self, found: Iterable[Damage]) -> bool:
        """Add damage that is not known yet, in order; whether there was any."""
        known, begin = self.damaged, self.begin
        # Not what retention deleted while it was read.
        self.damaged = added(known, (d for d in found if d.end > begin or d.begin >= begin))
        return self.damaged is not known

    def add_unreadable(self, found: Damage) -> None:
        """Add a range that the disk can't read, unless it is known. It is no damage: a later read may succeed."""
        self.unreadable = added(self.unreadable, [found])

    def read_again(self, begin: int, end: int, still: Iterable[Damage]) -> None:
        """Log offsets [begin, end) were read again: what was unreadable there is readable, except what is `still` not."""
        kept = set(still)
        self.unreadable = tuple(known for known in self.unreadable if known in kept or not begin <= known.begin < end)

    def repaired(self, begin: int, end: int) -> None:
        """Take what is in [begin, end) off what is known to be damaged or unreadable: it was repaired on the disk."""
        self.damaged = tuple(known for known in self.damaged if not begin <= known.begin <= known.end <= end)
        self.unreadable = tuple(known for known in self.unreadable if not begin <= known.begin <= known.end <= end)
        if self._missing_from is not None and self.files.begin == self._missing_from:
            self._missing_from = None

    @property
    def own_damage(self) -> tuple[Damage, ...]:
        """Damage that the broker group is not known to have lost: other members may have what was there."""
        if not self.damaged:
            return ()
        return tuple(damage for damage in self.damaged if not self.lost.covers(damage.begin, damage.end))

    @property
    def damaged_bytes(self) -> int:
        """Bytes of `own_damage` below the end of the log."""
        end, size, counted = self.written_end, 0, 0
        for damage in self.own_damage:
            begin = max(damage.begin, counted)
            counted = max(counted, min(damage.end, end))
            size += max(0, counted - begin)
        return size

    def note_lost(self, damaged: Iterable[Range]) -> None:
        """The master's log is damaged in these ranges: record that what is damaged there here, too, is lost to the group.

        In a thread that may wait. Raises LogError, OSError.
        """
        ranges = [(begin, end) for begin, end in damaged]
        both = [
            (own.begin, own.end)
            for own in self.own_damage
            if any(begin <= own.begin and own.end <= end for begin, end in ranges)
        ]
        self.lost.add(both, self.begin)

    @property
    def damaged_end(self) -> int:
        """Where the last damage ends; 0 without any. A state of the store below it can't be followed by the log."""
        return max((max(damage.end, damage.begin + 1) for damage in self.damaged), default=0)

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the log. Raises ReadFailed when the disk returned an error, or LogError when they are not kept."""
        file, place = self.files.locate(offset, size)
        try:
            data = file.pread(size, place)
        except OSError as error:
            raise ReadFailed(f"log offset {offset}: {error}") from error
        if len(data) < size:
            raise LogError(f"log offset {offset}: {len(data)} of {size} bytes are there", code="log.unreadable")
        return data

    def read_cached(self, offset: int, size: int) -> bytes | bytearray | None:
        """As `read`, but None when the disk would have to be waited for."""
        found = self.files.opened(offset, size)
        if found is None:
            return None
        file, place = found
        try:
            return file.pread_cached(size, place)
        except OSError as error:
            raise ReadFailed(f"log offset {offset}: {error}") from error

    def warm(self, offset: int, size: int) -> None:
        """Bring a range into memory, as far as it is kept; from a thread that may wait for the disk."""
        info = self.files.holding(offset)
        end = min(offset + size, info.end) if info is not None else offset
        for begin in range(offset, end, WARM_BYTES):
            self.read(begin, min(WARM_BYTES, end - begin))

    def read_commits(self, position: Position, end: int, bytes_max: int) -> tuple[list[Commit], Position]:
        """Return the commits with records from a position on, and the position behind what was read; in a thread that may wait.

        Args:
            end: commits that end above it are left out.
            bytes_max: a commit that begins after this number of bytes is left out; at least one is returned.

        Raises:
            ReadFailed: the disk can't read a place.
            LogError: a commit is damaged, or does not follow the one before, and the broker group has not lost it.
        """
        found: list[Commit] = []
        size = 0

        def visit(commit: Commit) -> None:
            nonlocal size
            found.append(commit)
            size += commit.end - commit.offset

        walker = Walker(
            self.files, visit, synced_to=end, stop=lambda offset: offset >= end or size >= bytes_max, visit_end=end,
            lost=self.lost.ranges,
        )  # fmt: skip
        walked = walker.walk(position)
        for damage in walked.damaged:
            if not self.lost.covers(damage.begin, damage.end):
                raise LogError(f"log offset {damage.begin}: {damage.why}", code="log.unreadable")
        return found, walked.visited

    def next_commit(self, offset: int) -> CommitHeader | None:
        """Return the header of the whole commit at a log offset, or of the next one behind it; None if there is none.

        In a thread that may wait. Raises ReadFailed when the disk can't read a place.
        """
        return Walker(self.files, lambda _: None).next_commit(offset)

    def walk(self, begin: int, visit: Callable[[Commit], None], stop: Callable[[int], bool]) -> tuple[Damage, ...]:
        """Visit commits again from a segment's base on, until `stop(offset)`; the damage met on the way.

        Places that the disk can't read count as damage.
        """
        end = self.written_end
        is_stopped = False

        def stop_at(offset: int) -> bool:
            nonlocal is_stopped
            is_stopped = offset >= end or stop(offset)
            return is_stopped

        walker = Walker(self.files, visit, synced_to=end, stop=stop_at, skip_unreadable=True)
        walked = walker.walk(Position(begin, UNKNOWN_CHAIN))
        if is_stopped:
            return walked.damaged
        return (*walked.damaged, Damage(walked.position.offset, end, "commits can't be read"))

    def is_readable(self, begin: int, end: int) -> bool:
        """Whether the disk can read this range, as far as it is kept; from a thread that may wait for the disk."""
        at = begin
        while at < end and (info := self.files.holding(at)) is not None:
            size = min(PIECE_BYTES, end - at, info.end - at)
            try:
                self.read(at, size)
            except ReadFailed:
                return False
            at += size
        return True

    def read_crc_at(self, end: int) -> int | None:
        """As `SegmentedLog.crc_at`, but of any commit that is kept, by reading its segment, in a thread that may wait.

        None: no commit ends there, or it can't be read.
        """
        info = self.files.holding(end - 1) if 0 < end <= self.written_end else None
        if info is None:
            return None
        walker = Walker(
            self.files, lambda _: None, synced_to=end, stop=lambda offset: offset >= end, skip_unreadable=True
        )
        walked = walker.walk(Position(info.base, UNKNOWN_CHAIN))
        return walked.position.chain if walked.position.offset == end else None

    def damage_before(self, end: int) -> tuple[Damage, ...]:
        """Return the damage of the segment in which a log offset lies, up to there or beyond it, from a thread that may wait."""
        info = self.files.holding(end - 1)
        return () if info is None else self.walk(info.base, lambda _: None, lambda offset: offset >= end)

    def read_previous_crc(self, base: int) -> int | None:
        """Return the CRC that the first commit of a segment names as its predecessor's; from a thread that may wait for the disk.

        None: the segment has no commit, or is not kept. Raises ReadFailed.
        """
        try:
            header = decode_header(self.read(base, HEADER_BYTES), base, base)
        except ReadFailed:
            raise
        except LogError:
            return None
        return header.previous_crc if header is not None else None

    def segment_at(self, offset: int) -> SegmentInfo | None:
        """Return the segment with a log offset; None if it is not kept."""
        return self.files.holding(offset)

    def segments(self) -> list[SegmentInfo]:
        """The segments, oldest first."""
        return self.files.infos()

    # --- dropping --------------------------------------------------------------------------------------------------

    def hide_before(self, offset: int, current: int) -> list[int]:
        """Drop whole segments below a log offset that are older than the one with base `current`; their bases.

        They can't be read any more. Their files are deleted by `delete_hidden`.
        """
        bases = [info.base for info in self.files.infos() if info.end <= offset and info.base < current]
        for base in bases:
            self.files.hide(base)
        self._hidden.extend(bases)
        if bases:
            self._missing_from = None
            self.damaged = tuple(damage for damage in self.damaged if damage.end > self.begin)
            self.unreadable = tuple(range_ for range_ in self.unreadable if range_.end > self.begin)
        return bases

    @property
    def hidden_segments(self) -> int:
        """Segments dropped whose files are not deleted yet."""
        return len(self._hidden)

    def delete_hidden(self, files_max: int) -> None:
        """Delete files of dropped segments, oldest first; in one thread at a time, which may wait for the disk.

        Each deletion is durable before the next: a crash leaves no gap in the log. After OSError the next call continues.
        """
        if files_max and self._hidden and self._begin_file.exists:
            self._begin_file.write(self.begin)
        for _ in range(min(files_max, len(self._hidden))):
            try:
                self.disk.remove(self.files.path(self._hidden[0]))
            except FileNotFoundError:
                # An earlier call deleted it and could not sync the folder.
                logger.info("the dropped segment at log offset %d is gone already", self._hidden[0])
            self.disk.sync_dir(self.files.folder)
            self._hidden.popleft()
