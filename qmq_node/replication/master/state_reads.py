"""class StateReads: answers READ_COPY with the newest checkpoint of this node, and with the files that it counts.

A checkpoint has all that the log does not hold any more: each subject with its sequences, each consumer group with its positions.
It is on disk, it holds nothing above the high watermark, and it has a CRC. So a copying slave gets its file as it is: no state is
made for it, and none is in memory. Beside it a delay node has files that only grow, of which a checkpoint counts the first bytes.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import LogError, ReadRefused
from qmq.protocol.replication import (
    COPY_BEYOND,
    COPY_BUSY,
    COPY_NO_FILE,
    COPY_REMOVED,
    ReadCopyRequest,
    ReadCopyResponse,
)
from qmq_node.log.checkpoint import CheckpointFile, CheckpointStore
from qmq_node.replication.master.following_slaves import FollowRules
from qmq_node.replication.master.retention_holds import RetentionHolds
from qmq_node.replication.rate_limit import RateLimit
from qmq_node.replication.state_files import StateFile, StateFiles

STATE_SECONDS = 60.0
"""A checkpoint that no slave reads for so long is closed, so that its disk space can be used. Reads of files count when they get
further than before."""
READS_MAX = 4
"""Reads in progress; a further one is rejected as busy."""
PIECE_BYTES = 1 << 20
"""Most bytes of an answer."""


@dataclass(eq=False, slots=True)
class _Kept:
    """The state that slaves read."""

    checkpoint: CheckpointFile
    files: Mapping[str, StateFile]
    used_at: float
    furthest: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    """By slave: the place of the last file that it read, up to where, and when."""

    def got_further(self, slave: str, file: StateFile, end: int, now: float) -> bool:
        """Note a read of a file; whether the slave has read none as far."""
        if self.furthest.get(slave, (-1, 0, 0.0))[:2] >= (file.place, end):
            return False
        self.furthest[slave] = file.place, end, now
        return True

    def is_copied_without(self, slave: str, now: float) -> bool:
        """Whether another slave copies its files."""
        return any(other != slave and now - at < STATE_SECONDS for other, (_, _, at) in self.furthest.items())


@dataclass(eq=False, repr=False)
class StateReads:
    """Keeps one checkpoint open for the slaves that read it. Newer ones are made meanwhile."""

    _checkpoints: CheckpointStore
    _files: StateFiles | None
    """None: this kind of node has no files beside its checkpoint that slaves need."""
    _rules: FollowRules
    _holds: RetentionHolds
    _clock: Clock
    _rate: RateLimit
    """For all slaves together."""
    _log_id: str
    _log_begin: Callable[[], int]
    _damaged_end: Callable[[], int]
    """Where the last damage of the log ends: slaves get no state below it, because they could not follow from there."""
    _kept: _Kept | None = field(default=None, init=False)
    _reads: int = field(default=0, init=False)

    @property
    def holds_files(self) -> bool:
        """Whether a slave copies files: none of them may be removed, and what they belong to may not begin again."""
        return self._kept is not None and bool(self._kept.files)

    async def read(self, request: ReadCopyRequest) -> ReadCopyResponse:
        """Return a piece of the checkpoint, or of a file that it counts.

        Raises:
            ReadRefused: with one of the codes of READ_COPY.
            FollowRejected: the slave knows a newer epoch.
        """
        self._rules.check_claim(request)
        if self._reads >= READS_MAX:
            raise ReadRefused(f"{READS_MAX} reads of the state are in progress, the maximum", code=COPY_BUSY)
        self._reads += 1
        try:
            kept = await self._kept_for(request)
            position = kept.checkpoint.position.offset
            total, data = await (self._read_file(kept, request) if request.file else self._read_state(kept, request))
            return ReadCopyResponse(position, total, data, self._log_id)
        except (LogError, OSError) as error:
            raise ReadRefused(f"the checkpoint can't be read: {error}", code=COPY_BUSY) from error
        finally:
            self._reads -= 1

    async def _kept_for(self, request: ReadCopyRequest) -> _Kept:
        kept, slave = self._kept, request.node_id
        if request.position == 0:
            if kept is not None and kept.is_copied_without(slave, self._clock.monotonic()) and self._has_log(kept):
                # The other one would have to begin again.
                return kept
            self._kept = kept = await asyncio.to_thread(self._open_newest)
        if kept is None or request.position not in (0, kept.checkpoint.position.offset):
            raise ReadRefused(f"the state at log offset {request.position} is not kept any more", code=COPY_REMOVED)
        return kept

    def _has_log(self, kept: _Kept) -> bool:
        """Whether the log still has what follows on the state."""
        return max(self._log_begin(), self._damaged_end()) <= kept.checkpoint.position.offset

    def _open_newest(self) -> _Kept:
        newest = self._checkpoints.open_newest()
        if newest is None:
            raise ReadRefused("this node has no checkpoint yet", code=COPY_BUSY)
        if newest.position.offset < (end := self._damaged_end()):
            raise ReadRefused(
                f"the log is damaged up to offset {end}, and the newest checkpoint stands at {newest.position.offset}",
                code=COPY_BUSY,
            )
        files = self._files.counted(newest) if self._files is not None else {}
        return _Kept(newest, files, self._clock.monotonic())

    async def _read_state(self, kept: _Kept, request: ReadCopyRequest) -> tuple[int, bytes]:
        size, begin = kept.checkpoint.size, request.begin
        if begin > size:
            raise ReadRefused(
                f"the state at log offset {request.position} has {size} bytes, not {begin}", code=COPY_REMOVED
            )
        wanted = await self._when_allowed(min(request.bytes_max, size - begin))
        kept.used_at = self._clock.monotonic()
        self._holds.hold(request.node_id, kept.checkpoint.position.offset, kept.used_at)
        return size, await asyncio.to_thread(kept.checkpoint.read, begin, wanted)

    async def _read_file(self, kept: _Kept, request: ReadCopyRequest) -> tuple[int, bytes]:
        # A name is looked up, and never becomes a part of a path.
        file, begin, position = kept.files.get(request.file), request.begin, kept.checkpoint.position.offset
        if file is None:
            raise ReadRefused(
                f"the state at log offset {position} counts no file {request.file[:100]!r}", code=COPY_NO_FILE
            )
        if begin > file.bytes:
            raise ReadRefused(
                f"the state at log offset {position} counts {file.bytes} bytes of {request.file}, not {begin}",
                code=COPY_BEYOND,
            )
        wanted = await self._when_allowed(min(request.bytes_max, file.bytes - begin))
        assert self._files is not None
        self._check_current(kept, file, request.file)
        now = self._clock.monotonic()
        is_further = kept.got_further(request.node_id, file, begin + wanted, now)
        if is_further:
            kept.used_at = now
        self._holds.hold(request.node_id, position, now, is_further=is_further)
        data = await asyncio.to_thread(self._files.read, file, begin, wanted)
        # Meanwhile other bytes may have been written there.
        self._check_current(kept, file, request.file)
        return file.bytes, data

    def _check_current(self, kept: _Kept, file: StateFile, name: str) -> None:
        assert self._files is not None
        if self._kept is kept and self._files.is_current(file):
            return
        if self._kept is kept:
            # Slaves need a newer one, also those that have not come to this file yet.
            self._kept = None
        raise ReadRefused(
            f"{name} is not what the state at log offset {kept.checkpoint.position.offset} counts any more",
            code=COPY_REMOVED,
        )

    async def _when_allowed(self, size: int) -> int:
        """Wait for the rate limit; return the bytes of the next answer, at most `size`."""
        size = min(size, PIECE_BYTES)
        await self._rate.wait(size)
        return size

    def expire(self) -> None:
        """Let go of the checkpoint if no slave reads it any more. To be called periodically."""
        if self._kept is not None and self._clock.monotonic() - self._kept.used_at >= STATE_SECONDS:
            self._kept = None
