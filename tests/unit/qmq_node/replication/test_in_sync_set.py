"""Which change of the in-sync set is due."""

from dataclasses import dataclass

import pytest

from qmq.protocol.codes import FollowState
from qmq.protocol.group_memberships import InSyncChange
from qmq_node.replication.master.in_sync_set import (
    CUT_OFF_SECONDS,
    FAST_SECONDS,
    JOIN_AFTER_SECONDS,
    JOIN_SECONDS,
    NEAR_SECONDS,
    PROGRESS_SECONDS,
    RECONNECT_SECONDS,
    SLOW_SECONDS,
    SLOW_SECONDS_MAX,
    InSyncSet,
)
from qmq_node.replication.rules.master import Master
from qmq_node.replication.rules.membership import ChangeInSync, Membership
from tests.support.manual_clock import ManualClock

MEMBERSHIP = Membership("g", ("m", "a", "b"), "m", ("m", "a"), 3, 7, "p3", in_sync_min=1)
REMOVAL = ChangeInSync("g", "m", 3, "p3", 7, InSyncChange.REMOVE, "a")


@dataclass
class State:
    """What an InSyncSet uses of a MasterState."""

    value: Master

    def set(self, value: Master) -> None:
        self.value = value


def made(clock: ManualClock) -> tuple[InSyncSet, State]:
    """With slave a, which has everything, in a session."""
    state = State(Master("m", MEMBERSHIP, 100, 100, 100).followed("a", 1, "").confirmed("a", 1, 100, 1, 1))
    found = InSyncSet(state, clock)  # type: ignore[arg-type]
    found.followed("a")
    found.confirmed("a", 100, FollowState.FOLLOWING)
    return found, state


def test_a_connection_that_ended_after_a_pause_has_its_whole_second() -> None:
    clock = ManualClock()
    in_sync, _ = made(clock)
    clock.advance(30.0)
    in_sync.session_ended("a")
    in_sync.skip(30.0)
    clock.advance(0.9)
    assert in_sync.due_change() is None
    clock.advance(0.1)
    assert in_sync.due_change() == (REMOVAL, "it has not been connected for 1.0 s")


def test_a_connection_that_ended_before_a_pause_has_the_rest_of_its_second() -> None:
    clock = ManualClock()
    in_sync, _ = made(clock)
    in_sync.session_ended("a")
    clock.advance(30.5)
    in_sync.skip(30.0)
    assert in_sync.due_change() is None
    clock.advance(0.5)
    assert in_sync.due_change() is not None


def test_removals_come_before_additions() -> None:
    clock = ManualClock()
    in_sync, state = made(clock)
    state.set(state.value.followed("b", 2, "").confirmed("b", 2, 100, 1, 1))
    in_sync.followed("b")
    in_sync.confirmed("b", 100, FollowState.FOLLOWING)
    in_sync.stored(200)
    clock.advance(3.0)
    in_sync.confirmed("b", 200, FollowState.FOLLOWING)
    assert in_sync.due_change() == (REMOVAL, "it has confirmed nothing for 3.0 s")
    state.set(state.value.learned(REMOVAL.applied_to(MEMBERSHIP)))
    due = in_sync.due_change()
    assert due is not None
    assert (due[0].change, due[0].member, due[0].in_sync_version) == (InSyncChange.ADD, "b", 8)
    assert state.value.counted == {"m", "b"}, "it counts from the request on"
    assert in_sync.is_current(due[0])
    assert not in_sync.is_current(REMOVAL)


def test_a_slave_that_confirms_nothing_is_not_added() -> None:
    clock = ManualClock()
    in_sync, state = made(clock)
    state.set(state.value.followed("b", 2, "").confirmed("b", 2, 100, 1, 1))
    in_sync.followed("b")
    assert in_sync.due_change() is None
    in_sync.confirmed("b", 100, FollowState.COPYING)
    assert in_sync.due_change() is None


def following(state: State, in_sync: InSyncSet, *slaves: str) -> None:
    """These slaves begin sessions and have everything."""
    for number, slave in enumerate(slaves, 10):
        state.set(state.value.followed(slave, number, "").confirmed(slave, number, 100, 1, 1))
        in_sync.followed(slave)
        in_sync.confirmed(slave, 100, FollowState.FOLLOWING)


def learned(state: State, in_sync: InSyncSet, membership: Membership) -> None:
    state.set(state.value.learned(membership))
    in_sync.members_changed()


def removed_as_slow(clock: ManualClock, in_sync: InSyncSet, state: State, end: int, seconds: float = 5.0) -> None:
    """Slave a confirms nothing for so long, is removed, and then confirms everything below `end`."""
    in_sync.stored(end)
    clock.advance(PROGRESS_SECONDS)
    due = in_sync.due_change()
    assert due is not None
    assert due[0].change is InSyncChange.REMOVE
    learned(state, in_sync, due[0].applied_to(state.value.membership))
    clock.advance(seconds - PROGRESS_SECONDS)
    confirmed(in_sync, state, end)


