"""SegmentedLog: open, append, commit, read, roll. The package docstring has the format and the life of a log."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise

from qmq.log.appender import Appender
from qmq.log.disk import Disk, File
from qmq.log.record import UNKNOWN_CHAIN, Position
from qmq.log.recovery import Commit, Damage, Walked, Walker
from qmq.log.segment import Segments

SEGMENT_BYTES = 1 << 30
"""Default size of a full-sized segment, as in QMQ, RocketMQ and Kafka."""
_ZEROS = bytes(1 << 20)


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

    def _begin_at(self, base: int) -> None:
        """Append to a new segment that continues nothing."""
        self._create_segment(base)
        self._enter(base)
        self._at = self.written_end = self.high_watermark = self._records_end = self._writer_synced_to = base
        self.position = Position(base, 0)
        self._chain = 0

    def _clear(self, end: int, base: int) -> None:
        """Zero whatever stands behind the last commit: it was never answered, and must never look valid."""
        for info in reversed(self._segments.infos()):
            if info.base < base:
                return
            if info.base > base:
                if any(_data(self._segments.file(info.base), 0, info.bytes)):
                    self._segments.remove(info.base)
                    self._disk.sync_dir(self._segments.folder)
                continue
            with closing(self._disk.open(self._segments.path(base), writable=True)) as file:
                self.torn_bytes = 0
                for at, piece in _data(file, max(end - base, 0), info.bytes):
                    file.pwritev([_ZEROS[: len(piece)]], at)
                    self.torn_bytes += len(piece.rstrip(b"\0"))
                # Not only for what was cleared: after a kill the last commits may be in memory alone, and they are about
                # to be served.
                file.datasync()


def _data(file: File, begin: int, end: int) -> Iterator[tuple[int, bytes]]:
    """The pieces of [begin, end) of a file that hold more than zeros, with their places."""
    at = file.next_data(begin)
    while at is not None and at < end:
        piece = file.pread(min(len(_ZEROS), end - at), at)
        if not piece:
            return
        if piece.count(0) != len(piece):
            yield at, piece
        at = file.next_data(at + len(piece))
