"""class Gather: records gather in a commit, which is taken to be written."""

from collections import deque

from qmq.errors import LogError, NoSpace
from qmq_node.log.commit import COMMIT_BYTES_TARGET, RECORD_BYTES_MAX, SealedCommit
from qmq_node.log.disk import Buffer
from qmq_node.log.opening import Inspection
from qmq_node.log.record import COMMIT_BODY_BYTES_MAX, HEADER_BYTES, RECORD, RECORD_BYTES, CommitHeader
from qmq_node.log.segment import FIRST_SEGMENT_BYTES, NewSegments
from qmq_node.log.stored import StoredSegments
from qmq_node.log.writer import CommitWriter

PREPARE_AHEAD_BYTES = FIRST_SEGMENT_BYTES * 3 // 2
"""Below this much room a further segment is created ahead: two small ones, so that a fast producer cannot outrun the disk."""

assert RECORD_BYTES_MAX + RECORD_BYTES <= COMMIT_BODY_BYTES_MAX
assert HEADER_BYTES + RECORD_BYTES + RECORD_BYTES_MAX <= FIRST_SEGMENT_BYTES
assert COMMIT_BYTES_TARGET <= COMMIT_BODY_BYTES_MAX


def commit_bytes_of(record_bytes: int) -> int:
    """Bytes of the log that a commit of one record of this many bytes takes."""
    return HEADER_BYTES + RECORD_BYTES + record_bytes


class Gather:
    """Records that are not written yet, and the room for more. Belongs to the event loop's thread."""

    def __init__(
        self, found: Inspection, stored: StoredSegments, writer: CommitWriter, new_segments: NewSegments
    ) -> None:
        self._stored = stored
        self._segments = found.segments
        self._writer = writer
        self._new_segments = new_segments
        walked, segment_bytes = found.walked, new_segments.segment_bytes
        self.base = walked.segment_base
        """Of the segment that records are appended to; it may not exist yet."""
        self.record_bytes_max = min(RECORD_BYTES_MAX, segment_bytes - HEADER_BYTES - RECORD_BYTES)
        """Largest record: each segment can hold it."""
        self._base_end = walked.segment_base
        self._at = self._records_end = walked.position.offset
        self._parts: list[Buffer] = []
        self._index_entries: list[bytes] = []
        self._body_bytes = 0
        self._record_count = 0
        self._sealed: deque[SealedCommit] = deque()
        self._sealed_bytes = 0
        self.is_out_of_space = False
        """The last attempt to create the next segment failed."""
        self.needs_seal = False
        """Whether the last commit has records and nothing behind it proves that it was synced."""
        self.is_slave = False
        """Whether the log takes only the commits of another node (`CopiedLog`), until it begins an epoch of its own."""

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
    def pending_begin(self) -> int:
        """Where the next commit to be written begins."""
        return self._sealed[0].offset if self._sealed else self._at

    @property
    def records_end(self) -> int:
        """The end of the commit that the last appended record belongs to, so far; behind it there may only be a seal.

        Everything appended is confirmed when the high watermark is here: it does not move to the end of a seal.
        """
        return self.appended_end if self._record_count else self._records_end

    @property
    def prepared_bytes(self) -> int:
        """Bytes of segments created ahead of need."""
        return max(0, self._segments.end - self._base_end)

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
        return self._base_end - self.base

    @property
    def needs_segment(self) -> bool:
        """Whether the next segment is to be created now, so that a roll costs nothing. An empty log needs its first one only, a
        slave's none."""
        if self.is_slave:
            return False
        if self.appended_end == self._stored.begin:
            return self._segments.begin is None
        return not self.prepared_bytes or self.room_bytes < min(self._new_segments.segment_bytes, PREPARE_AHEAD_BYTES)

    def _takes_nothing(self) -> LogError:
        if self._writer.failed is not None:
            return LogError(f"the log has failed: {self._writer.failed}", code="log.failed")
        return LogError(
            "the log takes only what the group's master writes: this node is not the master", code="log.slave"
        )

    def append(self, kind: int, *parts: Buffer) -> int:
        """Add a record to the commit that is being gathered; the log offset of its payload's first byte.

        The parts are not copied and must not change, also after the commit was written: it may wait to be sent to a slave.

        Raises:
            NoSpace: the record needs another segment, and the disk has no space for one; nothing was changed.
            LogError: the record is too large for the log, or the log has failed or is a slave's.
        """
        if self._writer.failed is not None or self.is_slave:
            raise self._takes_nothing()
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
                self.enter(end)
        offset = self._at + HEADER_BYTES + self._body_bytes + RECORD_BYTES
        self._parts.append(RECORD.pack(size, kind))
        self._parts.extend(parts)
        self._body_bytes += needed
        self._record_count += 1
        return offset

    def add_index_entries(self, entries: bytes) -> None:
        """Pass on the index entries of the record that was appended last to slaves, with its commit. They are not written."""
        self._index_entries.append(entries)

    def enter(self, base: int) -> None:
        """Append to the segment at `base` from now on. It may not exist yet; its size is fixed."""
        info = self._segments.holding(base)
        self.base, self._base_end = base, base + self._new_segments.size_of(base) if info is None else info.end

    def begin_at(self, base: int) -> None:
        """Append to a new segment that continues nothing."""
        self.enter(base)
        self._at = self._records_end = base

    def follow(self, header: CommitHeader) -> None:
        """Continue behind a commit that was copied."""
        self._at, self.needs_seal = header.end, header.record_count > 0
        if header.record_count:
            self._records_end = header.end

    def _seal(self) -> None:
        commit = SealedCommit(
            self.base, self._at, self._body_bytes, self._record_count, tuple(self._parts), tuple(self._index_entries)
        )
        self._at = self._records_end = commit.end
        self._parts, self._index_entries, self._body_bytes, self._record_count = [], [], 0, 0
        self._sealed.append(commit)
        self._sealed_bytes += commit.body_bytes

    def end_commit(self) -> None:
        """End the commit that is being gathered: the next record begins another one, so `records_end` is the end of a commit."""
        if self._record_count:
            self._seal()

    def take(self) -> SealedCommit | None:
        """The next commit to write, in order; None when nothing is pending. Raises LogError when the log has failed."""
        if self._writer.failed is not None:
            raise LogError(f"the log has failed: {self._writer.failed}", code="log.failed")
        if not self._sealed:
            if not self._record_count:
                return None
            self._seal()
        commit = self._sealed.popleft()
        self._sealed_bytes -= commit.body_bytes
        return commit

    def seal_idle(self) -> SealedCommit | None:
        """An empty commit that proves the last one synced; None when there is nothing to prove or something pending."""
        if not self.needs_seal or self.has_pending or self._writer.failed is not None or self.is_slave:
            return None
        if self._at + HEADER_BYTES > self._base_end:
            return None
        commit = SealedCommit(self.base, self._at, 0, 0, ())
        self._at = commit.end
        return commit