def confirmed(in_sync: InSyncSet, state: State, end: int) -> None:
    session = state.value.session_of("a")
    assert session is not None
    state.set(state.value.synced(end).confirmed("a", session.number, end, 1, 1))
    in_sync.confirmed("a", end, FollowState.FOLLOWING)


def added_after(clock: ManualClock, in_sync: InSyncSet, state: State) -> float:
    """Return after how many seconds slave a is added again, and have it added."""
    seconds = 0.0
    while (due := in_sync.due_change()) is None:
        clock.advance(1.0)
        seconds += 1.0
        assert seconds < 2 * SLOW_SECONDS_MAX
    assert (due[0].change, due[0].member) == (InSyncChange.ADD, "a")
    learned(state, in_sync, due[0].applied_to(state.value.membership))
    return seconds


def test_a_slave_that_is_slow_again_and_again_stays_outside_for_a_time_that_doubles() -> None:
    clock = ManualClock()
    in_sync, state = made(clock)
    seconds = []
    for turn in range(8):
        removed_as_slow(clock, in_sync, state, 200 + 100 * turn)
        seconds.append(added_after(clock, in_sync, state))
    assert seconds == [10, 20, 40, 80, 160, 320, 600, 600]
    assert (SLOW_SECONDS, SLOW_SECONDS_MAX) == (10, 600)
    clock.advance(SLOW_SECONDS_MAX + 1)
    removed_as_slow(clock, in_sync, state, 1000)
    assert added_after(clock, in_sync, state) == 10, "it was fast for long enough"


def test_a_slave_that_is_still_slow_does_not_return() -> None:
    clock = ManualClock()
    in_sync, state = made(clock)
    removed_as_slow(clock, in_sync, state, 200)
    for turn in range(20):
        in_sync.stored(300 + turn)
        clock.advance(FAST_SECONDS + 0.5)
        assert in_sync.due_change() is None
        confirmed(in_sync, state, 300 + turn)
    for turn in range(20):
        in_sync.stored(400 + turn)
        clock.advance(FAST_SECONDS / 4)
        assert in_sync.due_change() is None
        confirmed(in_sync, state, 400 + turn)
    assert added_after(clock, in_sync, state) == pytest.approx(SLOW_SECONDS - 20 * FAST_SECONDS / 4, abs=1)


def test_a_slave_that_was_cut_off_returns_at_once() -> None:
    clock = ManualClock()
    in_sync, state = made(clock)
    in_sync.stored(200)
    clock.advance(PROGRESS_SECONDS)
    due = in_sync.due_change()
    assert due is not None
    learned(state, in_sync, due[0].applied_to(MEMBERSHIP))
    in_sync.session_ended("a")
    state.set(state.value.synced(200).session_ended("a", 1).followed("a", 2, "").confirmed("a", 2, 200, 1, 1))
    in_sync.followed("a")
    in_sync.confirmed("a", 200, FollowState.FOLLOWING)
    assert added_after(clock, in_sync, state) == 0


def cut_off(
    in_sync_min: int, *in_sync: str, members: tuple[str, ...] = ("m", "a", "b")
) -> tuple[InSyncSet, ManualClock]:
    """A master of these members, whose slaves' connections ended RECONNECT_SECONDS ago."""
    clock = ManualClock()
    membership = Membership("g", members, "m", ("m", *in_sync), 3, 7, "p3", in_sync_min=in_sync_min)
    state = State(Master("m", membership, 100, 100, 100))
    found = InSyncSet(state, clock)  # type: ignore[arg-type]
    following(state, found, *members[1:])
    for slave in members[1:]:
        found.session_ended(slave)
        session = state.value.session_of(slave)
        assert session is not None
        state.set(state.value.session_ended(slave, session.number))
    clock.advance(RECONNECT_SECONDS)
    return found, clock


def test_slaves_without_which_the_minimum_is_not_met_are_removed_after_a_metaserver_could_have_them_lead() -> None:
    in_sync, clock = cut_off(2, "a", "b")
    in_sync.check()
    assert in_sync.unreachable == ("a", "b")
    clock.advance(CUT_OFF_SECONDS - 0.1)
    assert in_sync.due_change() is None
    clock.advance(0.1)
    due = in_sync.due_change()
    assert due is not None
    assert due[0].change is InSyncChange.REMOVE


