"""The audit log: listed, filtered, and followed link by link."""

from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps

from console.accounts.roles import Role
from metaserver.services import audit
from metaserver.services.subjects import create_subject, update_subject
from tests.support.console.people import TESTER, browser, person

pytestmark = [pytest.mark.django_db, pytest.mark.database]
AuditEntry: Any = apps.get_model("metaserver", "AuditEntry")


@pytest.fixture
def admin() -> Any:
    client = browser(person("root", Role.ADMIN))
    create_subject("orders", {}, actor=TESTER, reason="the shop opens")
    for number in range(4):
        update_subject("orders", {"messages_per_second": number + 1}, actor=TESTER)
    return client


def test_newest_first_page_by_page(admin: Any) -> None:
    first = admin.get("/api/v1/audit/?limit=4").json()
    second = admin.get(f"/api/v1/audit/?limit=4&cursor={first['next']}").json()
    ids = [int(row["id"]) for row in first["results"] + second["results"]]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == 6
    assert second["next"] is None


def test_filters(admin: Any) -> None:
    def found(query: str) -> int:
        answer = admin.get(f"/api/v1/audit/?{query}")
        assert answer.status_code == 200, answer.content
        return len(answer.json()["results"])

    assert found("target=orders") == 5
    assert found("action=subject.update") == 4
    assert found("action=subject.") == 5
    assert found("actor=tester") == 6
    assert found("actor=nobody") == 0
    assert found("search=shop") == 1
    newest = AuditEntry.objects.order_by("-id").first().at
    since = (newest - timedelta(microseconds=0)).isoformat().replace("+00:00", "Z")
    assert found(f"since={since}") == 1
    assert found(f"until={since}") == 5
    assert admin.get("/api/v1/audit/?since=yesterday").status_code == 400


def test_the_chain_holds_from_the_first_entry_to_the_last(admin: Any) -> None:
    verdict = admin.get("/api/v1/audit/verify/").json()
    last = str(AuditEntry.objects.order_by("-id").first().pk)
    assert verdict == {
        "is_whole": True, "checked": 6, "last_id": last, "is_end": True, "broken_id": None, "problem": "",
    }  # fmt: skip


def test_it_can_be_followed_in_stretches(admin: Any) -> None:
    after, checked, stretches = "0", 0, 0
    while True:
        verdict = admin.get(f"/api/v1/audit/verify/?limit=2&after={after}").json()
        assert verdict["is_whole"]
        checked, after, stretches = checked + verdict["checked"], verdict["last_id"], stretches + 1
        if verdict["is_end"]:
            break
    assert (checked, stretches) == (6, 4)
    assert admin.get("/api/v1/audit/verify/?limit=20001").status_code == 400


@pytest.mark.parametrize(
    "field", ["actor", "action", "target", "reason", "address", "request_id", "client_request_id", "after", "at"]
)
def test_a_change_afterwards_is_found(admin: Any, field: str) -> None:
    row = AuditEntry.objects.order_by("id")[2]
    value = {"after": {"messages_per_second": 99}, "at": row.at + timedelta(seconds=1)}.get(field, "other")
    AuditEntry.objects.filter(pk=row.pk).update(**{field: value})
    verdict = audit.verify()
    assert verdict.broken_id == row.pk
    assert verdict.problem


def test_an_entry_taken_away_is_found(admin: Any) -> None:
    rows = list(AuditEntry.objects.order_by("id"))
    rows[2].delete()
    assert audit.verify().broken_id == rows[3].pk


def test_the_newest_or_the_oldest_taken_away_is_found(admin: Any) -> None:
    AuditEntry.objects.order_by("-id")[0].delete()
    verdict = audit.verify()
    assert (verdict.broken_id, verdict.is_end) == (None, True)
    assert verdict.problem == "the latest entry was deleted"


def test_the_oldest_taken_away_is_found(admin: Any) -> None:
    first, second = AuditEntry.objects.order_by("id")[:2]
    first.delete()
    assert audit.verify().broken_id == second.pk


def test_following_it_asks_the_database_the_same_for_many(admin: Any, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(5):
        audit.verify()
