"""class CommitWriter: a log as its writing thread sees it."""

from collections.abc import Callable, Sequence

from qmq_node.log.commit import SealedCommit
from qmq_node.log.disk import File
from qmq_node.log.opening import Inspection
from qmq_node.log.record import FIRST_EPOCH, CommitHeader, Position, commit_crc, encode_crc, encode_header
from qmq_node.log.segment import NewSegments, SegmentInfo


class CommitWriter:
    """Writes commits to a log's segments and syncs them. Its methods belong to one thread, which may wait for the disk, and at most
    one commit is being written at a time. What it says of the log may be read by any thread.
    """

    def __init__(self, found: Inspection, new_segments: NewSegments) -> None:
        walked = found.walked
        self._disk = found.disk
        self._segments = found.segments
        self._new_segments = new_segments
        self._begin_file = found.begin_file
        self._proof = found.proof
        self.epoch = max(FIRST_EPOCH, walked.epochs.last_epoch)
        """Of the next commits; set between two of them."""
        self.failed: BaseException | None = None
        """Why the log takes no more; None: it does."""
        self.chain = walked.position.chain
        """The CRC of the last commit, which the next one names."""
        self._base = -1
        self._file: File | None = None
        self.synced_end = walked.synced_to
        """The end of the last commit that was synced. Seals, and commits written without a sync, do not count: a power cut may lose
        them."""
        self.end = walked.position.offset
        """The end of what was written; the appending thread learns it from `SegmentedLog.written_end`."""
        self.copied_epoch = walked.epochs.last_epoch
        """Of the last commit that is there; 0: there is none. A copied commit may not be of an earlier one."""
        self._records_end = 0
        """The end of the last copied commit with records that was written; 0: there was none since the start."""
        self.shares_syncs = False
        """Whether copied commits are written without a sync, and count as synced when `sync` has proven it
        (`SyncProof`)."""
        self.before_write: Callable[[SealedCommit, bytes], object] | None = None
        """Called in the writing thread with each commit and its encoded header, just before they are written: what stores them
        elsewhere can do so meanwhile. An error that it raises fails the log."""

    def begin_at(self, base: int) -> None:
        """Continue nothing: the next commit is the first one of a segment."""
        self.end = self.synced_end = base
        self.chain = 0

    def write(self, commit: SealedCommit, *, sync: bool = True, on_written: Callable[[], object] | None = None) -> None:
        """Write a commit, and sync it. After OSError it is unknown whether the commit is stored, and the log takes no more.

        Args:
            on_written: called after the write and before the sync.
        """
        try:
            file = self._file_for(commit.segment_base)
            head = encode_header(
                segment_base=commit.segment_base,
                epoch=self.epoch,
                offset=commit.offset,
                body_bytes=commit.body_bytes,
                record_count=commit.record_count,
                previous_crc=self.chain,
                synced_to=self.synced_end,
            )
            crc = commit_crc(head, *commit.parts)
            header = head + encode_crc(crc)
            if self.before_write is not None:
                self.before_write(commit, header)
            file.pwritev([header, *commit.parts], commit.offset - commit.segment_base)
            self.end = commit.end
            if on_written is not None:
                on_written()
            if sync:
                file.datasync()
                self.synced_end = commit.end
            self.chain = crc
        except BaseException as error:
            self.failed = error
            raise

    # --- copies of another log ---------------------------------------------------------------------------------------

    @property
    def copied_chain(self) -> int | None:
        """The CRC that the next copied commit must name as its predecessor's; None if that is not known."""
        return self.chain if self._segments.begin is not None else None

    @property
    def copied_segment(self) -> SegmentInfo | None:
        """The segment with the last commit, or the only one; None if there is no segment."""
        return self._segments.holding(max(0, self.end - 1)) or self._segments.holding(self.end)

    def write_copied(
        self, segment_bytes: int, headers: Sequence[CommitHeader], data: memoryview, *, sync_each: bool
    ) -> None:
        """Write commits of one segment of another log as they are, one behind the other; see `CopiedLog`, which checks them.

        After OSError it is unknown whether they are stored, and the log takes no more.

        Args:
            segment_bytes: size of the segment, which is created if it does not exist.
            sync_each: sync each commit with records before the next is written; otherwise `sync` has to follow.
        """
        first = headers[0]
        try:
            if not sync_each:
                self._copied_file(first.segment_base, segment_bytes).pwritev([data], first.offset - first.segment_base)
                for header in headers:
                    self._written_copied(header)
                return
            for header in headers:
                if header.synced_to > self.synced_end:
                    # A seal that the master synced when it started again.
                    self.sync()
                place = header.offset - first.offset
                file = self._copied_file(header.segment_base, segment_bytes)
                file.pwritev([data[place : place + header.end - header.offset]], header.offset - header.segment_base)
                self._written_copied(header)
                if header.record_count:
                    file.datasync()
                    self.synced_end = header.end
        except BaseException as error:
            self.failed = error
            raise

    def _written_copied(self, header: CommitHeader) -> None:
        self.end, self.chain, self.copied_epoch = header.end, header.crc, header.epoch
        if header.record_count:
            self._records_end = header.end

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
        if self._file is not None and self._base == base:
            return self._file
        if self._file is not None:
            if self.end > self.synced_end:
                # Also a seal: no start looks for it once a checkpoint is behind it, and slaves could not copy the log without it.
                self._file.datasync()
            self._file.close()
        self._new_segments.create_missing(base)
        self._file = self._disk.open(self._segments.path(base), writable=True)
        self._base = base
        return self._file

    def sync(self) -> None:
        """Sync what was written without (flush by interval, copies); in the writing thread, so between two writes."""
        file = self._file
        if file is None or self.failed is not None:
            return
        try:
            file.datasync()
            if self.shares_syncs:
                self._proof.save(Position(self.end, self.chain))
                self._count_records()
            else:
                self.synced_end = self.end
        except BaseException as error:
            self.failed = error
            raise

    def share_syncs(self) -> None:
        """Let copied commits share syncs from now on; durable before the first of them is written. Raises OSError as
        `sync`."""
        self._change_proof(lambda: self._proof.save(Position(self.end, self.chain)), shares_syncs=True)

    def sync_each(self) -> None:
        """Sync each copied commit before the next again; durable before the first of them is written. Raises OSError as
        `sync`."""
        self._change_proof(self._proof.remove, shares_syncs=False)

    def _change_proof(self, change: Callable[[], object], *, shares_syncs: bool) -> None:
        if self.shares_syncs is shares_syncs or self.failed is not None:
            return
        try:
            if self._file is not None and self.end > self.synced_end:
                # A seal, or what was to be synced next.
                self._file.datasync()
            change()
        except BaseException as error:
            self.failed = error
            raise
        self.shares_syncs = shares_syncs
        self._count_records()

    def _count_records(self) -> None:
        """All copied commits are synced. As if each had its own sync, a seal behind the last one with records does not
        count."""
        self.synced_end = max(self.synced_end, self._records_end)

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
