"""/subjects/: who may what on whose, filters, answers, placement."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.jobs import jobs, rebalance
from metaserver.services import groups, routes, subjects, teams
from tests.support.console.metadata import ACTOR, audit_rows, broker_group, everything, route
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
LIST = "/api/v1/subjects/"


@pytest.fixture
def admin(db: None) -> APIClient:
    for team in ("shop", "stock"):
        teams.create_team(team, actor=ACTOR)
    subjects.create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    subjects.create_subject("Orders.old", {}, actor=ACTOR)
    subjects.create_subject("parts", {"owner": "stock"}, actor=ACTOR)
    subjects.set_archived("Orders.old", True, actor=ACTOR)
    return browser(person("root", Role.ADMIN))


@pytest.fixture
def operator(admin: APIClient) -> APIClient:
    return browser(person("olga", Role.OPERATOR, ["shop"]))


def refused(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.database
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["Orders.old", "orders", "parts"]), ("search=ORDER", ["Orders.old", "orders"]), ("search=_", []), ("search=%25", []),
        ("search=order+old", ["Orders.old"]), ("search=s+Par", ["parts"]), ("search=parts+order", []),
        ("search=+", ["Orders.old", "orders", "parts"]),
        ("prefix=orders", ["orders"]), ("owner=shop", ["orders"]), ("owner=none", []), ("is_owned=true", ["orders", "parts"]),
        ("is_owned=false", ["Orders.old"]), ("is_archived=true", ["Orders.old"]), ("is_archived=false", ["orders", "parts"]),
        ("is_archived=false&owner=stock", ["parts"]), ("is_owned=", ["Orders.old", "orders", "parts"]),
    ],
)  # fmt: skip
def test_each_filter(admin: APIClient, query: str, expected: list[str]) -> None:
    found = [row["name"] for row in admin.get(f"{LIST}?{query}").json()["results"]]
    assert sorted(found) == sorted(expected)


def test_favourites_are_the_callers_own(admin: APIClient, operator: APIClient) -> None:
    def names(who: APIClient, is_favourite: str) -> list[str]:
        return [
            row["name"] for row in who.get(LIST, {"is_favourite": is_favourite, "ordering": "name"}).json()["results"]
        ]

    assert names(admin, "true") == []
    chosen = {"preferences": {"favourite_subjects": ["parts", "orders", "gone"]}}
    assert admin.patch("/api/v1/me/", chosen).status_code == 200
    assert sorted(names(admin, "true")) == ["orders", "parts"]
    assert names(admin, "false") == ["Orders.old"]
    assert names(operator, "true") == [], "of somebody else"


def test_a_search_has_few_words(admin: APIClient) -> None:
    assert admin.get(LIST, {"search": "a " * 10}).status_code == 200
    answer = admin.get(LIST, {"search": "a " * 11})
    assert refused(answer) == (400, "request.invalid")
    assert "at most 10 words" in str(answer.json())


@pytest.mark.database
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [("g1", ["orders", "parts"]), ("G1", ["Orders.old"]), ("g", []), ('g1", "g2', []), ("gü", ["parts"]), ("%", [])],
)
def test_subjects_of_a_broker_group(admin: APIClient, wanted: str, expected: list[str]) -> None:
    route("orders", "g1", "g2")
    route("parts", "gü", "g1")
    route("Orders.old", "G1", "g3")
    found = admin.get(LIST, {"broker_group": wanted}).json()["results"]
    assert [row["name"] for row in found] == expected


def test_a_subject_with_its_route_and_groups(admin: APIClient) -> None:
    broker_group("g1")
    route("orders", "g1")
    for name in ("a", "b"):
        groups.create_group("orders", name, {}, actor=ACTOR)
    row = admin.get(f"{LIST}orders/").json()
    assert (row["consumer_groups"], row["broker_groups"], row["phases"]) == (2, ["g1"], {})
    assert (row["owner"], row["is_archived"], row["version"], row["may_change"]) == ("shop", False, "1", True)
    assert row == next(item for item in admin.get(LIST).json()["results"] if item["name"] == "orders")


def test_an_operator_changes_what_his_teams_own_and_what_nobody_owns(operator: APIClient) -> None:
    assert operator.patch(f"{LIST}orders/", {"tags": ["a"]}).status_code == 200
    assert operator.patch(f"{LIST}Orders.old/", {"tags": ["a"]}).status_code == 200
    before = everything()
    assert refused(operator.patch(f"{LIST}parts/", {"tags": ["a"]})) == (403, "access.denied")
    assert refused(operator.patch(f"{LIST}orders/", {"owner": "stock"})) == (403, "access.denied")
    assert refused(operator.post(LIST, {"name": "n", "owner": "stock"})) == (403, "access.denied")
    for word in ("archive", "restore"):
        assert refused(operator.post(f"{LIST}parts/{word}/")) == (403, "access.denied")
    assert everything() == before
    may = {row["name"]: row["may_change"] for row in operator.get(LIST).json()["results"]}
    assert may == {"Orders.old": True, "orders": True, "parts": False}
    assert operator.patch(f"{LIST}orders/", {"owner": None}).status_code == 200


@pytest.mark.database
def test_every_change_has_a_dry_run_that_says_the_same_and_does_nothing(admin: APIClient) -> None:
    broker_group("g1")
    broker_group("g2")
    route("orders", "g1")
    calls: list[tuple[str, str, dict[str, Any], int]] = [
        ("post", LIST, {"name": "new", "tags": ["a"]}, 201),
        ("patch", f"{LIST}orders/", {"retention_hours": 1}, 200),
        ("post", f"{LIST}orders/archive/", {"reason": "old"}, 200),
        ("post", f"{LIST}Orders.old/restore/", {}, 200),
        ("put", f"{LIST}orders/placement/", {"broker_groups": ["g2"]}, 200),
    ]
    for method, path, body, status in calls:
        before = everything()
        planned = getattr(admin, method)(f"{path}?dry_run=true", body)
        assert (planned.status_code, everything()) == (200, before), path
        done = getattr(admin, method)(path, body)
        assert done.status_code == status, done.content
        assert done.json() == planned.json() | {"dry_run": False}
        assert done.json()["is_change"] is True
        assert everything() != before
        assert len(audit_rows()) == len(before["audit"]) + 1
    for wrong in ("maybe", "TRUE", ""):
        assert refused(admin.post(f"{LIST}?dry_run={wrong}", {"name": "other"})) == (400, "request.invalid")


def test_the_reason_is_audited(admin: APIClient) -> None:
    admin.post(f"{LIST}orders/archive/", {"reason": "season is over"})
    entry = admin.get("/api/v1/audit/?action=subject.archive&target=orders").json()["results"][0]
    assert (entry["reason"], entry["actor"]) == ("season is over", "root")
    for reason in (5, "x" * 501, ["a"], "a\x00"):
        assert admin.post(f"{LIST}orders/restore/", {"reason": reason}).status_code == 400
    assert admin.post(f"{LIST}orders/restore/", {"reason": "x" * 500}).status_code == 200


@pytest.mark.database
def test_placement_has_a_version_of_its_own(admin: APIClient) -> None:
    path = f"{LIST}orders/placement/"
    assert refused(admin.get(path)) == (404, "route.unknown")
    assert refused(admin.put(path, {"broker_groups": ["g1"]})) == (404, "route.unknown")
    for name in ("g1", "g2"):
        broker_group(name)
    route("orders", "g1")
    shown = admin.get(path)
    at_rest = {"broker_groups": ["g1"], "phases": {}, "waiting": [], "version": "1"}
    assert (shown.json(), shown.headers["ETag"]) == (at_rest, '"v1"')
    done = admin.put(path, {"broker_groups": ["g1", "g2"], "reason": "load"}, HTTP_IF_MATCH='"v1"')
    assert (done.status_code, done.headers["ETag"]) == (200, '"v2"')
    assert admin.get(path).json()["phases"] == {"g2": "joining"}
    assert refused(admin.put(path, {"broker_groups": ["g1"]}, HTTP_IF_MATCH='"v1"')) == (412, "change.stale")
    assert refused(admin.put(path, {"broker_groups": ["none"]})) == (409, "broker_group.unknown")
    for body in (
        {},
        {"broker_groups": []},
        {"broker_groups": "g1"},
        {"broker_groups": [""]},
        {"broker_groups": ["g"] * 51},
    ):
        assert refused(admin.put(path, body)) == (400, "request.invalid")
    operator = browser(person("olga", Role.OPERATOR, ["shop"]))
    assert refused(operator.put(path, {"broker_groups": ["g1"]})) == (403, "access.denied")
    assert routes.SubjectRoute.objects.get().version == 2


def test_a_move_says_what_it_waits_for(admin: APIClient) -> None:
    for name in ("g1", "g2"):
        broker_group(name)
    for name in ("orders", "parts"):
        route(name, "g1")
    path = f"{LIST}orders/placement/"
    admin.put(path, {"broker_groups": ["g2"]})
    assert admin.get(path).json()["waiting"] == []
    assert jobs.run("moves").text.startswith("1 subject moving, 0 steps completed; waiting for: ")
    (reason,) = admin.get(path).json()["waiting"]
    assert (reason["subject"], reason["code"]) == ("orders", "waiting.consumers")
    assert reason["text"] == "orders on g2: consumers connect before producers"
    assert admin.get(f"{LIST}parts/placement/").json()["waiting"] == []


def test_reasons_are_kept_of_so_many_moves_only(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebalance, "WAITING_MAX", 1)
    for name in ("g1", "g2"):
        broker_group(name)
    for name in ("orders", "parts"):
        route(name, "g1")
        admin.put(f"{LIST}{name}/placement/", {"broker_groups": ["g2"]})
    jobs.run("moves")
    kept = [admin.get(f"{LIST}{name}/placement/").json()["waiting"] for name in ("orders", "parts")]
    assert sorted(map(len, kept)) == [0, 1]
