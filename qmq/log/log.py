"""SegmentedLog: append, commit, read, roll. The package docstring has the format and the life of a log."""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

from qmq.errors import LogError, NoSpace, ReadFailed
from qmq.log.begin_file import BeginFile
from qmq.log.commit import COMMIT_BYTES_TARGET, RECORD_BYTES_MAX, SealedCommit
from qmq.log.disk import Buffer, Disk, File
from qmq.log.record import (
    COMMIT_BODY_BYTES_MAX,
    HEADER_BYTES,
    RECORD,
    RECORD_BYTES,
    UNKNOWN_CHAIN,
    Position,
    commit_crc,
    encode_crc,
    encode_header,
)
from qmq.log.recovery import Commit, Damage, Walked, Walker
from qmq.log.segment import SegmentInfo, Segments

logger = logging.getLogger("qmq.log")

SEGMENT_BYTES = 1 << 30
"""Default size of a full-sized segment, as in QMQ, RocketMQ and Kafka."""
FIRST_SEGMENT_BYTES = 64 << 20
"""Size of a new log's first segment. Each segment is as large as everything written before it, up to `segment_bytes`, so the
disk space that a log sets aside grows with its use."""
PREPARE_AHEAD_BYTES = FIRST_SEGMENT_BYTES * 3 // 2
"""Below this much room a further segment is created ahead: two small ones, so that a fast producer cannot outrun the disk."""
_ZEROS = bytes(1 << 20)

assert RECORD_BYTES_MAX + RECORD_BYTES <= COMMIT_BODY_BYTES_MAX
assert HEADER_BYTES + RECORD_BYTES + RECORD_BYTES_MAX <= FIRST_SEGMENT_BYTES
assert COMMIT_BYTES_TARGET <= COMMIT_BODY_BYTES_MAX


def commit_bytes_of(record_bytes: int) -> int:
    """Bytes of the log that a commit of one record of this many bytes takes."""
    return HEADER_BYTES + RECORD_BYTES + record_bytes


