"""Registrations of the nodes of a group that has a master: members, spares, and nodes without replication."""

from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.memory.live_groups import EXPIRY_SECONDS, Registered
from metaserver.memory.membership_wishes import Replacement, replacement
from metaserver.memory.registration_rules import NODES_PER_GROUP_MAX, check_values
from metaserver.requests.handlers import node_lines
from qmq.errors import ProtocolError
from qmq.protocol import group_memberships as wire
from qmq.protocol.codes import BrokerRequestType, ReplicaRole, Role
from qmq.protocol.extensions import NodeRegisterRequest
from qmq_node.replication.rules.membership import ChangeRejected, Membership
from tests.support.stored_groups import changed
from tests.unit.metaserver.clusters import REQUEST, Cluster

MEMBERSHIP = Membership("g1", ("g1-a",), "g1-a", ("g1-a",), 1, 0, "")
TWO_COPIES = replace(MEMBERSHIP, copies=2)
INCARNATION = "0123456789abcdef"
MASTER = {
    "boot_id": "boot-a",
    "incarnation": INCARNATION,
    "sync_address": "10.0.0.1:20882",
    "replica_role": ReplicaRole.MASTER,
}
SLAVE = {
    "node_id": "g1-b", "address": "10.0.0.2:20881", "admin_address": "10.0.0.2:20981", "boot_id": "boot-b", "log_end": 0,
    "state": 4, "replica_role": ReplicaRole.WAITING,
}  # fmt: skip
DELAY = {"kind": GroupKind.DELAY, "role": Role.DELAY_MASTER}


def membership_of(cluster: Cluster) -> Membership:
    return cluster.directory.groups["g1"].membership


def asked(cluster: Cluster, **values: object) -> Registered:
    """A registration of a slave, without the change that it asks for."""
    return cluster.directory.register(replace(cluster.usual, **{**SLAVE, **values}))  # type: ignore[arg-type]


@pytest.fixture(params=[{}, DELAY], ids=["broker", "delay"])
def group(request: pytest.FixtureRequest) -> Cluster:
    """A group that wants two copies and has one."""
    cluster = Cluster(request.param)
    cluster.send(**MASTER)
    assert cluster.directory.groups["g1"].membership.copies == 2
    return cluster


@pytest.fixture
def pair(group: Cluster) -> Cluster:
    """A group of a master and a slave."""
    assert group.send(**SLAVE).answer.accepted
    assert membership_of(group).members == ("g1-a", "g1-b")
    return group


def test_an_empty_node_becomes_a_member_when_the_group_lacks_a_copy(group: Cluster) -> None:
    registered = asked(group)
    assert registered.wish is not None
    assert (registered.wish.action, registered.wish.reason) == ("add_member", "the group has 1 of 2 copies")
    assert membership_of(group) == TWO_COPIES, "not before the change is stored"
    changed = registered.wish.change(TWO_COPIES)
    assert changed == replace(
        TWO_COPIES, members=("g1-a", "g1-b"), version=1, joining=("g1-b",), incarnations=(INCARNATION, "")
    )
    group.directory.learn_membership(changed)
    again = asked(group)
    assert (again.wish, again.group) == (None, None)
    answer = again.answer
    assert (answer.accepted, answer.reason, answer.state) == (True, "", 4)
    assert answer.membership == wire.GroupMembership(
        "g1", 1, "", "g1-a", "10.0.0.1:20882", 1, 2, ("g1-a", "g1-b"), ("g1-a",), joining=0b10, incarnations=(INCARNATION, ""),
        sync_addresses=("10.0.0.1:20882", ""),
    )  # fmt: skip
    assert group.route == ("10.0.0.1:20881", GroupState.READ_WRITE)


def test_a_group_whose_copies_were_lowered_gets_no_member(group: Cluster) -> None:
    """Also by a metaserver that has not read the number of copies since."""
    registered = asked(group)
    assert registered.wish is not None
    with pytest.raises(ChangeRejected, match="broker group g1 has 1 of 1 copies") as rejected:
        registered.wish.change(replace(TWO_COPIES, copies=1))
    assert rejected.value.is_stale


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"log_end": 1}, "its data folder is not empty"),
        ({"request_type": BrokerRequestType.OFFLINE}, "the change of the group's membership is not stored yet"),
    ],
)
def test_a_node_that_can_not_become_a_member_is_a_spare(group: Cluster, values: dict[str, object], reason: str) -> None:
    registered = asked(group, **values)
    assert registered.wish is None
    assert registered.answer.accepted
    assert reason in registered.answer.reason
    assert membership_of(group) == TWO_COPIES


def test_a_node_beyond_the_copies_is_a_spare(pair: Cluster) -> None:
    registered = asked(pair, node_id="g1-c", address="10.0.0.3:1")
    assert registered.wish is None
    assert (registered.answer.accepted, registered.answer.state) == (True, 4)
    assert "has all of its 2 copies" in registered.answer.reason
    assert registered.answer.membership is not None
    assert registered.answer.membership.members == ("g1-a", "g1-b")


