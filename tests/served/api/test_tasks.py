"""/tasks/: the control loops, how they are, switched off and on."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.models import ControlLoop
from console.tasks import loops
from tests.support.metadata import audit_rows, everything
from tests.support.people import browser, person

pytestmark = pytest.mark.django_db
LIST = "/api/v1/tasks/"


@pytest.fixture
def admin(db: None) -> APIClient:
    return browser(person("root", Role.ADMIN))


def test_every_loop_is_listed_with_how_its_last_run_went(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "_STARTED_AT", timezone.now() - timedelta(days=1))
    rows = {row["name"]: row for row in admin.get(LIST).json()["results"]}
    assert set(rows) == set(loops.LOOPS)
    assert all(row["is_late"] and row["runs"] == "0" and not row["is_running"] for row in rows.values())
    assert {name for name, row in rows.items() if row["queue"] != "qmq"} == {"analytics"}
    assert loops.run("cleanups").ran
    row = admin.get(f"{LIST}cleanups/").json()
    assert (row["is_late"], row["runs"], row["failures"], row["error"]) == (False, "1", "0", "")
    assert "deleted" in row["result"]
    assert row["succeeded_at"] is not None
    assert row["next_run_at"] > row["started_at"]
    ControlLoop.objects.update(held_until=timezone.now() + timedelta(seconds=9))
    assert admin.get(f"{LIST}cleanups/").json()["is_running"] is True


@pytest.mark.database
def test_a_loop_is_switched_off_and_on(admin: APIClient) -> None:
    before = everything()
    planned = admin.post(f"{LIST}cleanups/disable/?dry_run=true", {"reason": "migration"})
    assert (planned.status_code, everything()) == (200, before)
    assert admin.get(f"{LIST}cleanups/").json()["is_enabled"] is True
    done = admin.post(f"{LIST}cleanups/disable/", {"reason": "migration"})
    assert done.json() == planned.json() | {"dry_run": False}
    row = admin.get(f"{LIST}cleanups/").json()
    assert (row["is_enabled"], row["is_late"], row["next_run_at"]) == (False, False, None)
    assert not loops.run("cleanups").ran
    assert admin.post(f"{LIST}cleanups/disable/").json()["is_change"] is False
    assert admin.post(f"{LIST}cleanups/enable/").json()["is_change"] is True
    assert [entry[0] for entry in audit_rows()[-2:]] == ["task.disable", "task.enable"]
    assert loops.run("cleanups").ran


def test_what_is_not_there_and_who_may_not(admin: APIClient) -> None:
    for answer in (admin.get(f"{LIST}none/"), admin.post(f"{LIST}none/disable/"), admin.post(f"{LIST}none/enable/")):
        assert (answer.status_code, answer.json()["code"]) == (404, "task.unknown")
    operator = browser(person("olga", Role.OPERATOR))
    assert operator.get(LIST).status_code == 200
    assert operator.post(f"{LIST}cleanups/disable/").status_code == 403
    assert admin.get(f"{LIST}cleanups/").json()["is_enabled"] is True


def test_a_job_runs_now(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(loops, "_ask_worker", lambda loop: asked.append((loop.name, loop.queue)))
    assert loops.run("cleanups").ran
    assert not loops.run("cleanups").ran, "it is not due again yet"
    assert admin.post("/api/v1/tasks/cleanups/run/?dry_run=true", {}).status_code == 200
    assert asked == []
    assert admin.post("/api/v1/tasks/cleanups/run/", {"reason": "test"}).status_code == 200
    assert asked == [("cleanups", "qmq")]
    assert audit_rows()[-1][0] == "task.run"
    assert loops.run("cleanups").ran
    assert admin.post("/api/v1/tasks/cleanups/disable/", {}).status_code == 200
    refused = admin.post("/api/v1/tasks/cleanups/run/", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "task.disabled")
    assert admin.post("/api/v1/tasks/nothing/run/", {}).status_code == 404
