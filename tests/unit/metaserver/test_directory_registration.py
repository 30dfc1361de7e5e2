"""Which registrations of nodes a metaserver accepts: one process for each lease, plausible log ends, approved groups (F-7)."""

from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.domain import BrokerGroup, Leases, Metadata, Node, StoredLease
from metaserver.memory.directory import UNAPPROVED_GROUPS_MAX
from metaserver.memory.live_groups import EXPIRY_SECONDS
from metaserver.memory.registration_rules import LOG_END_MAX, LOG_GROWTH_BYTES, LOG_GROWTH_BYTES_PER_SECOND
from qmq.protocol.codes import ClientType
from qmq.protocol.extensions import NodeRegisterResponse
from qmq.protocol.reasons import Code
from qmq_node.replication.rules.membership import Membership
from tests.unit.metaserver.clusters import HEARTBEAT, HOME, OFFLINE, ONLINE, REQUEST, Cluster

FORGED = "10.6.6.6:20881"


@pytest.fixture
def cluster() -> Cluster:
    found = Cluster()
    assert found.code() == ""
    return found


# --- one process for each lease ---


def test_f7_another_address_does_not_take_over_a_node_id_while_its_lease_runs(cluster: Cluster) -> None:
    for request_type in (ONLINE, HEARTBEAT, OFFLINE):
        for started_at_ms in (1000, 2000):
            values = {"request_type": request_type, "started_at_ms": started_at_ms, "log_end": 9000}
            assert cluster.code(address=FORGED, **values) == "node.address_bound"
            assert cluster.route == (HOME, GroupState.READ_WRITE)
            assert cluster.code(request_type=HEARTBEAT) == ""
    assert cluster.directory.nodes["g1-a"].log_end == 5000, "a refused registration changes nothing"


def test_f7_refused_registrations_do_not_prolong_a_lease(cluster: Cluster) -> None:
    refused = 0
    while cluster.code(address=FORGED):
        refused += 1
    assert EXPIRY_SECONDS - 1 <= refused <= EXPIRY_SECONDS + 1
    assert cluster.route[0] == FORGED, "a node may come back at another address when its lease has expired"


def test_a_restart_at_the_same_address_is_accepted_at_once(cluster: Cluster) -> None:
    assert cluster.code(started_at_ms=2000, admin_address="10.0.0.1:4000") == ""
    assert cluster.directory.nodes["g1-a"].admin_address == "10.0.0.1:4000"


def test_f7_the_admin_address_of_a_process_does_not_change(cluster: Cluster) -> None:
    assert cluster.code(request_type=HEARTBEAT, admin_address="169.254.169.254:80") == "node.address_bound"
    assert cluster.directory.nodes["g1-a"].admin_address == "10.0.0.1:20981"


def test_a_goodbye_ends_the_lease_and_one_of_an_earlier_process_does_not(cluster: Cluster) -> None:
    assert cluster.code(started_at_ms=2000) == ""
    assert cluster.code(request_type=OFFLINE) == "node.restarted"
    assert cluster.route == (HOME, GroupState.READ_WRITE)
    assert cluster.code(request_type=OFFLINE, started_at_ms=2000) == ""
    assert cluster.route == (HOME, GroupState.OFFLINE)
    assert cluster.code(address="10.0.0.2:20881", started_at_ms=3000) == ""
    assert cluster.route == ("10.0.0.2:20881", GroupState.READ_WRITE)


def test_f7_a_node_id_is_not_taken_into_another_group_while_its_lease_runs(cluster: Cluster) -> None:
    assert cluster.code(broker_group="g2") == "node.id_taken"
    assert list(cluster.directory.groups) == ["g1"]
    assert cluster.directory.nodes["g1-a"].broker_group == "g1"
    assert cluster.code(request_type=OFFLINE) == ""
    assert cluster.code(broker_group="g2") == ""


def test_a_refusal_has_a_code(cluster: Cluster) -> None:
    assert cluster.code(node_id="g1-b", address=FORGED) == "node.group_taken"
    assert cluster.code(kind="delay") == "node.kind_mismatch"


def test_an_address_from_the_database_is_bound_until_its_lease_has_expired() -> None:
    cluster = Cluster()
    group = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", (), "g1-a", ("g1-a",), 1, 0, ""))
    cluster.load(Metadata((group,), (Node("g1-a", "g1", 0, HOME, "10.0.0.1:20981", "1", 5000),)))
    assert cluster.code(address=FORGED) == "node.address_bound"
    # Which process registered is not stored: only one that has just connected may have another admin address.
    assert cluster.code(request_type=HEARTBEAT, admin_address="10.0.0.1:4000") == "node.address_bound"
    assert cluster.code(request_type=ONLINE, admin_address="10.0.0.1:4000") == ""
    cluster.send(request_type=OFFLINE)
    lease = StoredLease(group, Node("g1-a", "g1", 0, FORGED, "", "1", 5000), 1, False)
    cluster.clock.advance(EXPIRY_SECONDS + 1)
    cluster.directory.observe_peers(Leases((lease,)))
    cluster.directory.observe_peers(Leases((replace(lease, stored_at_us=2),)))
    assert cluster.route == (FORGED, GroupState.READ_WRITE), "it came back at another metaserver"
    assert cluster.code() == "node.address_bound"


# --- log ends ---


@pytest.mark.parametrize("log_end", [-1, LOG_END_MAX + 1, 1 << 62, -(1 << 62)])
def test_f7_an_impossible_log_end_is_refused(cluster: Cluster, log_end: int) -> None:
    assert cluster.code(log_end=log_end) == "node.log_end_invalid"
    assert cluster.code(broker_group="g2", node_id="g2-a", log_end=log_end) == "node.log_end_invalid"
    assert cluster.code() == ""
    assert cluster.route[1] is GroupState.READ_WRITE
    assert list(cluster.directory.groups) == ["g1"]