def test_a_silent_master_of_two_members_is_replaced_by_no_registration(pair: Cluster) -> None:
    pair.clock.advance(EXPIRY_SECONDS + 1)
    for values in ({}, {"node_id": "g1-c", "address": "10.0.0.3:1"}, {"log_end": 5000}):
        registered = asked(pair, **values)
        assert (registered.wish, registered.answer.accepted) == (None, True)
    registered = asked(pair, boot_id="")
    assert (registered.wish, registered.answer.code) == (None, "node.group_taken")
    assert "has no replication" in registered.answer.reason
    assert membership_of(pair).master == "g1-a"


def test_a_node_without_replication_is_no_slave(group: Cluster) -> None:
    """It would serve as soon as its registration is accepted."""
    assert asked(group, boot_id="").answer.code == "node.group_taken"
    assert "g1-b" not in group.directory.nodes


def test_a_group_whose_master_has_no_replication_gets_no_member() -> None:
    cluster = Cluster()
    cluster.send()
    cluster.load(Metadata((changed(cluster.directory.groups["g1"].group, copies=2),)))
    registered = asked(cluster)
    assert (registered.wish, registered.answer.accepted) == (None, True)
    cluster.send(**MASTER)
    assert asked(cluster).wish is not None


@pytest.mark.parametrize("boot_id", ["", "boot-b"])
def test_the_only_member_is_replaced_when_its_lease_has_expired(boot_id: str) -> None:
    cluster = Cluster()
    cluster.send()
    assert cluster.directory.groups["g1"].membership.copies == 1
    assert asked(cluster, boot_id=boot_id).wish is None
    cluster.clock.advance(EXPIRY_SECONDS + 1)
    assert asked(cluster, boot_id=boot_id, request_type=BrokerRequestType.OFFLINE).wish is None
    registered = asked(cluster, boot_id=boot_id, epoch=3, log_end=9000)
    assert registered.wish is not None
    assert (registered.wish.action, registered.wish.reason) == (
        "replace_member", "node g1-b replaces g1-a, which is silent",
    )  # fmt: skip
    changed = registered.wish.change(MEMBERSHIP)
    assert (changed.members, changed.in_sync, changed.master) == (("g1-b",), ("g1-b",), "g1-b")
    assert changed.place == (4, 1), "above what the node has on disk"
    assert changed.promotion_id
    cluster.directory.learn_membership(changed)
    assert asked(cluster, boot_id=boot_id, log_end=9000, state=1).answer.state == 1
    assert cluster.route == ("10.0.0.2:20881", GroupState.READ_WRITE)
    assert cluster.code() == "node.group_taken", "the former member is one no more"


def test_a_replacement_is_for_one_membership_of_one_member() -> None:
    change = Replacement(1, 0, "g1-b", 2, "p2", 1)
    with pytest.raises(ChangeRejected, match="the membership has epoch 1, version 1") as rejected:
        change.applied_to(replace(MEMBERSHIP, version=1))
    assert rejected.value.is_stale
    with pytest.raises(ChangeRejected, match="has 2 members; one of them is promoted"):
        change.applied_to(replace(MEMBERSHIP, members=("g1-a", "g1-b")))
    with pytest.raises(ChangeRejected, match="epoch 1 is not above 1"):
        replace(change, new_epoch=1).applied_to(MEMBERSHIP)
    with pytest.raises(ChangeRejected, match="broker group g1 is to have 2 copies") as rejected:
        change.applied_to(TWO_COPIES)
    assert rejected.value.is_stale


def test_a_replacement_that_waited_for_the_database_is_not_made_if_the_old_member_is_back() -> None:
    group = BrokerGroup(
        GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", ("g1-a",), "g1-a", ("g1-a",), 1, 0, "")
    )
    request = NodeRegisterRequest(0, "g1", "g1-b", "broker", 0, "10.0.0.2:1", "", 4, 1, 0, 0, "1", boot_id="b")
    silent = True
    wish = replacement(group, request, "p2", lambda: silent)
    assert wish.change(group.membership).master == "g1-b"
    silent = False
    with pytest.raises(ChangeRejected, match="node g1-a of broker group g1 sends heartbeats again"):
        wish.change(group.membership)


@pytest.mark.parametrize("kind", GroupKind)
def test_the_first_node_of_an_announced_group_is_its_only_member(kind: GroupKind) -> None:
    cluster = Cluster({"kind": kind})
    announced = BrokerGroup(kind, GroupState.OFFLINE, Membership("g1", (), "", (), 0, 0, "", copies=2))
    cluster.load(Metadata((announced,)))
    registered = cluster.send(**MASTER, promotion_id="")
    assert registered.group is not None
    assert membership_of(cluster) == registered.group.membership == replace(TWO_COPIES, version=1)
    cluster.load(Metadata((announced,)))
    assert membership_of(cluster).master == "g1-a", "what is not stored yet is kept"


