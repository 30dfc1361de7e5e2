"""What metaservers load after a change: the rows of what changed, and nothing after an action that changes no metadata."""

import asyncio
import random
from datetime import timedelta
from typing import Any

import pytest

from console.accounts import tokens
from console.accounts.roles import Role, Scope
from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.memory.directory import Directory
from metaserver.models import Ledger, MetadataChange, Subject, SubjectRoute
from metaserver.services import audit, broker_groups, groups, routes, subjects, teams
from metaserver.services.changes import METASERVER
from metaserver.stored.orm_repository import OrmRepository
from metaserver.stored.stored_metadata import StoredMetadata
from tests.served.metaserver.reading import rows_loaded
from tests.support.console.metadata import ACTOR, broker_group, route
from tests.support.console.people import person
from tests.support.manual_clock import ManualClock

pytestmark = [pytest.mark.django_db, pytest.mark.database]


class Follower:
    """A metaserver's memory that loaded everything once."""

    def __init__(self) -> None:
        self.repository = OrmRepository()
        self.directory = Directory(ManualClock(), random.Random(1))
        self.stored = StoredMetadata(self.directory, ManualClock())
        self.version = queries.metadata_version()
        asyncio.run(self.stored.load(queries.metadata()))

    def changed(self) -> domain.MetadataChanges:
        since, self.version = self.version, queries.metadata_version()
        found = queries.changed_metadata(since, self.version)
        assert found is not None
        return found

    def follow(self) -> Any:
        """Apply the changes, and compare the memory with that of a metaserver that loads everything."""
        reloaded = asyncio.run(self.stored.apply(self.changed()))
        whole = Directory(ManualClock(), random.Random(1))
        asyncio.run(StoredMetadata(whole, ManualClock()).load(queries.metadata()))
        assert self.directory.routes == whole.routes
        assert (self.directory.rules, self.directory.paused) == (whole.rules, whole.paused)
        assert set(self.directory.groups) == set(whole.groups)
        for name in whole.groups:
            assert set(self.directory.subjects_of(name)) == set(whole.subjects_of(name))
            assert self.directory.policies.version(name) == whole.policies.version(name), name
        return reloaded


def test_an_action_that_changes_no_metadata_causes_no_reload() -> None:
    subjects.create_subject("orders", {}, actor=ACTOR)
    before = queries.metadata_version()
    tokens.create_token(person("ada", Role.ADMIN), "ci", [Scope.READ], timedelta(days=1), actor=ACTOR)
    teams.create_team("shop", actor=ACTOR)
    groups.create_group("orders", "billing", {}, actor=ACTOR)
    audit.record(actor=ACTOR, action="message.produce", target="orders")
    assert queries.metadata_version() == before


def test_one_changed_subject_of_10000_loads_one_row() -> None:
    broker_group("g1")
    names = [f"s{n:05d}" for n in range(10_000)]
    Subject.objects.bulk_create([Subject(name=name) for name in names])
    SubjectRoute.objects.bulk_create(
        [SubjectRoute(subject=row, broker_groups=["g1"], version=1) for row in Subject.objects.all()]
    )
    follower = Follower()
    subjects.update_subject("s05000", {"messages_per_second": 5}, actor=ACTOR)
    with rows_loaded() as rows:
        found = follower.changed()
    assert (found.subjects, found.broker_groups) == ({"s05000"}, frozenset())
    assert max(rows[model] for model in ("Subject", "SubjectRoute")) <= 2, "a route comes with its subject"
    assert rows.total() <= 4
    asyncio.run(follower.stored.apply(found))
    assert follower.directory.policies.of("g1").subjects["s05000"].messages_per_second == 5  # type: ignore[union-attr]


