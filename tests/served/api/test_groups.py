"""/consumer-groups/ as far as no node is asked: lists, filters, pauses, rights. Nodes: nodes/test_groups.py."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from api.views.groups import GroupsView
from console.accounts.roles import Role
from metaserver.services import groups, subjects, teams
from tests.support.console.metadata import ACTOR, audit_rows, everything
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
LIST = "/api/v1/consumer-groups/"
BILLING = f"{LIST}orders/billing/"


@pytest.fixture
def admin(db: None) -> APIClient:
    teams.create_team("shop", actor=ACTOR)
    subjects.create_subject("orders", {"owner": "shop"}, actor=ACTOR)
    subjects.create_subject("parts", {}, actor=ACTOR)
    for subject, name in (("orders", "billing"), ("orders", "audit"), ("parts", "Billing.old")):
        groups.create_group(subject, name, {}, actor=ACTOR)
    groups.set_paused("orders", "audit", True, consumer_id="c1", actor=ACTOR)
    return browser(person("root", Role.ADMIN))


@pytest.mark.database
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["Billing.old", "audit", "billing"]),
        ("search=BILL", ["Billing.old", "billing"]), ("subject=orders", ["audit", "billing"]),
        ("subject=none", []), ("owner=shop", ["audit", "billing"]), ("has_pauses=true", ["audit"]),
        ("has_pauses=false", ["Billing.old", "billing"]), ("subject=orders&search=aud", ["audit"]),
    ],
)  # fmt: skip
def test_each_filter(admin: APIClient, query: str, expected: list[str]) -> None:
    assert sorted(row["name"] for row in admin.get(f"{LIST}?{query}").json()["results"]) == sorted(expected)


@pytest.mark.database
@pytest.mark.parametrize("field", GroupsView.ordering_fields)
def test_each_order(admin: APIClient, field: str) -> None:
    up = [row[field] for row in admin.get(f"{LIST}?ordering={field}").json()["results"]]
    down = [row[field] for row in admin.get(f"{LIST}?ordering=-{field}").json()["results"]]
    assert len(up) == 3
    assert down == up[::-1]
    assert up == sorted(up, key=lambda value: (value is None, "" if value is None else value))


def test_wrong_filters_are_refused(admin: APIClient) -> None:
    for query in ("has_pauses=maybe", "ordering=tags", "search=%00"):
        assert admin.get(f"{LIST}?{query}").status_code == 400


@pytest.mark.database
def test_every_change_has_a_dry_run_that_says_the_same_and_does_nothing(admin: APIClient) -> None:
    calls: list[tuple[str, str, dict[str, Any], int]] = [
        ("post", LIST, {"subject": "orders", "name": "new"}, 201),
        ("patch", BILLING, {"description": "text", "reason": "r"}, 200),
        ("post", f"{BILLING}pause/", {"reason": "deploy"}, 200),
        ("post", f"{BILLING}pause/", {"consumer_id": "c9"}, 200),
        ("post", f"{BILLING}resume/", {}, 200),
        ("delete", BILLING, {"reason": "gone"}, 200),
    ]
    for method, path, body, status in calls:
        before = everything()
        planned = getattr(admin, method)(f"{path}?dry_run=true", body)
        assert (planned.status_code, everything()) == (200, before), planned.content
        done = getattr(admin, method)(path, body)
        assert done.status_code == status, done.content
        assert done.json() == planned.json() | {"dry_run": False}
        assert len(audit_rows()) == len(before["audit"]) + 1
    assert admin.get(BILLING).status_code == 404


def test_versions_rights_and_what_is_not_there(admin: APIClient) -> None:
    tag = admin.get(BILLING).headers["ETag"]
    assert admin.patch(BILLING, {"tags": ["a"]}, HTTP_IF_MATCH=tag).status_code == 200
    other = browser(person("otto", Role.OPERATOR))
    before = everything()
    for method, path in (
        ("patch", BILLING),
        ("post", f"{BILLING}pause/"),
        ("post", f"{BILLING}resume/"),
        ("delete", BILLING),
    ):
        answer = getattr(admin, method)(path, {}, HTTP_IF_MATCH=tag)
        assert (answer.status_code, answer.json()["code"]) == (412, "change.stale"), path
    for method, path in (("patch", BILLING), ("post", f"{BILLING}pause/"), ("delete", BILLING)):
        assert getattr(other, method)(path, {}).status_code == 403
    assert other.post(LIST, {"subject": "orders", "name": "n"}).status_code == 403
    assert everything() == before
    for path, code in ((f"{LIST}orders/none/", "consumer_group.unknown"), (f"{LIST}none/billing/", "subject.unknown")):
        answer = admin.post(f"{path}pause/")
        assert (answer.status_code, answer.json()["code"]) == (404, code)
    answer = admin.post(LIST, {"subject": "none", "name": "n"})
    assert (answer.status_code, answer.json()["code"]) == (404, "subject.unknown")
    assert admin.post(f"{BILLING}pause/", {"consumer_id": "a/b"}).json()["code"] == "consumer_id.illegal"
    row = next(item for item in admin.get(LIST).json()["results"] if item["name"] == "audit")
    assert (row["is_paused"], row["paused_consumers"], row["owner"]) == (False, ["c1"], "shop")
