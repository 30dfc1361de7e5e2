"""What operators decide about the members of a broker group: copies, minimum, order, and promotions that accept data loss."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.errors import ChangeRefused, Conflict, NotFound, Stale
from metaserver.memory.members import SILENT_MS
from metaserver.models import BrokerGroup, Node
from metaserver.reports import StoredReport
from metaserver.services import broker_groups, memberships
from metaserver.services import members as service
from metaserver.services.changes import METASERVER, Change
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import Membership
from tests.support.console.metadata import ACTOR, audit_rows, everything, last_audit

pytestmark = [pytest.mark.django_db, pytest.mark.database]
PROMOTION = "00000000-0000-4000-8000-000000000003"
MEMBERSHIP = Membership("g1", ("a", "b", "c"), "a", ("a", "b"), 3, 9, PROMOTION, copies=3)
REPORT = StoredReport("in_sync", 3, 3, 5000, 5000, 10, newest_place=(3, 9))
MASTER = replace(REPORT, role="master", log_end=6000, slaves={"b": 5900})


def report(node_id: str, found: StoredReport | None, *, seconds_ago: float = 0.0, log_end: int = 0) -> None:
    """Store the heartbeat of a node."""
    end = max(log_end, found.log_end if found is not None else 0)
    node = domain.Node(
        node_id, "g1", 0, f"{node_id}:1", "", "1", end, log_epoch=3, report=found.encoded() if found is not None else {}
    )
    broker_groups.save_node(node)
    Node.objects.filter(node_id=node_id).update(leased_at=timezone.now() - timedelta(seconds=seconds_ago))


@pytest.fixture(autouse=True, params=GroupKind)
def group(request: pytest.FixtureRequest) -> None:
    """A group whose master is gone; b is in sync, c is not."""
    stored = domain.BrokerGroup(request.param, GroupState.READ_WRITE, MEMBERSHIP)
    broker_groups.save_group(stored, actor=METASERVER, reason="registered")
    report("a", MASTER, seconds_ago=60)
    report("b", REPORT)
    report("c", replace(REPORT, role="following", log_end=400))


def membership() -> Membership:
    found = queries.broker_group("g1")
    assert found is not None
    return found.membership


def promote(node: str, accepted: int | None, **request: Any) -> Change:
    return service.promote("g1", node, accepted, actor=ACTOR, reason="disk lost", **request)


def set_copies(**values: Any) -> Change:
    return service.set_copies("g1", values, actor=ACTOR, reason="more copies")


# --- copies ---


def test_copies_minimum_and_order_are_set_with_an_audit_entry() -> None:
    change = set_copies(copies=3, in_sync_min=1, preferred=["c", "b"])
    assert change.after == {"copies": 3, "in_sync_min": 1, "preferred": ["c", "b"]}
    stored = queries.broker_group("g1")
    assert stored is not None
    membership = stored.membership
    assert (membership.copies, membership.in_sync_min, stored.preferred) == (3, 1, ("c", "b"))
    epoch, version = MEMBERSHIP.place
    assert stored.membership.place == (epoch, version + 1), "the master learns the minimum with the next version"
    entry = last_audit()
    assert (entry.action, entry.target, entry.reason, entry.after) == (
        "broker_group.set_copies", "g1", "more copies", change.after,
    )  # fmt: skip


def test_a_missing_copy_is_a_note() -> None:
    BrokerGroup.objects.filter(name="g1").update(members=["a"], in_sync=["a"])
    assert "2 more to start with an empty data folder: --broker-group g1" in set_copies(in_sync_min=1).notes[0]


@pytest.mark.parametrize(
    ("values", "field", "text"),
    [
        ({"copies": 0}, "copies", "1"), ({"copies": 4}, "copies", "3"), ({"copies": True}, "copies", "whole number"),
        ({"copies": 2}, "copies", "2 is below the number of members, 3"),
        ({"in_sync_min": 0}, "in_sync_min", "1"), ({"in_sync_min": 4}, "in_sync_min", "3"),
        ({"copies": "2"}, "copies", "whole number"),
        ({"preferred": ["z"]}, "preferred", "z: not a member; members are a, b, c"),
        ({"preferred": "a"}, "preferred", "list"), ({"preferred": ["a", "b", "c", "d"]}, "preferred", "3"),
        ({"other": 1}, "other", "unknown"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_refused(values: dict[str, Any], field: str, text: str) -> None:
    before = everything()
    with pytest.raises(ChangeRefused) as caught:
        set_copies(**values)
    assert list(caught.value.fields) == [field]
    assert text in caught.value.fields[field]
    assert everything() == before


def test_a_minimum_above_the_copies_is_refused_whichever_is_set() -> None:
    BrokerGroup.objects.filter(name="g1").update(members=["a"], in_sync=["a"], copies=2, in_sync_min=2)
    for values in ({"copies": 1}, {"in_sync_min": 3}):
        with pytest.raises(ChangeRefused, match="is above the number of copies"):
            set_copies(**values)
    assert set_copies(copies=1, in_sync_min=1).is_change


def test_a_delay_group_that_was_announced_has_two_copies_and_may_have_up_to_three() -> None:
    broker_groups.announce_group("d1", GroupKind.DELAY, actor=ACTOR)
    row = BrokerGroup.objects.get(name="d1")
    assert (row.copies, row.in_sync_min) == (2, 2)
    for copies in (1, 3):
        values = {"copies": copies, "in_sync_min": 1}
        assert service.set_copies("d1", values, actor=ACTOR).after == {**values, "preferred": []}


@pytest.mark.parametrize("is_reported", [True, False], ids=["reported", "recorded"])
@pytest.mark.parametrize("values", [{"copies": 3, "in_sync_min": 3}, {"in_sync_min": 1}, {"preferred": ["b"]}])
def test_nothing_is_set_while_the_membership_is_restored(values: dict[str, Any], is_reported: bool) -> None:
    epoch, version = MEMBERSHIP.place
    if is_reported:
        report("b", replace(REPORT, newest_place=(epoch, version + 1)))
    else:
        memberships.record_known("g1", (epoch, version + 1))
    before = everything(), membership()
    with pytest.raises(
        Conflict, match=r"can't be changed: the stored membership is older .* if it has ended, promote the member"
    ) as caught:
        set_copies(**values)
    assert caught.value.code == "broker_group.restored"
    assert (everything(), membership()) == before
    promote("b", service.members("g1").bytes_at_risk("b"))
    assert membership().place == (epoch + 1, version + 2)
    assert set_copies(**values).is_change


# --- promotions ---


@pytest.mark.parametrize("accepted", [None, 0, 5599, 5601])
def test_a_member_is_promoted_only_if_exactly_the_bytes_at_risk_are_accepted(accepted: int | None) -> None:
    before = everything()
    with pytest.raises(Conflict, match="may lose 5600 bytes") as caught:
        promote("c", accepted)
    assert caught.value.code == "broker_group.loss_not_accepted"
    planned = promote("c", accepted, dry_run=True)
    assert planned.after == {"master": "c", "epoch": "4", "bytes_at_risk": "5600"}
    assert everything() == before
    assert membership() == MEMBERSHIP


def test_an_operator_promotes_a_member_that_is_not_in_sync() -> None:
    change = promote("c", 5600)
    assert change.before == {"master": "a", "epoch": "3"}
    assert change.notes[0] == "Up to 5600 bytes of acknowledged messages are lost."
    assert "a, b: has messages that node c lacks" in change.notes[1]
    changed = membership()
    assert (changed.master, changed.in_sync, changed.epoch, changed.version) == ("c", ("c",), 4, 10)
    assert changed.promotion_id not in ("", PROMOTION)
    entry = last_audit()
    assert (entry.action, entry.actor, entry.reason) == ("broker_group.promote_by_operator", ACTOR.name, "disk lost")
    assert entry.after["accepted_loss_bytes"] == "5600"
    assert (entry.before["master"], entry.after["master"]) == ("a", "c")


def test_a_member_that_is_in_sync_is_promoted_without_loss() -> None:
    assert promote("b", 0).after == {"master": "b", "epoch": "4", "bytes_at_risk": "0"}
    assert membership().in_sync == ("b",)


def test_a_member_in_sync_whose_older_data_folder_was_put_back_is_promoted_only_with_its_loss() -> None:
    report("b", replace(REPORT, role="waiting", log_end=400))
    with pytest.raises(Conflict, match="Promoting node b may lose 5600 bytes of acknowledged messages; 0 is stated"):
        promote("b", 0)
    assert promote("b", 5600).after == {"master": "b", "epoch": "4", "bytes_at_risk": "5600"}


def test_after_a_restore_the_new_membership_is_above_the_newest_that_is_known() -> None:
    report("b", replace(REPORT, epoch=5, newest_place=(5, 30)))
    assert promote("c", 5600, dry_run=True).after == {"master": "c", "epoch": "6", "bytes_at_risk": "5600"}
    promote("b", 1000)
    assert membership().place == (6, 31)
    assert not service.members("g1").is_restored


def test_a_promoted_member_may_have_less_than_it_reported_once() -> None:
    report("c", replace(REPORT, role="waiting", log_end=400), log_end=5500)
    promote("c", 5600)
    node = Node.objects.get(node_id="c")
    assert (node.log_end, node.log_end_version) == (400, 1)


@pytest.mark.parametrize(
    ("node", "found", "seconds_ago", "text"),
    [
        ("c", REPORT, 60.0, "does not send heartbeats"),
        ("c", None, 0.0, "its version has no replication"),
        ("c", replace(REPORT, role="copying"), 0.0, "its role is copying"),
        ("c", replace(REPORT, role="failed", problems=(Reason("its log is damaged"),)), 0.0, "its log is damaged"),
        ("a", MASTER, 0.0, "Node a serves as master, and would acknowledge messages that node c lacks"),
    ],
)
def test_a_member_that_can_t_lead_is_not_promoted(
    node: str, found: StoredReport | None, seconds_ago: float, text: str
) -> None:
    report(node, found, seconds_ago=seconds_ago)
    with pytest.raises(Conflict, match=text):
        promote("c", 5600)
    assert membership() == MEMBERSHIP


DAMAGED = Reason.of(Code.LOG_DAMAGED, begin=100, end=300)
LACKS_END = Reason.of(Code.LOG_LACKS_END, begin=400, end=6100)


@pytest.mark.parametrize(
    ("node", "found", "at_risk"),
    [
        # In sync: it lacks nothing but what is damaged.
        ("b", replace(REPORT, problems=(DAMAGED,), damaged_bytes=150), 150),
        ("b", replace(REPORT, problems=(DAMAGED,), damaged_bytes=150, role="failed"), 150),
        # Not in sync, or with less than it reported: also what others have.
        ("c", replace(REPORT, role="following", log_end=400, problems=(DAMAGED,), damaged_bytes=150), 5750),
        ("b", replace(REPORT, role="waiting", log_end=400, problems=(LACKS_END,), lacks_to=5000), 5600),
        ("b", replace(REPORT, role="waiting", log_end=400, problems=(LACKS_END,), lacks_to=6100), 5700),
        ("c", replace(REPORT, role="waiting", log_end=400, problems=(LACKS_END,), lacks_to=6100, damaged_bytes=10), 5710),
    ],
)  # fmt: skip
def test_a_member_with_a_damaged_log_is_promoted_only_with_its_loss(
    node: str, found: StoredReport, at_risk: int
) -> None:
    report(node, found, log_end=5000 if node == "b" else 0)
    for wrong in (None, 0, at_risk - 1, at_risk + 1):
        with pytest.raises(Conflict, match=f"may lose {at_risk} bytes") as caught:
            promote(node, wrong)
        assert caught.value.code == "broker_group.loss_not_accepted"
    assert membership() == MEMBERSHIP
    change = promote(node, at_risk)
    assert change.after == {"master": node, "epoch": "4", "bytes_at_risk": str(at_risk)}
    assert any(f"of the log of node {node} are damaged, and withheld" in note for note in change.notes)
    changed = membership()
    assert (changed.master, changed.in_sync) == (node, (node,))
    assert changed.accepts_loss, "the node may lead around the damage"
    assert last_audit().after["accepted_loss_bytes"] == str(at_risk)


@pytest.mark.parametrize(
    "found",
    [
        replace(REPORT, problems=(DAMAGED, Reason.of(Code.DISK_STUCK)), damaged_bytes=150),
        replace(REPORT, problems=(DAMAGED,), damaged_bytes=150, role="copying"),
        replace(REPORT, role="failed"),
    ],
)
def test_damage_is_no_excuse_for_another_problem(found: StoredReport) -> None:
    report("b", found)
    with pytest.raises(Conflict, match="Node b can't lead"):
        promote("b", 150)
    assert membership() == MEMBERSHIP


def test_who_is_not_promoted() -> None:
    for name, node in (("g1", "z"), ("g9", "a")):
        with pytest.raises(NotFound):
            service.promote(name, node, 0, actor=ACTOR)
    report("a", MASTER)
    with pytest.raises(Conflict, match="Node a serves as master already"):
        promote("a", 0)
    BrokerGroup.objects.filter(name="g1").update(operator_state=OperatorState.UNAPPROVED)
    with pytest.raises(Conflict, match="pending approval"):
        promote("c", 0)


def test_a_promotion_of_a_group_that_changed_is_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Stale):
        promote("c", 5600, expected_version=7)
    seen = service.members("g1")
    BrokerGroup.objects.filter(name="g1").update(in_sync_version=10)
    monkeypatch.setattr(service, "members", lambda name: seen)
    count = len(audit_rows())
    with pytest.raises(Stale, match="changed in the meantime"):
        promote("c", 5600)
    assert (membership().master, len(audit_rows())) == ("a", count)


def test_the_loss_of_one_of_several_members_is_not_accepted() -> None:
    with pytest.raises(Conflict, match="Node b is one of 3 members of broker group g1"):
        broker_groups.accept_log_loss("b", log_end=10, actor=ACTOR, reason="disk lost")
    assert Node.objects.get(node_id="b").log_end == 5000
    BrokerGroup.objects.filter(name="g1").update(members=["b"])
    assert broker_groups.accept_log_loss("b", log_end=10, actor=ACTOR, reason="disk lost").is_change


def test_a_group_is_not_removed_while_a_slave_runs() -> None:
    BrokerGroup.objects.filter(name="g1").update(state=GroupState.OFFLINE)
    with pytest.raises(Conflict, match="Node b of broker group g1 is running"):
        broker_groups.remove_group("g1", actor=ACTOR)
    for node_id in ("b", "c"):
        report(node_id, REPORT, seconds_ago=SILENT_MS / 1000 + 1)
    assert broker_groups.remove_group("g1", actor=ACTOR).after is None
    assert queries.broker_group("g1") is None


# --- stopping ---


def test_whether_a_node_may_stop() -> None:
    report("a", MASTER)
    assert service.members_around("c").without("c").problems == []
    assert "below its minimum of 2" in service.members_around("a").without("a").problems[0]
    with pytest.raises(NotFound):
        service.members_around("z")


def test_all_groups_with_their_members() -> None:
    found = queries.all_members(timezone.now())
    assert [(group.group.name, [member.node_id for member in group.nodes]) for group in found] == [
        ("g1", ["a", "b", "c"])
    ]
    assert found[0] == service.members("g1")
