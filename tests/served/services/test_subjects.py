"""Subjects and teams: what is refused and how it is said, dry runs, versions, audit, two writers at once."""

from typing import Any

import pytest
from django.utils import timezone

from metaserver import queries
from metaserver.errors import ChangeRefused, Conflict, NotFound, Stale
from metaserver.models import Subject
from metaserver.services import audit, teams
from metaserver.services import subjects as service
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import ACTOR, audit_rows, everything, last_audit

pytestmark = pytest.mark.django_db
BAD_NAMES = [
    "",
    "a/b",
    "a b",
    "a\nb",
    "a\u2003b",
    "x" * 101,
    "%RETRY%a%b",
    "%DEAD_RETRY%a%b",
    "%else",
    "a\x00b",
    "a\ud800",
]
BAD_VALUES: list[tuple[str, Any]] = [
    ("description", 5), ("description", None), ("description", "x" * 501), ("description", "a\x00"), ("description", "\udfff"),
    ("owner", "nobody"), ("owner", 5), ("owner", ["shop"]), ("owner", "a\x00"), ("owner", {"a": 1}),
    ("tags", "word"), ("tags", None), ("tags", [""]), ("tags", ["x" * 51]), ("tags", [5]), ("tags", ["a\x00"]), ("tags", [["a"]]),
    ("tags", [f"t{number}" for number in range(21)]),
    ("messages_per_second", 0), ("messages_per_second", -1), ("messages_per_second", 1.5), ("messages_per_second", True),
    ("messages_per_second", "5"), ("messages_per_second", 10_000_001),
    ("bytes_per_second", 0), ("bytes_per_second", (100 << 30) + 1), ("bytes_per_second", 10**400),
    ("retention_hours", 0), ("retention_hours", float("nan")), ("retention_hours", float("inf")), ("retention_hours", -0.5),
    ("retention_hours", 24 * 366 * 2 + 1), ("retention_hours", "1"),
    ("allowed_groups", "g"), ("allowed_groups", [5]), ("allowed_groups", [""]), ("allowed_groups", ["a/b"]),
    ("allowed_groups", ["a\x00"]), ("allowed_groups", [f"g{number}" for number in range(201)]),
    ("archived", True), ("name", "other"), ("version", 7),
]  # fmt: skip


def create(name: str = "orders", **values: Any) -> None:
    service.create_subject(name, values, actor=ACTOR)


def row(name: str = "orders") -> Subject:
    return Subject.objects.get(name=name)


@pytest.mark.database
def test_a_subject_is_made_with_what_was_asked_and_one_audit_entry() -> None:
    teams.create_team("shop", actor=ACTOR)
    values = {"owner": "shop", "tags": ["b", "a", "a"], "retention_hours": 5, "allowed_groups": ["g2", "g1"]}
    change = service.create_subject("orders", values, actor=ACTOR, reason="new shop")
    expected = {
        "description": "", "owner": "shop", "tags": ["a", "b"], "messages_per_second": None, "bytes_per_second": None,
        "retention_hours": 5, "allowed_groups": ["g1", "g2"], "masking": [], "body_format": "json",
        "body_schema": "", "archived": False,
    }  # fmt: skip
    assert (change.before, change.after, change.version) == (None, expected, 1)
    assert service.described(row()) == expected
    entry = last_audit()
    assert (entry.action, entry.target, entry.before, entry.after) == ("subject.create", "orders", None, expected)
    assert (entry.actor, entry.address, entry.request_id, entry.reason) == (
        "ada",
        "192.0.2.7",
        "request-1234",
        "new shop",
    )
    assert entry.at <= timezone.now()


@pytest.mark.parametrize("name", BAD_NAMES)
def test_an_illegal_name_is_refused(name: str) -> None:
    before = everything()
    with pytest.raises(ChangeRefused) as refused:
        create(name)
    assert refused.value.code == "subject.name_illegal"
    assert set(refused.value.fields) == {"name"}
    assert everything() == before


