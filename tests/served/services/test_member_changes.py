"""Members that operators remove, or have replaced by another node."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.errors import ChangeRefused, Conflict, NotFound, Stale
from metaserver.models import BrokerGroup, Node
from metaserver.reports import StoredReport
from metaserver.services import broker_groups
from metaserver.services import member_changes as service
from metaserver.services.changes import METASERVER, Change
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import Membership
from tests.support.console.metadata import ACTOR, audit_rows, everything, last_audit

pytestmark = [pytest.mark.django_db, pytest.mark.database]
MEMBERSHIP = Membership(
    "g1", ("a", "b", "c"), "a", ("a", "b"), 3, 9, "00000000-0000-4000-8000-000000000003", copies=3,
    incarnations=("a1", "b1", "c1"),
)  # fmt: skip
PAIR = replace(MEMBERSHIP, members=("a", "b"), incarnations=("a1", "b1"), in_sync_min=1)
REPORT = StoredReport("in_sync", 3, 3, 5000, 5000, 10, newest_place=(3, 9), incarnation="b1")
MASTER = replace(REPORT, role="master", log_end=6000, slaves={"b": 5900}, incarnation="a1")


def report(node_id: str, found: StoredReport, *, group: str = "g1", seconds_ago: float = 0.0, log_end: int = 0) -> None:
    """Store the heartbeat of a node."""
    end = max(log_end, found.log_end)
    broker_groups.save_node(
        domain.Node(node_id, group, 0, f"{node_id}:1", "", "1", end, log_epoch=3, report=found.encoded())
    )
    Node.objects.filter(node_id=node_id).update(leased_at=timezone.now() - timedelta(seconds=seconds_ago))


def store(membership: Membership) -> None:
    """Store a group whose members report."""
    group = domain.BrokerGroup(GroupKind.BROKER, GroupState.READ_WRITE, membership)
    broker_groups.save_group(group, actor=METASERVER, reason="registered")
    BrokerGroup.objects.filter(name="g1").update(
        copies=membership.copies, in_sync_min=membership.in_sync_min, incarnations=list(membership.incarnations)
    )
    report("a", MASTER)
    report("b", REPORT)
    if "c" in membership.members:
        report("c", replace(REPORT, role="following", log_end=400, incarnation="c1"))


def membership() -> Membership:
    found = queries.broker_group("g1")
    assert found is not None
    return found.membership


def remove(node: str, **request: Any) -> Change:
    return service.remove_member("g1", node, actor=ACTOR, reason="machine is lost", **request)


def have_replaced(node: str, replacement: str, **request: Any) -> Change:
    return service.replace_member("g1", node, replacement, actor=ACTOR, reason="new machine", **request)


def test_a_member_is_removed_with_an_audit_entry() -> None:
    store(MEMBERSHIP)
    before = everything()
    planned = remove("c", dry_run=True)
    assert everything() == before
    done = remove("c", expected_version=1)
    assert (planned.before, planned.after) == (done.before, done.after)
    assert done.after is not None
    assert (done.after["members"], done.version) == (["a", "b"], 2)
    assert BrokerGroup.objects.get(name="g1").version == 2
    assert (membership().members, membership().epoch, membership().version) == (("a", "b"), 3, 10)
    assert last_audit().action == "broker_group.remove_member"
    assert last_audit().after == {"members": ["a", "b"], "incarnations": ["a1", "b1"], "in_sync_version": 10}
    assert [entry.action for entry in queries.role_history("g1")] == ["broker_group.remove_member"]
    assert "spare until its data folder is emptied" in done.notes[0]
    assert "has 2 of 3 copies" in done.notes[1]


def test_a_group_that_is_reduced_to_one_member_begins_an_epoch() -> None:
    store(PAIR)
    remove("b")
    assert (membership().members, membership().in_sync, membership().epoch) == (("a",), ("a",), 4)
    assert membership().promotion_id not in ("", PAIR.promotion_id)
    assert membership().incarnations == ("a1",)


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ("x", "Node 'x' is not a member of broker group g1."),
        ("a", "Node 'a' is the master of broker group g1: switch over first."),
        ("b", "Broker group g1 would have 1 members in sync, below its minimum of 2: sends would be rejected."),
    ],
)
def test_members_that_are_not_removed(node: str, problem: str) -> None:
    store(MEMBERSHIP)
    before = everything()
    with pytest.raises(Conflict, match="^" + problem.replace(".", r"\.")) as refused:
        remove(node)
    assert refused.value.code == service.NOT_REMOVED
    assert everything() == before


@pytest.mark.parametrize("change", [lambda **request: remove("b", **request), lambda **r: have_replaced("b", "d", **r)])
def test_of_two_operators_the_second_one_has_an_old_version(change: Any) -> None:
    store(replace(MEMBERSHIP, in_sync_min=1))
    remove("c", expected_version=1)
    before = everything()
    with pytest.raises(Stale):
        change(expected_version=1)
    assert everything() == before
    change(expected_version=2)


@pytest.mark.parametrize(
    ("found", "values", "problem"),
    [
        (MASTER, {"seconds_ago": 60}, "it does not send heartbeats"),
        (replace(MASTER, incarnation="a2"), {}, "its data folder is not the one that was in sync"),
        (MASTER, {"log_end": 7000}, "its log ends before what it had reported"),
        (replace(MASTER, problems=(Reason.of(Code.FOLDER_EMPTY),)), {}, "its data folder is empty"),
    ],
)
def test_no_member_is_removed_while_the_master_may_lack_messages(
    found: StoredReport, values: dict[str, Any], problem: str
) -> None:
    store(PAIR)
    report("a", found, **values)
    with pytest.raises(Conflict, match=problem):
        remove("b")


def test_nothing_is_changed_while_the_membership_is_restored() -> None:
    store(PAIR)
    report("b", replace(REPORT, newest_place=(3, 12)))
    for change in (lambda: remove("b"), lambda: have_replaced("b", "d")):
        with pytest.raises(Conflict, match="restored from a backup"):
            change()


def test_a_replacement_is_stored_and_canceled() -> None:
    store(PAIR)
    done = have_replaced("b", "d", expected_version=1)
    assert (membership().replaced, membership().replacement, membership().members) == ("b", "d", ("a", "b"))
    assert last_audit().action == "broker_group.request_replacement"
    assert last_audit().after == {"replaced": "b", "replacement": "d", "in_sync_version": 10}
    assert "Start node d with an empty data folder: --broker-group g1 --node-id d" in done.notes
    with pytest.raises(Conflict, match="Node 'd' is to replace 'b'"):
        have_replaced("b", "e")
    remove("d")
    assert (membership().replaced, membership().replacement, membership().version) == ("", "", 11)


def test_a_master_that_is_replaced_switches_over_by_itself() -> None:
    store(PAIR)
    assert "Node a is the master: it switches over first. No request fails." in have_replaced("a", "d").notes


@pytest.mark.parametrize(
    ("node", "replacement", "problem"),
    [
        ("x", "d", "Node 'x' is not a member"),
        ("b", "a", "Node 'a' is a member of broker group g1 already"),
        ("b", "other", "Node other belongs to broker group g2. Start an empty node with --broker-group g1"),
        ("b", "full", "The data folder of node full is not empty. Stop the node, empty its data folder"),
    ],
)
def test_replacements_that_are_refused(node: str, replacement: str, problem: str) -> None:
    store(PAIR)
    other = domain.BrokerGroup(
        GroupKind.BROKER, GroupState.READ_WRITE, Membership("g2", ("z",), "z", ("z",), 1, 0, "", copies=1)
    )
    broker_groups.save_group(other, actor=METASERVER, reason="registered")
    report("other", REPORT, group="g2")
    report("full", REPORT)
    before = everything()
    with pytest.raises(Conflict, match=problem) as refused:
        have_replaced(node, replacement)
    assert refused.value.code == service.NOT_REPLACED
    assert everything() == before


def test_a_node_id_that_can_not_be_one_is_refused() -> None:
    store(PAIR)
    with pytest.raises(ChangeRefused, match="replacement"):
        have_replaced("b", "")
    with pytest.raises(NotFound):
        service.replace_member("g9", "b", "d", actor=ACTOR)


def test_a_group_that_waits_for_approval_is_not_changed() -> None:
    store(PAIR)
    BrokerGroup.objects.filter(name="g1").update(operator_state=OperatorState.UNAPPROVED)
    for change in (lambda: remove("b"), lambda: have_replaced("b", "d")):
        with pytest.raises(Conflict, match="pending approval"):
            change()


def test_copies_are_lowered_and_members_removed_at_once() -> None:
    store(MEMBERSHIP)
    values = {"copies": 1, "in_sync_min": 1}
    before = everything()
    planned = service.set_copies("g1", values, ["c", "b"], actor=ACTOR, dry_run=True)
    assert everything() == before
    done = service.set_copies("g1", values, ["c", "b"], actor=ACTOR, reason="less", expected_version=1)
    assert (planned.before, planned.after) == (done.before, done.after)
    assert (membership().members, membership().copies, membership().in_sync_min) == (("a",), 1, 1)
    assert [action for action, *_ in audit_rows()[-3:]] == [
        "broker_group.remove_member", "broker_group.remove_member", "broker_group.set_copies",
    ]  # fmt: skip
    with pytest.raises(Stale):
        service.set_copies("g1", {"copies": 2}, ["b"], actor=ACTOR, expected_version=1)


def test_copies_below_the_members_that_are_left_are_refused_and_no_one_is_removed() -> None:
    store(MEMBERSHIP)
    before = everything()
    with pytest.raises(ChangeRefused, match="1 is below the number of members, 2"):
        service.set_copies("g1", {"copies": 1, "in_sync_min": 1}, ["c"], actor=ACTOR)
    assert everything() == before


def test_the_loss_of_the_only_member_that_is_left_can_be_accepted() -> None:
    store(PAIR)
    remove("b")
    broker_groups.accept_log_loss("a", log_end=0, actor=ACTOR, reason="disk lost")
    assert (membership().incarnations, membership().members) == ((), ("a",))
