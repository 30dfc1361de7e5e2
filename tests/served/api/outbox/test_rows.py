"""Rows of a registered database: what each role can see, resending and discarding."""

import os
from pathlib import Path
from typing import Any

import pytest
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.outbox import rows as reading
from console.outbox.models import OutboxDatabase
from console.outbox.services import rows as service
from metaserver import queries
from metaserver.errors import NotAllowed
from metaserver.services.changes import Actor
from metaserver.services.subjects import create_subject
from metaserver.services.teams import create_team
from qmq.outbox.dialects import INLINE_BYTES_MAX, Statements
from qmq.outbox.rows import Status
from qmq.protocol.messages import KEY_SCHEDULE
from tests.support.console.business import Business, content, in_folder, on_server
from tests.support.console.people import TESTER, browser, person
from tests.support.servers.services import Server

pytestmark = pytest.mark.django_db


@pytest.fixture
def sqlite(tmp_path: Path) -> Business:
    found = in_folder(tmp_path)
    found.make_tables()
    return found


def registered(business: Business, **others: Any) -> str:
    row = OutboxDatabase.objects.create(**business.values(**others))
    return f"/api/v1/outbox/databases/{row.pk}/"


def shown(client: APIClient, where: str, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"{where}rows/{query}")
    assert answer.status_code == 200, answer.content
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def entries() -> list[str]:
    return [entry.action for entry in queries.audit_entries().order_by("id") if entry.action.startswith("outbox_row.")]


def test_rows_are_shown_with_their_message_by_status_and_page(admin: APIClient, business: Business) -> None:
    where = registered(business)
    business.insert(content("orders", "a", data="1"), content("orders", "b"))
    business.insert(content("orders", "c", **{KEY_SCHEDULE: "1800000000000"}), status=Status.REFUSED, errors=3)
    business.insert("{'not': JSON}", status=Status.INVALID)
    business.insert(content(message_id="é\u4e2d"), status=Status.FAILED)
    found = shown(admin, where)
    assert [row["message_id"] for row in found] == ["a", "b", "c", None, "é\u4e2d"]
    assert [row["status"] for row in found] == ["pending", "pending", "refused", "invalid", "failed"]
    assert found[0]["properties"]["data"] == "1"
    assert found[0]["created_at"] < found[0]["due_at"], "an hour old and a minute of grace"
    assert (found[2]["failed_attempts"], found[2]["deliver_at"], found[2]["due_at"]) == (
        3,
        "2027-01-15T08:00:00.000Z",
        None,
    )
    assert found[3]["problem"].startswith("the content is not JSON")
    assert found[3]["content"] == "{'not': JSON}"
    assert [row["id"] for row in shown(admin, where, "?status=refused&status=invalid")] == [
        found[2]["id"],
        found[3]["id"],
    ]
    first = admin.get(f"{where}rows/?limit=2").json()
    second = admin.get(f"{where}rows/?limit=2&cursor={first['next']}").json()
    assert [row["id"] for row in (*first["results"], *second["results"])] == [row["id"] for row in found[:4]]
    last = admin.get(f"{where}rows/?limit=2&cursor={second['next']}").json()
    assert (len(last["results"]), last["next"]) == (1, None)
    assert admin.get(f"{where}rows/?status=failed&cursor={first['next']}").json()["code"] == "request.cursor_illegal"
    assert admin.get(f"{where}rows/?status=lost").status_code == 400
    assert admin.get(f"{where}rows/{found[0]['id']}/").json()["properties"] == found[0]["properties"]
    assert admin.get(f"{where}rows/999/").json()["code"] == "outbox_row.unknown"