class SegmentedLog:
    """One append-only log.

    `append`, `take`, `complete` and the properties belong to one thread (the event loop); `write`, `sync` and
    `prepare_next` to another or several; `read` to any. At most one commit is being written at a time.
    """

    def __init__(self, disk: Disk, segments: Segments, segment_bytes: int, epoch: int, walked: Walked) -> None:
        """Use `open`."""
        self._disk = disk
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._epoch = epoch
        self.damaged: tuple[Damage, ...] = walked.damaged
        self.torn_bytes = 0
        self.failed: BaseException | None = None
        self.record_bytes_max = min(RECORD_BYTES_MAX, segment_bytes - HEADER_BYTES - RECORD_BYTES)
        """Largest record: each segment can hold it."""
        # The writer's side.
        self._chain = walked.position.chain
        self._writer_base = -1
        self._writer_file: File | None = None
        self._writer_synced_to = walked.synced_to
        self._writer_end = walked.position.offset
        self._make_lock = threading.Lock()
        # The appender's side.
        self._base = self._base_end = walked.segment_base
        self._at = walked.position.offset
        self._parts: list[Buffer] = []
        self._body_bytes = 0
        self._record_count = 0
        self._sealed: deque[SealedCommit] = deque()
        self._sealed_bytes = 0
        self.is_out_of_space = False
        """The last attempt to create the next segment failed."""
        self.written_end = self.synced_end = walked.position.offset
        self.position = walked.position
        self.needs_seal = False
        self._begin_file = BeginFile(disk, segments.folder)
        self._missing_from: int | None = None
        """Where the log began before its first segments were lost; None: they are there."""
        self._hidden: deque[int] = deque()
        """Bases of dropped segments whose files are still there, oldest first."""
        self.tails = dict(walked.tails)
        """Segment base -> offset and CRC of its last commit with records: by them a segment is known again."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        epoch: int = 1,
        start: Position | None = None,
        synced_to: int = 0,
        tails: Mapping[int, Position] | None = None,
        visit: Callable[[Commit], None],
    ) -> "SegmentedLog":
        """Open a folder, new or used, and visit every valid commit from `start` (default: the oldest) on.

        Args:
            segment_bytes: size of a full-sized segment; the first ones of a new log are smaller, existing ones keep theirs.
            start: a position that an earlier open or `position` gave.
            synced_to: what is known, from a checkpoint, to have been synced.
            tails: as the property of that name was at the checkpoint: segments below `start` are held to it.

        Raises:
            ReadFailed: the disk can't read a place that recovery needs; nothing was changed. It may be an acknowledged
                commit or a torn one, so it is neither cleared nor passed over.
            LogError: a commit of an unknown format stands in the log.
            OSError: the disk refused.
        """
        disk.make_dir(folder)
        # What is there may have been made by a process that was killed before it synced the name: appending to such a segment
        # would make its bytes durable and not the file.
        for named in (folder.rpartition("/")[0] or ".", folder):
            disk.sync_dir(named)
        segments = Segments(disk, folder)
        if start is not None and not any(s.base <= start.offset <= s.end for s in segments.infos()):
            # Not even the segment that the position names is there: all that is left is read, and the rest is damage.
            infos = segments.infos()
            start = Position(infos[0].base, UNKNOWN_CHAIN) if infos else start
        walked = Walker(segments, visit, synced_to=synced_to).walk(start)
        log = cls(disk, segments, segment_bytes, epoch, walked)
        log._settle(walked)
        log._check_begin()
        log._compare(tails or {}, Walker(segments, lambda _: None))
        return log

    def _compare(self, tails: Mapping[int, Position], walker: Walker) -> None:
        """Notice segments that are not as they were left: an older copy, a foreign file."""
        for info in self._segments.infos():
            tail = tails.get(info.base)
            if tail is None or info.base in self.tails:
                continue
            self.tails[info.base] = tail
            try:
                holds = walker.holds(info.base, tail)
            except ReadFailed as error:
                # Its messages are withheld when they are read, as in a running node; the next start compares again.
                logger.error("the segment at log offset %d can't be compared with its checkpoint: %s", info.base, error)
                continue
            if not holds:
                self.add_damage(self._damage_of(info, tail))

    def _damage_of(self, info: SegmentInfo, tail: Position) -> tuple[Damage, ...]:
        """What is damaged in a segment whose last commit is not as it was left."""
        walker = Walker(self._segments, lambda _: None, stop=lambda offset: offset >= info.end, skip_unreadable=True)
        found = tuple(
            Damage(damage.begin, min(damage.end, info.end), damage.why)
            for damage in walker.walk(Position(info.base, UNKNOWN_CHAIN)).damaged
            if damage.begin < info.end
        )
        if any(damage.begin <= tail.offset < damage.end for damage in found):
            return found
        # Its commits are whole, but not those that were written: an older copy, a foreign file.
        return (Damage(info.base, info.end, "the segment is not as it was left"),)

    def add_damage(self, found: Iterable[Damage]) -> bool:
        """Add damage that is not known yet, in order; whether there was any."""
        known, begin = self.damaged, self.begin
        new = [
            d
            for d in found
            if not any(k.begin <= d.begin and d.end <= k.end for k in known)
            # Not what retention deleted while it was read.
            and (d.end > begin or d.begin >= begin)
        ]
        if new:
            self.damaged = tuple(sorted({*known, *new}, key=lambda damage: (damage.begin, damage.end)))
        return bool(new)

    def _settle(self, walked: Walked) -> None:
        """Clear a torn tail, or step past damage at the end; then the log can be appended to."""
        infos = self._segments.infos()
        gaps = [Damage(a.end, b.base, "a segment is missing") for a, b in pairwise(infos) if a.end < b.base]
        known = {damage.begin for damage in self.damaged}
        self.damaged += tuple(gap for gap in gaps if gap.begin not in known)
        end = walked.position.offset
        if infos and end < walked.synced_to:
            # Acknowledged bytes stood here. They are left as they are, and the log goes on in a new segment.
            self._begin_at(max(infos[-1].end, walked.synced_to))
        elif infos:
            self._clear(end, walked.segment_base)
            self._enter(walked.segment_base)
            self._writer_synced_to = end
            self.needs_seal = end > infos[0].base
        else:
            if end < walked.synced_to:
                self.damaged += (Damage(end, walked.synced_to, "the whole log is missing"),)
            self._begin_at(max(end, walked.synced_to))

    def _check_begin(self) -> None:
        """Notice that the first segments are missing: retention records the log's begin before it deletes any."""
        begin, noted = self.begin, self._begin_file.read()
        if noted is None:
            try:
                self._begin_file.write(begin)
            except OSError as error:
                # Retention records it, or the next start. Until then a lost first segment goes unnoticed.
                logger.error("the offset where the log begins can't be recorded: %s", error)
        elif noted < begin:
            self._missing_from = noted
            self.damaged = (Damage(noted, begin, "the first segment is missing"), *self.damaged)

    def _begin_at(self, base: int) -> None:
        """Append to a new segment that continues nothing."""
        self._create_segment(base)
        self._enter(base)
        self._at = self.written_end = self.synced_end = base
        self.position = Position(base, 0)
        self._chain = 0

    def _enter(self, base: int) -> None:
        """Append to the segment at `base` from now on. It may not exist yet; its size is fixed."""
        info = self._segments.holding(base)
        self._base, self._base_end = base, base + self._size_of(base) if info is None else info.end

    def _clear(self, end: int, base: int) -> None:
        """Zero whatever stands behind the last commit: it was never answered, and must never look valid."""
        for info in reversed(self._segments.infos()):
            first = max(end, info.base)
            if info.base > base:
                file = self._segments.file(info.base)
                if file.next_data(0) is not None and _has_data(file, 0, info.bytes):
                    self._segments.remove(info.base)
                    self._disk.sync_dir(self._segments.folder)
                continue
            if info.base < base:
                return
            file = self._disk.open(self._segments.path(base), writable=True)
            try:
                at: int | None = first - base
                cleared = 0
                while at is not None and (at := file.next_data(at)) is not None and at < info.bytes:
                    piece = file.pread(min(len(_ZEROS), info.bytes - at), at)
                    if piece.count(0) != len(piece):
                        file.pwritev([_ZEROS[: len(piece)]], at)
                        cleared += len(piece.rstrip(b"\0"))
                    at += len(piece) or 1
                # Not only for what was cleared: after a kill the last commits may be in memory alone, and they are about
                # to be served.
                file.datasync()
                self.torn_bytes = cleared
            finally:
                file.close()

    # --- appending -------------------------------------------------------------------------------------------------

    @property
    def begin(self) -> int:
        """The oldest log offset kept."""
        if self._missing_from is not None:
            return self._missing_from
        begin = self._segments.begin
        return self.written_end if begin is None else begin

    @property
    def pending_bytes(self) -> int:
        """Bytes appended and not yet taken to be written."""
        return self._sealed_bytes + self._body_bytes

    @property
    def has_pending(self) -> bool:
        return self._record_count > 0 or bool(self._sealed)

    @property
    def appended_end(self) -> int:
        """Where the next commit will begin; above it nothing has been appended."""
        return self._at + (HEADER_BYTES + self._body_bytes if self._record_count else 0)

    @property
    def appended_base(self) -> int:
        """The base of the segment that the last appended record goes to; the segment may not exist yet."""
        return self._base

    @property
    def prepared_bytes(self) -> int:
        """Bytes of segments created ahead of need."""
        return max(0, self._segments.end - self._base_end)

    @property
    def known_synced_to(self) -> int:
        """Everything below is on stable storage for sure; a seal, or a commit written without a sync, may not be."""
        return self._writer_synced_to

    @property
    def room_bytes(self) -> int:
        """Bytes that can be appended without asking the disk for space."""
        return max(0, self._segments.end - self.appended_end)

    def room_after(self, record_bytes: int) -> int:
        """`room_bytes` after a record of this many bytes has been appended; negative when it does not fit.

        A record is not split: when it does not fit the current segment, the rest of that segment stays unused.
        """
        begin, needed = self.appended_end, commit_bytes_of(record_bytes)
        if begin + needed > self._base_end:
            begin = self._base_end
        return self._segments.end - begin - needed

    @property
    def current_segment_bytes(self) -> int:
        """Size of the segment that is appended to."""
        return self._base_end - self._base

    @property
    def needs_segment(self) -> bool:
        """Whether the next segment is to be created now, so that a roll costs nothing. An empty log needs none yet."""
        if self.appended_end == self.begin:
            return False
        return not self.prepared_bytes or self.room_bytes < min(self._segment_bytes, PREPARE_AHEAD_BYTES)

    def append(self, kind: int, *parts: Buffer) -> int:
        """Add a record to the commit that is being gathered; the log offset of its payload's first byte.

        The parts are not copied: they must stay as they are until the commit is written.

        Raises:
            NoSpace: the record needs another segment, and the disk has no space for one; nothing was changed.
            LogError: the record is too large for the log, or the log has failed.
        """
        if self.failed is not None:
            raise LogError(f"the log has failed: {self.failed}", code="log.failed")
        size = sum(map(len, parts))
        needed = RECORD_BYTES + size
        if size > self.record_bytes_max:
            raise LogError(
                f"a record of {size} bytes, the limit is {self.record_bytes_max}", code="log.record_too_large"
            )
        if self.is_out_of_space and self.room_after(size) < 0:
            raise NoSpace(f"no space: {self.room_bytes} bytes left in the log, a record needs {needed}")
        if self._record_count and self._body_bytes + needed > COMMIT_BYTES_TARGET:
            self._seal()
        end = self._base_end
        if self._at + HEADER_BYTES + self._body_bytes + needed > end:
            if self._record_count:
                self._seal()
            if self._at + HEADER_BYTES + needed > end:
                self._at = end
                self._enter(end)
        offset = self._at + HEADER_BYTES + self._body_bytes + RECORD_BYTES
        self._parts.append(RECORD.pack(size, kind))
        self._parts.extend(parts)
        self._body_bytes += needed
        self._record_count += 1
        return offset

    def _size_of(self, base: int) -> int:
        """The size of a segment to be created at `base`.

        It follows from the base alone: the appending thread plans a roll with the same number that the writing thread or
        `prepare_next` creates the file with.
        """
        return min(self._segment_bytes, max(FIRST_SEGMENT_BYTES, base))

    def _create_segment(self, base: int) -> None:
        self._segments.create(base, self._size_of(base))

    def _seal(self) -> None:
        commit = SealedCommit(self._base, self._at, self._body_bytes, self._record_count, tuple(self._parts))
        self._at = commit.end
        self._parts, self._body_bytes, self._record_count = [], 0, 0
        self._sealed.append(commit)
        self._sealed_bytes += commit.body_bytes

    def take(self) -> SealedCommit | None:
        """The next commit to write, in order; None when nothing is pending.

        Raises:
            LogError: the log has failed.
        """
        if self.failed is not None:
            raise LogError(f"the log has failed: {self.failed}", code="log.failed")
        if not self._sealed:
            if not self._record_count:
                return None
            self._seal()
        commit = self._sealed.popleft()
        self._sealed_bytes -= commit.body_bytes
        return commit

    def seal_idle(self) -> SealedCommit | None:
        """An empty commit that proves the last one synced; None when there is nothing to prove or something pending."""
        if not self.needs_seal or self.has_pending or self.failed is not None:
            return None
        if self._at + HEADER_BYTES > self._base_end:
            return None
        commit = SealedCommit(self._base, self._at, 0, 0, ())
        self._at = commit.end
        return commit

    # --- the writing thread ----------------------------------------------------------------------------------------

    def write(self, commit: SealedCommit, *, sync: bool = True) -> None:
        """Write a commit, and sync it. Any failure is for good: the log takes nothing more.

        Raises:
            OSError: the disk refused; whether the commit is there is unknown.
        """
        try:
            file = self._file_for(commit.segment_base, sync)
            head = encode_header(
                segment_base=commit.segment_base,
                epoch=self._epoch,
                offset=commit.offset,
                body_bytes=commit.body_bytes,
                record_count=commit.record_count,
                previous_crc=self._chain,
                synced_to=self._writer_synced_to,
            )
            crc = commit_crc(head, *commit.parts)
            file.pwritev([head + encode_crc(crc), *commit.parts], commit.offset - commit.segment_base)
            self._writer_end = commit.end
            if sync:
                file.datasync()
                self._writer_synced_to = commit.end
            self._chain = crc
        except BaseException as error:
            self.failed = error
            raise

    def _file_for(self, base: int, sync: bool) -> File:
        if self._writer_file is not None and self._writer_base == base:
            return self._writer_file
        if self._writer_file is not None:
            if not sync:
                self._writer_file.datasync()
            self._writer_file.close()
        with self._make_lock:
            if not any(info.base == base for info in self._segments.infos()):
                self._create_segment(base)
        self._writer_file = self._disk.open(self._segments.path(base), writable=True)
        self._writer_base = base
        return self._writer_file

    def sync(self) -> None:
        """Sync what was written without (flush by interval); in the writing thread, so between two writes."""
        file = self._writer_file
        if file is None or self.failed is not None:
            return
        try:
            file.datasync()
            self._writer_synced_to = self._writer_end
        except BaseException as error:
            self.failed = error
            raise

    def prepare_next(self) -> bool:
        """Create the segment behind the last one, so that a roll costs nothing and needs no space; False if none is needed.

        Raises:
            OSError: no space; nothing is left behind.
        """
        with self._make_lock:
            infos = self._segments.infos()
            if not self.needs_segment or not any(info.base == self._base for info in infos):
                self.is_out_of_space = False
                return False
            try:
                self._create_segment(infos[-1].end)
            except OSError:
                self.is_out_of_space = True
                raise
            self.is_out_of_space = False
            return True

    def complete(self, commit: SealedCommit) -> None:
        """Back on the appending thread: a commit was written (and synced as its policy says)."""
        self.written_end = self.synced_end = commit.end
        self.position = Position(commit.end, self._chain)
        self.needs_seal = not commit.is_seal
        if not commit.is_seal:
            self.tails[commit.segment_base] = Position(commit.offset, self._chain)

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, offset: int, size: int) -> bytes:
        """Bytes of the log.

        Raises:
            ReadFailed: the disk returned an error.
            LogError: they are not kept.
        """
        file, place = self._segments.locate(offset, size)
        try:
            data = file.pread(size, place)
        except OSError as error:
            raise ReadFailed(f"log offset {offset}: {error}") from error
        if len(data) < size:
            raise LogError(f"log offset {offset}: {len(data)} of {size} bytes are there", code="log.unreadable")
        return data

    def read_cached(self, offset: int, size: int) -> bytes | None:
        """As `read`, but None when the disk would have to be waited for."""
        found = self._segments.opened(offset, size)
        if found is None:
            return None
        file, place = found
        try:
            return file.pread_cached(size, place)
        except OSError as error:
            raise ReadFailed(f"log offset {offset}: {error}") from error

    def warm(self, offset: int, size: int) -> None:
        """Bring a range into memory, as far as it is kept; from a thread that may wait for the disk."""
        info = self._segments.holding(offset)
        if info is not None:
            self.read(offset, min(size, info.end - offset))

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

        walked = Walker(self._segments, visit, stop=stop_at, skip_unreadable=True).walk(Position(begin, UNKNOWN_CHAIN))
        if is_stopped:
            return walked.damaged
        return (*walked.damaged, Damage(walked.position.offset, end, "commits can't be read"))

    def is_readable(self, begin: int, end: int) -> bool:
        """Whether the disk can read this range, as far as it is kept; from a thread that may wait for the disk."""
        at = begin
        while at < end and (info := self._segments.holding(at)) is not None:
            size = min(len(_ZEROS), end - at, info.end - at)
            try:
                self.read(at, size)
            except ReadFailed:
                return False
            at += size
        return True

    def segments(self) -> list[SegmentInfo]:
        """The segments, oldest first."""
        return self._segments.infos()

    def segment_holding(self, offset: int) -> SegmentInfo | None:
        """The segment that a log offset is in."""
        return self._segments.holding(offset)

    def hide_before(self, offset: int) -> list[int]:
        """Drop whole segments below a log offset, never the current one; their bases.

        They can't be read any more. Their files are deleted by `delete_hidden`.
        """
        bases = [info.base for info in self._segments.infos() if info.end <= offset and info.base < self._base]
        for base in bases:
            self._segments.hide(base)
            self.tails.pop(base, None)
        self._hidden.extend(bases)
        if bases:
            self._missing_from = None
            self.damaged = tuple(damage for damage in self.damaged if damage.end > self.begin)
        return bases

    @property
    def hidden_segments(self) -> int:
        """Segments dropped whose files are not deleted yet."""
        return len(self._hidden)

    def delete_hidden(self, files_max: int) -> None:
        """Delete files of dropped segments, oldest first; in one thread at a time, which may wait for the disk.

        Each deletion is durable before the next: a crash in between leaves a log without a gap.

        Raises:
            OSError: the disk refused; the rest is tried again by the next call.
        """
        if files_max and self._hidden and self._begin_file.exists:
            self._begin_file.write(self.begin)
        for _ in range(min(files_max, len(self._hidden))):
            try:
                self._disk.remove(self._segments.path(self._hidden[0]))
            except FileNotFoundError:
                # An earlier call deleted it and could not sync the folder.
                logger.info("the dropped segment at log offset %d is gone already", self._hidden[0])
            self._disk.sync_dir(self._segments.folder)
            self._hidden.popleft()

    def drop_before(self, offset: int) -> list[int]:
        """Drop whole segments below a log offset and delete their files at once; their bases."""
        bases = self.hide_before(offset)
        self.delete_hidden(len(self._hidden))
        return bases

    def close(self) -> None:
        """Let go of all files."""
        if self._writer_file is not None:
            self._writer_file.close()
            self._writer_file = None
        self._segments.close()


def _has_data(file: File, begin: int, end: int) -> bool:
    at: int | None = begin
    while at is not None and at < end and (at := file.next_data(at)) is not None:
        piece = file.pread(len(_ZEROS), at)
        if not piece:
            return False
        if piece.count(0) != len(piece):
            return True
        at += len(piece)
    return False
