"""Provisioning: a document is applied as a whole or not at all, and a dry run says what applying it does."""

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metaserver import queries
from metaserver.errors import ChangeRefused, NotAllowed
from metaserver.services import apply as service
from metaserver.services import audit, documents, groups, subjects, teams
from metaserver.services.changes import Actor
from tests.support.console.at_once import at_once, needs_two_writers
from tests.support.console.metadata import ACTOR, everything

pytestmark = pytest.mark.django_db
DOCUMENT = {
    "teams": [{"name": "shop", "description": "sells"}, "stock"],
    "subjects": [
        {"name": "orders", "owner": "shop", "tags": ["a"], "consumer_groups": [{"name": "billing", "tags": ["x"]}, "audit"]},
        {"name": "old", "archived": True},
        "plain",
    ],
}  # fmt: skip


def apply(document: Any, **options: Any) -> service.Plan:
    return service.apply(document, actor=ACTOR, reason="provisioning", **options)


def told(plan: service.Plan) -> list[tuple[str, str, str]]:
    return [(step.kind, step.action, step.target) for step in plan.steps]


@pytest.mark.database
def test_a_document_is_made_kept_and_changed() -> None:
    empty = everything()
    planned = apply(DOCUMENT, dry_run=True)
    assert everything() == empty
    assert apply(DOCUMENT) == planned
    assert told(planned) == [
        ("team", "create", "shop"),
        ("team", "create", "stock"),
        ("subject", "create", "orders"),
        ("consumer_group", "create", "orders/billing"),
        ("consumer_group", "create", "orders/audit"),
        ("subject", "create", "old"),
        ("subject", "archive", "old"),
        ("subject", "create", "plain"),
    ]
    there = everything()
    assert {entry[0] for entry in there["audit"]} == {
        "settings.apply",
        "team.create", "subject.create", "consumer_group.create", "subject.archive",
    }  # fmt: skip
    again = apply(DOCUMENT)
    assert not again.changes
    assert {step.action for step in again.steps} == {"keep"}
    assert everything() == there, "the second time changes nothing, and audits nothing"
    changed = apply(
        {"teams": [{"name": "shop", "description": "buys"}], "subjects": [{"name": "old", "archived": False}]}
    )
    assert [step[1] for step in told(changed)] == ["update", "keep", "restore"]
    assert changed.steps[0].before == {"description": "sells"}
    assert changed.steps[0].after == {"description": "buys"}
    assert everything()["subjects"]["orders"] == there["subjects"]["orders"], "what is not named stays"


@pytest.mark.database
def test_groups_beside_the_document_are_drift_and_stay() -> None:
    apply(DOCUMENT)
    groups.create_group("orders", "stray", {}, actor=ACTOR)
    groups.create_group("plain", "not looked at", {}, actor=ACTOR)
    assert apply(DOCUMENT).drift == ("orders/stray",)
    assert apply({"subjects": [{"name": "orders", "consumer_groups": []}]}).drift == (
        "orders/audit",
        "orders/billing",
        "orders/stray",
    )
    assert apply({"subjects": ["orders"]}).drift == ()
    assert ("orders", "stray") in everything()["groups"]


WRONG: list[tuple[Any, str]] = [
    (None, "the document"), ([], "the document"), ("x", "the document"), (5, "the document"),
    ({"topics": []}, "the document"), ({5: []}, "the document"),
    ({"subjects": {}}, "subjects"), ({"subjects": "orders"}, "subjects"),
    ({"subjects": [5]}, "subjects, number 1"), ({"subjects": ["ok", {}]}, "subjects, number 2"),
    ({"subjects": [None]}, "subjects, number 1"), ({"subjects": [""]}, "subjects, number 1"),
    ({"subjects": [{"name": ["a"]}]}, "subjects, number 1"), ({"subjects": ["a\x00"]}, "subjects, number 1"),
    ({"subjects": ["\ud800"]}, "subjects, number 1"), ({"subjects": ["a", "a"]}, "subjects"),
    ({"subjects": [{"name": "a", "oner": "shop"}]}, "subjects, number 1"),
    ({"subjects": [{"name": "a", "archived": "yes"}]}, "subject a"),
    ({"subjects": [{"name": "a", "consumer_groups": {}}]}, "consumer_groups of subject a"),
    ({"subjects": [{"name": "a", "consumer_groups": ["g", "g"]}]}, "consumer_groups of subject a"),
    ({"subjects": [{"name": "a", "consumer_groups": [{"name": "g", "x": 1}]}]}, "consumer_groups of subject a, number 1"),
    ({"teams": [{"name": "shop", "members": []}]}, "teams, number 1"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "where"), WRONG)
