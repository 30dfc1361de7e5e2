"""class Sender: one session with one slave, from its accepted FOLLOW to its end."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from qmq.clock import Clock
from qmq.errors import LogError
from qmq.protocol.codes import Command, FollowState
from qmq.protocol.frames import FLAG_ONE_WAY, request_header
from qmq.protocol.replication import CommitsHead, FollowRequest, commits_parts
from qmq.supervisor import Supervisor
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import Position
from qmq_node.log.recovery import Damage
from qmq_node.replication.counters import ReplicationCounters
from qmq_node.replication.group_time import GroupTime
from qmq_node.replication.master.commit_batch import CommitBatch
from qmq_node.replication.master.feed import Feed
from qmq_node.replication.master.log_reader import read_batch
from qmq_node.server.connection import Connection

WINDOW_BYTES_MAX = 64 << 20
"""Bytes of the log that may be sent and not confirmed; the slave may ask for less. One commit may exceed it."""
UNCONFIRMED_COMMITS_MAX = 16_384
"""With this number of commits sent and not confirmed, no further frame is: of each, the CRC is kept until then."""
READ_BYTES = 1 << 20
"""Bytes read from the log at a time. A larger commit is read alone."""
READ_CREDIT_SECONDS = 1.0
"""Reads that the limit of the rate would have allowed in this time and that were not made may be made later, without a pause."""
HEARTBEAT_SECONDS = 0.5
"""When nothing was sent for so long, an empty frame is."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(frozen=True, slots=True)
class CommitSource:
    """What all sessions of one master have in common."""

    epoch: int
    promotion_id: str
    log: SegmentedLog
    feed: Feed
    clock: Clock
    supervisor: Supervisor
    counters: ReplicationCounters
    high_watermark: Callable[[], int]
    copy_bytes_per_second: int
    """How fast a slave may catch up by reads of the disk: by so much more than what is written meanwhile. 0: no limit."""
    group_time: GroupTime | None
    """What is stated to slaves that request it; None: nothing."""


