"""Which change of the in-sync set is due."""

from dataclasses import dataclass

from qmq.daemon.replication.in_sync_set import InSyncSet
from qmq.protocol.codes import FollowState
from qmq.protocol.group_rows import InSyncChange
from qmq.replication.master import Master
from qmq.replication.row import ChangeInSync, GroupRow
from tests.support.manual_clock import ManualClock

ROW = GroupRow("g", ("m", "a", "b"), "m", ("m", "a"), 3, 7, "p3")
REMOVAL = ChangeInSync("m", 3, "p3", 7, InSyncChange.REMOVE, "a")


@dataclass
class State:
    """What an InSyncSet uses of a MasterState."""

    value: Master

    def set(self, value: Master) -> None:
        self.value = value


def made(clock: ManualClock) -> tuple[InSyncSet, State]:
    """With slave a, which has everything, in a session."""
    state = State(Master("m", ROW, 100, 100, 100).followed("a", 1, "").confirmed("a", 1, 100, 1, 1))
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
    state.set(state.value.learned(REMOVAL.applied_to(ROW)))
    due = in_sync.due_change()
    assert due is not None
    assert (due[0].change, due[0].member, due[0].version) == (InSyncChange.ADD, "b", 8)
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