def test_large_contents_are_read_on_the_page_of_one_row_and_huge_ones_never(
    admin: APIClient, business: Business, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = registered(business)
    business.insert(content(data="x" * INLINE_BYTES_MAX))
    (row,) = shown(admin, where)
    assert (row["message_id"], row["properties"]) == (None, None)
    assert "too large" in row["withheld"]
    assert row["size"] > INLINE_BYTES_MAX
    one = admin.get(f"{where}rows/{row['id']}/").json()
    assert (one["withheld"], len(one["properties"]["data"])) == (None, INLINE_BYTES_MAX)
    monkeypatch.setattr(reading, "CONTENT_BYTES_MAX", INLINE_BYTES_MAX)
    assert admin.get(f"{where}rows/{row['id']}/").json()["properties"] is None


def test_messages_are_masked_by_the_owner_of_their_subject(sqlite: Business) -> None:
    for team, subject in (("shop", "orders"), ("warehouse", "parcels")):
        create_team(team, actor=TESTER)
        create_subject(subject, {"owner": team}, actor=TESTER)
    where = registered(sqlite, owner="shop")
    sqlite.insert(content("orders", secret="s"), content("parcels", secret="s"), content("unknown", secret="s"), "s{")
    sqlite.execute("UPDATE qmq_msg_queue SET last_error = 'property s is wrong'")
    readable = {
        "vera": (Role.VIEWER, "shop", []),
        "olga": (Role.OPERATOR, "shop", [0, 2, 3]),
        "otto": (Role.OPERATOR, "warehouse", [1]),
    }
    for name, (role, team, numbers) in readable.items():
        found = shown(browser(person(name, role, [team])), where)
        assert [number for number, row in enumerate(found) if not row["masked"]] == numbers, name
        for row in found:
            secrets = [row[key] for key in ("properties", "last_error", "problem", "content")]
            assert (secrets == [None] * 4) is row["masked"]
    entry = queries.audit_entries().filter(action="message.read").order_by("-id")[0]
    assert (entry.target, entry.after["subjects"]) == ("outbox database shop", {"parcels": 1})
    assert queries.audit_entries().filter(action="message.read").count() == 2, "masked rows are no reading"


def test_selected_rows_are_resent_and_discarded(admin: APIClient, business: Business) -> None:
    where = registered(business)
    business.insert(*(content(message_id=f"m{number}") for number in range(4)), status=Status.REFUSED, errors=5)
    ids = [row["id"] for row in shown(admin, where)]
    body = {"ids": [ids[0], int(ids[1]), 999], "reason": "fixed"}
    foreseen = admin.post(f"{where}resend/?dry_run=true", body).json()
    assert (foreseen["matched"], foreseen["done"], foreseen["not_found"]) == (2, 2, 1)
    assert entries() == []
    assert business.statuses() == [(Status.REFUSED, 5)] * 4
    done = admin.post(f"{where}resend/", body).json()
    assert {name: done[name] for name in ("matched", "done", "left", "not_found")} == {
        "matched": 2, "done": 2, "left": 0, "not_found": 1,
    }  # fmt: skip
    assert business.statuses() == [(Status.PENDING, 0)] * 2 + [(Status.REFUSED, 5)] * 2
    assert admin.post(f"{where}discard/", {"ids": ids, "status": "refused"}).json()["done"] == 2
    assert business.statuses() == [(Status.PENDING, 0)] * 2
    assert entries() == [f"outbox_row.{name}" for name in ("resend", "resend_done", "discard", "discard_done")]
    begun = queries.audit_entries().filter(action="outbox_row.resend")[0]
    assert (begun.reason, begun.after["first_ids"][:2]) == ("fixed", ids[:2])


def test_a_resent_row_is_due_at_once_and_as_if_it_were_new(admin: APIClient, business: Business) -> None:
    where = registered(business)
    business.insert(content(), status=Status.INVALID, errors=9)
    (row,) = shown(admin, where)
    admin.post(f"{where}resend/", {"ids": [row["id"]]})
    statements = Statements(business.kind)
    with business.connected() as connection:
        ((_, _, _, errors, age_ms),) = connection.rows(statements.due, (0, -60, 660, 10))
    assert errors == 0
    assert age_ms < 600_000, "its age counts from now, or age_hours_max would give it up again"


def test_pending_rows_that_never_failed_are_left_alone(admin: APIClient, business: Business) -> None:
    where = registered(business)
    business.insert(content(message_id="fresh"))
    business.insert(content(message_id="failed"), errors=2)
    ids = [row["id"] for row in shown(admin, where)]
    for action in ("resend", "discard"):
        found = admin.post(f"{where}{action}/?dry_run=true", {"ids": ids}).json()
        assert (found["matched"], found["not_found"]) == (1, 1)
        assert admin.post(f"{where}{action}/?dry_run=true", {"status": "pending"}).json()["matched"] == 1
    assert admin.post(f"{where}discard/", {"ids": ids}).json()["done"] == 1
    assert [row["message_id"] for row in shown(admin, where)] == ["fresh"]


def test_all_rows_of_a_status_are_changed_in_bounded_parts(
    admin: APIClient, business: Business, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "STATEMENT_ROWS", 2)
    monkeypatch.setattr(service, "CHANGED_MAX", 4)
    where = registered(business)
    business.insert(*(content(message_id=f"m{number}") for number in range(7)), status=Status.REFUSED)
    business.insert("{}", status=Status.INVALID)
    body: dict[str, Any] = {"status": "refused"}
    assert admin.post(f"{where}resend/", body).json()["fields"] == {
        "expected": "is required: the number of matches that a dry run (dry_run=true) returned"
    }
    foreseen = admin.post(f"{where}resend/?dry_run=true", body).json()
    assert (foreseen["matched"], foreseen["is_matched_exact"], foreseen["done"], foreseen["left"]) == (7, True, 4, 3)
    assert admin.post(f"{where}resend/", body | {"expected": 6}).json()["code"] == "outbox_row.count_differs"
    assert business.statuses() == [(Status.REFUSED, 0)] * 7 + [(Status.INVALID, 0)]
    done = admin.post(f"{where}resend/", body | {"expected": 7}).json()
    assert (done["done"], done["left"]) == (4, 3)
    # Fewer than expected: some were handled meanwhile, and no other row is touched.
    done = admin.post(f"{where}resend/", body | {"expected": 7}).json()
    assert (done["done"], done["left"]) == (3, 0)
    assert business.statuses() == [(Status.PENDING, 0)] * 7 + [(Status.INVALID, 0)]
    assert admin.post(f"{where}discard/", {"status": "invalid", "expected": 1}).json()["done"] == 1
    assert entries().count("outbox_row.resend_failed") == 1


def test_selections_that_can_not_be_are_refused(admin: APIClient, sqlite: Business) -> None:
    where = registered(sqlite)
    for body in (
        {},
        {"ids": []},
        {"ids": list(range(1001))},
        {"ids": ["x"]},
        {"ids": [-1]},
        {"status": "sent", "expected": 1},
    ):
        assert admin.post(f"{where}discard/", body).status_code == 400, body


def test_ids_of_a_database_that_was_changed_mean_nothing(admin: APIClient, sqlite: Business) -> None:
    where = registered(sqlite, version=2)
    sqlite.insert(content(), status=Status.REFUSED)
    answer = admin.post(f"{where}discard/", {"ids": [1]}, headers={"If-Match": '"v1"'})
    assert answer.status_code == 412
    assert sqlite.statuses() == [(Status.REFUSED, 0)]
    assert admin.post(f"{where}discard/", {"ids": [1]}, headers={"If-Match": '"v2"'}).json()["done"] == 1


def test_only_operators_of_the_owner_change_rows(sqlite: Business) -> None:
    for team in ("shop", "warehouse"):
        create_team(team, actor=TESTER)
    where = registered(sqlite, owner="shop")
    sqlite.insert(content(), status=Status.REFUSED)
    for name, role, team in (("vera", Role.VIEWER, "shop"), ("otto", Role.OPERATOR, "warehouse")):
        client = browser(person(name, role, [team]))
        for action in ("resend", "discard"):
            assert client.post(f"{where}{action}/", {"ids": [1]}).status_code == 403, name
    assert browser(person("olga", Role.OPERATOR, ["shop"])).post(f"{where}discard/", {"ids": [1]}).json()["done"] == 1


def test_a_database_that_can_not_be_used_is_an_answer_without_its_address(
    admin: APIClient, postgresql_server: Server
) -> None:
    with on_server(postgresql_server, f"business_{os.getpid()}") as business:
        where = registered(business)
        for answer in (admin.get(f"{where}rows/"), admin.post(f"{where}discard/", {"ids": [1]})):
            assert (answer.status_code, answer.json()["code"]) == (503, "database.table_missing")
            assert (
                answer.json()["detail"] == "Database shop can't be used: a table is missing. The log has the details."
            )
        assert entries() == ["outbox_row.discard", "outbox_row.discard_failed"]
        OutboxDatabase.objects.update(port=1)
        answer = admin.get(f"{where}rows/")
        assert (answer.status_code, answer.json()["code"]) == (503, "database.unreachable")
        assert "127.0.0.1" not in answer.content.decode()


def test_one_request_uses_a_database_at_a_time_and_others_are_answered(
    admin: APIClient, sqlite: Business, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, other = registered(sqlite), registered(sqlite, name="other")
    monkeypatch.setattr(reading.gate, "_wait_seconds", 0.01)
    with reading.gate.entered(OutboxDatabase.objects.get(name="shop").pk):
        busy = admin.get(f"{where}rows/")
        assert (busy.status_code, busy.json()["code"]) == (503, "outbox_database.busy")
        assert admin.get(f"{other}rows/").status_code == 200
        assert admin.get(where).status_code == 200, "pages without the database do not wait for it"
    assert admin.get(f"{where}rows/").status_code == 200


def test_the_service_checks_the_owner_too(sqlite: Business) -> None:
    key = registered(sqlite, owner="shop").rstrip("/").rpartition("/")[2]
    sqlite.insert(content(), status=Status.REFUSED)
    other = Actor("otto", teams=frozenset({"warehouse"}))
    selection = service.Selection([1], list(Status))
    for dry_run in (True, False):
        with pytest.raises(NotAllowed, match="belongs to team shop"):
            service.change_rows(key, service.RowAction.DISCARD, selection, actor=other, dry_run=dry_run)
    assert sqlite.statuses() == [(Status.REFUSED, 0)]
    assert entries() == []
