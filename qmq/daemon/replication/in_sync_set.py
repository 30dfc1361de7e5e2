"""class InSyncSet: which slaves a master adds to the in-sync set, and which it removes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.daemon.replication.master_state import MasterState
from qmq.daemon.replication.progress import Progress
from qmq.protocol.codes import FollowState
from qmq.replication.master import NOTHING_CONFIRMED, Master
from qmq.replication.row import ChangeInSync

PROGRESS_SECONDS = 3.0
"""A slave of the in-sync set that confirms nothing for so long although something waits for it is removed. One that has not
connected since the epoch began is removed after the same time."""
RECONNECT_SECONDS = 1.0
"""A slave of the in-sync set whose connection ended is removed if it has not followed again after this time."""


@dataclass(slots=True)
class _Slave:
    """What the master knows of another member. It outlives sessions: a slave that only reconnects makes no progress."""

    progress: Progress
    gone_since: float | None
    """Since when it has no session; None: it has one."""
    state: FollowState | None = None
    was_here: bool = False
    """Whether it had a session in this epoch."""


@dataclass(eq=False, repr=False)
class InSyncSet:
    """Follows the slaves, and says which change of the in-sync set is due. Nothing is sent here."""

    _master: MasterState
    _clock: Clock
    _slaves: dict[str, _Slave] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.members_changed()

    # --- what happens ----------------------------------------------------------------------------------------------

    def members_changed(self) -> None:
        """Follow the members of the row, no others."""
        now, master = self._clock.monotonic(), self._master.value
        others = [member for member in master.row.members if member != master.node_id]
        known, self._slaves = self._slaves, {}
        for member in others:
            self._slaves[member] = known.get(member) or _Slave(Progress(), now)
        self.stored(master.synced_end)

    def stored(self, end: int) -> None:
        """Everything below `end` waits for the slaves."""
        now = self._clock.monotonic()
        for slave in self._slaves.values():
            slave.progress.expect(end, now)

    def followed(self, slave: str) -> None:
        """A session of a slave begins."""
        known = self._slaves[slave]
        known.gone_since, known.state, known.was_here = None, None, True

    def session_ended(self, slave: str) -> None:
        """The session of a slave ended."""
        if slave in self._slaves:
            self._slaves[slave].gone_since = self._clock.monotonic()

    def confirmed(self, slave: str, end: int, state: FollowState) -> None:
        """A slave confirmed everything below `end`."""
        known = self._slaves[slave]
        known.state = state
        known.progress.reach(end, self._clock.monotonic())

    def skip(self, seconds: float) -> None:
        """The process stood still for so long: slaves could not be heard."""
        now = self._clock.monotonic()
        for slave in self._slaves.values():
            slave.progress.skip(seconds, now)
            if slave.gone_since is not None:
                slave.gone_since = min(slave.gone_since + seconds, now)

    def makes_progress(self, slave: str) -> bool:
        """Whether a slave lacks nothing, or has confirmed something within PROGRESS_SECONDS."""
        return self._slaves[slave].progress.waited_seconds(self._clock.monotonic()) < PROGRESS_SECONDS

    # --- what is due -----------------------------------------------------------------------------------------------

    def due_change(self) -> tuple[ChangeInSync, str] | None:
        """Return the change to request now, with its reason; None if none is due.

        Removals come first, because answers wait for them. A slave that is to be added counts from this call on.
        """
        master = self._master.value
        for member in self._counted_slaves():
            reason = _loss(master, member) or self._removal_reason(self._slaves[member])
            if reason:
                return master.remove(member), reason
        for member, slave in self._slaves.items():
            if slave.state is FollowState.FOLLOWING and master.may_add(member) and not self._removal_reason(slave):
                changed, change = master.add(member)
                self._master.set(changed)
                return change, "it caught up"
        return None

    def is_current(self, change: ChangeInSync) -> bool:
        """Whether a change that was requested can still be made: no newer row is known."""
        return (change.epoch, change.version) == self._master.value.row.place

    def _counted_slaves(self) -> Iterator[str]:
        counted = self._master.value.counted
        return (member for member in self._slaves if member in counted)

    def _removal_reason(self, slave: _Slave) -> str:
        """Why a slave may not be in the in-sync set; "" if nothing speaks against it."""
        now = self._clock.monotonic()
        if slave.gone_since is not None:
            limit = RECONNECT_SECONDS if slave.was_here else PROGRESS_SECONDS
            gone = now - slave.gone_since
            return f"it has not been connected for {gone:.1f} s" if gone >= limit else ""
        if slave.state is FollowState.LEAVING:
            return "it stops"
        if slave.state is FollowState.COPYING:
            return "it copies the log"
        waited = slave.progress.waited_seconds(now)
        return f"it has confirmed nothing for {waited:.1f} s" if waited >= PROGRESS_SECONDS else ""


def _loss(master: Master, member: str) -> str:
    """Return why a slave that counts has less than a member of the in-sync set has; "" if it has all.

    Its disk was replaced, for example. It copies what it lacks, and must not be promoted before it has that.
    """
    session = master.session_of(member)
    if session is None or not NOTHING_CONFIRMED < session.confirmed < master.high_watermark:
        return ""
    return f"its log ends at {session.confirmed}, below the high watermark {master.high_watermark}: it has lost data"
