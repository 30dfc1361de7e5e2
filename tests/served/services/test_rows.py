"""Changes of the row that says who is master of a broker group and who is in sync."""

from uuid import UUID

import pytest

from metaserver.errors import NotFound
from metaserver.memory.row_wishes import CandidateLog, LogLost
from metaserver.models import AuditEntry, BrokerGroup, MetadataChange, Node
from metaserver.services import rows
from metaserver.services.changes import METASERVER
from metaserver.stored.orm_repository import OrmRowStore
from qmq.protocol.group_rows import InSyncChange
from qmq.protocol.reasons import Reason
from qmq_node.replication.rules.row import ChangeInSync, ChangeRejected, GroupRow, Promotion
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import broker_group
from tests.support.drivers.row_changes import Change, check_random_changes

FIRST, SECOND = "00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"


def begin(in_sync: tuple[str, ...] = ("a", "b")) -> GroupRow:
    """A group of three members in its first epoch."""
    broker_group("g1")
    BrokerGroup.objects.filter(name="g1").update(
        master="a", members=["a", "b", "c"], in_sync=list(in_sync), in_sync_version=7, promotion_id=UUID(FIRST)
    )
    return rows.stored_row("g1")


def made(change: Change, newest: tuple[int, int] | None = (0, 0)) -> GroupRow:
    return rows.change_row("g1", change.applied_to, newest, action="test", actor=METASERVER, reason="tests")


def removal(row: GroupRow, member: str = "b") -> ChangeInSync:
    return ChangeInSync("a", row.epoch, row.promotion_id, row.version, InSyncChange.REMOVE, member)


def promotion(row: GroupRow, candidate: str = "b") -> Promotion:
    return Promotion(row.epoch, row.version, candidate, f"boot {candidate}", row.epoch + 1, SECOND)


@pytest.mark.database
@pytest.mark.django_db
def test_a_node_whose_log_is_stored_with_a_higher_end_is_not_promoted() -> None:
    row, change = begin(), promotion
    group = BrokerGroup.objects.get(name="g1")
    Node.objects.create(
        node_id="b", broker_group=group, role=0, address="b:1", log_epoch=1, log_end=900, log_end_version=2
    )

    def promoted(place: tuple[int, int]) -> GroupRow:
        log = CandidateLog("b", place)
        return rows.change_row(
            "g1", change(row).applied_to, (0, 0), action="promote", actor=METASERVER, log=log, reason=""
        )

    with pytest.raises(LogLost, match="node b: its log ends at 800, before the 900 that is stored") as lost:
        promoted((1, 800))
    assert (lost.value.is_stale, lost.value.stored) == (False, (2, 1, 900))
    assert rows.stored_row("g1") == row
    assert promoted((2, 100)).master == "b", "a log that was truncated, and has commits of a newer epoch"


@pytest.mark.database
@pytest.mark.django_db
def test_a_promotion_is_stored_with_its_audit_entry_and_metaservers_reload_the_group() -> None:
    row = begin()
    changes = MetadataChange.objects.count()
    promoted = made(promotion(row))
    assert rows.stored_row("g1") == promoted
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
    row = begin()
    changed = made(removal(row))
    entries = AuditEntry.objects.count()
    with pytest.raises(ChangeRejected, match="version 7; the row has epoch 1, version 8") as rejected:
        made(promotion(row))
    assert rejected.value.is_stale
    assert (rows.stored_row("g1"), AuditEntry.objects.count()) == (changed, entries)


@pytest.mark.database
@pytest.mark.django_db
def test_a_change_that_another_one_overtakes_is_not_made() -> None:
    row = begin()

    def overtaken(read: GroupRow) -> GroupRow:
        BrokerGroup.objects.filter(name="g1").update(in_sync_version=8)
        return removal(row).applied_to(read)

    entries = AuditEntry.objects.count()
    with pytest.raises(ChangeRejected, match="has changed meanwhile") as rejected:
        rows.change_row("g1", overtaken, (0, 0), action="test", actor=METASERVER, reason="")
    assert rejected.value.is_stale
    assert AuditEntry.objects.count() == entries


@pytest.mark.database
@pytest.mark.django_db
def test_a_row_from_a_backup_is_not_changed() -> None:
    row = begin()
    with pytest.raises(ChangeRejected, match="the database was restored from a backup"):
        made(promotion(row), (2, 0))
    assert rows.stored_row("g1") == row


@pytest.mark.database
@pytest.mark.django_db
def test_a_row_of_which_a_newer_place_is_recorded_is_not_changed() -> None:
    row = begin()
    epoch, version = row.place
    for older in (row.place, (epoch, version - 1), (epoch - 1, version + 5)):
        rows.record_known("g1", older)
        assert rows.stored_row("g1").known_place == (0, 0), "the stored row is not older"
    for place in ((epoch, version + 2), (epoch, version + 1), (epoch + 1, 0), (epoch, version + 9)):
        rows.record_known("g1", place)
        with pytest.raises(ChangeRejected, match="the database was restored from a backup"):
            made(promotion(row))
    assert (rows.stored_row("g1"), rows.stored_row("g1").known_place) == (row, (epoch + 1, 0))
    changed = made(promotion(row), None)
    assert changed.epoch == epoch + 1
    assert made(promotion(changed)).epoch == epoch + 2, "the row is as new as what was known"


@pytest.mark.database
@pytest.mark.django_db
def test_a_newer_place_that_is_recorded_meanwhile_keeps_a_row_from_its_change() -> None:
    row = begin()

    def overtaken(read: GroupRow) -> GroupRow:
        rows.record_known("g1", (read.epoch, read.version + 1))
        return removal(row).applied_to(read)

    with pytest.raises(ChangeRejected, match="has changed meanwhile"):
        rows.change_row("g1", overtaken, (0, 0), action="test", actor=METASERVER, reason="")
    assert rows.stored_row("g1") == row


@pytest.mark.django_db
def test_a_group_that_does_not_exist_is_named() -> None:
    with pytest.raises(NotFound, match="'g9' not found"):
        rows.stored_row("g9")


@pytest.mark.django_db
def test_a_group_that_registers_has_one_member() -> None:
    broker_group("g1")
    row = rows.stored_row("g1")
    assert (row.members, row.in_sync, row.promotion_id, row.in_sync_min_in_force) == (("g1-node",), ("g1-node",), "", 1)


@pytest.mark.database
@needs_two_writers
@pytest.mark.django_db(transaction=True)
def test_of_two_promotions_at_once_one_is_made() -> None:
    row = begin()

    def promote(candidate: str) -> GroupRow:
        change = promotion(row, candidate).applied_to
        return OrmRowStore().change("g1", change, (0, 0), action="promote", reason=Reason("test"))

    outcomes = at_once(lambda: promote("a"), lambda: promote("b"))
    (promoted,) = (outcome for outcome in outcomes if isinstance(outcome, GroupRow))
    (rejected,) = (outcome for outcome in outcomes if isinstance(outcome, ChangeRejected))
    assert rejected.is_stale
    assert rows.stored_row("g1") == promoted
    assert AuditEntry.objects.filter(action="broker_group.promote").count() == 1


@pytest.mark.database
@pytest.mark.django_db
def test_a_random_sequence_of_changes_does_what_the_rules_say() -> None:
    check_random_changes(begin(), made, lambda: rows.stored_row("g1"))