@pytest.mark.parametrize(
    ("in_sync_min", "in_sync", "members"),
    [
        (1, ("a", "b"), ("m", "a", "b")),
        (3, ("a", "b"), ("m", "a", "b")),
        (2, ("a",), ("m", "a")),
    ],
    ids=["the minimum is met", "two others are too few", "one other is too few"],
)
def test_slaves_are_removed_at_once_if_another_master_would_not_help(
    in_sync_min: int, in_sync: tuple[str, ...], members: tuple[str, ...]
) -> None:
    found, _ = cut_off(in_sync_min, *in_sync, members=members)
    assert found.due_change() is not None
    assert found.unreachable == ()


def test_no_slave_is_added_while_no_change_of_the_membership_can_be_made() -> None:
    clock = ManualClock()
    in_sync, state = made(clock)
    following(state, in_sync, "b")
    assert in_sync.due_change(may_add=False) is None
    assert state.value.counted == {"m", "a"}
    assert in_sync.due_change() is not None


class Writing:
    """A master that writes without a pause, with slave a in sync, and slave b, which is not."""

    STEP_SECONDS = 0.1

    def __init__(self, lag_steps: int) -> None:
        self.clock = ManualClock()
        self.in_sync, self.state = made(self.clock)
        self.lag_steps: int | None = lag_steps
        """How far slave b is behind what the master writes; None: it confirms nothing."""
        self.end = 100
        self.state.set(self.state.value.followed("b", 2, ""))
        self.in_sync.followed("b")
        self._confirm("b", 2, 100)

    def _confirm(self, slave: str, session: int, end: int) -> None:
        self.state.set(self.state.value.confirmed(slave, session, end, 1, 1))
        self.in_sync.confirmed(slave, end, FollowState.FOLLOWING)

    def write(self, seconds: float, *, may_add: bool = True) -> ChangeInSync | None:
        """Write for some time; the first change that is due meanwhile."""
        for _ in range(round(seconds / self.STEP_SECONDS)):
            self.clock.advance(self.STEP_SECONDS)
            self.end += 1
            self.state.set(self.state.value.synced(self.end))
            self.in_sync.stored(self.end)
            self._confirm("a", 1, self.end)
            if self.lag_steps is not None:
                self._confirm("b", 2, max(100, self.end - self.lag_steps))
            self.in_sync.check()
            if (due := self.in_sync.due_change(may_add=may_add)) is not None:
                return due[0]
        return None

    @property
    def joining(self) -> str:
        return self.state.value.joining


def test_the_high_watermark_waits_for_a_slave_that_always_lags_a_little() -> None:
    assert (NEAR_SECONDS, JOIN_AFTER_SECONDS) == (0.5, 1.0)
    writing = Writing(lag_steps=2)
    assert writing.write(1.0) is None
    assert writing.joining == ""
    assert writing.state.value.high_watermark == writing.end, "it does not wait yet"
    change = writing.write(1.0)
    assert change is not None
    assert (change.change, change.member) == (InSyncChange.ADD, "b")
    master = writing.state.value
    assert (writing.joining, "b" in master.counted) == ("", True)
    assert writing.end - 5 <= master.high_watermark < writing.end


def test_a_slave_that_lags_too_much_is_not_waited_for() -> None:
    writing = Writing(lag_steps=6)
    assert writing.write(20.0) is None
    assert writing.joining == ""
    assert writing.state.value.high_watermark == writing.end


def test_no_slave_is_waited_for_while_none_may_be_added() -> None:
    writing = Writing(lag_steps=2)
    assert writing.write(10.0, may_add=False) is None
    assert (writing.joining, writing.state.value.high_watermark) == ("", writing.end)


def test_a_slave_that_does_not_reach_the_high_watermark_was_slow() -> None:
    assert JOIN_SECONDS == 1.0
    writing = Writing(lag_steps=2)
    while not writing.joining:
        assert writing.write(writing.STEP_SECONDS) is None
    writing.lag_steps, waits_at = None, writing.end
    assert writing.write(0.8) is None
    assert writing.joining == "b"
    assert writing.state.value.high_watermark <= waits_at
    assert writing.write(0.3) is None
    assert (writing.joining, writing.state.value.high_watermark) == ("", writing.end)
    assert writing.in_sync.slow == {"b": pytest.approx(SLOW_SECONDS, abs=0.2)}
    writing.lag_steps = 2
    assert writing.write(SLOW_SECONDS - 1) is None
    assert writing.joining == ""
    assert writing.write(3.0) is not None


def test_a_slave_that_is_waited_for_and_disconnects_is_waited_for_no_longer() -> None:
    writing = Writing(lag_steps=2)
    while not writing.joining:
        writing.write(writing.STEP_SECONDS)
    writing.state.set(writing.state.value.session_ended("b", 2))
    writing.in_sync.session_ended("b")
    assert (writing.joining, writing.state.value.high_watermark) == ("", writing.end)
    with pytest.raises(ValueError, match="may not wait for 'b'"):
        writing.state.value.with_joining("b")
    with pytest.raises(ValueError, match="may not wait for 'a'"):
        writing.state.value.with_joining("a")
