"""/jobs/: the background jobs, how they are, switched off and on."""

import ast
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.jobs import jobs
from console.models import BackgroundJob
from tests.support.console.metadata import audit_rows, everything
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
LIST = "/api/v1/jobs/"
PROJECT = Path(__file__).parents[3]


@pytest.fixture
def admin(db: None) -> APIClient:
    return browser(person("root", Role.ADMIN))


def test_every_loop_is_listed_with_how_its_last_run_went(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_STARTED_AT", timezone.now() - timedelta(days=1))
    rows = {row["name"]: row for row in admin.get(LIST).json()["results"]}
    assert set(rows) == set(jobs.JOBS)
    assert all(row["is_late"] and row["runs"] == "0" and not row["is_running"] for row in rows.values())
    assert {name for name, row in rows.items() if row["queue"] != "qmq"} == {"analytics", "outbox"}
    assert jobs.run("cleanups").ran
    row = admin.get(f"{LIST}cleanups/").json()
    assert (row["is_late"], row["runs"], row["failures"], row["error"]) == (False, "1", "0", "")
    assert (
        row["result"]
        == "deleted 0 idempotency keys, 0 sessions, 0 clients, 0 alerts and silences, 0 events, 0 summaries"
    )
    assert row["result_parts"] == [
        {"code": f"cleanups.{kind}", "values": {"count": 0}}
        for kind in ("keys", "sessions", "clients", "alerts", "events", "summaries")
    ]
    assert row["succeeded_at"] is not None
    assert row["next_run_at"] > row["started_at"]
    BackgroundJob.objects.update(held_until=timezone.now() + timedelta(seconds=9))
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
    assert not jobs.run("cleanups").ran
    assert admin.post(f"{LIST}cleanups/disable/").json()["is_change"] is False
    assert admin.post(f"{LIST}cleanups/enable/").json()["is_change"] is True
    assert [entry[0] for entry in audit_rows()[-2:]] == ["job.disable", "job.enable"]
    assert jobs.run("cleanups").ran


def test_what_is_not_there_and_who_may_not(admin: APIClient) -> None:
    for answer in (admin.get(f"{LIST}none/"), admin.post(f"{LIST}none/disable/"), admin.post(f"{LIST}none/enable/")):
        assert (answer.status_code, answer.json()["code"]) == (404, "job.unknown")
    operator = browser(person("olga", Role.OPERATOR))
    assert operator.get(LIST).status_code == 200
    assert operator.post(f"{LIST}cleanups/disable/").status_code == 403
    assert admin.get(f"{LIST}cleanups/").json()["is_enabled"] is True


def test_a_job_runs_now(admin: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(jobs, "_ask_worker", lambda job: asked.append((job.name, job.queue)))
    assert jobs.run("cleanups").ran
    assert not jobs.run("cleanups").ran, "it is not due again yet"
    assert admin.post("/api/v1/jobs/cleanups/run/?dry_run=true", {}).status_code == 200
    assert asked == []
    assert admin.post("/api/v1/jobs/cleanups/run/", {"reason": "test"}).status_code == 200
    assert asked == [("cleanups", "qmq")]
    assert audit_rows()[-1][0] == "job.run"
    assert jobs.run("cleanups").ran
    assert admin.post("/api/v1/jobs/cleanups/disable/", {}).status_code == 200
    refused = admin.post("/api/v1/jobs/cleanups/run/", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "job.disabled")
    assert admin.post("/api/v1/jobs/nothing/run/", {}).status_code == 404


def codes() -> Iterator[str]:
    """The codes of all parts of results in the code of background jobs."""
    for path in [*(PROJECT / "console/jobs").glob("*.py"), *(PROJECT / "spark_analytics/jobs").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Part", "counting"):
                code = node.args[0]
                if isinstance(code, ast.Constant):
                    yield code.value


def keys(texts: dict[str, Any], prefix: str = "") -> set[str]:
    """The keys of a part of a catalogue, without the suffixes of plurals."""
    found: set[str] = set()
    for name, value in texts.items():
        key = f"{prefix}{name}"
        found |= (
            keys(value, f"{key}.") if isinstance(value, dict) else {key.removesuffix("_one").removesuffix("_other")}
        )
    return found


@pytest.mark.parametrize("language", ["en", "zh"])
def test_each_part_of_a_result_has_a_text_in_each_language(language: str) -> None:
    catalogue = json.loads((PROJECT / f"frontend/src/i18n/{language}/jobs.json").read_text())
    assert keys(catalogue["result"]) == set(codes())