def test_an_unapproved_group_gets_no_member() -> None:
    cluster = Cluster(approves_new_groups=lambda name: False)
    cluster.send(**MASTER)
    registered = asked(cluster)
    assert (registered.wish, registered.answer.code) == (None, "broker_group.unapproved")
    cluster.clock.advance(EXPIRY_SECONDS + 1)
    assert asked(cluster).wish is None
    assert cluster.directory.groups["g1"].group.operator_state is OperatorState.UNAPPROVED


def test_a_slave_is_bound_to_its_address_while_it_runs(pair: Cluster) -> None:
    other = {"address": "10.6.6.6:20881"}
    assert asked(pair, **other).answer.code == "node.address_bound"
    assert asked(pair, broker_group="g2").answer.code == "node.id_taken"
    assert asked(pair, request_type=BrokerRequestType.OFFLINE, started_at_ms=7).answer.code == "node.restarted"
    pair.clock.advance(EXPIRY_SECONDS + 1)
    moved = asked(pair, broker_group="g2").answer
    assert (moved.code, "is a member of broker group g1" in moved.reason) == ("node.id_taken", True)
    assert asked(pair, **other).answer.accepted


def test_heartbeats_of_a_slave_keep_no_master_alive(pair: Cluster) -> None:
    for _ in range(round(2 * EXPIRY_SECONDS) - 1):
        assert pair.route[1] is GroupState.READ_WRITE, "there may be a promotion"
        pair.send(**SLAVE, request_type=BrokerRequestType.HEARTBEAT)
    assert pair.route == ("10.0.0.1:20881", GroupState.OFFLINE)


def test_nodes_of_a_group_have_a_limit_and_silent_spares_are_forgotten(group: Cluster) -> None:
    def spare(number: int) -> str:
        return asked(group, node_id=f"s{number}", address=f"10.0.1.{number}:1", log_end=1).answer.code

    assert {spare(number) for number in range(1, NODES_PER_GROUP_MAX)} == {""}
    assert spare(NODES_PER_GROUP_MAX) == "broker_group.too_many_nodes"
    assert group.code(**MASTER) == "", "members are always accepted"
    group.clock.advance(EXPIRY_SECONDS + 1)
    assert group.code(**MASTER) == ""
    assert list(group.directory.groups["g1"].reports) == ["g1-a"]
    assert spare(NODES_PER_GROUP_MAX) == ""


def test_a_membership_older_than_what_a_member_reports_comes_from_a_backup(pair: Cluster) -> None:
    assert pair.directory.newest_place("g1") == (1, 1)
    asked(pair, node_id="g1-c", address="10.0.0.3:1", epoch=9)
    assert pair.directory.newest_place("g1") == (1, 1), "a spare may come from anywhere"
    asked(pair, epoch=4)
    assert pair.directory.newest_place("g1") == (4, 0)


def test_t7_a_log_that_is_truncated_in_a_newer_epoch_is_no_older_copy(pair: Cluster) -> None:
    assert pair.send(**MASTER, log_epoch=2, log_end=4000).answer.reason == ""
    assert pair.route[1] is GroupState.READ_WRITE
    registered = pair.send(**MASTER, log_epoch=2, log_end=3999)
    assert "had reached 4000" in registered.answer.reason
    assert pair.send(**MASTER, log_epoch=1, log_end=5000).answer.state == 2, "an older copy with a longer log"
    assert pair.send(**MASTER, log_epoch=2, log_end=4000).answer.reason == ""


def test_slaves_are_listed_with_their_own_state(pair: Cluster) -> None:
    pair.send(**SLAVE, request_type=BrokerRequestType.HEARTBEAT)
    lines = {line.node_id: (line.state, line.seen_at_ms) for line in node_lines(pair.directory, 100_000)}
    assert lines == {"g1-a": ("read_write", 97_000), "g1-b": ("offline", 99_000)}
    asked(pair, state=2)
    pair.clock.advance(2)
    lines = {line.node_id: (line.state, line.seen_at_ms) for line in node_lines(pair.directory, 100_000)}
    assert lines["g1-b"] == ("read_only", 98_000)
    pair.clock.advance(EXPIRY_SECONDS)
    lines = {line.node_id: (line.state, line.seen_at_ms) for line in node_lines(pair.directory, 100_000)}
    assert lines["g1-b"] == ("offline", 92_000)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"sync_address": "10.0.0.1"}, "sync address '10.0.0.1': must be HOST:PORT"),
        ({"sync_address": "http://h:1"}, "must be HOST:PORT"),
        ({"sync_address": "h:70000"}, "must be HOST:PORT"),
        ({"boot_id": "a\u200b"}, "boot id"),
        ({"rack": "r\x00"}, "rack"),
    ],
)
def test_values_that_no_node_sends_are_refused(values: dict[str, str], problem: str) -> None:
    check_values(replace(REQUEST, **MASTER, rack="r1"))  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=problem):
        check_values(replace(REQUEST, **values))
