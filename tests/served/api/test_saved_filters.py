"""/subjects/{subject}/saved-filters/: who sees which filters, and what becomes of those of a deleted team."""

import pytest
from rest_framework.test import APIClient

from console import saved_filters
from console.accounts.roles import Role
from console.models import SavedFilter
from metaserver import queries
from metaserver.services import subjects, teams
from tests.support.console.people import TESTER, browser, person

pytestmark = pytest.mark.django_db
WHERE = "/api/v1/subjects/orders/saved-filters/"


@pytest.fixture
def ada(db: None) -> APIClient:
    for name in ("shop", "warehouse"):
        teams.create_team(name, actor=TESTER)
    subjects.create_subject("orders", {}, actor=TESTER)
    return browser(person("ada", Role.OPERATOR, ["shop"]))


def saved(client: APIClient, subject: str = "orders") -> list[tuple[str, str | None, str]]:
    answer = client.get(f"/api/v1/subjects/{subject}/saved-filters/")
    assert answer.status_code == 200, answer.content
    return [(row["name"], row["team"], row["filter"]) for row in answer.json()["results"]]


def test_a_filter_is_its_users_or_its_teams(ada: APIClient) -> None:
    bob = browser(person("bob", Role.OPERATOR, ["shop", "warehouse"]))
    eve = browser(person("eve", Role.OPERATOR, ["warehouse"]))
    root = browser(person("root", Role.ADMIN))
    made = ada.post(WHERE, {"name": "mine", "filter": "body.amount > 100"}, format="json")
    assert (made.status_code, made.json()["after"]["filter"][:13]) == (201, "17 characters")
    assert "amount" not in str(made.json()), "what is searched for is not recorded"
    shared = ada.post(WHERE, {"name": "ours", "filter": "region=eu", "team": "shop"}, format="json").json()
    assert saved(ada) == [("mine", None, "body.amount > 100"), ("ours", "shop", "region=eu")]
    assert saved(ada, "%25RETRY%25orders%25g") == saved(ada)
    assert saved(bob) == saved(root) == [("ours", "shop", "region=eu")]
    assert saved(eve) == []
    assert eve.delete(f"{WHERE}{shared['id']}/").status_code == 404
    assert root.delete(f"{WHERE}{made.json()['id']}/").status_code == 404, "another user's own"
    assert bob.delete(f"{WHERE}{shared['id']}/", {"reason": "old"}, format="json").status_code == 200
    assert saved(bob) == []
    actions = [
        (entry.action, entry.target, entry.reason) for entry in queries.audit_entries() if "saved" in entry.action
    ]
    assert ("saved_filter.create", "orders/ours", "") in actions
    assert ("saved_filter.delete", "orders/ours", "old") in actions


def test_filters_of_a_deleted_team_are_the_administrators(ada: APIClient) -> None:
    root = browser(person("root", Role.ADMIN))
    made = ada.post(WHERE, {"name": "ours", "filter": "x", "team": "shop"}, format="json").json()
    teams.delete_team("shop", actor=TESTER)
    assert saved(ada) == []
    assert saved(root) == [("ours", "shop", "x")]
    answer = root.post(WHERE, {"name": "more", "filter": "x", "team": "shop"}, format="json")
    assert (answer.status_code, answer.json()["fields"]) == (400, {"team": "team 'shop' not found"})
    [row] = root.get(WHERE).json()["results"]
    assert (row["is_team_deleted"], row["by"]) == (True, "ada")
    given = root.patch(f"{WHERE}{made['id']}/", {"team": "warehouse"}, format="json")
    assert (given.status_code, given.json()["version"]) == (200, "2"), given.content
    [row] = root.get(WHERE).json()["results"]
    assert (row["is_team_deleted"], row["team"]) == (False, "warehouse")
    assert root.delete(f"{WHERE}{made['id']}/").status_code == 200
    assert SavedFilter.objects.count() == 0


