"""class InSyncSet: which slaves a master adds to the in-sync set, and which it removes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.codes import FollowState
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.master.master_state import MasterState
from qmq_node.replication.master.progress import Progress
from qmq_node.replication.rules.growing_pause import GrowingPause
from qmq_node.replication.rules.master import NOTHING_CONFIRMED, Master
from qmq_node.replication.rules.membership import ChangeInSync

PROGRESS_SECONDS = 3.0
"""A slave of the in-sync set that confirms nothing for so long although something waits for it is removed. One that has not
connected since the epoch began is removed after the same time."""
RECONNECT_SECONDS = 1.0
"""A slave of the in-sync set whose connection ended is removed if it has not followed again after this time."""
CUT_OFF_SECONDS = 2.0
"""A removal that would leave fewer members in sync than the minimum waits so long, if the group has enough others: a metaserver
that receives heartbeats of them has one of them lead instead."""
SLOW_SECONDS, SLOW_SECONDS_MAX = 10.0, 600.0
"""How long a slave that was removed because it was slow stays outside of the set: at first, and at most. It doubles each time."""
FAST_SECONDS = 1.5
"""Meanwhile it has to confirm within this time: a slower confirmation begins the time again."""


@dataclass(slots=True)
class _Slave:
    """What the master knows of another member. It outlives sessions: a slave that only reconnects makes no progress."""

    progress: Progress
    gone_since: float | None
    """Since when it has no session; None: it has one."""
    state: FollowState | None = None
    was_here: bool = False
    """Whether it had a session in this epoch."""
    is_late: bool = False
    """Whether it is to be removed because it confirmed nothing, in the session that it still has. If it confirms something after
    all, it was slow; one that connects again was cut off."""
    slow: GrowingPause = field(default_factory=lambda: GrowingPause(SLOW_SECONDS, SLOW_SECONDS_MAX))
    """Its time outside of the set after it was slow."""


@dataclass(eq=False, repr=False)
class InSyncSet:
    """Follows the slaves, and says which change of the in-sync set is due. Nothing is sent here."""

    _master: MasterState
    _clock: Clock
    _slaves: dict[str, _Slave] = field(default_factory=dict, init=False)
    unreachable: tuple[str, ...] = field(default=(), init=False)
    """Slaves that confirm nothing, or are not connected any more, and without which fewer members than the minimum would be in
    sync, although the group has enough others. () if there are none."""
    _unreachable_since: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.members_changed()

    # --- what happens ----------------------------------------------------------------------------------------------

    def members_changed(self) -> None:
        """Follow the members of the membership, no others."""
        now, master = self._clock.monotonic(), self._master.value
        others = [member for member in master.membership.members if member != master.node_id]
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
        known.gone_since, known.state, known.was_here, known.is_late = None, None, True, False

    def session_ended(self, slave: str) -> None:
        """The session of a slave ended."""
        if slave in self._slaves:
            self._slaves[slave].gone_since = self._clock.monotonic()

    def confirmed(self, slave: str, end: int, state: FollowState) -> None:
        """A slave confirmed everything below `end`."""
        known, now = self._slaves[slave], self._clock.monotonic()
        known.state = state
        if known.is_late:
            known.slow.failed(now)
            known.is_late = False
        elif state.is_following and known.progress.waited_seconds(now) > FAST_SECONDS:
            known.slow.renew(now)
        known.progress.reach(end, now)

    def skip(self, seconds: float) -> None:
        """The process stood still for so long: nothing was received from slaves."""
        now = self._clock.monotonic()
        for slave in self._slaves.values():
            slave.progress.skip(seconds, now)
            if slave.gone_since is not None:
                slave.gone_since = min(slave.gone_since + seconds, now)

    def makes_progress(self, slave: str) -> bool:
        """Whether a slave lacks nothing, or has confirmed something within PROGRESS_SECONDS."""
        return self._slaves[slave].progress.waited_seconds(self._clock.monotonic()) < PROGRESS_SECONDS

    @property
    def slow(self) -> dict[str, float]:
        """For how many seconds slaves stay outside of the set because they were slow, by node id."""
        now = self._clock.monotonic()
        rest = {name: slave.slow.remaining(now) for name, slave in self._slaves.items()}
        return {name: seconds for name, seconds in rest.items() if seconds}

    # --- what is due -----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Find out which slaves are unreachable. To be called several times a second."""
        self._find_unreachable(self._removals())

    def due_change(self, *, may_add: bool = True) -> tuple[ChangeInSync, Reason] | None:
        """Return the change to request now, with its reason; None if none is due.

        Removals come first, because answers wait for them. A slave that is to be added counts from this call on.
        """
        master, removals = self._master.value, self._removals()
        self._find_unreachable(removals)
        is_held = self._clock.monotonic() - self._unreachable_since < CUT_OFF_SECONDS
        for member, reason in removals.items():
            if is_held and member in self.unreachable:
                continue
            slave = self._slaves[member]
            slave.is_late = slave.is_late or (slave.gone_since is None and self._is_late(slave))
            return master.remove(member), reason
        for member in self._additions() if may_add else ():
            changed, change = master.add(member)
            self._master.set(changed)
            return change, Reason.of(Code.CAUGHT_UP)
        return None

    def is_current(self, change: ChangeInSync) -> bool:
        """Whether a change that was requested can still be made: no newer membership is known."""
        return (change.epoch, change.in_sync_version) == self._master.value.membership.place

    def _removals(self) -> dict[str, Reason]:
        """The slaves that count and may not, with the reasons."""
        master = self._master.value
        reasons = {
            member: _loss(master, member) or self._removal_reason(self._slaves[member])
            for member in self._counted_slaves()
        }
        return {member: reason for member, reason in reasons.items() if reason}

    def _additions(self) -> list[str]:
        """The slaves that may be added."""
        master, now = self._master.value, self._clock.monotonic()
        return [
            member
            for member, slave in self._slaves.items()
            if slave.state is not None
            and slave.state.is_following
            and master.may_add(member)
            and not slave.slow.remaining(now)
            and not self._removal_reason(slave)
        ]

    def _find_unreachable(self, removals: Mapping[str, Reason]) -> None:
        membership = self._master.value.membership
        minimum, others = membership.in_sync_min_in_force, len(membership.members) - 1
        lost = tuple(
            member for member in removals if member in membership.in_sync and self._is_lost(self._slaves[member])
        )
        left = len(membership.in_sync) - len(lost)
        if not left < minimum <= min(others, len(membership.in_sync)) or left + len(self._additions()) >= minimum:
            lost = ()
        if lost and not self.unreachable:
            self._unreachable_since = self._clock.monotonic()
        self.unreachable = lost

    def _is_lost(self, slave: _Slave) -> bool:
        """Whether it may be the connection that keeps a slave from confirming. One that has never connected may not run."""
        is_gone = slave.gone_since is not None and slave.was_here
        return is_gone or (slave.state is not None and slave.state.is_following and self._is_late(slave))

    def _is_late(self, slave: _Slave) -> bool:
        return slave.progress.waited_seconds(self._clock.monotonic()) >= PROGRESS_SECONDS

    def _counted_slaves(self) -> Iterator[str]:
        counted = self._master.value.counted
        return (member for member in self._slaves if member in counted)

    def _removal_reason(self, slave: _Slave) -> Reason:
        """Why a slave may not be in the in-sync set; "" if nothing speaks against it."""
        now = self._clock.monotonic()
        if slave.gone_since is not None:
            limit = RECONNECT_SECONDS if slave.was_here else PROGRESS_SECONDS
            gone = now - slave.gone_since
            return Reason.of(Code.NOT_CONNECTED, seconds=round(gone, 1)) if gone >= limit else Reason()
        if slave.state is FollowState.LEAVING:
            return Reason.of(Code.STOPS)
        if slave.state is FollowState.COPYING:
            return Reason.of(Code.COPIES_LOG)
        waited = slave.progress.waited_seconds(now)
        if waited < PROGRESS_SECONDS:
            return Reason()
        return Reason.of(Code.CONFIRMS_NOTHING, seconds=round(waited, 1))


def _loss(master: Master, member: str) -> Reason:
    """Return why a slave that counts has less than a member of the in-sync set has; "" if it has all.

    Its disk was replaced, for example. It copies what it lacks, and must not be promoted before it has that.
    """
    session = master.session_of(member)
    if session is None or not NOTHING_CONFIRMED < session.confirmed < master.high_watermark:
        return Reason()
    return Reason.of(Code.LOST_DATA, end=session.confirmed, high_watermark=master.high_watermark)