@pytest.mark.parametrize(("key", "value"), BAD_VALUES)
def test_a_value_that_is_not_allowed_is_refused_by_its_name(key: str, value: Any) -> None:
    create(description="first")
    before = everything()
    for dry_run in (False, True):
        with pytest.raises(ChangeRefused) as refused:
            service.update_subject("orders", {"description": "second", key: value}, actor=ACTOR, dry_run=dry_run)
        assert refused.value.code == "subject.invalid"
        assert set(refused.value.fields) == {key}
        with pytest.raises(ChangeRefused):
            service.create_subject("other", {key: value}, actor=ACTOR, dry_run=dry_run)
    assert everything() == before


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ChangeRefused) as refused:
        create(tags=5, retention_hours=0, owner="nobody")
    assert set(refused.value.fields) == {"tags", "retention_hours", "owner"}


@pytest.mark.database
def test_limits_are_taken_as_they_are_and_null_takes_them_away() -> None:
    limits = {
        "messages_per_second": 10_000_000,
        "bytes_per_second": 100 << 30,
        "retention_hours": 24 * 366 * 2,
        "allowed_groups": [f"g{number:03}" for number in range(200)],
        "tags": [f"t{number:02}" for number in range(20)],
        "description": "x" * 500,
    }
    create(**limits)
    assert {key: service.described(row())[key] for key in limits} == limits
    nothing = dict.fromkeys(("messages_per_second", "bytes_per_second", "retention_hours", "allowed_groups"))
    service.update_subject("orders", nothing, actor=ACTOR)
    assert {key: service.described(row())[key] for key in nothing} == nothing


@pytest.mark.database
def test_a_dry_run_says_what_would_happen_and_changes_nothing() -> None:
    create()
    teams.create_team("shop", actor=ACTOR)
    before = everything()
    changes = [
        service.create_subject("new", {"tags": ["a"]}, actor=ACTOR, dry_run=True),
        service.update_subject("orders", {"tags": ["a"]}, actor=ACTOR, dry_run=True),
        service.set_archived("orders", True, actor=ACTOR, dry_run=True),
        teams.create_team("new", actor=ACTOR, dry_run=True),
        teams.update_team("shop", "text", actor=ACTOR, dry_run=True),
        teams.delete_team("shop", actor=ACTOR, dry_run=True),
    ]
    assert all(change.is_change for change in changes)
    assert everything() == before
    done = service.update_subject("orders", {"tags": ["a"]}, actor=ACTOR)
    assert done == changes[1]


@pytest.mark.database
def test_the_same_value_twice_changes_nothing_the_second_time() -> None:
    create()
    for values in ({"tags": ["b", "a"]}, {"retention_hours": 5}, {"description": "text"}, {"allowed_groups": []}):
        assert service.update_subject("orders", values, actor=ACTOR).is_change
        before = everything()
        assert not service.update_subject("orders", values, actor=ACTOR).is_change
        assert everything() == before
    assert service.set_archived("orders", True, actor=ACTOR).is_change
    archived_at, before = row().archived_at, everything()
    assert not service.set_archived("orders", True, actor=ACTOR).is_change
    assert (row().archived_at, everything()) == (archived_at, before)


@pytest.mark.database
def test_archiving_and_back_is_audited_with_before_and_after() -> None:
    create()
    first = service.described(row())
    notes = service.set_archived("orders", True, actor=ACTOR, reason="old").notes
    assert "rejected" in notes[0]
    service.set_archived("orders", False, actor=ACTOR)
    archived = {**first, "archived": True}
    assert audit_rows()[-2:] == [
        ("subject.archive", "orders", first, archived),
        ("subject.restore", "orders", archived, first),
    ]
    assert row().version == 3


@pytest.mark.database
def test_whoever_read_an_old_version_changes_nothing() -> None:
    create()
    service.update_subject("orders", {"description": "x"}, actor=ACTOR, expected_version=1)
    before = everything()
    for call in (
        lambda: service.update_subject("orders", {"description": "y"}, actor=ACTOR, expected_version=1),
        lambda: service.set_archived("orders", True, actor=ACTOR, expected_version=3),
        lambda: service.update_subject("orders", {"tags": 5}, actor=ACTOR, expected_version=1, dry_run=True),
    ):
        with pytest.raises(Stale):
            call()
    assert everything() == before


