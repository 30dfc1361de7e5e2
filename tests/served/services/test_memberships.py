"""Changes of the membership that says who is master of a broker group and who is in sync."""

from dataclasses import replace
from uuid import UUID

import pytest

from metaserver.errors import NotFound
from metaserver.memory.membership_wishes import CandidateLog, LogLost, MembershipWish
from metaserver.models import AuditEntry, BrokerGroup, MetadataChange, Node
from metaserver.services import memberships
from metaserver.services.changes import METASERVER
from metaserver.stored.orm_repository import OrmMembershipStore
from qmq.protocol.group_memberships import InSyncChange
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.membership import ChangeInSync, ChangeRejected, Membership, Promotion
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import broker_group
from tests.support.drivers.membership_changes import Change, check_random_changes

FIRST, SECOND = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def begin(in_sync: tuple[str, ...] = ("a", "b")) -> Membership:
    """A group of three members in its first epoch."""
    broker_group("g1")
    BrokerGroup.objects.filter(name="g1").update(
        master="a", members=["a", "b", "c"], in_sync=list(in_sync), in_sync_version=7, promotion_id=UUID(FIRST)
    )
    return memberships.stored_membership("g1")


def made(change: Change, newest: tuple[int, int] = (0, 0), *, is_recovery: bool = False) -> Membership:
    wish = MembershipWish(change.applied_to, "test", Reason("tests"), is_recovery)
    return memberships.change_membership("g1", wish, newest, actor=METASERVER, also={})


def removal(membership: Membership, member: str = "b") -> ChangeInSync:
    return ChangeInSync(
        "g1", "a", membership.epoch, membership.promotion_id, membership.version, InSyncChange.REMOVE, member
    )


def promotion(membership: Membership, candidate: str = "b") -> Promotion:
    return Promotion(membership.epoch, membership.version, candidate, f"boot {candidate}", membership.epoch + 1, SECOND)


@pytest.mark.database
@pytest.mark.django_db
def test_a_node_whose_log_is_stored_with_a_higher_end_is_not_promoted() -> None:
    membership, change = begin(), promotion
    group = BrokerGroup.objects.get(name="g1")
    Node.objects.create(
        node_id="b", broker_group=group, role=0, address="b:1", log_epoch=1, log_end=900, log_end_version=2
    )

    def promoted(place: tuple[int, int]) -> Membership:
        wish = MembershipWish(change(membership).applied_to, "promote", Reason(), log=CandidateLog("b", place))
        return memberships.change_membership("g1", wish, (0, 0), actor=METASERVER, also={})

    with pytest.raises(LogLost, match="node b: its log ends at 800, before the 900 that is stored") as lost:
        promoted((1, 800))
    assert (lost.value.is_stale, lost.value.stored) == (False, (2, 1, 900))
    assert memberships.stored_membership("g1") == membership
    assert promoted((2, 100)).master == "b", "a log that was truncated, and has commits of a newer epoch"


@pytest.mark.database
@pytest.mark.django_db
def test_a_promotion_is_stored_with_its_audit_entry_and_metaservers_reload_the_group() -> None:
    membership = begin()
    changes = MetadataChange.objects.count()
    promoted = made(promotion(membership))
    assert memberships.stored_membership("g1") == promoted
    assert (promoted.master, promoted.in_sync, promoted.place) == ("b", ("b",), (2, 8))
    entry = AuditEntry.objects.latest("id")
    assert (entry.action, entry.target, entry.reason) == ("broker_group.test", "g1", "tests")
    assert entry.before == {
        "master": "a", "in_sync": ["a", "b"], "epoch": 1, "in_sync_version": 7, "promotion_id": FIRST,
        "master_boot_id": "",
    }  # fmt: skip
    assert entry.after == {
        "master": "b", "in_sync": ["b"], "epoch": 2, "in_sync_version": 8, "promotion_id": SECOND,
        "master_boot_id": "boot b",
    }  # fmt: skip
    assert MetadataChange.objects.count() == changes + 1
    assert MetadataChange.objects.latest("number").broker_group == "g1"


@pytest.mark.database
@pytest.mark.django_db
def test_a_change_for_an_older_version_is_not_made() -> None:
    membership = begin()
    changed = made(removal(membership))
    entries = AuditEntry.objects.count()
    with pytest.raises(ChangeRejected, match="version 7; the membership has epoch 1, version 8") as rejected:
        made(promotion(membership))
    assert rejected.value.is_stale
    assert (memberships.stored_membership("g1"), AuditEntry.objects.count()) == (changed, entries)


