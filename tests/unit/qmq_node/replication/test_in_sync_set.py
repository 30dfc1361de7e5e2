"""Which change of the in-sync set is due."""

from dataclasses import dataclass

import pytest

from qmq.protocol.codes import FollowState
from qmq.protocol.group_memberships import InSyncChange
from qmq_node.replication.master.in_sync_set import (
    CUT_OFF_SECONDS,
    FAST_SECONDS,
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