@pytest.mark.database
def test_what_is_not_there_and_what_is_there_already() -> None:
    create()
    for call in (
        lambda: service.update_subject("none", {}, actor=ACTOR),
        lambda: service.set_archived("none", True, actor=ACTOR),
    ):
        with pytest.raises(NotFound) as missing:
            call()
        assert missing.value.code == "subject.unknown"
    with pytest.raises(Conflict) as there:
        create()
    assert there.value.code == "subject.exists"
    create("Orders")  # another subject, on every database
    assert queries.subjects().count() == 2


@pytest.mark.database
def test_teams_are_made_described_and_removed_when_they_own_nothing() -> None:
    for name in ("", "Shop", "-a", "x" * 61, "a b", "a\x00"):
        with pytest.raises(ChangeRefused) as refused:
            teams.create_team(name, actor=ACTOR)
        assert (refused.value.code, set(refused.value.fields)) == ("team.name_illegal", {"name"})
    teams.create_team("shop", "all of it", actor=ACTOR)
    with pytest.raises(Conflict):
        teams.create_team("shop", actor=ACTOR)
    with pytest.raises(ChangeRefused) as refused:
        teams.update_team("shop", "x" * 501, actor=ACTOR)
    assert refused.value.code == "team.invalid"
    with pytest.raises(Stale):
        teams.update_team("shop", "text", actor=ACTOR, expected_version=9)
    assert not teams.update_team("shop", "all of it", actor=ACTOR).is_change
    create(owner="shop")
    with pytest.raises(Conflict) as owns:
        teams.delete_team("shop", actor=ACTOR)
    assert (owns.value.code, "orders" in str(owns.value)) == ("team.owns", True)
    service.update_subject("orders", {"owner": None}, actor=ACTOR)
    teams.delete_team("shop", actor=ACTOR, reason="closed")
    assert audit_rows()[-1] == ("team.delete", "shop", {"description": "all of it"}, None)
    with pytest.raises(NotFound):
        teams.update_team("shop", "", actor=ACTOR)


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@needs_two_writers
class TestTwoWriters:
    """At once, each in a transaction of its own."""

    def test_of_those_who_make_the_same_subject_one_does(self) -> None:
        found = at_once(*(lambda: create("orders") for _ in range(4)))
        assert sum(isinstance(item, Conflict) for item in found) == 3, found
        assert [entry[0] for entry in audit_rows()] == ["subject.create"]

    def test_of_those_who_change_the_version_they_read_one_does(self) -> None:
        create()

        def change(number: int) -> Any:
            return service.update_subject("orders", {"description": f"d{number}"}, actor=ACTOR, expected_version=1)

        found = at_once(*(lambda n=number: change(n) for number in range(4)))
        assert sum(isinstance(item, Stale) for item in found) == 3, found
        assert row().version == 2

    def test_changes_of_different_values_are_both_kept(self) -> None:
        create()
        values: list[dict[str, Any]] = [{"description": "text"}, {"tags": ["a"]}, {"retention_hours": 2.0}]
        found = at_once(*(lambda v=value: service.update_subject("orders", v, actor=ACTOR) for value in values))
        assert not [item for item in found if isinstance(item, Exception)], found
        stored = service.described(row())
        assert (stored["description"], stored["tags"], stored["retention_hours"]) == ("text", ["a"], 2.0)
        assert row().version == 4
        assert audit.verify().problem == ""

    def test_a_team_that_is_given_a_subject_meanwhile_is_not_removed_with_an_owner_left_behind(self) -> None:
        teams.create_team("shop", actor=ACTOR)
        found = at_once(lambda: create(owner="shop"), lambda: teams.delete_team("shop", actor=ACTOR))
        assert sum(isinstance(item, Exception) for item in found) == 1, found
        assert all(isinstance(item, ChangeRefused) for item in found if isinstance(item, Exception)), found