def test_f7_a_jump_of_the_log_end_is_refused(cluster: Cluster) -> None:
    most = 5000 + LOG_GROWTH_BYTES + LOG_GROWTH_BYTES_PER_SECOND
    assert cluster.code(log_end=most + 1) == "node.log_end_jump"
    assert cluster.code(log_end=5001) == ""
    assert cluster.route[1] is GroupState.READ_WRITE
    assert cluster.directory.nodes["g1-a"].log_end == 5001
    assert cluster.code(log_end=most) == ""


def test_a_log_that_grew_while_nothing_was_reported_is_plausible(cluster: Cluster) -> None:
    cluster.clock.advance(86_400)
    assert cluster.code(log_end=5000 + 86_400 * LOG_GROWTH_BYTES_PER_SECOND) == ""


@pytest.mark.parametrize("reported_at_ms", [0, 1 << 50])
def test_f7_a_jump_right_after_a_start_is_refused(reported_at_ms: int) -> None:
    """The time of the last report is unknown, or was stored by a clock that ran ahead."""
    cluster = Cluster()
    node = Node("g1-a", "g1", 0, HOME, "", "1", 5000, 0, reported_at_ms)
    cluster.load(Metadata((), (node,)))
    jump = 5000 + LOG_GROWTH_BYTES + 10 * LOG_GROWTH_BYTES_PER_SECOND
    assert cluster.code(log_end=jump + 1) == "node.log_end_jump"
    cluster.clock.advance(9)
    assert cluster.code(log_end=jump) == "", "a refusal does not last"


def test_the_log_end_of_a_master_applies_to_the_node_that_replaces_it(cluster: Cluster) -> None:
    cluster.clock.advance(EXPIRY_SECONDS + 1)
    registered = cluster.send(node_id="g1-b", address=FORGED, log_end=4000)
    assert registered.answer.accepted
    reason = NodeRegisterResponse.decode(registered.answer.encode()).reason
    assert (reason.code, reason.values) == (Code.OLDER_FOLDER, {"end": 4000, "highest": 5000})
    assert reason == registered.answer.reason
    assert cluster.route == (FORGED, GroupState.READ_ONLY)
    # Accepted by an operator: the version is newer, the log end the lower one.
    accepted = Node("g1-b", "g1", 0, FORGED, "", "1", 4000, 1)
    cluster.load(Metadata((), (accepted,)))
    assert cluster.send(node_id="g1-b", address=FORGED, log_end=4100).answer.reason == ""
    assert cluster.route == (FORGED, GroupState.READ_WRITE)


# --- new groups ---


@pytest.fixture
def strict() -> Cluster:
    """A metaserver whose new groups wait for approval, but those called java."""
    return Cluster(approves_new_groups=lambda name: name == "java")


def test_f7_a_new_group_serves_nobody_until_it_is_approved(strict: Cluster) -> None:
    registered = strict.send()
    assert (registered.answer.accepted, registered.answer.code) == (False, "broker_group.unapproved")
    assert registered.group is not None, "an operator sees what waits"
    assert (registered.group.state, registered.group.operator_state) == (GroupState.OFFLINE, OperatorState.UNAPPROVED)
    assert registered.node is not None
    assert strict.send(request_type=HEARTBEAT).group is None
    directory = strict.directory
    for client_type in (ClientType.PRODUCER, ClientType.CONSUMER):
        assert directory.any_usable(client_type) == ()
    assert directory.route_of("orders") == (None, False)
    group = replace(registered.group, operator_state=OperatorState.NORMAL)
    assert strict.load(Metadata((group,), (registered.node,))).broker_groups == {"g1"}
    assert strict.code(request_type=HEARTBEAT) == ""
    assert strict.route == (HOME, GroupState.READ_WRITE)
    assert [found.name for found in directory.any_usable(ClientType.PRODUCER)] == ["g1"]


def test_a_group_that_the_settings_allow_or_an_operator_announced_serves_at_once(strict: Cluster) -> None:
    assert strict.code(broker_group="java", node_id="java-a") == ""
    announced = BrokerGroup(GroupKind.BROKER, GroupState.OFFLINE, Membership("g1", (), "", (), 0, 0, ""))
    strict.load(Metadata((announced,)))
    assert strict.code() == ""


def test_f7_groups_that_wait_for_approval_have_a_limit(strict: Cluster) -> None:
    codes = [
        strict.directory.register(replace(REQUEST, broker_group=f"e{number}", node_id=f"e{number}-a")).answer.code
        for number in range(UNAPPROVED_GROUPS_MAX + 5)
    ]
    assert codes[UNAPPROVED_GROUPS_MAX - 1 :] == ["broker_group.unapproved", *["broker_group.too_many_unapproved"] * 5]
    assert len(strict.directory.nodes) == len(strict.directory.groups) == UNAPPROVED_GROUPS_MAX
    # What an operator announced, and what the settings allow, registers all the same.
    strict.load(Metadata((BrokerGroup(GroupKind.BROKER, GroupState.OFFLINE, Membership("g1", (), "", (), 0, 0, "")),)))
    assert strict.code() == ""
    assert strict.code(broker_group="java", node_id="java-a") == ""


def test_nothing_is_left_of_a_removed_group_that_waited(strict: Cluster) -> None:
    registered = strict.send()
    assert registered.group is not None
    assert registered.node is not None
    strict.load(Metadata((registered.group,), (registered.node,)))
    strict.load(Metadata())
    assert (strict.directory.groups, strict.directory.nodes) == ({}, {})
