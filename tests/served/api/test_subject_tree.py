"""/subject-tree/: folders with sums, in pages."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.reports import overview
from metaserver.services import subjects
from tests.support.console.metadata import ACTOR
from tests.support.console.people import browser, person

pytestmark = [pytest.mark.django_db, pytest.mark.database]
TREE = "/api/v1/subject-tree/"


@pytest.fixture
def viewer(monkeypatch: pytest.MonkeyPatch) -> APIClient:
    entries: dict[str, Any] = {}
    for number, name in enumerate(("order.paid", "order.paid.eu", "order.sent", "parts")):
        subjects.create_subject(name, {}, actor=ACTOR)
        entries[name] = {"send_rate": number + 0.5, "highest_lag": number, "reason": None}
    monkeypatch.setattr(overview, "numbers", lambda: overview.Numbers({"subjects": entries}, "", None))
    return browser(person("vera", Role.VIEWER))


def test_folders_have_the_sums_of_their_subjects(viewer: APIClient) -> None:
    found = viewer.get(TREE).json()
    assert [(row["name"], row["is_folder"], row["subjects"]) for row in found["results"]] == [
        ("order.", True, 3),
        ("parts", False, 1),
    ]
    assert (found["results"][0]["send_rate"], found["results"][0]["highest_lag"]) == (4.5, 2)
    below = viewer.get(f"{TREE}?folder=order.").json()["results"]
    assert [row["name"] for row in below] == ["order.paid", "order.paid.", "order.sent"]
    assert viewer.get(f"{TREE}?folder=none.").json()["results"] == []


def test_a_folder_comes_in_pages(viewer: APIClient) -> None:
    found, cursor = [], ""
    while cursor is not None:
        page = viewer.get(f"{TREE}?folder=order.&limit=1&cursor={cursor}").json()
        found += [row["name"] for row in page["results"]]
        cursor = page["next"]
    assert found == ["order.paid", "order.paid.", "order.sent"]


def test_a_subject_that_no_node_knows_makes_its_folder_a_lower_bound(viewer: APIClient) -> None:
    subjects.create_subject("order.new", {}, actor=ACTOR)
    row = viewer.get(TREE).json()["results"][0]
    assert (row["subjects"], row["send_rate"], row["at_least"]["send_rate"]) == (4, None, 4.5)
    assert row["reason"]


@pytest.mark.parametrize("query", ["folder=order", "limit=0", "limit=501", "cursor=none", "prefix=a"])
def test_what_can_not_be_is_refused(viewer: APIClient, query: str) -> None:
    assert viewer.get(f"{TREE}?{query}").status_code == 400
