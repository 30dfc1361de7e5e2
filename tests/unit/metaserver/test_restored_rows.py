"""What a metaserver does about a row that is stored as it was in a backup."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState
from metaserver.domain import BrokerGroup, Metadata
from metaserver.registration_rules import check_values
from metaserver.restored_rows import RESTORED_SECONDS, Recovery, RestoredRows
from metaserver.row_wishes import RowWish
from qmq.errors import ProtocolError
from qmq.protocol.codes import BrokerRequestType, ReplicaRole
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.replication.row import ChangeRejected, GroupRow
from tests.unit.metaserver.test_directory_registration import Cluster

NEWEST = GroupRow("g1", ("a", "b"), "a", ("a",), 3, 9, "p3", 1)
"""As the master and the metaserver know it: b was removed from the set."""
STORED = replace(NEWEST, in_sync=("a", "b"), version=8, in_sync_min=2)
"""As it is stored after the restore."""


class Scene:
    """A metaserver that knows the newest row of a group, and reads an older one."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.directory, self.clock = self.cluster.directory, self.cluster.clock
        self.started: list[tuple[str, RowWish, Callable[[str], None]]] = []
        self.rows = RestoredRows(self.directory, lambda *started: self.started.append(started))
        group = BrokerGroup("g1", GroupKind.BROKER, GroupState.READ_WRITE, 0, "", ()).with_group_row(NEWEST)
        self.cluster.load(Metadata((replace(group, copies=2),)))

    def second(self, *reports: NodeRegisterRequest) -> None:
        """A second passes, in which these heartbeats arrive."""
        self.clock.advance(1)
        for report in reports:
            assert self.directory.register(report).answer.accepted
        self.rows.check(self.clock.monotonic())

    def restore(self) -> None:
        self.directory.learn_row(STORED)

    @property
    def blocked(self) -> str:
        return self.rows.blocked.get("g1", "")


def heartbeat(node: str, **values: object) -> NodeRegisterRequest:
    request = NodeRegisterRequest(
        BrokerRequestType.HEARTBEAT, "g1", node, "broker", 0, f"10.0.0.{ord(node)}:1", "", 1, 3, 5000, 1, "1",
        boot_id=node, promotion_id="p3", log_epoch=3, replica_role=ReplicaRole.MASTER,
    )  # fmt: skip
    return replace(request, **values)  # type: ignore[arg-type]


LEADS = heartbeat("a", led_row=NEWEST.sent(""), counted=("a",))
FOLLOWS = heartbeat("b", replica_role=ReplicaRole.FOLLOWING, state=4)


def test_the_last_master_brings_a_restored_row_up_to_date() -> None:
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
    assert "the row is that of master a" in wish.reason
    row = wish.change(STORED)
    assert row == replace(NEWEST, version=10, in_sync_min=2), "the minimum is an operator's decision"
    ended("the database is away")
    scene.second(LEADS)
    assert len(scene.started) == 2, "it is tried again"
    scene.directory.learn_row(row)
    scene.second(LEADS)
    assert (scene.blocked, len(scene.started)) == ("", 2)


def test_nobody_but_the_last_master_brings_a_row_up_to_date() -> None:
    scene = Scene()
    scene.restore()
    older = replace(NEWEST, epoch=2, version=20, promotion_id="p2")
    for _ in range(8):
        scene.second(FOLLOWS, heartbeat("a", replica_role=ReplicaRole.WAITING))
    assert scene.blocked
    scene.second(heartbeat("a", led_row=older.sent(""), counted=("a", "b")), FOLLOWS)
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


def test_a_row_that_another_metaserver_changed_is_not_taken_for_a_restored_one() -> None:
    scene = Scene()
    # A member knows the next epoch before this metaserver reads it.
    for _ in range(2):
        scene.second(LEADS, replace(FOLLOWS, epoch=4))
        scene.directory.learn_row(NEWEST)
    promoted = replace(NEWEST, epoch=4, version=10, master="b", in_sync=("b",), promotion_id="p4")
    scene.directory.learn_row(promoted)
    for _ in range(6):
        scene.second(replace(FOLLOWS, epoch=4))
        assert scene.blocked == ""


@pytest.mark.parametrize(
    ("created_at_us", "is_learned"), [(0, True), (7, True), (8, False)], ids=["unknown", "the same", "created again"]
)
def test_a_newer_row_of_the_route_file_is_that_of_the_same_group(created_at_us: int, is_learned: bool) -> None:
    cluster = Cluster()
    group = BrokerGroup("g1", GroupKind.BROKER, GroupState.READ_WRITE, 0, "", ()).with_group_row(STORED)
    cluster.load(Metadata((replace(group, created_at_us=7),)))
    saved = replace(group.with_group_row(NEWEST), created_at_us=created_at_us)
    cluster.directory.learn_newer_row(saved)
    expected = NEWEST if is_learned else STORED
    assert cluster.directory.newest_place("g1") == expected.place
    cluster.directory.learn_newer_row(replace(saved, in_sync=("b",)))
    assert cluster.directory.groups["g1"].row.in_sync == expected.in_sync, (
        "of equal places that of the database is right"
    )


def test_a_recovery_changes_only_an_older_row() -> None:
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
        ({"led_row": None}, "counted members without the row"),
        ({"led_row": replace(NEWEST, broker_group="g2").sent("")}, "leads a row of group 'g2' with master 'a'"),
        ({"led_row": replace(NEWEST, master="b").sent("")}, "leads a row of group 'g1' with master 'b'"),
        ({"counted": ("a", "z")}, "counts 'a, z': must be itself and other members"),
        ({"counted": ("b",)}, "counts 'b'"),
    ],
)
def test_a_row_that_a_node_can_t_lead_is_refused(values: dict[str, object], text: str) -> None:
    check_values(LEADS)
    with pytest.raises(ProtocolError, match=text):
        check_values(replace(LEADS, **values))  # type: ignore[arg-type]
