"""SegmentedLog: open, append, commit, read, roll. The package docstring has the format and the life of a log."""

from collections.abc import Iterable, Sequence
from contextlib import closing

from qmq.errors import LogError
from qmq_node.log.commit import SealedCommit
from qmq_node.log.gather import Gather
from qmq_node.log.opening import LOST, Inspection
from qmq_node.log.record import CommitHeader
from qmq_node.log.recovery import Damage, LostSeal
from qmq_node.log.segment import NewSegments
from qmq_node.log.stored import StoredSegments
from qmq_node.log.truncation import Truncation, TruncationFile, finish_truncation
from qmq_node.log.watermark import Watermark
from qmq_node.log.writer import CommitWriter
from qmq_node.log.zeroing import data_in, zero


class SegmentedLog:
    """One append-only log, in four parts: each says which thread may call it.

    - `stored`: what is on disk. Any thread reads it.
    - `gather`: records that are not written yet. The event loop appends them, and takes commits to be written.
    - `writer`: writes and syncs those commits, in a thread that may wait for the disk.
    - `watermark`: what can't be lost any more. The event loop moves it.

    A commit goes from `gather.take` to `writer.write`, and back on the event loop to `complete`. What is not said to be for another
    thread is for the event loop's.
    """

    torn_bytes = 0
    """Bytes of an unanswered commit that opening cleared."""

    def __init__(self, found: Inspection, segment_bytes: int) -> None:
        self._lacking: Inspection | None = None
        """What was found, of a member's log that lacks acknowledged bytes at its end, and takes nothing for now."""
        self._disk = found.disk
        self._segments = found.segments
        self._new_segments = NewSegments(found.segments, segment_bytes)
        self.stored = StoredSegments(found)
        self.writer = CommitWriter(found, self._new_segments)
        self.watermark = Watermark(found, self.writer)
        self.gather = Gather(found, self.stored, self.writer, self._new_segments)
        self.epochs = found.walked.epochs
        """Of the commits written, also of those that retention removed since a checkpoint."""
        self._left_out = 0, -1
        """The end of the last commit, and where the log continues behind what is lost at its end; else (0, -1)."""

    # --- what is known of the log ------------------------------------------------------------------------------------

    @property
    def begin(self) -> int:
        """The oldest log offset kept; from any thread."""
        return self.stored.begin

    @property
    def written_end(self) -> int:
        """The first offset not yet written; from any thread."""
        return self.stored.written_end

    @property
    def synced_end(self) -> int:
        """The end of the last commit that was synced, see `CommitWriter`; from any thread."""
        return self.writer.synced_end

    @property
    def high_watermark(self) -> int:
        """The first offset that may still be lost; from any thread."""
        return self.watermark.offset

    @property
    def failed(self) -> BaseException | None:
        """Why the log takes no more; None: it does. From any thread."""
        return self.writer.failed

    @property
    def is_slave(self) -> bool:
        """Whether the log takes only the commits of another node (`CopiedLog`), until it begins an epoch of its own."""
        return self.gather.is_slave

    @property
    def epoch(self) -> int:
        """The epoch of the next commits."""
        return self.writer.epoch

    def crc_at(self, end: int) -> int | None:
        """Return the CRC of the commit that ends at a log offset; None if it is none of the newest ones (`stored.read_crc_at`)."""
        return self.watermark.crc_at(end)

    # --- opening -----------------------------------------------------------------------------------------------------

    @classmethod
    def activate(cls, found: Inspection, *, segment_bytes: int, is_only_member: bool = True) -> "SegmentedLog":
        """Make a log that was inspected ready to be appended to: write lost seals again, and clear a torn tail.

        Args:
            segment_bytes: size of a full-sized segment; the first ones of a new log are smaller, existing ones keep theirs.
            is_only_member: no other node has a copy. Only then does the log continue behind damage at its end, in a new segment.
                Otherwise it is a slave's until it begins an epoch.

        If a member of a larger group lacks acknowledged bytes at the end of its log, nothing is changed on disk and the log takes
        nothing (`failed`): it has to be replaced by a copy of another member's.

        Raises OSError if the disk refuses.
        """
        if found.continues_at is not None and not is_only_member:
            log = cls(found, segment_bytes)
            log.gather.is_slave, log.writer.synced_end, log._lacking = True, found.end, found
            log.refuse(f"the log lacks acknowledged bytes from offset {found.end} to {log.lacks_to} at its end")
            return log
        log = cls(found, segment_bytes)
        log.gather.is_slave = not is_only_member
        log._make_ready(found, continues=is_only_member)
        return log

    def _make_ready(self, found: Inspection, *, continues: bool) -> None:
        """Have what is there durable, and find the place where the log can be appended to.

        Args:
            continues: the log of a new folder gets a segment, and one that lacks its end continues behind that.
        """
        segments = found.segments
        found.disk.make_dir(segments.folder)
        # What is there may have been made by a process that was killed before it synced the name: appending to such a segment
        # would make its bytes durable and not the file.
        for named in (segments.folder.rpartition("/")[0] or ".", segments.folder):
            found.disk.sync_dir(named)
        segments.remove_unfinished()
        self._write_seals(found.walked.lost_seals)
        self._find_place(found, continues=continues)
        # What is left of the log is synced.
        found.proof.remove()
        self.stored.record_begin()

    def _find_place(self, found: Inspection, *, continues: bool) -> None:
        """Clear a torn tail, or step past damage at the end; then the log can be appended to."""
        infos, base = self._segments.infos(), found.walked.segment_base
        if found.continues_at is not None:
            # Acknowledged bytes stood behind the end. They are left as they are, and the log continues in a new segment.
            self._begin_at(found.continues_at)
            self._left_out = found.end, found.continues_at
        elif infos:
            self._clear(found.end, base)
            self.gather.enter(base)
            self.writer.synced_end = found.end
            self.gather.needs_seal = found.end > infos[0].base
        elif continues:
            self._begin_at(found.end)
        else:
            # The first segment has the size that the master gives it.
            self.gather.enter(found.end)

    def _write_seals(self, lost: Iterable[LostSeal]) -> None:
        """Write seals that a power cut took, so that the log has the same bytes on all members."""
        for seal in lost:
            with closing(self._disk.open(self._segments.path(seal.segment_base), writable=True)) as file:
                file.pwritev([seal.data], seal.offset - seal.segment_base)
                file.datasync()

    def _begin_at(self, base: int) -> None:
        """Append to a new segment that continues nothing."""
        self._new_segments.create(base)
        self.stored.written_end = base
        self.gather.begin_at(base)
        self.writer.begin_at(base)
        self.watermark.begin_at(base)

    def _clear(self, end: int, base: int) -> None:
        """Zero whatever stands behind the last commit: it was never answered, and must never look valid."""
        later = [info for info in self._segments.infos() if info.base > base]
        written = (at for at, info in enumerate(later) if any(data_in(self._segments.file(info.base), 0, info.bytes)))
        # Also empty ones behind it: a crash before it is created again would leave a gap, which is corruption.
        for info in reversed(later[next(written, len(later)) :]):
            self._segments.remove(info.base)
            self._disk.sync_dir(self._segments.folder)
        if self._segments.holding(base) is None:
            return
        with closing(self._disk.open(self._segments.path(base), writable=True)) as file:
            self.torn_bytes = zero(file, max(end - base, 0), file.size())
            # Not only for what was cleared: after a kill the last commits may be in memory alone, and they are about to be
            # served.
            file.datasync()

    # --- growing -----------------------------------------------------------------------------------------------------

    def begin_epoch(self, epoch: int, *, keeps_records: bool = False) -> None:
        """Write further commits in this epoch, which must be on this disk already
        (`qmq_node.replication.replica_state`). A slave's log takes records from now on, and none of another node.

        Args:
            keeps_records: records that are waiting are written in the new epoch.

        Raises ValueError if the epoch is lower than the last one, or records are being written, or waiting without `keeps_records`.
        """
        if epoch < self.epoch:
            raise ValueError(f"the epoch is {self.epoch} and can't fall to {epoch}")
        begin = self.gather.pending_begin if keeps_records else self.gather.appended_end
        if not begin == self.written_end == self.writer.end:
            raise ValueError(
                f"epoch {epoch} can't begin: records behind log offset {self.written_end} are not written yet"
            )
        self.writer.epoch, self.gather.is_slave = epoch, False

    def complete(self, commit: SealedCommit, *, is_confirmed: bool = True) -> None:
        """Back on the event loop: a commit was written (and synced as its policy says).

        Args:
            is_confirmed: as of `Watermark.add`.
        """
        writer = self.writer
        if writer.epoch != self.epochs.last_epoch:
            last_end, continued_at = self._left_out
            previous_end = last_end if self.written_end == continued_at else self.written_end
            self.epochs = self.epochs.with_commit(writer.epoch, previous_end)
        self.stored.written_end = commit.end
        self.gather.needs_seal = not commit.is_seal
        self.watermark.add(commit, writer.chain, is_confirmed=is_confirmed)

    def complete_copied(self, headers: Sequence[CommitHeader]) -> None:
        """Back on the event loop: `writer.write_copied` has written these commits."""
        lost = [Damage(*one, LOST) for one in self.stored.lost.ranges if one[1] == headers[0].offset]
        for header in headers:
            if header.epoch != self.epochs.last_epoch:
                # A copy may begin in the middle of the master's log.
                previous_end = self.written_end if self.epochs.entries else header.offset
                self.epochs = self.epochs.with_commit(header.epoch, previous_end)
            self.stored.written_end = header.end
            self.watermark.add_copied(header)
            self.gather.follow(header)
        self.writer.epoch = max(self.epoch, header.epoch)
        self.gather.enter(header.segment_base)
        if lost:
            self.stored.add_damage(lost)

    def prepare_next(self) -> bool:
        """Create the segment behind the last one, so that a roll costs nothing and needs no space; False if none is missing.

        From any thread. Raises OSError without space; nothing is left behind.
        """
        gather = self.gather
        with self._new_segments.lock:
            infos = self._segments.infos()
            if not gather.needs_segment or (infos and not any(info.base == gather.base for info in infos)):
                gather.is_out_of_space = False
                return False
            try:
                self._new_segments.create(infos[-1].end if infos else gather.base)
            except OSError:
                gather.is_out_of_space = True
                raise
            gather.is_out_of_space = False
            return True

    # --- shrinking ---------------------------------------------------------------------------------------------------

    def hide_before(self, offset: int) -> list[int]:
        """Drop whole segments below a log offset, never the current one; their bases.

        They can't be read any more. Their files are deleted by `stored.delete_hidden`.
        """
        bases = self.stored.hide_before(offset, self.gather.base)
        for base in bases:
            self.watermark.tails.pop(base, None)
        return bases

    def truncate(self, to: Truncation, *, high_watermark: int, checkpoint_offset: int) -> None:
        """Remove all commits from `to.end` on, durably, and close the log; to be opened again. From a thread that may wait.

        The log must not be written or read meanwhile. A crash is completed by `finish_truncation`.

        Args:
            high_watermark: the highest one that this node knows.
            checkpoint_offset: where the newest checkpoint of what is derived from the log stands; 0 without one.

        Raises:
            LogError: no commit with this CRC ends at `to.end`; or it is below the high watermark or the checkpoint, so a rule of
                replication was broken, and acknowledged data would be lost. Nothing was changed.
            OSError: the disk refused; `finish_truncation` continues.
        """
        known = max(high_watermark, self.high_watermark)
        if to.end < known:
            raise _not_truncated(to, f"below the high watermark {known}: acknowledged data would be lost")
        if to.end < checkpoint_offset:
            raise _not_truncated(to, f"below the checkpoint at {checkpoint_offset}")
        crc = self.crc_at(to.end) or self.stored.read_crc_at(to.end)
        if to.end and crc != to.crc:
            raise _not_truncated(to, f"where a commit with CRC {to.crc} would have to end; found: {crc}")
        if to.end == 0 and self.begin > 0:
            raise _not_truncated(to, f"because it begins at {self.begin}")
        last = self._segments.holding(max(0, to.end - 1))
        if last is not None:
            # The last commit that stays may be a seal, which was not synced.
            with closing(self._disk.open(self._segments.path(last.base), writable=True)) as file:
                file.datasync()
        TruncationFile(self._disk, self._segments.folder).save(to)
        self.close()
        self.writer.failed = LogError("the log was truncated: it has to be opened again", code="log.failed")
        finish_truncation(self._disk, self._segments.folder)

    def refuse(self, why: str, *, code: str = "log.damaged") -> None:
        """Take nothing (`failed`): what was to be derived from the log can't be. To be called before anything is appended.

        Args:
            code: of the error; with the default `accept_damage` ends it.
        """
        self.writer.failed = LogError(why, code=code)

    @property
    def lacks_to(self) -> int:
        """Up to where acknowledged bytes are missing at the end of a member's log; 0: none are."""
        return 0 if self._lacking is None else self._lacking.walked.synced_to

    @property
    def is_refused_for_damage(self) -> bool:
        """Whether the log takes nothing only because it is damaged: `accept_damage` ends that."""
        return isinstance(self.failed, LogError) and self.failed.code == "log.damaged"

    def accept_damage(self) -> None:
        """The broker group has lost what is damaged here, as an operator accepted: record that durably.

        All of the log can be read then, around the damage. `continue_behind_damage` has to follow before anything is appended.
        From a thread that may wait; nothing else may use the log meanwhile.

        Raises:
            LogError: there are too many ranges.
            OSError: the disk refused. The next attempt continues.
        """
        stored = self.stored
        if self._lacking is not None and self._lacking.continues_at is not None:
            end = Damage(self._lacking.end, self._lacking.continues_at, "acknowledged commits at the end were lost")
            stored.damaged = (*(known for known in stored.damaged if known.begin < end.begin), end)
        stored.lost.add([(damage.begin, damage.end) for damage in stored.own_damage], stored.begin)
        if self.is_refused_for_damage:
            self.writer.failed = None

    def continue_behind_damage(self) -> None:
        """Continue a log that lacks its end in a new segment behind that, whose offsets are not used again: another member may have
        other bytes there. Everything before must be applied. From a thread that may wait. Raises OSError."""
        found, self._lacking = self._lacking, None
        if found is not None:
            self._make_ready(found, continues=True)

    def close(self) -> None:
        """Let go of all files."""
        self.writer.close()
        self._segments.close()


def _not_truncated(to: Truncation, why: str) -> LogError:
    return LogError(f"the log can't be truncated to offset {to.end}, {why}", code="log.not_truncated")