def test_a_document_of_another_shape_is_refused_with_the_place(document: Any, where: str) -> None:
    before = everything()
    for dry_run in (False, True):
        with pytest.raises(ChangeRefused) as refused:
            apply(document, dry_run=dry_run)
        assert refused.value.code == "apply.invalid"
        assert set(refused.value.fields) == {where}
    assert everything() == before


@pytest.mark.database
@pytest.mark.parametrize(
    ("item", "where", "code"),
    [
        ({"name": "a b"}, "subject a b", "subject.name_illegal"),
        ({"name": "a", "retention_hours": 0}, "subject a", "subject.invalid"),
        ({"name": "a", "owner": "unknown"}, "subject a", "subject.invalid"),
        ({"name": "a", "description": None}, "subject a", "subject.invalid"),
        ({"name": "a", "consumer_groups": ["x/y"]}, "consumer group x/y of a", "group.name_illegal"),
        (
            {"name": "a", "consumer_groups": [{"name": "g", "tags": 5}]},
            "consumer group g of a",
            "consumer_group.invalid",
        ),
    ],
)
def test_one_wrong_thing_at_the_end_and_nothing_is_done(item: dict[str, Any], where: str, code: str) -> None:
    apply({"subjects": ["plain"]})
    before = everything()
    for dry_run in (False, True):
        with pytest.raises(ChangeRefused) as refused:
            apply({"teams": ["new"], "subjects": [{"name": "plain", "tags": ["a"]}, "other", item]}, dry_run=dry_run)
        assert refused.value.code == code
        assert set(refused.value.fields) == {where}
        assert str(refused.value).startswith(where)
    assert everything() == before
    for team in ({"name": "Shop"}, {"name": "shop", "description": False}, {"name": "shop", "description": []}):
        with pytest.raises(ChangeRefused):
            apply({"teams": ["new", team]})
    assert everything() == before


@pytest.mark.database
def test_all_problems_are_named_at_once_each_with_its_place() -> None:
    apply({"subjects": [{"name": "plain", "consumer_groups": ["g"]}]})
    before = everything()
    document = {
        "topics": [],
        "teams": [{"name": "Shop"}, {"name": "stock", "description": 5}],
        "subjects": [
            {"name": "a", "retention_hour": 5, "retention_hours": 0, "tags": "x", "owner": "unknown"},
            {"name": "b c", "consumer_groups": ["x/y", {"name": "g", "tag": [], "description": None}]},
            {"name": "plain", "archived": "yes", "consumer_groups": [{"name": "g", "tags": 5}, "x/y"]},
            7,
            {"name": "d", "owner": "stock"},
        ],
    }
    for dry_run in (False, True):
        with pytest.raises(ChangeRefused) as refused:
            apply(document, dry_run=dry_run)
        fields = refused.value.fields
        assert refused.value.code == "apply.invalid"
        assert set(fields) == {
            "the document", "team Shop", "team stock", "subjects, number 1", "subject a", "subject b c",
            "consumer_groups of subject b c, number 2", "consumer group x/y of b c", "consumer group g of b c", "subject plain",
            "consumer group g of plain", "consumer group x/y of plain", "subjects, number 4",
        }  # fmt: skip
        assert fields["the document"] == "has the unknown key 'topics'; known: teams, subjects"
        assert fields["subjects, number 1"] == "has the unknown key 'retention_hour'; did you mean 'retention_hours'?"
        for text in ("retention_hours: 0: must be", "tags: must be", "owner: team 'unknown' not found"):
            assert text in fields["subject a"]
        assert fields["subjects, number 4"].startswith("7: must be a name or a mapping with name,")
        for place, text in fields.items():
            assert f"{place}: " in str(refused.value)
            assert all(each in str(refused.value) for each in text.split("; "))
    assert everything() == before


def test_beyond_a_limit_problems_are_counted() -> None:
    names = [f"s{number}" for number in range(documents.PROBLEMS_MAX + 2)]
    for count, more in ((documents.PROBLEMS_MAX, ""), (len(names), "and 2 more: correct these first")):
        with pytest.raises(ChangeRefused) as refused:
            apply({"subjects": [{"name": name, "tags": 5} for name in names[:count]]})
        assert refused.value.fields.pop("the document", "") == more
        assert refused.value.code == "subject.invalid", "the code that all have in common"
    assert len(refused.value.fields) == documents.PROBLEMS_MAX


