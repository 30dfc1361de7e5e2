"""When a slave is promoted, which one, and when none is."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.domain import BrokerGroup, Leases, Metadata, StoredLease
from metaserver.memory.group_table import REPORTED_SECONDS
from metaserver.memory.live_groups import EXPIRY_SECONDS
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.replication.promotions import (
    LEARN_SECONDS,
    PROMOTIONS_MAX,
    RECONNECT_SECONDS,
    STORED_SECONDS,
    Promotions,
)
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.membership import Membership
from tests.support.stored_groups import changed
from tests.unit.metaserver.clusters import Cluster

HEARTBEAT, OFFLINE = BrokerRequestType.HEARTBEAT, BrokerRequestType.OFFLINE
MASTER, IN_SYNC, WAITING = ReplicaRole.MASTER, ReplicaRole.IN_SYNC, ReplicaRole.WAITING


def group(name: str, members: tuple[str, ...], **values: object) -> BrokerGroup:
    made = BrokerGroup(
        GroupKind.BROKER,
        GroupState.READ_WRITE,
        Membership(name, members, members[0], members, 3, 7, "p3", master_boot_id="a", copies=3),
    )
    return changed(made, **values)


class Groups:
    """A metaserver that has run for a while, and groups of three members whose heartbeats it receives."""

    def __init__(self, names: tuple[str, ...] = ("g1",), **values: object) -> None:
        self.cluster = Cluster()
        self.directory, self.clock = self.cluster.directory, self.cluster.clock
        self.names = names
        self.started: list[tuple[str, MembershipWish, Callable[[str], None]]] = []
        self.promotions = Promotions(self.directory, lambda *started: self.started.append(started))
        self.cluster.load(
            Metadata(tuple(group(name, tuple(f"{name}-{node}" for node in "abc"), **values) for name in names))
        )
        for _ in range(8):
            self.second(a={}, b={}, c={})
        assert self.started == []
        assert self.directory.groups["g1"].state is GroupState.READ_WRITE

    def second(self, **heartbeats: dict[str, object]) -> None:
        """A second passes; then heartbeats of these nodes of each group arrive, with what differs from the usual."""
        for _ in range(2):
            self.clock.advance(0.5)
            self.directory.expire()
            self.promotions.check(self.clock.monotonic())
        for name in self.names:
            for node, values in heartbeats.items():
                self.send(name, node, **values)
        self.promotions.check(self.clock.monotonic())

    def send(self, name: str, node: str, **values: object) -> None:
        group = self.directory.groups[name].group
        is_master = group.membership.master == f"{name}-{node}"
        request = NodeRegisterRequest(
            HEARTBEAT, name, f"{name}-{node}", group.kind, 0, f"10.0.0.{ord(node)}:1", "", 1 if is_master else 4, 3, 5000, 1, "1",
            boot_id=node, promotion_id="p3", log_epoch=3, replica_role=MASTER if is_master else IN_SYNC,
            master_silent_ms=-1 if is_master else 10,
        )  # fmt: skip
        assert self.directory.register(replace(request, **values)).answer.accepted  # type: ignore[arg-type]

    def promoted(self) -> tuple[str, str]:
        """(node id, reason) of the one promotion that was started, which is now stored."""
        (name, wish, ended), self.started = self.started[0], self.started[1:]
        membership = wish.change(self.directory.groups[name].membership)
        self.directory.learn_membership(membership)
        ended("")
        return membership.master, wish.reason

    @property
    def blocked(self) -> str:
        return self.promotions.blocked.get("g1", "")


DEAF = {"master_silent_ms": 3000}


def seconds_until_promotion(groups: Groups, **heartbeats: dict[str, object]) -> int:
    seconds = 0
    while not groups.started:
        groups.second(**heartbeats)
        seconds += 1
        assert seconds < 30, groups.blocked
    return seconds


@pytest.mark.parametrize("kind", GroupKind)
def test_a_slave_is_promoted_when_its_master_is_silent_and_the_group_is_not_announced_offline(kind: GroupKind) -> None:
    groups = Groups(kind=kind)
    seconds = seconds_until_promotion(groups, b=DEAF, c={**DEAF, "log_end": 5001})
    assert EXPIRY_SECONDS <= seconds <= EXPIRY_SECONDS + 1
    node, reason = groups.promoted()
    assert node == "g1-c"
    assert "master g1-a has sent no heartbeat for 6" in reason
    live = groups.directory.groups["g1"]
    assert (live.membership.epoch, live.membership.in_sync) == (4, ("g1-b", "g1-c"))
    for _ in range(9):
        groups.second(b=DEAF, c={"replica_role": ReplicaRole.PROMOTED, "epoch": 4, "state": 4})
        assert live.state is GroupState.READ_WRITE
    groups.second(b={}, c={"replica_role": MASTER, "epoch": 4, "log_epoch": 4, "state": 1})
    assert live.seen_by_clients[0] == "g1-c"
    assert groups.started == []


def test_what_another_metaserver_stores_of_a_new_master_does_not_announce_it_before_it_serves() -> None:
    groups = Groups()
    seconds_until_promotion(groups, b=DEAF, c=DEAF)
    assert groups.promoted()[0] == "g1-b"
    live = groups.directory.groups["g1"]
    for second in range(4):
        groups.second(b={"replica_role": ReplicaRole.PROMOTED, "epoch": 4, "state": 4}, c={})
        lease = StoredLease(live.group, groups.directory.nodes["g1-b"], second, False)
        groups.directory.observe_peers(Leases((lease,), {"m2": second}))
        assert live.seen_by_clients[0] == "g1-a"
    groups.second(b={"replica_role": MASTER, "epoch": 4, "log_epoch": 4, "state": 1}, c={})
    assert live.seen_by_clients[0] == "g1-b"


def test_a_member_that_is_preferred_is_promoted_of_equal_ones() -> None:
    groups = Groups(preferred=("g1-c", "g1-b"))
    seconds_until_promotion(groups, b=DEAF, c=DEAF)
    assert groups.promoted()[0] == "g1-c"


def test_a_connection_that_ended_is_enough_when_no_slave_receives_anything() -> None:
    groups = Groups()
    groups.directory.disconnected("g1-a")
    groups.second(b={"master_silent_ms": 900}, c={"master_silent_ms": 1000})
    assert groups.started == [], "a slave received something less than a second before its report"
    groups.second(b={"master_silent_ms": 1900}, c={"master_silent_ms": -1})
    _, reason = groups.promoted()
    assert "the connection of master g1-a has ended, and no slave receives anything of it" in reason


def test_slaves_report_after_the_connection_ended() -> None:
    groups = Groups()
    groups.second(a={}, b=DEAF, c=DEAF)
    groups.clock.advance(0.1)
    groups.directory.disconnected("g1-a")
    groups.second()
    assert groups.started == [], "the reports are older"
    groups.second(b=DEAF, c=DEAF)
    assert groups.promoted()[0] == "g1-b"


def test_a_master_that_connects_again_stays() -> None:
    groups = Groups()
    groups.directory.disconnected("g1-a")
    groups.clock.advance(RECONNECT_SECONDS / 2)
    groups.send("g1", "a")
    for _ in range(5):
        groups.second(a={}, b=DEAF, c=DEAF)
    assert groups.started == []


def test_a_slave_that_receives_something_of_a_master_keeps_it() -> None:
    """The metaserver is deaf for the master, not the slaves."""
    groups = Groups()
    for _ in range(10):
        groups.second(b={}, c={})
    assert groups.started == []
    assert "still receives commits of the master" in groups.blocked
    groups.second(a={}, b={}, c={})
    assert groups.blocked == ""


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"problems": (Reason("the log is damaged"),)}, "node g1-b: the log is damaged"),
        ({"replica_role": ReplicaRole.COPYING}, "node g1-b: its role is copying"),
        ({"log_end": 4999}, "node g1-b: its log ends at 4999, before the 5000 that it reported"),
        ({"request_type": OFFLINE}, "node g1-b does not send heartbeats"),
        ({"epoch": 5}, "had epoch 5, version 0 before: the database was restored from a backup"),
    ],
)
def test_a_member_that_is_unfit_is_not_promoted(values: dict[str, object], reason: str) -> None:
    groups = Groups()
    for _ in range(8):
        groups.second(b={**DEAF, **values})
    assert groups.started == []
    assert reason in groups.blocked


def test_a_group_without_a_candidate_is_offline_after_another_expiry() -> None:
    groups = Groups()
    seconds = 0
    while groups.directory.groups["g1"].state is GroupState.READ_WRITE:
        groups.second()
        seconds += 1
    assert 2 * EXPIRY_SECONDS <= seconds <= 2 * EXPIRY_SECONDS + 1
    assert "node g1-a does not send heartbeats; node g1-b does not send heartbeats" in groups.blocked


def test_a_master_that_restarted_gets_a_new_epoch_or_a_successor_at_once() -> None:
    groups = Groups()
    groups.second(a={"replica_role": WAITING, "state": 4}, b={"log_end": 5001}, c={})
    node, reason = groups.promoted()
    assert (node, reason.split(";")[0]) == ("g1-b", "master g1-a restarted and waits for a new epoch")
    groups = Groups()
    groups.second(a={"replica_role": WAITING, "state": 4, "log_end": 5002}, b={"log_end": 5001}, c={})
    assert groups.promoted()[0] == "g1-a"
    # It has not read the membership of its new epoch yet.
    groups.second(a={"replica_role": WAITING, "state": 4, "log_end": 5002}, b={"log_end": 5001}, c={})
    assert groups.started == []


def test_a_member_whose_connection_has_ended_is_not_promoted() -> None:
    groups = Groups()
    groups.second(a={}, b={"log_end": 6000}, c={})
    groups.directory.disconnected("g1-b")
    groups.second(a={"replica_role": WAITING, "state": 4}, c={"log_end": 5500})
    assert groups.promoted()[0] == "g1-c", "its log is shorter, and it runs for certain"


def test_a_master_that_lost_its_data_or_failed_is_replaced_at_once() -> None:
    groups = Groups()
    groups.second(a={"replica_role": WAITING, "state": 4, "epoch": 1, "promotion_id": "", "log_end": 0}, b={}, c={})
    assert groups.promoted() == ("g1-b", "master g1-a has lost its data; node g1-b is promoted")
    groups = Groups()
    problem = {"replica_role": ReplicaRole.FAILED, "state": 4, "problems": (Reason("its log is damaged"),)}
    groups.second(a=problem, b={}, c={})
    assert groups.promoted() == ("g1-b", "master g1-a does not lead: its log is damaged; node g1-b is promoted")
    groups = Groups()
    groups.second(a={"replica_role": WAITING, "state": 4, "epoch": 2, "promotion_id": "p2"}, b={}, c={})
    assert groups.started == [], "it has not read yet that it was promoted"
    groups.second(
        a={"replica_role": WAITING, "state": 4, "epoch": 2, "promotion_id": "p2", "boot_id": "later"}, b={}, c={}
    )
    assert groups.promoted()[1].startswith("master g1-a restarted and waits for a new epoch"), (
        "that process never leads"
    )


@pytest.mark.parametrize(
    "report",
    [
        {"replica_role": WAITING, "problems": (Reason("its data folder is empty"),)},
        {"replica_role": WAITING, "boot_id": "earlier"},
        {"replica_role": ReplicaRole.SPARE},
    ],
)
def test_what_a_node_reported_before_it_was_promoted_does_not_end_its_epoch(report: dict[str, object]) -> None:
    groups = Groups()
    groups.second(a={}, b=report, c={})
    membership = groups.directory.groups["g1"].membership
    groups.directory.learn_membership(
        replace(membership, master="g1-b", epoch=4, version=8, promotion_id="p4", master_boot_id="b")
    )
    groups.promotions.check(groups.clock.monotonic())
    assert groups.started == []
    groups.clock.advance(LEARN_SECONDS / 2)
    groups.send("g1", "b", **report)
    groups.promotions.check(groups.clock.monotonic())
    assert groups.started == [], "it was sent before the node learned of its promotion"
    groups.second(a={}, b=report, c={})
    assert groups.promoted()[1].startswith("master g1-b ")


def test_there_are_no_promotions_after_a_start_or_a_pause() -> None:
    groups = Groups()
    groups.clock.advance(30)
    groups.directory.expire()
    groups.promotions.check(groups.clock.monotonic())
    assert groups.started == []
    for _ in range(round(EXPIRY_SECONDS) - 1):
        groups.second(b=DEAF, c=DEAF)
        assert groups.started == []
    assert seconds_until_promotion(groups, b=DEAF, c=DEAF) <= 2


def test_a_master_that_reports_that_it_waits_is_promoted_also_after_a_pause() -> None:
    groups = Groups()
    groups.clock.advance(30)
    groups.directory.expire()
    for _ in range(round(REPORTED_SECONDS) - 1):
        groups.second(a={"replica_role": WAITING, "state": 4, "log_end": 5002})
        assert groups.started == [], "another member may know a newer membership"
    groups.second(a={"replica_role": WAITING, "state": 4, "log_end": 5002})
    assert groups.promoted()[0] == "g1-a", (
        "when all nodes start together, groups do not wait until the metaserver is steady"
    )


def test_there_are_no_promotions_while_peers_are_out_of_sight() -> None:
    groups = Groups()
    groups.directory.observe_peers(Leases((), {"m2": 1}))
    for _ in range(20):
        groups.second(b=DEAF, c=DEAF)
    assert groups.started == []


def test_a_heartbeat_that_another_metaserver_received_later_prevents_a_promotion() -> None:
    groups = Groups()
    live = groups.directory.groups["g1"]
    node = groups.directory.nodes["g1-a"]
    for second in range(12):
        lease = StoredLease(live.group, node, second, False)
        groups.directory.observe_peers(Leases((lease,), {"m2": second}))
        groups.second(b=DEAF, c=DEAF)
        assert groups.started == []
    # The last one was stored before the master died: read at most STORED_SECONDS after the last one that arrived here.
    groups = Groups()
    live = groups.directory.groups["g1"]
    for second in range(round(STORED_SECONDS)):
        lease = StoredLease(live.group, node, second, False)
        groups.directory.observe_peers(Leases((lease,), {"m2": second}))
        groups.second(b=DEAF, c=DEAF)
    for second in range(3):
        groups.directory.observe_peers(Leases((lease,), {"m2": 10 + second}))
        groups.second(b=DEAF, c=DEAF)
    assert groups.promoted()[0] == "g1-b"


def test_promotions_at_a_time_have_a_limit() -> None:
    groups = Groups(tuple(f"g{number}" for number in range(1, PROMOTIONS_MAX + 3)))
    seconds_until_promotion(groups, b=DEAF, c=DEAF)
    assert [name for name, *_ in groups.started] == [f"g{number}" for number in range(1, PROMOTIONS_MAX + 1)]
    assert set(groups.promotions.blocked.values()) == {f"{PROMOTIONS_MAX} other promotions are in progress"}
    groups.second(b=DEAF, c=DEAF)
    assert len(groups.started) == PROMOTIONS_MAX, "each is tried once at a time"
    assert groups.promoted()[0] == "g1-b"
    groups.second(b=DEAF, c=DEAF)
    assert groups.started[-1][0] == f"g{PROMOTIONS_MAX + 1}"


def test_a_promotion_with_an_unknown_outcome_is_tried_again() -> None:
    groups = Groups()
    seconds_until_promotion(groups, b=DEAF, c=DEAF)
    (_, wish, ended), groups.started = groups.started[0], []
    ended("the database does not respond")
    groups.second(b=DEAF, c=DEAF)
    assert groups.blocked == "the database does not respond"
    (_, again, _) = groups.started[0]
    membership = groups.directory.groups["g1"].membership
    assert again.change(membership).promotion_id != wish.change(membership).promotion_id


@pytest.mark.parametrize(
    "values",
    [
        {"members": ("g1-a",), "in_sync": ("g1-a",)},
        {"operator_state": OperatorState.UNAPPROVED},
    ],
)
def test_groups_that_have_no_promotions(values: dict[str, object]) -> None:
    cluster = Cluster()
    started: list[object] = []
    promotions = Promotions(cluster.directory, lambda *change: started.append(change))
    cluster.load(Metadata((changed(group("g1", ("g1-a", "g1-b")), **values),)))
    for _ in range(40):
        cluster.clock.advance(0.5)
        cluster.directory.expire()
        promotions.check(cluster.clock.monotonic())
    assert (started, promotions.blocked) == ([], {})


def test_a_node_without_replication_does_not_serve_a_group_with_slaves() -> None:
    groups = Groups()
    live = groups.directory.groups["g1"]
    request = replace(live.reports["g1-a"].request, boot_id="")
    answer = groups.directory.register(request).answer
    assert (answer.code, answer.accepted) == ("node.group_taken", False)
    assert "this node's version has no replication" in answer.reason


def test_a_sign_off_of_a_master_with_slaves_does_not_announce_the_group_offline() -> None:
    groups = Groups()
    groups.second(a={"request_type": OFFLINE}, b=DEAF, c=DEAF)
    assert groups.directory.groups["g1"].state is GroupState.READ_WRITE
    groups.directory.disconnected("g1-a")
    groups.second(b=DEAF, c=DEAF)
    assert groups.promoted()[0] == "g1-b"


# --- fitness -----------------------------------------------------------------------------------------------------------

FULL = {"limitations": (Reason("its disk is full"),)}


def test_a_member_with_a_full_disk_is_promoted_last() -> None:
    groups = Groups()
    seconds_until_promotion(groups, b={**DEAF, **FULL, "log_end": 9000}, c=DEAF)
    assert groups.promoted()[0] == "g1-c"
    groups = Groups()
    seconds_until_promotion(groups, b={**DEAF, **FULL})
    assert groups.promoted()[0] == "g1-b", "it serves what is stored"


def test_a_member_that_could_not_lead_is_promoted_after_others_and_after_a_pause() -> None:
    groups = Groups()
    seconds_until_promotion(groups, b={**DEAF, "log_end": 9000}, c=DEAF)
    assert groups.promoted()[0] == "g1-b"
    groups.clock.advance(LEARN_SECONDS)
    groups.send("g1", "c", **DEAF)
    # It started again, in another process, and its log is still the longest.
    groups.second(b={"replica_role": WAITING, "boot_id": "b2", "log_end": 9000, "state": 4})
    assert groups.promoted()[0] == "g1-c"
    groups = Groups()
    seconds_until_promotion(groups, b=DEAF)
    assert groups.promoted()[0] == "g1-b"
    groups.clock.advance(LEARN_SECONDS)
    groups.send("g1", "b", replica_role=WAITING, boot_id="b2", state=4)
    groups.promotions.check(groups.clock.monotonic())
    assert "node g1-b: it could not lead when it was promoted" in groups.blocked
    groups.clock.advance(0.5)
    groups.promotions.check(groups.clock.monotonic())
    assert groups.promoted()[0] == "g1-b"


def test_a_master_whose_disk_is_stuck_is_replaced_after_its_lease() -> None:
    groups = Groups()
    groups.second(a={"stuck_ms": 4000}, b={}, c={})
    assert groups.started == []
    groups.second(a={"stuck_ms": 5000}, b={}, c={})
    node, reason = groups.promoted()
    assert node == "g1-b"
    assert reason.startswith("master g1-a does not lead: its disk has not completed a write for 5.0 s")


def test_a_master_that_is_cut_off_from_slaves_that_run_is_replaced_and_not_again_at_once() -> None:
    groups = Groups()
    groups.second(a={"unreachable": ("g1-b", "g1-c")}, b=DEAF, c=DEAF)
    node, reason = groups.promoted()
    assert node == "g1-b"
    assert reason.startswith("master g1-a can't reach g1-b, g1-c, and g1-b, g1-c run")
    for _ in range(3):
        groups.second(
            a={"replica_role": ReplicaRole.FOLLOWING, "epoch": 4, "master_silent_ms": 10},
            b={"replica_role": MASTER, "epoch": 4, "unreachable": ("g1-c",), "state": 1},
            c={"epoch": 4},
        )
    assert groups.started == []


@pytest.mark.parametrize(
    ("b", "c"),
    [
        (DEAF, None),
        ({**DEAF, "problems": (Reason("its disk does not complete a write"),)}, DEAF),
        ({**DEAF, "replica_role": ReplicaRole.COPYING}, DEAF),
    ],
    ids=["one is gone", "a disk hangs", "one copies"],
)
def test_a_master_that_is_cut_off_stays_if_too_few_others_could_serve(
    b: dict[str, object], c: dict[str, object] | None
) -> None:
    groups = Groups()
    for _ in range(2):
        groups.second(a={}, b={})
    for _ in range(12):
        groups.second(a={"unreachable": ("g1-b", "g1-c")}, b=b, **({} if c is None else {"c": c}))
    assert groups.started == []
