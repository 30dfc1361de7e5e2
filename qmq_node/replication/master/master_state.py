"""class MasterState: the state of the rules in a master's epoch, and the high watermark that follows from it."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.reasons import NO_REASON, Code, Reason
from qmq_node.commits.committer import Committer
from qmq_node.replication.master.progress import Progress
from qmq_node.replication.rules.master import Master

STALLED_SECONDS = 2.0
"""When stored commits have waited so long for slaves without progress, further sends are rejected, so that producers use other
broker groups. A second later the slave is removed (`in_sync_set.PROGRESS_SECONDS`)."""


@dataclass(eq=False, repr=False)
class MasterState:
    """Holds the state of `qmq_node.replication.rules.master`. Whenever the high watermark of the rules rises, the
    committer applies it."""

    value: Master
    _committer: Committer
    _clock: Clock
    _on_high_watermark: Callable[[], None]
    """Called after the committer has applied a higher one."""
    _observe: Callable[[float], None]
    """Called with the seconds from the sync of each commit on this disk to its confirmation by all in-sync members."""
    _stored: deque[tuple[int, float]] = field(default_factory=deque, init=False)
    """Ends of commits above the high watermark, and when this disk had synced them. The committer limits their number."""
    is_active: bool = field(default=False, init=False)
    """Whether the high watermark may rise: between the start and the end of the epoch."""
    accepts_sends: bool = field(init=False)
    """As the rules say. Every send asks for it, and only another membership changes it."""
    _may_stall: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.accepts_sends = self.value.accepts_sends
        self._progress = Progress(self._committer.high_watermark)

    def start(self) -> None:
        """Begin to count. Commits that this disk has may be below the high watermark at once."""
        self.is_active = True
        self._progress.expect(self.value.synced_end, self._clock.monotonic())
        self.set(self.value.synced(self.value.synced_end))

    def stop(self) -> None:
        """The node no longer leads: the high watermark stays where it is, and what waits for it is not answered."""
        self.is_active = False

    def stored(self, end: int) -> None:
        """A commit that ends at `end` is on this disk."""
        now = self._clock.monotonic()
        self._progress.expect(end, now)
        self._stored.append((end, now))
        self.set(self.value.synced(end))

    def set(self, value: Master) -> None:
        """Take the next state of the rules."""
        if not self.is_active:
            return
        if value.membership is not self.value.membership:
            self.accepts_sends = value.accepts_sends
        self.value = value
        if value.high_watermark > self._committer.high_watermark:
            now, stored = self._clock.monotonic(), self._stored
            self._progress.reach(value.high_watermark, now)
            while stored and stored[0][0] <= value.high_watermark:
                self._observe(now - stored.popleft()[1])
            self._committer.confirm(value.high_watermark)
            self._on_high_watermark()

    def skip(self, seconds: float) -> None:
        """Do not count this much time as stalled."""
        self._progress.skip(seconds, self._clock.monotonic())

    @property
    def stalled_seconds(self) -> float:
        """For how long the high watermark has not risen although stored commits wait for it; 0.0 if none wait."""
        return self._progress.waited_seconds(self._clock.monotonic())

    def check_stalled(self, seconds: float) -> None:
        """Note whether sends may have to be rejected within `seconds`. Has to be called again before they have passed.

        Every send asks for `send_refusal`, and the exact time is required for few of them.
        """
        self._may_stall = self.stalled_seconds > STALLED_SECONDS - seconds

    @property
    def send_refusal(self) -> Reason:
        """Why sends are not accepted; "" if they are."""
        if not self.accepts_sends:
            membership = self.value.membership
            required, in_sync = membership.in_sync_min_in_force, len(membership.in_sync)
            code = Code.ONE_IN_SYNC if in_sync == 1 else Code.FEW_IN_SYNC
            return Reason.of(Code.REFUSES, why=Reason.of(code, required=required, in_sync=in_sync))
        if self._may_stall and (stalled := self.stalled_seconds) > STALLED_SECONDS:
            return Reason.of(Code.REFUSES, why=Reason.of(Code.SLAVES_WAITED, seconds=round(stalled, 1)))
        return NO_REASON
