"""The simulated database changes rows as the real ones do, and its faults leave the outcome of a change unknown."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.replication.row_changes import RowStore
from qmq.clock import SystemClock
from qmq.errors import QmqError
from qmq.protocol.group_rows import InSyncChange
from qmq_node.replication.rules.row import ChangeInSync, ChangeRejected, GroupRow, Promotion
from qmq_testing.repository import MemoryRepository
from tests.sim.world.loop import running_loop
from tests.sim.world.rows import Database, RowRepository
from tests.support.drivers.row_changes import Change, check_random_changes

GROUP = BrokerGroup(
    "g1", GroupKind.BROKER, GroupState.READ_WRITE, 1, "a", ("a", "b"), 7, members=("a", "b", "c"), promotion_id="p1"
)
REMOVAL = ChangeInSync("a", 1, "p1", 7, InSyncChange.REMOVE, "b")


def database() -> Database:
    found = Database(running_loop())
    found.rows.groups["g1"] = GROUP
    return found


def row_store(found: Database, host: str = "meta") -> RowStore:
    return RowRepository(found, SystemClock(), host).row_store()


def changed(store: RowStore, change: Change, newest: tuple[int, int] = (0, 0)) -> GroupRow:
    return store.change("g1", change.applied_to, newest, action="test", reason="tests")


async def test_a_random_sequence_of_changes_does_what_the_rules_say() -> None:
    for store in (row_store(database()), MemoryRepository(Metadata((GROUP,))).row_store()):
        check_random_changes(GROUP.group_row, lambda change, s=store: changed(s, change), lambda s=store: s.read("g1"))  # type: ignore[misc]
        with pytest.raises(QmqError, match="'g9' not found"):
            store.read("g9")


async def test_a_change_that_another_metaserver_overtakes_is_not_made() -> None:
    found = database()

    def overtaken(row: GroupRow) -> GroupRow:
        changed(row_store(found, "meta2"), Promotion(1, 7, "b", "boot", 2, "p2"))
        return REMOVAL.applied_to(row)

    with pytest.raises(ChangeRejected, match="has changed meanwhile") as rejected:
        row_store(found).change("g1", overtaken, (0, 0), action="test", reason="")
    assert rejected.value.is_stale
    assert found.rows.groups["g1"].master == "b"


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
        changed(row_store(found), REMOVAL)
    assert (found.rows.groups["g1"].group_row == REMOVAL.applied_to(GROUP.group_row)) is is_made
    assert found.was_faulty


async def test_a_restored_row_is_not_changed() -> None:
    found = database()
    found.back_up()
    row = changed(row_store(found), REMOVAL)
    found.restore()
    assert found.rows.groups["g1"] == GROUP
    with pytest.raises(ChangeRejected, match="restored from a backup"):
        changed(row_store(found), REMOVAL, row.place)


async def test_a_registration_changes_the_state_of_a_row_and_nothing_else() -> None:
    found = database()
    other = replace(GROUP, state=GroupState.OFFLINE, epoch=2, master="c", in_sync=("c",), in_sync_version=0, copies=3)
    for repository in (RowRepository(found, SystemClock(), "meta"), MemoryRepository(Metadata((GROUP,)))):
        repository.save_group(other, "registered")
        assert repository.load().broker_groups == (replace(GROUP, state=GroupState.OFFLINE),)
