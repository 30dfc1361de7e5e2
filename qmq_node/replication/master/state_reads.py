"""class StateReads: answers READ_COPY with the newest checkpoint of this node.

A checkpoint has all that the log does not hold any more: each subject with its sequences, each consumer group with its positions.
It is on disk, it holds nothing above the high watermark, and it has a CRC. So a copying slave gets its file as it is: no state is
made for it, and none is in memory.
"""

import asyncio
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import ReadRefused
from qmq.protocol.replication import COPY_BUSY, COPY_REMOVED, ReadCopyRequest, ReadCopyResponse
from qmq_node.log.checkpoint import CheckpointFile, CheckpointStore
from qmq_node.replication.master.following_slaves import FollowRules
from qmq_node.replication.master.retention_holds import RetentionHolds

STATE_SECONDS = 60.0
"""A checkpoint that no slave reads for so long is closed, so that its disk space can be used."""
READS_MAX = 4
"""Reads in progress; a further one is rejected as busy."""
PIECE_BYTES = 1 << 20
"""Most bytes of an answer."""


@dataclass(eq=False, repr=False)
class StateReads:
    """Keeps one checkpoint open for the slaves that read it. Newer ones are made meanwhile."""

    _checkpoints: CheckpointStore
    _rules: FollowRules
    _holds: RetentionHolds
    _clock: Clock
    _bytes_per_second: int
    """For all slaves together; 0: no limit."""
    _open: CheckpointFile | None = field(default=None, init=False)
    _used_at: float = field(default=0.0, init=False)
    _free_at: float = field(default=0.0, init=False)
    """When the next read may begin."""
    _reads: int = field(default=0, init=False)

    async def read(self, request: ReadCopyRequest) -> ReadCopyResponse:
        """Return a piece of the checkpoint.

        Raises:
            ReadRefused: with one of the codes of READ_COPY.
            FollowRejected: the slave knows a newer epoch.
        """
        self._rules.check_claim(request)
        if self._reads >= READS_MAX:
            raise ReadRefused(f"{READS_MAX} reads of the state are in progress, the maximum", code=COPY_BUSY)
        self._reads += 1
        try:
            return await self._read(request)
        except OSError as error:
            raise ReadRefused(f"the checkpoint can't be read: {error}", code=COPY_BUSY) from error
        finally:
            self._reads -= 1

    async def _read(self, request: ReadCopyRequest) -> ReadCopyResponse:
        now = self._clock.monotonic()
        delay, self._free_at = self._free_at - now, max(self._free_at, now)
        if self._bytes_per_second:
            self._free_at += min(request.bytes_max, PIECE_BYTES) / self._bytes_per_second
        if delay > 0:
            await asyncio.sleep(delay)
        if request.position == 0:
            newest = await asyncio.to_thread(self._checkpoints.open_newest)
            if newest is None:
                raise ReadRefused("this node has no checkpoint yet", code=COPY_BUSY)
            self._open = newest
        found = self._open
        if found is None or request.position not in (0, found.position.offset):
            raise ReadRefused(f"the state at log offset {request.position} is not kept any more", code=COPY_REMOVED)
        if request.begin > found.size:
            raise ReadRefused(
                f"the state at log offset {request.position} has {found.size} bytes, not {request.begin}",
                code=COPY_REMOVED,
            )
        self._used_at = self._clock.monotonic()
        self._holds.hold(request.node_id, found.position.offset, self._used_at)
        data = await asyncio.to_thread(found.read, request.begin, min(request.bytes_max, PIECE_BYTES))
        return ReadCopyResponse(found.position.offset, found.size, data)

    def expire(self) -> None:
        """Let go of the checkpoint if no slave reads it any more. To be called periodically."""
        if self._open is not None and self._clock.monotonic() - self._used_at >= STATE_SECONDS:
            self._open = None
