"""Leases that other metaservers stored: only whether they change counts, never whose clock they were written by."""

import asyncio
import random
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Leases, Metadata, Node, StoredLease
from metaserver.memory.directory import Directory
from metaserver.memory.live_groups import DATABASE_SECONDS, EXPIRY_SECONDS, LEASE_SECONDS, PEER_EXPIRY_SECONDS
from metaserver.stored.stored_metadata import StoredMetadata
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest
from qmq_node.replication.rules.membership import Membership
from tests.support.manual_clock import ManualClock

GROUP = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, Membership("g1", (), "a", ("a",), 1, 0, ""))
NODE = Node("a", "g1", 0, "10.0.0.1:1", "", "1", 0)


class Observer:
    """A directory that loaded the group and receives no heartbeat of it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.directory = Directory(self.clock, random.Random(1))
        asyncio.run(StoredMetadata(self.directory, self.clock).load(Metadata((GROUP,), (NODE,))))

    def second(self, stored: int | None, peer: int | None = None, *, is_own: bool = False) -> None:
        """One second, then what the database holds; None: the database is away."""
        self.clock.advance(0.5)
        self.directory.expire()
        self.clock.advance(0.5)
        self.directory.expire()
        if stored is not None:
            peers = {} if peer is None else {"b": peer}
            self.directory.observe_peers(Leases((StoredLease(GROUP, NODE, stored, is_own),), peers))

    @property
    def is_online(self) -> bool:
        return self.directory.groups["g1"].state is not GroupState.OFFLINE


@pytest.mark.parametrize("step", [1, -1, 3_600_000_000])
def test_a_lease_that_changes_is_alive_whatever_the_clock_that_wrote_it(step: int) -> None:
    observer = Observer()
    for second in range(60):
        observer.second(1_000_000 + step * (second // 3))
        assert observer.is_online


def test_a_lease_that_stands_still_is_over_after_the_peers_expiry() -> None:
    observer = Observer()
    for second in range(20):
        observer.second(second)
    seconds = 0
    while observer.is_online:
        observer.second(19)
        seconds += 1
    assert PEER_EXPIRY_SECONDS < seconds <= PEER_EXPIRY_SECONDS + 1


def test_an_old_lease_of_a_dead_node_does_not_look_alive_after_a_start() -> None:
    observer = Observer()
    for _ in range(round(EXPIRY_SECONDS) + 1):
        observer.second(7)
    assert not observer.is_online


def test_the_own_stored_leases_are_no_sign_of_another_metaserver() -> None:
    observer = Observer()
    for second in range(round(EXPIRY_SECONDS) + 1):
        observer.second(second, is_own=True)
    assert not observer.is_online


def test_with_a_peer_nothing_expires_while_the_database_is_away() -> None:
    observer = Observer()
    for second in range(20):
        observer.second(second, peer=second)
    for _ in range(60):
        observer.second(None)
        assert observer.is_online
    seconds = 0
    while observer.is_online:
        observer.second(19, peer=100 + seconds)
        seconds += 1
    assert LEASE_SECONDS < seconds <= PEER_EXPIRY_SECONDS + 1


def test_a_peer_that_stopped_long_ago_is_none() -> None:
    observer = Observer()
    for second in range(20):
        observer.second(second, peer=5)
    seconds = 0
    while observer.is_online:
        observer.second(None)
        seconds += 1
    assert seconds <= PEER_EXPIRY_SECONDS + 1


def test_a_stored_state_is_followed_once() -> None:
    observer = Observer()
    for second in range(3):
        observer.second(second)
    read_only = replace(GROUP, state=GroupState.READ_ONLY)
    lease = StoredLease(read_only, replace(NODE, address="10.0.0.1:2"), 9, False)
    assert observer.directory.observe_peers(Leases((lease,))).broker_groups == ["g1"]
    assert observer.directory.observe_peers(Leases((lease,))).broker_groups == []
    live = observer.directory.groups["g1"]
    assert live.node is not None
    assert (live.state, live.node.address) == (GroupState.READ_ONLY, "10.0.0.1:2")


def receive(observer: Observer, address: str, request_type: BrokerRequestType) -> None:
    """A registration arrives at the observer itself."""
    request = NodeRegisterRequest(request_type, "g1", "a", "broker", 0, address, "", 1, 1, 0, 0, "1")
    assert observer.directory.register(request).answer.accepted


def test_a_group_whose_heartbeats_arrive_here_is_never_followed() -> None:
    observer = Observer()
    for second in range(3):
        observer.second(second)
    receive(observer, "10.0.0.1:1", BrokerRequestType.OFFLINE)
    receive(observer, "10.0.0.1:2", BrokerRequestType.HEARTBEAT)
    # Stored by the other metaserver before the node moved: an older address, and an older verdict.
    observed = observer.directory.observe_peers(Leases((StoredLease(GROUP, NODE, 8, False),)))
    assert (observed.broker_groups, observed.contradicted) == ([], [])
    offline = StoredLease(replace(GROUP, state=GroupState.OFFLINE), NODE, 9, False)
    observed = observer.directory.observe_peers(Leases((offline,)))
    assert observed.contradicted == [], "the other metaserver may have received a newer heartbeat"
    observer.clock.advance(1.0)
    receive(observer, "10.0.0.1:2", BrokerRequestType.HEARTBEAT)
    observed = observer.directory.observe_peers(Leases((offline,)))
    live = observer.directory.groups["g1"]
    assert (observed.broker_groups, observed.contradicted) == ([], [live.group])
    assert live.node is not None
    assert (live.state, live.node.address) == (GroupState.READ_WRITE, "10.0.0.1:2")


def test_a_state_that_a_peer_stored_later_replaces_the_own_one() -> None:
    observer = Observer()
    for second in range(3):
        observer.second(second)
    observed = observer.directory.observe_peers(Leases((StoredLease(GROUP, NODE, 9, False),)))
    assert (observed.replaced, observed.broker_groups) == (["g1"], [])
    receive(observer, "10.0.0.1:1", BrokerRequestType.HEARTBEAT)
    observed = observer.directory.observe_peers(Leases((StoredLease(GROUP, NODE, 10, False),)))
    assert observed.replaced == []


def test_what_a_dead_node_reported_here_is_not_replaced_by_what_was_stored_before() -> None:
    """The database was away while a node came and died: its address and log end are not stored yet."""
    observer = Observer()
    offline = StoredLease(replace(GROUP, state=GroupState.OFFLINE), NODE, 5, False)
    observer.directory.observe_peers(Leases((offline,)))
    receive(observer, "10.0.0.1:2", BrokerRequestType.HEARTBEAT)
    observer.clock.advance(60.0)
    observed = observer.directory.observe_peers(Leases((offline,)))
    assert (observed.replaced, observed.broker_groups) == ([], ["g1"])


def test_a_contradiction_that_ends_before_the_next_heartbeat_is_none() -> None:
    observer = Observer()
    receive(observer, "10.0.0.1:1", BrokerRequestType.HEARTBEAT)
    offline = StoredLease(replace(GROUP, state=GroupState.OFFLINE), NODE, 9, False)
    for lease in (offline, StoredLease(GROUP, NODE, 10, False), offline):
        assert observer.directory.observe_peers(Leases((lease,))).contradicted == []
        observer.clock.advance(1.0)
        receive(observer, "10.0.0.1:1", BrokerRequestType.HEARTBEAT)


def test_a_peer_that_was_read_once_may_run() -> None:
    """The database goes away right after the start: the groups may be alive at the other metaserver."""
    observer = Observer()
    observer.second(1, peer=1)
    for _ in range(60):
        observer.second(None)
        assert observer.is_online


def test_a_peer_that_the_route_file_knows_may_run() -> None:
    observer = Observer()
    observer.directory.assume_peers()
    for _ in range(60):
        observer.second(None)
        assert observer.is_online
    # Once the database is read, there is none.
    seconds = 0
    while observer.is_online:
        observer.second(1)
        seconds += 1
    assert seconds <= PEER_EXPIRY_SECONDS + 1


def test_after_a_start_and_a_pause_groups_of_peers_have_the_expiry_of_peers() -> None:
    observer = Observer()
    seconds = 0
    while observer.is_online:
        observer.second(1, peer=seconds)
        seconds += 1
    assert PEER_EXPIRY_SECONDS - 1 < seconds <= PEER_EXPIRY_SECONDS + 1
    observer = Observer()
    for second in range(20):
        observer.second(second, peer=second)
    observer.clock.advance(30.0)
    seconds = 0
    while observer.is_online:
        observer.second(19, peer=100 + seconds)
        seconds += 1
    assert PEER_EXPIRY_SECONDS - 1 < seconds <= PEER_EXPIRY_SECONDS + 1


def test_a_metaserver_that_can_not_read_what_a_peer_may_have_read_names_no_policy() -> None:
    observer = Observer()
    observer.directory.policies.set(*observer.directory.policies.encoded({}))
    request = NodeRegisterRequest(
        BrokerRequestType.HEARTBEAT, "g1", "a", "broker", 0, "10.0.0.1:1", "", 1, 1, 0, 0, "1"
    )

    def named() -> str:
        return observer.directory.register(request).answer.policy_version

    for _ in range(20):
        observer.second(None)
        assert named(), "without a peer nobody knows a newer one"
    for second in range(3):
        observer.second(second, peer=second)
    seconds = 0
    while named():
        observer.second(None)
        seconds += 1
    assert LEASE_SECONDS < seconds <= LEASE_SECONDS + 1
    observer.second(9, peer=9)
    assert named()


def test_nodes_are_told_whether_the_database_responds() -> None:
    observer = Observer()
    request = NodeRegisterRequest(
        BrokerRequestType.HEARTBEAT, "g1", "a", "broker", 0, "10.0.0.1:1", "", 1, 1, 0, 0, "1"
    )

    def is_away() -> bool:
        return observer.directory.register(request).answer.database_is_away

    observer.second(1)
    for _ in range(round(DATABASE_SECONDS)):
        assert not is_away()
        observer.second(None)
    observer.second(None)
    assert is_away()
    observer.second(2)
    assert not is_away()


def test_nodes_get_the_sync_address_of_a_master_whose_heartbeats_another_metaserver_stores() -> None:
    observer = Observer()
    directory, live = observer.directory, observer.directory.groups["g1"]
    assert directory.membership_on_wire(live).master_sync_address == ""
    stored = replace(NODE, sync_address="10.0.0.1:9")
    directory.take_changed_memberships()
    directory.observe_peers(Leases((StoredLease(GROUP, stored, 1, False),)))
    assert directory.membership_on_wire(live).master_sync_address == "10.0.0.1:9"
    assert directory.take_changed_memberships() == ["g1"], "the membership is sent once more"
    directory.observe_peers(Leases((StoredLease(GROUP, stored, 2, False),)))
    assert directory.take_changed_memberships() == []
    heartbeat = NodeRegisterRequest(
        BrokerRequestType.ONLINE, "g1", "a", "broker", 0, "10.0.0.1:1", "", 1, 1, 0, 1, "1", boot_id="a", sync_address="10.0.0.1:8"
    )  # fmt: skip
    assert directory.register(heartbeat).answer.accepted
    directory.observe_peers(Leases((StoredLease(GROUP, stored, 3, False),)))
    assert directory.membership_on_wire(live).master_sync_address == "10.0.0.1:8", (
        "what arrives here is newer than what is stored"
    )
    assert directory.take_changed_memberships() == ["g1"]
