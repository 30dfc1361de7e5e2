"""What the database holds is applied in slices; policies are computed in a thread and set once."""

import asyncio
import random
import threading
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.domain import BrokerGroup, Leases, Metadata, MetadataChanges, Node, Route, StoredLease, SubjectRule
from metaserver.memory.directory import Directory
from metaserver.memory.policies import policies_of
from metaserver.stored import stored_metadata as stored_metadata_module
from metaserver.stored.stored_metadata import ROUTES_PER_SLICE, StoredMetadata
from qmq_node.policy import NodePolicy
from qmq_node.replication.rules.membership import Membership
from tests.support.manual_clock import ManualClock
from tests.support.stored_groups import changed

OFFLINE = GroupState.OFFLINE
GROUP = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", ("g1-a",), "g1-a", ("g1-a",), 1, 0, ""))


class Memory:
    """A metaserver's memory that follows a database."""

    def __init__(self) -> None:
        self.directory = Directory(ManualClock(), random.Random(1))
        self.stored = StoredMetadata(self.directory, ManualClock())


def routes(count: int) -> tuple[Route, ...]:
    return tuple(Route(f"s{number}", ("g1",), 1, 0) for number in range(count))


async def test_other_work_goes_on_between_the_slices_of_a_load() -> None:
    memory = Memory()
    loading = asyncio.ensure_future(memory.stored.load(Metadata((GROUP,), (), routes(5 * ROUTES_PER_SLICE + 1))))
    sizes = []
    while not loading.done():
        await asyncio.sleep(0)
        sizes.append(len(memory.directory.routes))
    steps = [new - old for old, new in zip([0, *sizes], sizes, strict=False)]
    assert max(steps) <= ROUTES_PER_SLICE
    assert sum(steps) == 5 * ROUTES_PER_SLICE + 1
    assert len(loading.result().subjects) == sum(steps)


async def test_a_route_that_appears_during_a_load_is_kept() -> None:
    memory = Memory()
    loading = asyncio.ensure_future(memory.stored.load(Metadata((GROUP,), (), routes(2 * ROUTES_PER_SLICE))))
    await asyncio.sleep(0)
    own, newer = Route("own", ("g1",), 1, 0), Route(f"s{2 * ROUTES_PER_SLICE - 1}", ("g1", "g2"), 7, 0)
    memory.directory.put_route(own)
    memory.directory.put_route(newer)
    memory.directory.add_unstored(newer)
    await loading
    assert memory.directory.routes["own"] == own
    assert memory.directory.routes[newer.subject] == newer