class Sender:
    """Sends one slave the commits behind the end that it confirmed, as fast as it confirms them.

    Commits come from memory if the next one is there, else from the log, one read at a time. Nothing waits on the event loop.

    Args:
        request: the FOLLOW.
        keep_to: where the slave's log ends, and the CRC there.
        on_failed: called with the error if the log can't be read; the session has to end.
    """

    def __init__(
        self,
        request: FollowRequest,
        number: int,
        connection: Connection,
        source: CommitSource,
        keep_to: Position,
        on_failed: "Callable[[Sender, LogError], None]",
    ) -> None:
        self.slave = request.node_id
        self.number = number
        self.incarnation = request.incarnation
        """Of the slave's data folder."""
        self.connection = connection
        self._source = source
        self._group_time = source.group_time if request.requests_time else None
        self._window_bytes = min(request.window_bytes, WINDOW_BYTES_MAX)
        self._state_offset = request.state_offset
        self._on_failed = on_failed
        self._sent = keep_to
        self._sent_records_end = 0
        """The end of the last commit with records that was sent: a slave need not confirm a seal behind it."""
        self._unconfirmed = deque([keep_to])
        """Ends of commits sent, from the confirmed one on."""
        self.keep_to = keep_to.offset
        """Both logs are equal below it. The slave may not have synced a seal that ends there."""
        self.confirmed_end = keep_to.offset
        """What is below it is not sent again."""
        self.last_confirmed = -1
        """The end that the slave confirmed last."""
        self.applied_end = 0
        self.state: FollowState | None = None
        """As the slave stated last; None: it has confirmed nothing."""
        self._segment_base = 0
        self._read: CommitBatch | None = None
        """Read from the log, and not sent because of the window."""
        self._reading: asyncio.Task[None] | None = None
        self._read_due = source.clock.monotonic()
        """When the next read may begin. In the past: how much sooner further ones may."""
        self._read_lag = source.log.written_end - keep_to.offset
        """How much had not been read when that was determined."""
        self._sent_at = source.clock.monotonic()
        self._stated_high_watermark = source.high_watermark()
        self.is_open = True

    @property
    def states_time(self) -> bool:
        """Whether each frame states the time of the group."""
        return self._group_time is not None

    @property
    def sent_end(self) -> int:
        """Where the next commit begins, unless it is the first one of another segment."""
        return self._sent.offset

    def close(self) -> None:
        """End the session and its connection."""
        self.is_open = False
        self._read = None
        self.connection.abort()

    @property
    def is_reading(self) -> bool:
        """Whether a read of the log is under way; it may outlast the session."""
        return self._reading is not None and not self._reading.done()

    async def wait_closed(self) -> None:
        """Wait until a read of the log that was under way at the end of the session has ended."""
        if self._reading is not None:
            await asyncio.wait([self._reading])

    # --- confirmations ---------------------------------------------------------------------------------------------

    def crc_at(self, end: int) -> int | None:
        """Return the CRC of the master's commit that ends at `end`.

        None: this session sent none that ends there, or it is one of the commits that the slave had before, and so old that its CRC
        is not in memory.

        Args:
            end: not below that of an earlier call.
        """
        if end < self.keep_to:
            return self._source.log.crc_at(end)
        ends = self._unconfirmed
        while ends and ends[0].offset < end:
            ends.popleft()
        return ends[0].chain if ends and ends[0].offset == end else None

    def confirmed(self, end: int, applied_end: int, state: FollowState) -> None:
        """The slave has synced everything below `end`: send what the window has room for now."""
        self.confirmed_end, self.last_confirmed = max(end, self.keep_to), end
        self.applied_end, self.state = applied_end, state
        self.pump()

    # --- sending ---------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send what is there and fits the window."""
        source = self._source
        while self.is_open and not self.is_reading:
            batch, origin = (
                (self._read, "disk") if self._read is not None else (source.feed.after(self.sent_end), "memory")
            )
            if batch is None:
                if self.sent_end < source.log.written_end and self._has_room(0):
                    self._reading = source.supervisor.background("replication_read", self._read_on())
                return
            if not self._has_room(batch.bytes):
                return
            self._read = None
            source.counters.sent_bytes[origin] += batch.bytes
            self._send(batch)

    def _has_room(self, size: int) -> bool:
        """Whether this number of further bytes may be sent: always if everything sent is confirmed."""
        if self._sent_records_end <= self.confirmed_end:
            return True
        in_flight = self.sent_end - self.confirmed_end
        return in_flight + size <= self._window_bytes and len(self._unconfirmed) < UNCONFIRMED_COMMITS_MAX

    async def _read_on(self) -> None:
        source, size = self._source, min(READ_BYTES, self._window_bytes)
        try:
            delay = self._read_due - source.clock.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            batch = await asyncio.to_thread(read_batch, source.log, self._sent, source.log.written_end, size)
            if batch.lost_from is not None:
                self._leave_out(batch.lost_from, batch.offset)
            self._read = batch
        except LogError as error:
            if self.is_open:
                self._on_failed(self, error)
            return
        finally:
            self._reading = None
        self._limit_reads(source.log.written_end - self._read.end.offset)
        self.pump()

    def _leave_out(self, begin: int, end: int) -> None:
        """Note that a range of the log is damaged. Raises LogError unless the slave copies a state that stands behind it."""
        stored = self._source.log.stored
        if stored.add_damage([Damage(begin, end, "commits can't be read")]):
            logger.error("the log is damaged between offsets %d and %d: messages there are withheld", begin, end)
        if self._state_offset < max(end, begin + 1):
            raise LogError(
                f"the log is damaged between offsets {begin} and {end}: node {self.slave} has to copy a state behind that",
                code="log.unreadable",
            )

    def _limit_reads(self, lag: int) -> None:
        """Delay the next read so that the lag falls at the rate that is allowed, however much is written meanwhile.

        Args:
            lag: bytes of the log that have not been read.
        """
        source = self._source
        if source.copy_bytes_per_second:
            due = self._read_due + (self._read_lag - lag) / source.copy_bytes_per_second
            self._read_due, self._read_lag = max(due, source.clock.monotonic() - READ_CREDIT_SECONDS), lag

    def _send(self, batch: CommitBatch) -> None:
        self._push(batch.offset, batch.segment_base, batch.segment_bytes, batch)
        self._segment_base = batch.segment_base
        self._sent = batch.end
        self._sent_records_end = batch.records_end or self._sent_records_end
        self._unconfirmed.extend(batch.ends)

    def state_high_watermark(self) -> None:
        """Send the high watermark by itself if it has risen since it was sent last."""
        if self.is_open and self._source.high_watermark() > self._stated_high_watermark:
            self._send_empty()

    def heartbeat(self) -> None:
        """Send an empty frame if nothing was sent for HEARTBEAT_SECONDS."""
        if self.is_open and self._source.clock.monotonic() - self._sent_at >= HEARTBEAT_SECONDS:
            self._send_empty()

    def _send_empty(self) -> None:
        self._source.counters.empty_frames += 1
        self._push(self.sent_end, self._segment_base, 0, None)

    def _push(self, offset: int, segment_base: int, segment_bytes: int, batch: CommitBatch | None) -> None:
        source = self._source
        self._stated_high_watermark = source.high_watermark()
        self._sent_at = source.clock.monotonic()
        head = CommitsHead(
            self.number,
            source.epoch,
            source.promotion_id,
            self._stated_high_watermark,
            source.log.begin,
            offset,
            segment_base,
            segment_bytes,
            -1 if batch is None or batch.lost_from is None else batch.lost_from,
        )
        time = self._group_time.statement() if self._group_time is not None else None
        buffers, index_entries = (batch.buffers, batch.index_entries) if batch is not None else ((), ())
        body = commits_parts(head, buffers, index_entries, time)
        self.connection.push(request_header(Command.COMMITS, 0, sum(map(len, body)), flag=FLAG_ONE_WAY), *body)

    @property
    def lag_seconds(self) -> float | None:
        """For how long the master has had commits that the slave has not confirmed; 0.0 if it has all, None if that is longer ago
        than the commits in memory."""
        if self.confirmed_end >= max(self._sent_records_end, self._source.log.gather.records_end):
            return 0.0
        begun = self._source.feed.begun_at(self.confirmed_end)
        return None if begun is None else max(0.0, self._source.clock.monotonic() - begun)