def test_what_is_applied_change_by_change_is_what_a_full_load_gives() -> None:
    for name in ("g1", "g2"):
        broker_group(name)
    follower = Follower()
    broker_group("d1", kind=GroupKind.DELAY)
    first = route("orders", "g1")
    follower.follow()
    subjects.update_subject("orders", {"bytes_per_second": 9}, actor=ACTOR)
    subjects.create_subject("unserved", {"retention_hours": 2.0}, actor=ACTOR)
    follower.follow()
    assert routes.save_route(domain.Route("orders", ("g1", "g2"), 2, first.created_at_ms), actor=METASERVER, reason="")
    assert follower.follow().subjects == {"orders"}
    groups.create_group("orders", "billing", {}, actor=ACTOR)
    groups.set_paused("orders", "billing", True, consumer_id="c1", actor=ACTOR)
    follower.follow()
    assert follower.directory.paused == {("orders", "billing", "c1")}
    groups.delete_group("orders", "billing", actor=ACTOR)
    subjects.update_subject("orders", {"bytes_per_second": None}, actor=ACTOR)
    follower.follow()
    broker_groups.set_operator_state("g2", OperatorState.READ_ONLY, actor=ACTOR)
    assert follower.follow().broker_groups == {"g2"}
    routes.move("orders", ["g1"], actor=ACTOR, reason="")
    follower.follow()
    broker_groups.announce_group("g9", GroupKind.BROKER, actor=ACTOR)
    follower.follow()
    broker_groups.remove_group("g9", actor=ACTOR)
    follower.follow()


def test_a_deleted_subject_is_dropped_and_one_whose_route_is_not_stored_yet_is_kept() -> None:
    broker_group("g1")
    route("orders", "g1")
    follower = Follower()
    follower.directory.put_route(domain.Route("pending", ("g1",), 1, 0))
    subjects.create_subject("pending", {}, actor=ACTOR)
    Subject.objects.filter(name="orders").delete()
    audit.record(actor=ACTOR, action="subject.delete", target="orders", subject="orders")
    asyncio.run(follower.stored.apply(follower.changed()))
    assert set(follower.directory.routes) == {"pending"}
    assert set(follower.directory.subjects_of("g1")) == {"pending"}


def test_a_full_load_drops_what_was_deleted_and_keeps_what_is_not_stored_yet() -> None:
    broker_group("g1")
    route("orders", "g1")
    follower = Follower()
    follower.directory.put_route(domain.Route("pending", ("g1",), 1, 0))
    Subject.objects.all().delete()
    asyncio.run(follower.stored.load(queries.metadata()))
    assert set(follower.directory.routes) == {"pending"}


def test_a_reader_that_is_too_far_behind_loads_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "CHANGES_KEPT", 20)
    monkeypatch.setattr(audit, "TRIM_EVERY", 10)
    monkeypatch.setattr(queries, "CHANGES_MAX", 25)
    start = queries.metadata_version()
    versions = []
    for number in range(60):
        audit.record(actor=ACTOR, action="subject.update", target="orders", subject=f"s{number}")
        versions.append(queries.metadata_version())
    now = versions[-1]
    assert now.number == start.number + 60
    assert 20 <= MetadataChange.objects.count() <= 30, "old changes are deleted"
    assert queries.changed_metadata(versions[-20], now) is not None
    assert queries.changed_metadata(versions[-27], now) is None, "more than CHANGES_MAX"
    monkeypatch.setattr(queries, "CHANGES_MAX", 1_000)
    assert queries.changed_metadata(start, now) is None, "deleted"


def test_a_restored_database_is_loaded_as_a_whole_though_its_numbers_were_seen_before() -> None:
    audit.record(actor=ACTOR, action="subject.update", target="orders", subject="orders")
    old, ledger = queries.metadata_version(), Ledger.objects.values().get()
    for subject in ("paid", "shipped"):
        audit.record(actor=ACTOR, action="subject.update", target=subject, subject=subject)
    seen = queries.metadata_version()
    Ledger.objects.update(**ledger)
    MetadataChange.objects.filter(number__gt=old.number).delete()
    assert queries.changed_metadata(seen, queries.metadata_version()) is None, "the number is lower"
    for subject in ("refunded", "returned", "lost"):
        audit.record(actor=ACTOR, action="subject.update", target=subject, subject=subject)
        now = queries.metadata_version()
        assert now != seen
        assert queries.changed_metadata(seen, now) is None, f"number {now.number} after {seen.number}"
    found = queries.changed_metadata(old, now)
    assert found is not None
    assert found.subjects == {"refunded", "returned", "lost"}


def test_a_metaserver_whose_own_writes_come_back_changes_nothing() -> None:
    broker_group("g1")
    follower = Follower()
    made, is_new = follower.directory.route_of("orders")
    assert made is not None
    assert is_new
    routes.save_route(made, actor=METASERVER, reason="first registration")
    reloaded = asyncio.run(follower.stored.apply(follower.changed()))
    assert (reloaded.subjects, reloaded.broker_groups) == (set(), set())
    assert follower.directory.groups["g1"].group.state is GroupState.READ_WRITE
