"""Broker groups that are lost: removed with a loss that an operator states, and their subjects afterwards."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.jobs.rebalance import _look_at
from console.placement.plan import advance, plan
from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.errors import Conflict, NotFound, Stale
from metaserver.models import BrokerGroup, MetaserverBeat, Node, RemovedGroup, SubjectRoute
from metaserver.reports import StoredReport
from metaserver.services import broker_groups, removals, routes
from metaserver.services.changes import METASERVER, Change
from metaserver.services.removals import REMOVED_GROUPS_MAX, SILENT_SECONDS, remove_lost_group
from qmq_node.replication.rules.membership import Membership
from tests.support.console.metadata import ACTOR, audit_rows, broker_group, everything, last_audit

pytestmark = [pytest.mark.django_db, pytest.mark.database]
FOLDERS = ("00000000000000aa", "00000000000000bb")
REPORT = StoredReport("in_sync", 3, 3, 5000, 5000, 10, incarnation=FOLDERS[1])


def node(node_id: str, group: str = "g1", *, seconds_ago: float = 100.0, log_end: int = 0, **report: Any) -> None:
    """Store the last heartbeat of a node."""
    stored = replace(REPORT, **report).encoded()
    broker_groups.save_node(domain.Node(node_id, group, 0, f"{node_id}:1", "", "1", log_end, report=stored))
    Node.objects.filter(node_id=node_id).update(leased_at=timezone.now() - timedelta(seconds=seconds_ago))


def metaserver(steady_seconds: float = 1000.0) -> None:
    """A metaserver runs, and has received heartbeats for so long."""
    MetaserverBeat.objects.all().delete()
    broker_groups.save_heartbeat("meta:1", steady_seconds, timezone.now())


@pytest.fixture(autouse=True)
def lost() -> None:
    """Broker group g1 has two members that are lost; g2 runs."""
    broker_group("g2")
    membership = Membership("g1", ("a", "b"), "a", ("a", "b"), 3, 9, "", incarnations=(FOLDERS[0], FOLDERS[1]))
    stored = domain.BrokerGroup(GroupKind.BROKER, GroupState.OFFLINE, membership)
    broker_groups.save_group(stored, actor=METASERVER, reason="registered")
    BrokerGroup.objects.filter(name="g1").update(incarnations=list(FOLDERS))
    node("a", log_end=6000)
    node("b", log_end=5000)
    metaserver()


def remove(accepted: int | None, name: str = "g1", **request: Any) -> Change:
    return remove_lost_group(name, accepted, actor=ACTOR, reason="fire", **request)


def routed(subject: str, *groups: str, **phases: Phase) -> None:
    """Store the route of a subject."""
    routes.save_route(domain.Route(subject, groups, 1, 0, phases), actor=METASERVER, reason="registered")


def route_of(subject: str) -> tuple[list[str], dict[str, str]]:
    row = SubjectRoute.objects.get(subject__name=subject)
    return row.broker_groups, row.phases


def test_the_loss_has_to_be_the_number_of_the_dry_run() -> None:
    before = everything()
    planned = remove(None, dry_run=True)
    assert planned.after is not None
    assert (planned.after["at_risk"], planned.after["unit"]) == ("6000", "bytes of messages")
    assert everything() == before
    for wrong in (None, 0, 5999, 6001):
        with pytest.raises(
            Conflict, match=r"loses up to 6000 bytes of messages; .*State exactly this number"
        ) as refused:
            remove(wrong)
        assert refused.value.code == "broker_group.loss_not_accepted"
    assert everything() == before
    remove(6000)
    assert not BrokerGroup.objects.filter(name="g1").exists()
    assert not Node.objects.filter(node_id__in=("a", "b")).exists()
    assert RemovedGroup.objects.get().incarnations == list(FOLDERS)
    entry = last_audit()
    assert (entry.action, entry.target, entry.reason) == ("broker_group.remove_lost", "g1", "fire")
    assert entry.after == planned.after


def test_of_a_delay_group_the_loss_is_what_it_reported_as_pending() -> None:
    membership = Membership("d1", ("d1-a",), "d1-a", ("d1-a",), 1, 0, "")
    stored = domain.BrokerGroup(GroupKind.DELAY, GroupState.OFFLINE, membership)
    broker_groups.save_group(stored, actor=METASERVER, reason="registered")
    node("d1-a", "d1", log_end=9000, pending_messages=17)
    with pytest.raises(Conflict, match="has 17 delayed messages that are not delivered"):
        broker_groups.remove_group("d1", actor=ACTOR, reason="old")
    with pytest.raises(Conflict, match="loses up to 17 delayed messages"):
        remove(9000, "d1")
    assert remove(17, "d1").after == {
        "at_risk": "17", "unit": "delayed messages", "subjects_left": 0, "subjects_waiting": 0,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["a", "b", "spare"])
def test_a_group_that_lives_is_not_removed(name: str) -> None:
    node(name, seconds_ago=SILENT_SECONDS - 5, log_end=10)
    with pytest.raises(Conflict, match=rf"Node {name} of broker group g1 sent a heartbeat 5\d s ago") as refused:
        remove(6000)
    assert refused.value.code == "broker_group.live"
    node(name, seconds_ago=SILENT_SECONDS + 1, log_end=10)
    remove(6000)


@pytest.mark.parametrize("steady_seconds", [None, SILENT_SECONDS - 5])
def test_silence_counts_only_while_a_metaserver_receives_heartbeats(steady_seconds: float | None) -> None:
    if steady_seconds is None:
        MetaserverBeat.objects.all().delete()
    else:
        metaserver(steady_seconds)
    with pytest.raises(Conflict, match="may run: no metaserver has received heartbeats without a pause for 60 s"):
        remove(6000)


def test_strangers_and_other_versions_are_refused() -> None:
    with pytest.raises(NotFound):
        remove(0, "g9")
    with pytest.raises(Stale):
        remove(6000, expected_version=7)


def test_subjects_leave_at_once_and_those_without_another_group_when_one_has_joined() -> None:
    joining, leaving, draining = Phase.JOINING, Phase.LEAVING, Phase.DRAINING
    routed("two", "g1", "g2")
    routed("moving", "g1", "g2", "g3", g1=leaving, g3=joining)
    routed("to", "g1", "g2", g1=joining, g2=leaving)
    routed("drained", "g1", "g2", g2=draining)
    routed("fresh", "g1", "g2", g2=joining)
    routed("alone", "g1")
    routed("other", "g2")
    change = remove(6000)
    assert change.after is not None
    assert (change.after["subjects_left"], change.after["subjects_waiting"]) == (3, 3)
    assert any("No other group serves alone, drained, fresh" in note for note in change.notes)
    assert {
        subject: route_of(subject) for subject in ("two", "moving", "to", "drained", "fresh", "alone", "other")
    } == {
        "two": (["g2"], {}),
        "moving": (["g2", "g3"], {"g3": "joining"}),
        "to": (["g2"], {}),
        "drained": (["g1", "g2"], {"g1": "leaving", "g2": "joining"}),
        "fresh": (["g1", "g2"], {"g1": "leaving", "g2": "joining"}),
        "alone": (["g1"], {}),
        "other": (["g2"], {}),
    }


async def _empty(route: domain.Route) -> tuple[str, ...]:
    return (await _look_at(route, [], {}, True, {"g1"})).empty


def test_a_subject_that_only_the_lost_group_served_leaves_it_when_another_one_has_joined() -> None:
    routed("alone", "g1")
    remove(6000)
    assert queries.lost_groups() == {"g1"}
    (move,) = plan(queries.route_snapshots(), ["g2"], sorted(queries.lost_groups()), minimum=2, most=5)
    assert (move.route.broker_groups, move.route.phases) == (("g1", "g2"), {"g2": Phase.JOINING, "g1": Phase.LEAVING})
    empty = asyncio.run(_empty(move.route))
    assert empty == ("g1",), "no node is asked"
    assert advance(move.route, ready=[], empty=empty) is None, "no other group has joined"
    steps = move.route
    while (step := advance(steps, ready=["g2"], empty=empty)) is not None:
        steps = step.route
    assert (steps.broker_groups, steps.phases) == (("g2",), {})


def test_an_approval_ends_the_need_of_one() -> None:
    remove(6000)
    assert queries.metadata().removed_folders == {("g1", folder) for folder in FOLDERS}
    membership = Membership("g1", ("a",), "a", ("a",), 3, 0, "")
    unapproved = domain.BrokerGroup(
        GroupKind.BROKER, GroupState.OFFLINE, membership, operator_state=OperatorState.UNAPPROVED
    )
    broker_groups.save_group(unapproved, actor=METASERVER, reason="registered")
    assert queries.lost_groups() == set()
    before = queries.metadata_version()
    broker_groups.approve_group("g1", actor=ACTOR, reason="the disk is found")
    changes = queries.changed_metadata(before, queries.metadata_version())
    assert changes is not None
    assert changes.stored.removed_folders == frozenset()
    assert queries.metadata().removed_folders == frozenset()


def test_a_group_that_is_removed_again_before_it_is_approved_still_needs_it() -> None:
    remove(6000)
    membership = Membership("g1", ("a",), "a", ("a",), 3, 0, "")
    unapproved = domain.BrokerGroup(
        GroupKind.BROKER, GroupState.OFFLINE, membership, operator_state=OperatorState.UNAPPROVED
    )
    broker_groups.save_group(unapproved, actor=METASERVER, reason="registered")
    broker_groups.remove_group("g1", actor=ACTOR, reason="not now")
    assert len(queries.metadata().removed_folders) == 2


def test_the_folders_of_the_newest_removed_groups_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert REMOVED_GROUPS_MAX == 1000
    monkeypatch.setattr(removals, "REMOVED_GROUPS_MAX", 2)
    for number in range(3):
        RemovedGroup.objects.create(name=f"old{number}", incarnations=[])
    remove(6000)
    assert set(RemovedGroup.objects.values_list("name", flat=True)) == {"g1", "old2"}


def test_the_change_is_audited_for_each_subject() -> None:
    routed("two", "g1", "g2")
    remove(6000)
    assert ("route.lost", "two") in [entry[:2] for entry in audit_rows()]
