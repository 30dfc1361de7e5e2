"""What goes to disk together, and class CommitWriter: a log as its writing thread sees it."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from qmq_node.log.disk import Buffer, File
from qmq_node.log.opening import Inspection
from qmq_node.log.record import FIRST_EPOCH, HEADER_BYTES, CommitHeader, commit_crc, encode_crc, encode_header
from qmq_node.log.segment import SegmentInfo
from qmq_node.log.stored_log import StoredLog

COMMIT_BYTES_TARGET = 8 << 20
"""A commit that has gathered this much is closed; a single larger record still makes one commit."""
RECORD_BYTES_MAX = 32 << 20
"""Largest record."""
RECORD_HEAD_BYTES_MAX = 1 << 10
"""Room that nodes leave in the largest record for what they write besides one message: its subject, number and times."""
FIRST_SEGMENT_BYTES = 64 << 20
"""Size of a new log's first segment. Each segment is as large as everything written before it, up to `segment_bytes`, so the
disk space that a log sets aside grows with its use."""


class FlushPolicy(Enum):
    """When a commit counts as synced: after its own fdatasync; or, giving up the newest on a power cut, earlier."""

    ALWAYS = "always"
    INTERVAL = "interval"
    OS = "os"


@dataclass(frozen=True, slots=True)
class SealedCommit:
    """A commit ready to be written: its place, and its records' bytes in order."""

    segment_base: int
    offset: int
    body_bytes: int
    record_count: int
    parts: tuple[Buffer, ...]
    index_entries: tuple[bytes, ...] = ()
    """Index entries of its records, in order: see `Appender.add_index_entries`."""

    @property
    def end(self) -> int:
        return self.offset + HEADER_BYTES + self.body_bytes

    @property
    def is_seal(self) -> bool:
        """Without records: it only proves that the commit before it was synced."""
        return self.record_count == 0


class CommitWriter(StoredLog):
    """`write` and `sync` belong to one thread. At most one commit is being written at a time."""

    def __init__(self, found: Inspection, segment_bytes: int) -> None:
        super().__init__(found)
        walked = found.walked
        self._segment_bytes = segment_bytes
        self._epoch = max(FIRST_EPOCH, walked.epochs.last_epoch)
        self.failed: BaseException | None = None
        self._chain = walked.position.chain
        self._writer_base = -1
        self._writer_file: File | None = None
        self._writer_synced_to = walked.synced_to
        self._writer_end = walked.position.offset
        self._writer_epoch = walked.epochs.last_epoch
        self._make_lock = threading.Lock()
        self.before_write: Callable[[SealedCommit, bytes], object] | None = None
        """Called in the writing thread with each commit and its encoded header, just before they are written: what stores them
        elsewhere can do so meanwhile. An error that it raises fails the log."""

    @property
    def synced_end(self) -> int:
        """The end of the last commit that was synced. Seals, and commits written without a sync, do not count: a power cut may lose
        them."""
        return self._writer_synced_to

    def write(self, commit: SealedCommit, *, sync: bool = True, on_written: Callable[[], object] | None = None) -> None:
        """Write a commit, and sync it. After OSError it is unknown whether the commit is stored, and the log takes no more.

        Args:
            on_written: called after the write and before the sync.
        """
        try:
            file = self._file_for(commit.segment_base)
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
            header = head + encode_crc(crc)
            if self.before_write is not None:
                self.before_write(commit, header)
            file.pwritev([header, *commit.parts], commit.offset - commit.segment_base)
            self._writer_end = commit.end
            if on_written is not None:
                on_written()
            if sync:
                file.datasync()
                self._writer_synced_to = commit.end
            self._chain = crc
        except BaseException as error:
            self.failed = error
            raise

    # --- copies of another log ---------------------------------------------------------------------------------------

    @property
    def copied_end(self) -> int:
        """Where the next copied commit belongs, unless it is in a further segment; in the writing thread."""
        return self._writer_end

    @property
    def copied_epoch(self) -> int:
        """The epoch of the last commit, 0 for none; in the writing thread."""
        return self._writer_epoch

    @property
    def copied_chain(self) -> int | None:
        """The CRC that the next copied commit must name as its predecessor's; None if that is not known; in the writing thread."""
        return self._chain if self._segments.begin is not None else None

    @property
    def copied_segment(self) -> SegmentInfo | None:
        """The segment with the last commit, or the only one; None if there is no segment; in the writing thread."""
        return self._segments.holding(max(0, self._writer_end - 1)) or self._segments.holding(self._writer_end)

    def write_copied(
        self, segment_bytes: int, headers: Sequence[CommitHeader], data: memoryview, *, sync_each: bool
    ) -> None:
        """Write commits of one segment of another log as they are, one behind the other; see `CopiedLog`, which checks them.

        After OSError it is unknown whether they are stored, and the log takes no more.

        Args:
            segment_bytes: size of the segment, which is created if it does not exist.
            sync_each: sync each commit with records before the next is written.
        """
        first = headers[0]
        try:
            if not sync_each:
                self._copied_file(first.segment_base, segment_bytes).pwritev([data], first.offset - first.segment_base)
                self._written_copied(headers[-1])
                return
            for header in headers:
                if header.synced_to > self._writer_synced_to:
                    # A seal that the master synced when it started again.
                    self.sync()
                place = header.offset - first.offset
                file = self._copied_file(header.segment_base, segment_bytes)
                file.pwritev([data[place : place + header.end - header.offset]], header.offset - header.segment_base)
                self._written_copied(header)
                if header.record_count:
                    file.datasync()
                    self._writer_synced_to = header.end
        except BaseException as error:
            self.failed = error
            raise

    def _written_copied(self, header: CommitHeader) -> None:
        self._writer_end, self._chain, self._writer_epoch = header.end, header.crc, header.epoch

    def _copied_file(self, base: int, segment_bytes: int) -> File:
        """The file of a segment, of which the size is the master's; segments of another size that hold no commit are replaced."""
        if self._segments.begin is None:
            self._begin_file.write(base)
        info = self._segments.holding(base)
        if info is None or info.bytes != segment_bytes:
            for later in reversed([info for info in self._segments.infos() if info.base >= base]):
                self._segments.remove(later.base)
                self._disk.sync_dir(self._segments.folder)
            self._segments.create(base, segment_bytes)
        return self._file_for(base)

    def _file_for(self, base: int) -> File:
        if self._writer_file is not None and self._writer_base == base:
            return self._writer_file
        if self._writer_file is not None:
            if self._writer_end > self._writer_synced_to:
                # Also a seal: no start looks for it once a checkpoint is behind it, and slaves could not copy the log without it.
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

    def _size_of(self, base: int) -> int:
        """The size of a segment to be created at `base`.

        It follows from the base alone: the appending thread plans a roll with the same number that the writing thread or
        `prepare_next` creates the file with.
        """
        return min(self._segment_bytes, max(FIRST_SEGMENT_BYTES, base))

    def _create_segment(self, base: int) -> None:
        self._segments.create(base, self._size_of(base))

    def close(self) -> None:
        """Let go of all files."""
        if self._writer_file is not None:
            self._writer_file.close()
            self._writer_file = None
        self._segments.close()
