"""Subjects in the order of their rate and of their highest lag: numbers order what the database filters; unknown is last."""

import csv
import io
from typing import Any

import pytest
from rest_framework.test import APIClient

from api.views import subject_orders
from console.accounts.roles import Role
from console.reports import overview
from metaserver.services import subjects, teams
from tests.support.console.metadata import ACTOR
from tests.support.console.people import browser, person

pytestmark = [pytest.mark.django_db, pytest.mark.database]
LIST = "/api/v1/subjects/"
NUMBERS = {"a": (5.0, 100), "b": (7.0, None), "c": (5.0, 0), "d": (None, 30), "%RETRY%a%g": (9.0, 900)}


@pytest.fixture
def state() -> dict[str, Any]:
    entries: dict[str, Any] = {
        name: {"send_rate": rate, "highest_lag": lag, "reason": None} for name, (rate, lag) in NUMBERS.items()
    }
    entries["e"] = {"send_rate": None, "highest_lag": None, "missing": ["g1"], "at_least": {"send_rate": 6.0}}
    return {"subjects": entries}


@pytest.fixture
def viewer(state: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> APIClient:
    teams.create_team("shop", actor=ACTOR)
    for name in ("d", "c", "b", "a", "e", "new"):
        subjects.create_subject(name, {"owner": "shop"} if name in "acd" else {}, actor=ACTOR)
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(state, "", None))
    return browser(person("vera", Role.VIEWER))


def names(client: APIClient, query: str) -> list[str]:
    """Of all pages."""
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        answer = client.get(f"{LIST}?{query}&cursor={cursor}")
        assert answer.status_code == 200, answer.content
        found += [row["name"] for row in answer.json()["results"]]
        cursor = answer.json()["next"]
    return found


@pytest.mark.parametrize("limit", ["limit=1", "limit=2", "limit=50"])
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("ordering=-send_rate", "b e a c d new"),
        ("ordering=send_rate", "a c e b d new"),
        ("ordering=-highest_lag", "a d c b e new"),
        ("ordering=highest_lag", "c d a b e new"),
        ("ordering=-send_rate&owner=shop", "a c d"),
        ("ordering=-highest_lag&search=E", "e new"),
        ("ordering=-highest_lag&owner=none", ""),
    ],
)
@pytest.mark.parametrize("part", [1, 2, 300])
def test_order_filters_and_pages(
    viewer: APIClient, query: str, expected: str, limit: str, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject_orders, "PART_NAMES", part)
    assert names(viewer, f"{query}&{limit}") == expected.split()


def test_new_numbers_and_new_subjects_are_in_the_next_answer(viewer: APIClient, state: dict[str, Any]) -> None:
    assert names(viewer, "ordering=-send_rate") == ["b", "e", "a", "c", "d", "new"]
    state["subjects"] = state["subjects"] | {"new": {"send_rate": 8.0, "highest_lag": None}}
    subjects.create_subject("newer", {}, actor=ACTOR)
    assert names(viewer, "ordering=-send_rate") == ["new", "b", "e", "a", "c", "d", "newer"]


def test_a_cursor_is_a_place_in_the_order_while_numbers_change(viewer: APIClient, state: dict[str, Any]) -> None:
    first = viewer.get(f"{LIST}?ordering=-send_rate&limit=2").json()
    assert [row["name"] for row in first["results"]] == ["b", "e"]
    # One that is behind the place comes, one that moved before it does not.
    state["subjects"] = state["subjects"] | {
        "a": {"send_rate": 50.0, "highest_lag": 0},
        "b": {"send_rate": 1.0, "highest_lag": 0},
    }
    following = viewer.get(f"{LIST}?ordering=-send_rate&cursor={first['next']}").json()
    assert [row["name"] for row in following["results"]] == ["c", "b", "d", "new"]


def test_without_measurements_all_are_unknown_and_in_the_order_of_their_names(
    viewer: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers(None, None, "no collector"))
    assert names(viewer, "ordering=-send_rate") == ["a", "b", "c", "d", "e", "new"]


def test_a_download_has_all_in_that_order(viewer: APIClient) -> None:
    text = b"".join(viewer.get(f"{LIST}?format=csv&ordering=-highest_lag").streaming_content).decode()  # type: ignore[attr-defined]
    rows = csv.DictReader(io.StringIO(text[1:]))
    assert [row["name"] for row in rows] == ["a", "d", "c", "b", "e", "new"]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("ordering=-send_rate,name", "send_rate can't be combined with other fields"),
        ("ordering=rate", "send_rate, highest_lag"),
        ("ordering=send_rate&limit=0", "limit"),
        ("ordering=send_rate&is_owned=maybe", "is_owned"),
        ("ordering=send_rate&cursor=none", "cursor"),
    ],
)
def test_what_can_not_be_is_refused(viewer: APIClient, query: str, why: str) -> None:
    answer = viewer.get(f"{LIST}?{query}")
    assert answer.status_code == 400
    assert why in answer.content.decode()