def test_a_filter_is_renamed_changed_and_shared(ada: APIClient) -> None:
    bob = browser(person("bob", Role.OPERATOR, ["shop"]))
    where = f"{WHERE}{ada.post(WHERE, {'name': 'mine', 'filter': 'a=1'}, format='json').json()['id']}/"
    assert bob.patch(where, {"name": "his"}, format="json").status_code == 404, "another user's own"
    renamed = ada.patch(where, {"name": "first"}, format="json")
    assert (renamed.status_code, renamed.headers["ETag"]) == (200, '"v2"'), renamed.content
    # As many characters as before: a change all the same.
    changed = ada.patch(where, {"filter": "a=2"}, format="json", headers={"If-Match": '"v2"'})
    assert (changed.json()["is_change"], changed.json()["version"]) == (True, "3")
    stale = ada.patch(where, {"filter": "a=3"}, format="json", headers={"If-Match": '"v2"'})
    assert stale.status_code == 412
    assert ada.patch(f"{where}?dry_run=true", {"team": "shop"}, format="json").json()["is_change"] is True
    assert saved(ada) == [("first", None, "a=2")]
    assert ada.patch(where, {"team": "shop"}, format="json").status_code == 200
    assert saved(bob) == [("first", "shop", "a=2")]
    assert bob.patch(where, {"team": None}, format="json").status_code == 200, "a member can take it"
    assert (saved(ada), saved(bob)) == ([], [("first", None, "a=2")])


@pytest.mark.parametrize(
    ("body", "field"),
    [({"name": ""}, "name"), ({"filter": " "}, "filter"), ({"team": "warehouse"}, "team"), ({"text": "x"}, "text")],
)
def test_what_a_filter_can_not_become(ada: APIClient, body: dict[str, str], field: str) -> None:
    where = f"{WHERE}{ada.post(WHERE, {'name': 'mine', 'filter': 'a=1'}, format='json').json()['id']}/"
    answer = ada.patch(where, body, format="json")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field]), answer.content
    assert saved(ada) == [("mine", None, "a=1")]


def test_a_changed_filter_takes_no_name_and_no_room_of_others(ada: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_filters, "SAVED_FILTERS_MAX", 2)
    for name, team in (("a", None), ("b", None), ("c", "shop"), ("d", "shop")):
        made = ada.post(WHERE, {"name": name, "filter": "x", "team": team}, format="json").json()
    where = f"{WHERE}{made['id']}/"
    assert ada.patch(where, {"name": "c"}, format="json").json()["code"] == "saved_filter.exists"
    assert ada.patch(where, {"team": None}, format="json").json()["code"] == "saved_filter.too_many"
    assert ada.patch(where, {"filter": "y"}, format="json").status_code == 200, "where it is there is room"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "", "filter": "x"}, "name"),
        ({"name": "n" * 61, "filter": "x"}, "name"),
        ({"name": "n", "filter": ""}, "filter"),
        ({"name": "n", "filter": "x" * 4_001}, "filter"),
        ({"name": "n", "filter": "x", "team": "warehouse"}, "team"),
        ({"name": "n", "filter": "x", "team": "nobody"}, "team"),
        ({"name": "n", "filter": "x", "tem": "shop"}, "tem"),
    ],
)
def test_what_can_not_be_saved(ada: APIClient, body: dict[str, str], field: str) -> None:
    answer = ada.post(WHERE, body, format="json")
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field]), answer.content
    assert SavedFilter.objects.count() == 0


def test_names_are_used_once_and_there_are_only_so_many(ada: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_filters, "SAVED_FILTERS_MAX", 2)
    codes = []
    for name, team in (("a", None), ("a", "shop"), ("a", None), ("b", None), ("c", None)):
        answer = ada.post(WHERE, {"name": name, "filter": "x", "team": team}, format="json")
        codes.append(answer.json().get("code", answer.status_code))
    assert codes == [201, 201, "saved_filter.exists", 201, "saved_filter.too_many"]


def test_a_dry_run_saves_and_deletes_nothing(ada: APIClient) -> None:
    answer = ada.post(f"{WHERE}?dry_run=true", {"name": "a", "filter": "x"}, format="json")
    assert (answer.status_code, answer.json()["id"], SavedFilter.objects.count()) == (200, None, 0)
    made = ada.post(WHERE, {"name": "a", "filter": "x"}, format="json").json()
    assert ada.delete(f"{WHERE}{made['id']}/?dry_run=true").status_code == 200
    assert SavedFilter.objects.count() == 1


def test_who_may_not_read_messages_has_no_filters(ada: APIClient) -> None:
    subjects.create_subject("secret", {"owner": "warehouse"}, actor=TESTER)
    viewer = browser(person("vera"))
    assert viewer.get(WHERE).status_code == 403
    assert ada.get("/api/v1/subjects/secret/saved-filters/").status_code == 403
    assert ada.get("/api/v1/subjects/nothing/saved-filters/").status_code == 404
