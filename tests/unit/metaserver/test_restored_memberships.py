"""What a metaserver does about a membership that is stored as it was in a backup."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.memory.registration_rules import check_values
from metaserver.replication.restored_memberships import RESTORED_SECONDS, Recovery, RestoredMemberships
from qmq.errors import ProtocolError
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest
from qmq_node.replication.rules.membership import ChangeRejected, Membership
from tests.support.stored_groups import changed
from tests.unit.metaserver.clusters import Cluster

NEWEST = Membership("g1", ("a", "b"), "a", ("a",), 3, 9, "p3", 1)
"""As the master and the metaserver know it: b was removed from the set."""
STORED = replace(NEWEST, in_sync=("a", "b"), version=8, in_sync_min=2)
"""As it is stored after the restore."""


class Scene:
    """A metaserver that knows the newest membership of a group, or another one, and reads an older one."""

    def __init__(self, known: Membership = NEWEST) -> None:
        self.cluster = Cluster()
        self.directory, self.clock = self.cluster.directory, self.cluster.clock
        self.started: list[tuple[str, MembershipWish, Callable[[str], None]]] = []
        self.recorded: list[tuple[tuple[int, int], Callable[[], None]]] = []
        self.memberships = RestoredMemberships(
            self.directory,
            lambda *started: self.started.append(started),
            lambda name, place, then: self.recorded.append((place, then)),
        )
        group = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, replace(known, in_sync_min=2, copies=2))
        self.cluster.load(Metadata((group,)))

    def second(self, *reports: NodeRegisterRequest) -> None:
        """A second passes, in which these heartbeats arrive."""
        self.clock.advance(1)
        for report in reports:
            assert self.directory.register(report).answer.accepted
        self.memberships.check(self.clock.monotonic())

    def restore(self, membership: Membership = STORED) -> None:
        self.directory.learn_membership(membership)

    @property
    def newest_place(self) -> tuple[int, int]:
        return self.directory.newest_place("g1")

    @property
    def blocked(self) -> str:
        return self.memberships.blocked.get("g1", "")


def heartbeat(node: str, **values: object) -> NodeRegisterRequest:
    request = NodeRegisterRequest(
        BrokerRequestType.HEARTBEAT, "g1", node, "broker", 0, f"10.0.0.{ord(node)}:1", "", 1, 3, 5000, 1, "1",
        boot_id=node, promotion_id="p3", log_epoch=3, replica_role=ReplicaRole.MASTER,
    )  # fmt: skip
    return replace(request, **values)  # type: ignore[arg-type]


LEADS = heartbeat("a", led_membership=NEWEST.sent(""), counted=("a",))
FOLLOWS = heartbeat("b", replica_role=ReplicaRole.FOLLOWING, state=4)


def test_the_last_master_brings_a_restored_membership_up_to_date() -> None:
    scene = Scene()
    scene.second(LEADS)
    assert (scene.blocked, scene.started) == ("", [])
    scene.restore()
    for _ in range(round(RESTORED_SECONDS)):
        scene.second(LEADS)
        assert (scene.blocked, scene.started) == ("", []), "another metaserver may be ahead of this one"
    scene.second(LEADS)
    assert "older than epoch 3, version 9, which is known: the database was restored from a backup" in scene.blocked
    scene.second(LEADS)
    ((name, wish, ended),) = scene.started
    assert (name, wish.action, wish.is_recovery) == ("g1", "recover", True)
    assert "the membership is that of master a" in wish.reason
    membership = wish.change(STORED)
    assert membership == replace(NEWEST, version=10, in_sync_min=2), "the minimum is an operator's decision"
    ended("the database is away")
    scene.second(LEADS)
    assert len(scene.started) == 2, "it is tried again"
    scene.directory.learn_membership(membership)
    scene.second(LEADS)
    assert (scene.blocked, len(scene.started)) == ("", 2)


def test_nobody_but_the_last_master_brings_a_membership_up_to_date() -> None:
    scene = Scene()
    scene.restore()
    older = replace(NEWEST, epoch=2, version=20, promotion_id="p2")
    for _ in range(8):
        scene.second(FOLLOWS, heartbeat("a", replica_role=ReplicaRole.WAITING))
    assert scene.blocked
    scene.second(heartbeat("a", led_membership=older.sent(""), counted=("a", "b")), FOLLOWS)
    assert (scene.started, bool(scene.blocked)) == ([], True)


def test_a_report_that_was_received_before_the_restore_was_noticed_is_not_used() -> None:
    scene = Scene()
    scene.restore()
    scene.second(LEADS)
    scene.second(LEADS)
    for _ in range(3):
        scene.second()
    assert scene.blocked
    assert scene.started == [], "the last report may be older than the last change before the restore"
    scene.second(LEADS)
    assert len(scene.started) == 1


def test_a_membership_that_another_metaserver_changed_is_not_taken_for_a_restored_one() -> None:
    scene = Scene()
    # A member knows the next epoch before this metaserver reads it.
    for _ in range(2):
        scene.second(LEADS, replace(FOLLOWS, epoch=4))
        scene.directory.learn_membership(NEWEST)
    promoted = replace(NEWEST, epoch=4, version=10, master="b", in_sync=("b",), promotion_id="p4")
    scene.directory.learn_membership(promoted)
    for _ in range(6):
        scene.second(replace(FOLLOWS, epoch=4))
        assert scene.blocked == ""


@pytest.mark.parametrize(
    ("created_at_us", "is_learned"), [(0, True), (7, True), (8, False)], ids=["unknown", "the same", "created again"]
)
def test_a_newer_membership_of_the_route_file_is_that_of_the_same_group(created_at_us: int, is_learned: bool) -> None:
    cluster = Cluster()
    group = BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, STORED, created_at_us=7)
    cluster.load(Metadata((group,)))
    saved = replace(group.with_membership(NEWEST), created_at_us=created_at_us)
    cluster.directory.learn_newer_membership(saved)
    expected = NEWEST if is_learned else STORED
    assert cluster.directory.newest_place("g1") == expected.place
    cluster.directory.learn_newer_membership(changed(saved, epoch=2, known_place=(3, 12)))
    assert cluster.directory.newest_place("g1") == ((3, 12) if is_learned else expected.place)


@pytest.mark.parametrize("report", [LEADS, FOLLOWS], ids=["master", "slave"])
def test_a_membership_that_only_a_member_knows_is_noticed(report: NodeRegisterRequest) -> None:
    scene = Scene(STORED)
    scene.restore()
    scene.second(replace(report, membership_version=8, membership_in_sync=("a", "b")))
    assert (scene.newest_place, scene.recorded) == (STORED.place, [])
    scene.second(replace(report, membership_version=9, membership_in_sync=("a",)))
    assert scene.newest_place == NEWEST.place
    scene.restore()
    assert scene.directory.groups["g1"].restored_at == scene.clock.monotonic()


def test_a_node_that_is_no_member_knows_nothing_of_the_membership() -> None:
    scene = Scene(STORED)
    scene.second(
        heartbeat("z", replica_role=ReplicaRole.SPARE, state=4, membership_version=99, membership_in_sync=("z",))
    )
    assert scene.newest_place == STORED.place


def test_a_newer_membership_is_recorded_in_the_database_until_that_has_it() -> None:
    scene = Scene()
    scene.restore()
    scene.second()
    scene.second()
    ((place, ended),) = scene.recorded
    assert (place, scene.blocked) == (NEWEST.place, ""), "at once"
    ended()
    scene.second()
    assert len(scene.recorded) == 2, "it may have failed"
    scene.recorded[-1][1]()
    scene.restore(replace(STORED, known_place=NEWEST.place))
    scene.second()
    assert len(scene.recorded) == 2
    scene.restore(STORED)
    scene.second()
    assert len(scene.recorded) == 3, "it was restored once more"


def test_what_another_metaserver_recorded_is_known() -> None:
    scene = Scene(STORED)
    scene.restore(replace(STORED, known_place=NEWEST.place))
    for _ in range(5):
        scene.second(FOLLOWS)
    assert (scene.newest_place, bool(scene.blocked), scene.recorded) == (NEWEST.place, True, [])
    scene.restore(replace(NEWEST, version=10, known_place=NEWEST.place))
    scene.second(FOLLOWS)
    assert scene.blocked == ""


OTHER = replace(NEWEST, in_sync=("a", "b"))
"""Of the place of NEWEST: a restored membership that an operator changed."""


@pytest.mark.parametrize("other", [OTHER, replace(NEWEST, promotion_id="p3b")], ids=["set", "promotion"])
def test_another_membership_of_the_same_place_is_noticed(other: Membership) -> None:
    scene = Scene()
    scene.restore(other)
    assert scene.newest_place == (3, 10)
    assert scene.directory.groups["g1"].membership.content == NEWEST.content
    for _ in range(5):
        scene.second(LEADS)
        scene.restore(other)
    assert "older than epoch 3, version 10" in scene.blocked
    assert scene.recorded[0][0] == (3, 10)
    ((_, wish, _),) = scene.started
    membership = wish.change(other)
    assert (membership.place, membership.in_sync) == ((3, 11), ("a",))
    scene.restore(membership)
    scene.second(LEADS)
    assert (scene.blocked, scene.newest_place) == ("", (3, 11))


@pytest.mark.parametrize("is_reported_first", [True, False])
def test_a_member_that_knows_another_membership_of_the_same_place_is_noticed(is_reported_first: bool) -> None:
    scene = Scene(STORED)
    report = replace(FOLLOWS, membership_version=9, membership_in_sync=("a",))
    if is_reported_first:
        scene.second(report)
        scene.restore(OTHER)
    else:
        scene.restore(OTHER)
        scene.second(report)
    assert scene.newest_place == (3, 10)


def test_a_membership_of_the_route_file_with_the_place_of_the_stored_one_and_another_set_is_noticed() -> None:
    scene = Scene(OTHER)
    group = scene.directory.groups["g1"].group
    scene.directory.learn_newer_membership(group.with_membership(NEWEST))
    assert scene.newest_place == (3, 10)


def test_the_first_memberships_of_two_metaservers_may_differ() -> None:
    scene = Scene(replace(NEWEST, members=("a",)))
    scene.restore(first := Membership("g1", ("z",), "z", ("z",), 3, 9, "p3"))
    assert (scene.newest_place, scene.directory.groups["g1"].membership.master) == (first.place, "z")


def test_two_masters_of_one_epoch_decide_nothing() -> None:
    scene = Scene(OTHER)
    scene.restore(STORED)
    other = replace(NEWEST, master="b", promotion_id="p3b", in_sync=("b",))
    for _ in range(6):
        scene.second(LEADS, heartbeat("b", promotion_id="p3b", led_membership=other.sent(""), counted=("b",)))
    assert (scene.started, bool(scene.blocked)) == ([], True)


def test_a_recovery_changes_only_an_older_membership() -> None:
    recovery = Recovery(NEWEST.place, NEWEST, frozenset({"a", "b"}))
    assert recovery.applied_to(STORED).in_sync == ("a", "b")
    with pytest.raises(ChangeRejected, match="is not older than one that is known") as caught:
        recovery.applied_to(NEWEST)
    assert caught.value.is_stale
    with pytest.raises(ChangeRejected, match="leads epoch 3, and epoch 4 is known"):
        replace(recovery, newest_place=(4, 10)).applied_to(STORED)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"led_membership": None}, "counted members without the membership"),
        (
            {"led_membership": replace(NEWEST, broker_group="g2").sent("")},
            "leads a membership of group 'g2' with master 'a'",
        ),
        ({"led_membership": replace(NEWEST, master="b").sent("")}, "leads a membership of group 'g1' with master 'b'"),
        ({"counted": ("a", "z")}, "counts 'a, z': must be itself and other members"),
        ({"counted": ("b",)}, "counts 'b'"),
    ],
)
def test_a_membership_that_a_node_can_t_lead_is_refused(values: dict[str, object], text: str) -> None:
    check_values(LEADS)
    with pytest.raises(ProtocolError, match=text):
        check_values(replace(LEADS, **values))  # type: ignore[arg-type]
