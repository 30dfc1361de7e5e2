"""SegmentedLog: open, append, commit, read, roll. The package docstring has the format and the life of a log."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing

from qmq.errors import LogError
from qmq_node.log.appender import Appender
from qmq_node.log.disk import Disk
from qmq_node.log.epochs import NO_EPOCHS, EpochChain
from qmq_node.log.opening import Inspection, inspect
from qmq_node.log.record import Position
from qmq_node.log.recovery import Commit, LostSeal
from qmq_node.log.stored_log import logger
from qmq_node.log.truncation import Truncation, TruncationFile, finish_truncation
from qmq_node.log.zeroing import data_in, zero

SEGMENT_BYTES = 1 << 30
"""Default size of a full-sized segment, as in QMQ, RocketMQ and Kafka."""


class SegmentedLog(Appender):
    """One append-only log.

    `append`, `take`, `complete` and the properties belong to one thread (the event loop); `write`, `sync` and
    `prepare_next` to another or several; `read` to any.
    """

    torn_bytes = 0
    """Bytes of an unanswered commit that opening cleared."""

    @classmethod
    def open(
        cls,
        disk: Disk,
        folder: str,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        start: Position | None = None,
        synced_to: int = 0,
        tails: Mapping[int, Position] | None = None,
        epochs: EpochChain = NO_EPOCHS,
        visit: Callable[[Commit], None],
    ) -> "SegmentedLog":
        """Open a folder, new or used, and visit every valid commit from `start` (default: the oldest) on.

        Args:
            segment_bytes: size of a full-sized segment; the first ones of a new log are smaller, existing ones keep theirs.
            start: a position that an earlier open or `position` gave.
            synced_to: what is known, from a checkpoint, to have been synced.
            tails: as the property of that name was at the checkpoint: segments below `start` are held to it.
            epochs: as the property of that name was at the checkpoint.

        Raises:
            ReadFailed, LogError, OSError: as `inspect`. Nothing was changed.
        """
        found = inspect(disk, folder, start=start, synced_to=synced_to, tails=tails, epochs=epochs, visit=visit)
        return cls.activate(found, segment_bytes=segment_bytes)

    @classmethod
    def activate(
        cls, found: Inspection, *, segment_bytes: int = SEGMENT_BYTES, is_only_member: bool = True
    ) -> "SegmentedLog":
        """Make a log that was inspected ready to be appended to: write lost seals again, and clear a torn tail.

        Args:
            is_only_member: no other node has a copy. Only then does the log continue behind damage at its end, in a new segment.
                Otherwise it is a slave's until it begins an epoch.

        If a member of a larger group lacks acknowledged bytes at the end of its log, nothing is changed on disk and the log takes
        nothing (`failed`): it has to be replaced by a copy of another member's.

        Raises OSError if the disk refuses.
        """
        segments, walked = found.segments, found.walked
        if found.continues_at is not None and not is_only_member:
            log = cls(found, segment_bytes)
            log.is_slave, log._writer_synced_to = True, found.end
            log.failed = LogError(
                f"the log lacks acknowledged bytes from offset {found.end} to {walked.synced_to} at its end",
                code="log.damaged",
            )
            return log
        found.disk.make_dir(segments.folder)
        # What is there may have been made by a process that was killed before it synced the name: appending to such a segment
        # would make its bytes durable and not the file.
        for named in (segments.folder.rpartition("/")[0] or ".", segments.folder):
            found.disk.sync_dir(named)
        segments.remove_unfinished()
        log = cls(found, segment_bytes)
        log.is_slave = not is_only_member
        log._write_seals(walked.lost_seals)
        log._settle(found, is_only_member)
        log._record_begin()
        return log

    def _settle(self, found: Inspection, is_only_member: bool) -> None:
        """Clear a torn tail, or step past damage at the end; then the log can be appended to."""
        infos, base = self._segments.infos(), found.walked.segment_base
        if found.continues_at is not None:
            # Acknowledged bytes stood behind the end. They are left as they are, and the log continues in a new segment.
            self._begin_at(found.continues_at)
        elif infos:
            self._clear(found.end, base)
            self._enter(base)
            self._writer_synced_to = found.end
            self.needs_seal = found.end > infos[0].base
        elif is_only_member:
            self._begin_at(found.end)
        else:
            # The first segment has the size that the master gives it.
            self._enter(found.end)

    def _write_seals(self, lost: Iterable[LostSeal]) -> None:
        """Write seals that a power cut took, so that the log has the same bytes on all members."""
        for seal in lost:
            with closing(self._disk.open(self._segments.path(seal.segment_base), writable=True)) as file:
                file.pwritev([seal.data], seal.offset - seal.segment_base)
                file.datasync()

    def _record_begin(self) -> None:
        if self._begin_file.exists or self._segments.begin is None:
            return
        try:
            self._begin_file.write(self.begin)
        except OSError as error:
            # Retention records it, or the next start. Until then a lost first segment goes unnoticed.
            logger.error("the offset where the log begins can't be recorded: %s", error)

    def _begin_at(self, base: int) -> None:
        """Append to a new segment that continues nothing."""
        self._create_segment(base)
        self._enter(base)
        self._at = self.written_end = self.high_watermark = self._records_end = base
        self._writer_end = self._writer_synced_to = base
        self.position = Position(base, 0)
        self._chain = 0

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
        crc = self.crc_at(to.end) or self.read_crc_at(to.end)
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
        self.failed = LogError("the log was truncated: it has to be opened again", code="log.failed")
        finish_truncation(self._disk, self._segments.folder)


def _not_truncated(to: Truncation, why: str) -> LogError:
    return LogError(f"the log can't be truncated to offset {to.end}, {why}", code="log.not_truncated")
