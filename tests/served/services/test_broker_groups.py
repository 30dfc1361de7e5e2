"""Broker groups and nodes: as they register, and what operators decide."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from console.management.commands.up import announce_delay_group
from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.errors import ChangeRefused, Conflict, NotFound, Stale
from metaserver.models import AuditEntry, BrokerGroup, Node
from metaserver.services import audit
from metaserver.services import broker_groups as service
from metaserver.services.changes import METASERVER
from metaserver.services.memberships import WHY
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import Membership
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import ACTOR, audit_rows, broker_group, everything, route
from tests.support.stored_groups import changed

pytestmark = pytest.mark.django_db
READ_ONLY, DRAINING, NORMAL = OperatorState.READ_ONLY, OperatorState.DRAINING, OperatorState.NORMAL


def row(name: str = "g1") -> BrokerGroup:
    return BrokerGroup.objects.get(name=name)


def test_the_delay_group_of_make_up_is_announced_with_a_minimum_of_one_and_then_left_as_it_is() -> None:
    announce_delay_group(3)
    (announced,) = BrokerGroup.objects.all()
    assert (announced.name, announced.kind, announced.copies, announced.in_sync_min) == ("d1", GroupKind.DELAY, 3, 1)
    assert {(entry.action, entry.actor) for entry in AuditEntry.objects.all()} == {
        ("broker_group.announce", "system"),
        ("broker_group.set_copies", "system"),
    }
    before = everything()
    announce_delay_group(2)
    assert everything() == before


def test_why_metaservers_take_a_group_offline_is_kept_for_other_languages() -> None:
    broker_group("g1")
    created = queries.broker_group("g1")
    assert created is not None
    for state, reason in (
        (GroupState.OFFLINE, Reason.of(Code.HEARTBEATS_MISSING, seconds=6.1)), (GroupState.READ_WRITE, "registered")
    ):  # fmt: skip
        service.save_group(replace(created, state=state), actor=METASERVER, reason=reason)
    back, gone = audit_rows()[:0:-1]
    assert back[3] == {"state": "read_write"}
    assert gone[3]["state"] == "offline"
    assert gone[3][WHY] == Reason.of(Code.HEARTBEATS_MISSING, seconds=6.1).as_json()


def decide(state: OperatorState, name: str = "g1", **options: Any) -> Any:
    return service.set_operator_state(name, state, actor=ACTOR, **options)


@pytest.mark.database
def test_a_group_registers_once_and_afterwards_only_its_state_is_stored() -> None:
    broker_group("g1")
    assert [entry[:2] for entry in audit_rows()] == [("broker_group.create", "g1")]
    broker_group("g1")
    assert len(audit_rows()) == 1, "nothing new"
    created = queries.broker_group("g1")
    assert created is not None
    other = ("other",)
    newer = domain.BrokerGroup(
        GroupKind.BROKER,
        GroupState.READ_ONLY,
        Membership("g1", other, "other", other, 3, 9, str(UUID(int=1)), in_sync_min=1, copies=3),
        operator_state=NORMAL,
        preferred=other,
    )
    service.save_group(newer, actor=METASERVER, reason="disk full")
    assert queries.broker_group("g1") == replace(created, state=GroupState.READ_ONLY)
    assert audit_rows()[-1] == ("broker_group.state", "g1", {"state": "read_write"}, {"state": "read_only"})
    older = changed(newer, epoch=0, state=GroupState.READ_WRITE)
    service.save_group(older, actor=METASERVER, reason="late")
    assert row().state == GroupState.READ_ONLY, "reported by a master of an older epoch"
    assert len(audit_rows()) == 2


@pytest.mark.database
def test_the_first_node_of_an_announced_group_is_stored_as_its_only_member() -> None:
    service.announce_group("g1", GroupKind.BROKER, actor=ACTOR)
    announced = queries.broker_group("g1")
    assert announced is not None
    assert (announced.membership.members, announced.membership.copies) == ((), 2)
    node = ("g1-a",)
    first = changed(announced, state=GroupState.READ_WRITE, epoch=1, master="g1-a", in_sync=node, members=node)
    first = changed(first, in_sync_version=1, promotion_id=str(UUID(int=1)), copies=1)
    service.save_group(first, actor=METASERVER, reason="registered")
    assert queries.broker_group("g1") == changed(first, copies=2), "operators decide about copies"
    second = changed(first, master="g1-b", in_sync=("g1-b",), members=("g1-b",))
    service.save_group(second, actor=METASERVER, reason="registered at another metaserver")
    assert row().master == "g1-a"


@pytest.mark.database
def test_what_an_operator_decided_survives_a_registration() -> None:
    broker_group("g1")
    broker_group("g2")
    decide(READ_ONLY, reason="disk")
    broker_group("g1", GroupState.READ_ONLY)
    assert (row().operator_state, row().operator_reason, row().version) == (READ_ONLY, "disk", 2)
    decide(NORMAL)
    assert row().state == GroupState.READ_ONLY, "an operator's word does not change what the master does"


@pytest.mark.parametrize("name", ["", "a/b", "a b", "a\nb", "x" * 101, "a\x00", "a\ud800"])
def test_an_announced_group_needs_a_legal_name(name: str) -> None:
    with pytest.raises(ChangeRefused) as refused:
        service.announce_group(name, GroupKind.BROKER, actor=ACTOR)
    assert (refused.value.code, set(refused.value.fields)) == ("broker_group.name_illegal", {"name"})


@pytest.mark.database
def test_a_group_is_announced_described_and_removed() -> None:
    before = everything()
    planned = service.announce_group("g1", GroupKind.DELAY, "new disks", actor=ACTOR, dry_run=True)
    assert everything() == before
    done = service.announce_group("g1", GroupKind.DELAY, "new disks", actor=ACTOR)
    assert done == planned
    assert "g1" in done.notes[0]
    assert (row().state, row().kind) == (GroupState.OFFLINE, GroupKind.DELAY)
    with pytest.raises(Conflict) as there:
        service.announce_group("g1", GroupKind.BROKER, actor=ACTOR)
    assert there.value.code == "broker_group.exists"
    for call in (
        lambda: service.describe_group("g1", "x" * 501, actor=ACTOR),
        lambda: service.announce_group("g2", GroupKind.BROKER, "\x00", actor=ACTOR),
    ):
        with pytest.raises(ChangeRefused) as refused:
            call()
        assert (refused.value.code, set(refused.value.fields)) == ("broker_group.invalid", {"description"})
    assert service.describe_group("g1", "old disks", actor=ACTOR).is_change
    assert not service.describe_group("g1", "old disks", actor=ACTOR).is_change
    with pytest.raises(Stale):
        service.describe_group("g1", "text", actor=ACTOR, expected_version=1)
    before = everything()
    assert service.remove_group("g1", actor=ACTOR, dry_run=True).after is None
    assert everything() == before
    service.remove_group("g1", actor=ACTOR, reason="sold")
    assert [entry[0] for entry in audit_rows()] == [
        "broker_group.announce",
        "broker_group.update",
        "broker_group.remove",
    ]
    with pytest.raises(NotFound) as missing:
        service.remove_group("g1", actor=ACTOR)
    assert missing.value.code == "broker_group.unknown"


@pytest.mark.database
def test_a_group_that_runs_or_serves_is_not_removed() -> None:
    broker_group("g1")
    with pytest.raises(Conflict) as live:
        service.remove_group("g1", actor=ACTOR)
    assert live.value.code == "broker_group.live"
    broker_group("g1", GroupState.OFFLINE)
    for number in range(5):
        route(f"s{number}", "g1")
    with pytest.raises(Conflict) as serves:
        service.remove_group("g1", actor=ACTOR)
    assert serves.value.code == "broker_group.not_empty"
    assert "and 2 more" in str(serves.value)
    assert Node.objects.count() == 1


@pytest.mark.database
def test_the_last_group_that_takes_messages_is_not_taken_away() -> None:
    broker_group("g1")
    broker_group("g2", GroupState.OFFLINE)
    broker_group("d1", kind=GroupKind.DELAY)
    before = everything()
    for state in (READ_ONLY, DRAINING):
        with pytest.raises(Conflict) as refused:
            decide(state)
        assert refused.value.code == "broker_group.last_writable"
    assert everything() == before
    broker_group("g2")
    decide(DRAINING)
    with pytest.raises(Conflict):
        decide(READ_ONLY, "g2")
    broker_group("g2", GroupState.OFFLINE)
    assert decide(READ_ONLY).is_change, "g1 took nothing before: nothing is lost by saying it otherwise"
    assert decide(NORMAL).is_change


@pytest.mark.database
def test_draining_says_what_moves_and_is_decided_once() -> None:
    broker_group("g1")
    broker_group("g2")
    route("s1", "g1", "g2")
    route("s2", "g2")
    before = everything()
    planned = decide(DRAINING, reason="old", dry_run=True)
    assert everything() == before
    done = decide(DRAINING, reason="old")
    assert done == planned
    assert done.notes[0].startswith("Subjects that will move to other groups: 1.")
    since, before = row().operator_since, everything()
    assert since is not None
    assert not decide(DRAINING, reason="old").is_change
    assert (row().operator_since, everything()) == (since, before)
    assert audit_rows()[-1] == (
        "broker_group.draining", "g1",
        {"kind": "broker", "description": "", "operator_state": "normal", "operator_reason": ""},
        {"kind": "broker", "description": "", "operator_state": "draining", "operator_reason": "old"},
    )  # fmt: skip
    with pytest.raises(Stale):
        decide(NORMAL, expected_version=1)
    with pytest.raises(NotFound):
        decide(NORMAL, "none")
    decide(NORMAL, reason="it stays")
    assert (row().operator_state, row().operator_reason) == (NORMAL, "")


def unapproved(name: str, **node: Any) -> None:
    """A broker group that registered for the first time and waits for approval."""
    membership = Membership(name, (), f"{name}-a", (f"{name}-a",), 1, 0, "")
    group = domain.BrokerGroup(GroupKind.BROKER, GroupState.OFFLINE, membership, OperatorState.UNAPPROVED)
    service.save_group(group, actor=METASERVER, reason="registered")
    service.save_node(domain.Node(f"{name}-a", name, 0, "10.6.6.6:1", "10.6.6.6:2", "1", 0))


@pytest.mark.database
def test_a_group_that_waits_is_approved_once_with_an_audit_entry() -> None:
    unapproved("g1")
    assert audit_rows()[0][3]["operator_state"] == "unapproved"
    before = everything()
    planned = service.approve_group("g1", actor=ACTOR, reason="new rack", dry_run=True)
    assert everything() == before
    done = service.approve_group("g1", actor=ACTOR, reason="new rack", expected_version=1)
    assert done == planned
    assert "g1-a at 10.6.6.6:1" in done.notes[0]
    assert (row().operator_state, row().version) == (NORMAL, 2)
    action, target, old, new = audit_rows()[-1]
    assert (action, target) == ("broker_group.approve", "g1")
    assert (old["operator_state"], new["operator_state"]) == ("unapproved", "normal")
    assert not service.approve_group("g1", actor=ACTOR).is_change
    with pytest.raises(Stale):
        service.approve_group("g1", actor=ACTOR, expected_version=1)
    with pytest.raises(NotFound):
        service.approve_group("none", actor=ACTOR)
    broker_group("g2")
    broker_group("g3")
    decide(READ_ONLY, "g2")
    assert not service.approve_group("g2", actor=ACTOR).is_change, "approval takes back no other decision"


@pytest.mark.database
def test_a_group_that_waits_can_be_approved_or_removed_and_nothing_else() -> None:
    broker_group("g2")
    unapproved("g1")
    before = everything()
    for state in (READ_ONLY, DRAINING, NORMAL):
        with pytest.raises(Conflict) as refused:
            decide(state)
        assert refused.value.code == "broker_group.unapproved"
    assert everything() == before
    # A registration that arrives meanwhile is no approval.
    normal = domain.BrokerGroup(GroupKind.BROKER, GroupState.OFFLINE, Membership("g1", (), "g1-b", ("g1-b",), 1, 0, ""))
    service.save_group(normal, actor=METASERVER, reason="registered")
    assert row().operator_state == OperatorState.UNAPPROVED
    service.remove_group("g1", actor=ACTOR, reason="forged")
    assert [node.node_id for node in Node.objects.all()] == ["g2-node"]


@pytest.mark.database
def test_no_process_connects_to_nodes_of_a_group_that_waits() -> None:
    unapproved("g1")
    broker_group("g2")
    assert set(queries.masters()) == {"g2"}
    assert set(queries.broker_masters()) == {"g2"}
    assert [node.node_id for node in queries.approved_nodes()] == ["g2-node"]
    assert {node.node_id for node in queries.nodes()} == {"g1-a", "g2-node"}
    service.approve_group("g1", actor=ACTOR)
    assert set(queries.masters()) == set(queries.broker_masters()) == {"g1", "g2"}


@pytest.mark.database
def test_a_log_end_of_an_older_version_is_not_stored() -> None:
    broker_group("g1", log_end=5000)
    service.accept_log_loss("g1-node", log_end=4000, actor=ACTOR, reason="disk swapped")
    stored = lambda: (Node.objects.get().log_end, Node.objects.get().log_end_version)  # noqa: E731
    for log_end, version, expected in ((5000, 0, (4000, 1)), (3000, 1, (4000, 1)), (4100, 1, (4100, 1))):
        service.save_node(domain.Node("g1-node", "g1", 0, "10.0.0.1:9", "", "1", log_end, version))
        assert stored() == expected
        assert Node.objects.get().address == "10.0.0.1:9"


@pytest.mark.database
def test_accepting_a_loss_names_a_place_the_log_reached() -> None:
    broker_group("g1", log_end=5000)
    before = everything()
    with pytest.raises(ChangeRefused) as refused:
        service.accept_log_loss("g1-node", log_end=5001, actor=ACTOR, reason="typo")
    assert (refused.value.code, set(refused.value.fields)) == ("node.log_end_invalid", {"log_end"})
    with pytest.raises(NotFound) as missing:
        service.accept_log_loss("none", log_end=1, actor=ACTOR, reason="r")
    assert missing.value.code == "node.unknown"
    service.accept_log_loss("g1-node", log_end=4000, actor=ACTOR, reason="r", dry_run=True)
    assert everything() == before
    assert Node.objects.get().log_end == 5000
    service.accept_log_loss("g1-node", log_end=4000, actor=ACTOR, reason="disk swapped")
    assert Node.objects.get().log_end == 4000
    assert audit_rows()[-1] == ("node.accept_log_loss", "g1-node", {"log_end": "5000"}, {"log_end": "4000"})
    assert not service.accept_log_loss("g1-node", log_end=4000, actor=ACTOR, reason="again").is_change
    assert len(audit_rows()) == 2


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@needs_two_writers
class TestTwoWriters:
    """At once, each in a transaction of its own."""

    def test_of_two_who_each_drain_one_of_the_last_two_groups_one_does(self) -> None:
        broker_group("g1")
        broker_group("g2")
        found = at_once(lambda: decide(DRAINING, "g1"), lambda: decide(DRAINING, "g2"))
        assert sum(isinstance(item, Conflict) for item in found) == 1, found
        assert BrokerGroup.objects.filter(operator_state=NORMAL).count() == 1

    def test_of_those_who_announce_one_group_one_does(self) -> None:
        found = at_once(*(lambda: service.announce_group("g1", GroupKind.BROKER, actor=ACTOR) for _ in range(3)))
        assert sum(isinstance(item, Conflict) for item in found) == 2, found

    def test_a_registration_and_a_decision_are_both_kept(self) -> None:
        broker_group("g1")
        broker_group("g2")
        newer = domain.BrokerGroup(
            GroupKind.BROKER, GroupState.WRITE_ONLY, Membership("g1", (), "g1-node", ("g1-node",), 1, 0, "")
        )
        found = at_once(
            lambda: service.save_group(newer, actor=METASERVER, reason="reported"), lambda: decide(READ_ONLY, "g1")
        )
        assert not [item for item in found if isinstance(item, Exception)], found
        assert (row().state, row().operator_state) == (GroupState.WRITE_ONLY, READ_ONLY)
        assert audit.verify().problem == ""
