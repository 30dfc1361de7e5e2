"""The simulated database changes memberships as the real ones do, and its faults leave the outcome of a change unknown."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.replication.membership_changes import MembershipStore
from qmq.clock import SystemClock
from qmq.errors import QmqError
from qmq.protocol.group_memberships import InSyncChange
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.membership import ChangeInSync, ChangeRejected, Membership, Promotion
from qmq_testing.repository import MemoryRepository
from tests.sim.world.database import Database, SimulatedRepository
from tests.sim.world.loop import running_loop
from tests.support import stored_groups
from tests.support.drivers.membership_changes import Change, check_random_changes

GROUP = BrokerGroup(
    GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", ("a", "b", "c"), "a", ("a", "b"), 1, 7, "p1")
)
REMOVAL = ChangeInSync("g1", "a", 1, "p1", 7, InSyncChange.REMOVE, "b")


def database() -> Database:
    found = Database(running_loop())
    found.stored.groups["g1"] = GROUP
    return found


def membership_store(found: Database, host: str = "meta") -> MembershipStore:
    return SimulatedRepository(found, SystemClock(), host).membership_store()


def changed(store: MembershipStore, change: Change, newest: tuple[int, int] = (0, 0)) -> Membership:
    return store.change("g1", MembershipWish(change.applied_to, "test", Reason("tests")), newest)


async def test_a_random_sequence_of_changes_does_what_the_rules_say() -> None:
    for store in (membership_store(database()), MemoryRepository(Metadata((GROUP,))).membership_store()):
        check_random_changes(GROUP.membership, lambda change, s=store: changed(s, change), lambda s=store: s.read("g1"))  # type: ignore[misc]
        with pytest.raises(QmqError, match="'g9' not found"):
            store.read("g9")


async def test_a_change_that_another_metaserver_overtakes_is_not_made() -> None:
    found = database()

    def overtaken(membership: Membership) -> Membership:
        changed(membership_store(found, "meta2"), Promotion(1, 7, "b", "boot", 2, "p2"))
        return REMOVAL.applied_to(membership)

    with pytest.raises(ChangeRejected, match="has changed meanwhile") as rejected:
        membership_store(found).change("g1", MembershipWish(overtaken, "test", Reason("tests")), (0, 0))
    assert rejected.value.is_stale
    assert found.stored.groups["g1"].membership.master == "b"


@pytest.mark.parametrize(
    ("fault", "is_made"),
    [
        (lambda found: setattr(found, "is_away", True), False),
        (lambda found: found.unreachable_from.add("meta"), False),
        (lambda found: setattr(found, "lost_replies", 1), True),
    ],
)
async def test_a_fault_leaves_the_outcome_unknown(fault: Callable[[Database], None], is_made: bool) -> None:
    found = database()
    fault(found)
    with pytest.raises(ConnectionError):
        changed(membership_store(found), REMOVAL)
    assert (found.stored.groups["g1"].membership == REMOVAL.applied_to(GROUP.membership)) is is_made
    assert found.was_faulty


async def test_a_restored_membership_is_not_changed() -> None:
    found = database()
    found.back_up()
    membership = changed(membership_store(found), REMOVAL)
    found.restore()
    assert found.stored.groups["g1"] == GROUP
    with pytest.raises(ChangeRejected, match="restored from a backup"):
        changed(membership_store(found), REMOVAL, membership.place)


async def test_a_registration_changes_the_state_of_a_membership_and_nothing_else() -> None:
    found = database()
    other = stored_groups.changed(
        GROUP, state=GroupState.OFFLINE, epoch=2, master="c", in_sync=("c",), in_sync_version=0, copies=3
    )
    for repository in (SimulatedRepository(found, SystemClock(), "meta"), MemoryRepository(Metadata((GROUP,)))):
        repository.save_group(other, "registered")
        assert repository.load().broker_groups == (replace(GROUP, state=GroupState.OFFLINE),)