def test_a_document_with_something_that_may_not_be_changed_is_denied_whatever_else_is_wrong() -> None:
    teams.create_team("stock", actor=ACTOR)
    subjects.create_subject("parts", {"owner": "stock"}, actor=ACTOR)
    before = everything()
    with pytest.raises(NotAllowed) as refused:
        service.apply(
            {"subjects": [{"name": "a", "tags": 5}, {"name": "parts", "tags": ["x"]}]},
            actor=Actor("olga", teams=frozenset()),
        )
    assert refused.value.code == "access.denied"
    assert set(refused.value.fields) == {"subject a", "subject parts"}
    assert everything() == before


def test_a_document_names_a_limited_number_of_things(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "ITEMS_MAX", 4)
    apply({"teams": ["t"], "subjects": [{"name": "a", "consumer_groups": ["g", "h"]}]})
    before = everything()
    with pytest.raises(ChangeRefused) as refused:
        apply({"teams": ["t", "u"], "subjects": [{"name": "a", "consumer_groups": ["g", "h"]}]})
    assert "contains 5 objects; the limit is 4" in str(refused.value)
    assert everything() == before


NAMES = st.sampled_from(["a", "b", "c", "a b", "%x"])
TEXTS = st.sampled_from(["", "text", "déjà vu", "\x00"])
TEAM_NAMES = st.sampled_from(["shop", "stock", "Bad"])
GROUPS = st.fixed_dictionaries(
    {"name": st.sampled_from(["g", "h", "i/j"])},
    optional={"description": TEXTS, "tags": st.lists(st.sampled_from(["x", "y", ""]), max_size=2)},
)
SUBJECTS = st.fixed_dictionaries(
    {"name": NAMES},
    optional={
        "description": TEXTS,
        "owner": st.none() | TEAM_NAMES,
        "tags": st.lists(st.sampled_from(["x", "y", "z"]), max_size=3),
        "messages_per_second": st.none() | st.integers(0, 5),
        "retention_hours": st.none() | st.sampled_from([1, 2.5, -1]),
        "allowed_groups": st.none() | st.lists(st.sampled_from(["g", "h"]), max_size=2),
        "archived": st.booleans(),
        "consumer_groups": st.lists(GROUPS, max_size=2, unique_by=lambda item: item["name"]),
    },
)
TEAMS = st.fixed_dictionaries({"name": TEAM_NAMES}, optional={"description": TEXTS})
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "teams": st.lists(TEAMS, max_size=2, unique_by=lambda item: item["name"]),
        "subjects": st.lists(SUBJECTS, max_size=3, unique_by=lambda item: item["name"]),
    },
)


def outcome(document: Any, *, dry_run: bool) -> tuple[Any, ...]:
    try:
        plan = apply(document, dry_run=dry_run)
    except ChangeRefused as error:
        return ("refused", error.code, str(error), error.fields)
    return ("done", plan)


@pytest.mark.database
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(DOCUMENTS, min_size=1, max_size=3))
def test_a_dry_run_says_what_applying_does_and_the_second_time_nothing_is_left(db: None, documents: list[Any]) -> None:
    with transaction.atomic():
        for document in documents:
            before = everything()
            planned = outcome(document, dry_run=True)
            assert everything() == before
            done = outcome(document, dry_run=False)
            assert done == planned
            after = everything()
            if done[0] == "refused":
                assert after == before, "all or nothing"
                continue
            plan = done[1]
            # One entry for each change, and one for the document.
            assert len(after["audit"]) - len(before["audit"]) == len(plan.changes) + bool(plan.changes)
            _, again = outcome(document, dry_run=False)
            assert not again.changes
            assert everything() == after
        transaction.set_rollback(True)


@pytest.mark.database
@pytest.mark.django_db(transaction=True)
@needs_two_writers
def test_two_documents_over_the_same_things_in_opposite_order_are_both_applied() -> None:
    names = [f"s{number:02}" for number in range(20)]
    teams.create_team("shop", actor=ACTOR)
    for name in names:
        subjects.create_subject(name, {}, actor=ACTOR)

    def document(tag: str, order: list[str]) -> Any:
        return {"subjects": [{"name": name, "description": tag} for name in order]}

    for _ in range(3):
        found = at_once(
            lambda: apply(document("one", names)),
            lambda: apply(document("two", names[::-1])),
            lambda: subjects.update_subject("s05", {"tags": ["t"]}, actor=ACTOR),
        )
        assert not [item for item in found if isinstance(item, Exception)], found
        assert len({row.description for row in queries.subjects()}) == 1, "one document after the other, never mixed"
    assert audit.verify().problem == ""