async def test_policies_are_computed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def observed(*arguments: object) -> dict[str, NodePolicy]:
        threads.append(threading.current_thread())
        return policies_of(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(stored_metadata_module, "policies_of", observed)
    memory = Memory()
    rules = {"s0": SubjectRule(messages_per_second=5)}
    await memory.stored.load(Metadata((GROUP,), (), routes(2), rules))
    first = memory.directory.policies.of("g1")
    assert first is not None
    assert set(first.subjects) == {"s0"}
    changed = MetadataChanges(
        frozenset({"s1"}), frozenset(), frozenset(), Metadata((), (), (Route("s1", ("g1",), 1, 0),),
        {"s1": SubjectRule(is_archived=True)}),
    )  # fmt: skip
    await memory.stored.apply(changed)
    second = memory.directory.policies.of("g1")
    assert second is not None
    assert set(second.subjects) == {"s0", "s1"}
    assert len(threads) == 2
    assert threading.main_thread() not in threads


async def test_a_change_without_rules_computes_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    await memory.stored.load(Metadata((GROUP,), (), routes(2)))
    monkeypatch.setattr(stored_metadata_module, "policies_of", None)
    changed = MetadataChanges(
        frozenset({"s1"}), frozenset(), frozenset(), Metadata((), (), (Route("s1", ("g1",), 2, 0),))
    )  # fmt: skip
    assert (await memory.stored.apply(changed)).subjects == {"s1"}


async def test_a_restored_database_is_followed_and_gets_the_groups_that_it_has_lost() -> None:
    memory = Memory()
    newest = (
        Route("extended", ("g1", "g2"), 3, 0),
        Route("other content", ("g1", "g2"), 2, 0, {"g2": Phase.DRAINING}),
        Route("same", ("g1",), 1, 0),
        Route("moved", ("g2",), 4, 0),
    )
    await memory.stored.load(Metadata((GROUP,), (), newest))
    backup = (
        Route("extended", ("g1",), 2, 0),
        Route("other content", ("g2", "g1"), 2, 0),
        Route("same", ("g1",), 1, 0),
        Route("moved", ("g3", "g2"), 2, 0),
    )
    reloaded = await memory.stored.load(Metadata((GROUP,), (), backup))
    assert reloaded.subjects == {"extended", "other content", "moved"}
    assert reloaded.to_store == [Route("extended", ("g1", "g2"), 3, 0)]
    assert memory.directory.routes == {route.subject: route for route in (*backup[1:], *reloaded.to_store)}
    # Another metaserver has stored the same since: nothing is left to do.
    reloaded = await memory.stored.load(Metadata((GROUP,), (), (*reloaded.to_store, *backup[1:])))
    assert (reloaded.subjects, reloaded.to_store) == (set(), [])


async def test_what_the_route_file_has_and_the_database_lacks_is_stored() -> None:
    memory = Memory()
    file = (
        Route("both created", ("g1", "g2"), 1, 0),
        Route("extended", ("g1", "g2"), 2, 0),
        Route("older", ("g1",), 1, 0),
    )
    await memory.stored.load(Metadata((GROUP,), (), file), from_file=True)
    stored = (
        Route("both created", ("g2", "g3"), 1, 0),
        Route("extended", ("g1",), 1, 0),
        Route("older", ("g2",), 2, 0),
    )
    reloaded = await memory.stored.load(Metadata((GROUP,), (), stored))
    assert reloaded.to_store == [
        Route("both created", ("g2", "g3", "g1"), 2, 0), Route("extended", ("g1", "g2"), 2, 0),
    ]  # fmt: skip
    assert memory.directory.routes == {route.subject: route for route in (*reloaded.to_store, stored[2])}


async def test_a_change_that_is_not_stored_yet_is_kept_when_everything_is_loaded_again() -> None:
    memory = Memory()
    await memory.stored.load(Metadata((GROUP,), (), routes(1)))
    own = Route("s0", ("g1", "g2"), 2, 0)
    memory.directory.put_route(own)
    memory.directory.add_unstored(own)
    reloaded = await memory.stored.load(Metadata((GROUP,), (), routes(1)))
    assert (memory.directory.routes["s0"], reloaded.to_store) == (own, [])


REPLICATED = changed(GROUP, master="a", in_sync=("a", "b"), in_sync_version=5, members=("a", "b"), copies=2, epoch=3)


async def test_of_two_memberships_of_a_group_the_newer_one_applies() -> None:
    memory = Memory()
    await memory.stored.load(Metadata((REPLICATED,)))
    live = memory.directory.groups["g1"]
    shrunk = changed(REPLICATED, in_sync=("a",), in_sync_version=6)
    await memory.stored.load(Metadata((shrunk,)))
    assert (live.group, memory.directory.newest_place("g1")) == (shrunk, (3, 6))
    promoted = changed(shrunk, epoch=4, master="b", in_sync=("b",), in_sync_version=1, promotion_id="p4")
    await memory.stored.apply(
        MetadataChanges(frozenset(), frozenset(), frozenset({"g1"}), Metadata((replace(promoted, state=OFFLINE),)))
    )
    assert (live.group, memory.directory.newest_place("g1")) == (promoted, (4, 1))
    # From a backup: what operators decided applies all the same.
    await memory.stored.load(Metadata((replace(REPLICATED, operator_state=OperatorState.DRAINING, preferred=("b",)),)))
    assert live.group == replace(promoted, operator_state=OperatorState.DRAINING, preferred=("b",))
    assert memory.directory.newest_place("g1") == (4, 1)
    memory.directory.learn_membership(shrunk.membership)
    assert live.membership.epoch == 4


def test_another_membership_changes_nothing_that_operators_decided_or_that_is_known() -> None:
    other = replace(REPLICATED.membership, epoch=9, in_sync_min=1, copies=3, known_place=(9, 9))
    assert REPLICATED.with_membership(other) == changed(REPLICATED, epoch=9)


async def test_of_two_memberships_at_one_place_the_stored_one_applies() -> None:
    """Two metaservers created the group at the same time: one of the memberships was stored."""
    memory = Memory()
    await memory.stored.load(Metadata((GROUP,)))
    other = changed(GROUP, master="g1-b", members=("g1-b",), in_sync=("g1-b",))
    await memory.stored.load(Metadata((other,)))
    assert memory.directory.groups["g1"].group == other


async def test_clients_keep_the_address_of_a_master_until_the_next_one_reports() -> None:
    memory = Memory()
    nodes = tuple(Node(name, "g1", 0, f"10.0.0.1:{number}", "", "1", 0) for number, name in enumerate("ab", 1))
    await memory.stored.load(Metadata((REPLICATED,), nodes))
    live = memory.directory.groups["g1"]
    reloaded = await memory.stored.load(Metadata((changed(REPLICATED, epoch=4, master="b"),), nodes))
    assert (reloaded.broker_groups, live.membership.master, live.state) == (set(), "b", GroupState.READ_WRITE)
    assert live.node is not None
    assert live.node.address == "10.0.0.1:1"


async def test_a_stored_lease_brings_the_membership_with_it() -> None:
    memory = Memory()
    nodes = tuple(Node(name, "g1", 0, f"10.0.0.1:{number}", "", "1", 0) for number, name in enumerate("ab", 1))
    await memory.stored.load(Metadata((REPLICATED,), nodes))
    promoted = changed(REPLICATED, epoch=4, master="b", operator_state=OperatorState.DRAINING)
    live = memory.directory.groups["g1"]
    for at in (1, 2):
        observed = memory.directory.observe_peers(Leases((StoredLease(promoted, nodes[1], at, False),)))
    assert observed.broker_groups == ["g1"]
    assert live.node is not None
    assert (live.membership.master, live.node.address, live.state) == ("b", "10.0.0.1:2", GroupState.READ_WRITE)
    assert live.group.operator_state is OperatorState.NORMAL, "policies change with it, at the next load"
    # A database restored from a backup names the old master.
    for at in (3, 4):
        observed = memory.directory.observe_peers(Leases((StoredLease(REPLICATED, nodes[0], at, False),)))
        assert (observed.broker_groups, live.membership.master, live.node.address) == ([], "b", "10.0.0.1:2")