@pytest.mark.database
@pytest.mark.django_db
def test_a_change_that_another_one_overtakes_is_not_made() -> None:
    membership = begin()

    def overtaken(read: Membership) -> Membership:
        BrokerGroup.objects.filter(name="g1").update(in_sync_version=8)
        return removal(membership).applied_to(read)

    entries = AuditEntry.objects.count()
    with pytest.raises(ChangeRejected, match="has changed meanwhile") as rejected:
        wish = MembershipWish(overtaken, "test", Reason())
        memberships.change_membership("g1", wish, (0, 0), actor=METASERVER, also={})
    assert rejected.value.is_stale
    assert AuditEntry.objects.count() == entries


@pytest.mark.database
@pytest.mark.django_db
def test_a_membership_from_a_backup_is_not_changed() -> None:
    membership = begin()
    with pytest.raises(ChangeRejected, match="the database was restored from a backup"):
        made(promotion(membership), (2, 0))
    assert memberships.stored_membership("g1") == membership


@pytest.mark.database
@pytest.mark.django_db
def test_a_membership_of_which_a_newer_place_is_recorded_is_not_changed() -> None:
    membership = begin()
    epoch, version = membership.place
    for older in (membership.place, (epoch, version - 1), (epoch - 1, version + 5)):
        memberships.record_known("g1", older)
        assert memberships.stored_membership("g1").known_place == (0, 0), "the stored membership is not older"
    for place in ((epoch, version + 2), (epoch, version + 1), (epoch + 1, 0), (epoch, version + 9)):
        memberships.record_known("g1", place)
        with pytest.raises(ChangeRejected, match="the database was restored from a backup"):
            made(promotion(membership))
    assert memberships.stored_membership("g1") == replace(membership, known_place=(epoch + 1, 0))
    changed = made(promotion(membership), is_recovery=True)
    assert changed.epoch == epoch + 1
    assert made(promotion(changed)).epoch == epoch + 2, "the membership is as new as what was known"


@pytest.mark.database
@pytest.mark.django_db
def test_a_newer_place_that_is_recorded_meanwhile_keeps_a_membership_from_its_change() -> None:
    membership = begin()

    def overtaken(read: Membership) -> Membership:
        memberships.record_known("g1", (read.epoch, read.version + 1))
        return removal(membership).applied_to(read)

    with pytest.raises(ChangeRejected, match="has changed meanwhile"):
        wish = MembershipWish(overtaken, "test", Reason())
        memberships.change_membership("g1", wish, (0, 0), actor=METASERVER, also={})
    assert memberships.stored_membership("g1") == membership


@pytest.mark.django_db
def test_a_group_that_does_not_exist_is_named() -> None:
    with pytest.raises(NotFound, match="'g9' not found"):
        memberships.stored_membership("g9")


@pytest.mark.django_db
def test_a_group_that_registers_has_one_member() -> None:
    broker_group("g1")
    membership = memberships.stored_membership("g1")
    assert (membership.members, membership.in_sync, membership.promotion_id, membership.in_sync_min_in_force) == (
        ("g1-node",),
        ("g1-node",),
        "",
        1,
    )


@pytest.mark.database
@needs_two_writers
@pytest.mark.django_db(transaction=True)
def test_of_two_promotions_at_once_one_is_made() -> None:
    membership = begin()

    def promote(candidate: str) -> Membership:
        change = promotion(membership, candidate).applied_to
        return OrmMembershipStore().change("g1", MembershipWish(change, "promote", Reason("test")), (0, 0))

    outcomes = at_once(lambda: promote("a"), lambda: promote("b"))
    (promoted,) = (outcome for outcome in outcomes if isinstance(outcome, Membership))
    (rejected,) = (outcome for outcome in outcomes if isinstance(outcome, ChangeRejected))
    assert rejected.is_stale
    assert memberships.stored_membership("g1") == promoted
    assert AuditEntry.objects.filter(action="broker_group.promote").count() == 1


@pytest.mark.database
@pytest.mark.django_db
def test_a_random_sequence_of_changes_does_what_the_rules_say() -> None:
    check_random_changes(begin(), made, lambda: memberships.stored_membership("g1"))
