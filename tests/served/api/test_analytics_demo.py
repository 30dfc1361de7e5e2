"""/analytics/demo/: demo data is named, and replaced when an operator asks for it."""

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts.roles import Role
from console.analytics import services
from console.analytics.models import DEMO_DATA, DEMO_JOB, TableState
from console.analytics.steps import Step
from console.jobs import jobs
from console.models import BackgroundJob
from tests.support.console.metadata import audit_rows, everything
from tests.support.console.people import browser, person

pytestmark = pytest.mark.django_db
DEMO = "/api/v1/analytics/demo/"
NOW = timezone.now().replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def admin(db: None) -> APIClient:
    return browser(person("root", Role.ADMIN))


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the jobs that workers were requested to run."""
    found: list[str] = []
    monkeypatch.setattr(jobs, "_ask_worker", lambda job: found.append(job.name))
    return found


def publish(job: str, *tables: str) -> None:
    run = services.start_run(job, from_at=NOW - timedelta(days=14), to_at=NOW)
    for table in tables:
        services.publish(run, table, [], step=Step.HOUR)
    services.finish_run(run, watermark_at=NOW)


def test_tables_with_demo_data_are_named_with_its_range(admin: APIClient) -> None:
    absent = {"tables": [], "from_at": None, "to_at": None, "is_replaceable": False}
    assert admin.get(DEMO).json() == absent
    publish("lag", "lag")
    assert admin.get(DEMO).json() == absent
    publish(DEMO_JOB, "failures", "group_skew")
    found = browser(person("vera", Role.VIEWER)).get(DEMO).json()
    assert (found["tables"], found["is_replaceable"]) == (["failures", "group_skew"], False)
    assert found["from_at"] < found["to_at"]


@pytest.mark.database
def test_an_operator_of_the_cluster_replaces_it_and_the_job_runs_now(admin: APIClient, workers: list[str]) -> None:
    refused = admin.post(f"{DEMO}replace/", {})
    assert (refused.status_code, refused.json()["code"]) == (409, "analytics_demo.absent")
    publish(DEMO_JOB, "failures", "group_skew")
    before = everything()
    planned = admin.post(f"{DEMO}replace/?dry_run=true", {"reason": "real traffic"})
    assert (planned.status_code, everything(), workers) == (200, before, [])
    done = admin.post(f"{DEMO}replace/", {"reason": "real traffic"})
    assert done.json() == planned.json() | {"dry_run": False}
    assert (done.json()["is_change"], done.json()["notes"], workers) == (True, [], ["analytics"])
    assert [entry[0] for entry in audit_rows()[-2:]] == ["analytics.replace_demo", "job.run"]
    found = admin.get(DEMO).json()
    assert (found["tables"], found["is_replaceable"]) == (["failures", "group_skew"], True)
    publish("failures", "failures")
    assert admin.get(DEMO).json()["tables"] == ["group_skew"]
    assert not TableState.objects.get(table="failures").is_replaceable
    publish(DEMO_JOB, "group_skew")
    assert admin.get(DEMO).json()["is_replaceable"] is False, "new demo data is kept again"


def test_a_disabled_job_is_said_to_be_disabled(admin: APIClient, workers: list[str]) -> None:
    publish(DEMO_JOB, "failures")
    BackgroundJob.objects.create(name="analytics", is_enabled=False)
    done = admin.post(f"{DEMO}replace/", {}).json()
    assert [note["code"] for note in done["notes"]] == ["analytics_disabled"]
    assert (admin.get(DEMO).json()["is_replaceable"], workers) == (True, [])


def test_an_operator_without_the_right_replaces_nothing(admin: APIClient) -> None:
    publish(DEMO_JOB, "failures")
    assert browser(person("olga", Role.OPERATOR)).post(f"{DEMO}replace/", {}).status_code == 403
    assert admin.get(DEMO).json()["is_replaceable"] is False


def test_a_run_says_what_it_skipped_and_why(admin: APIClient) -> None:
    run = services.start_run("ingest", skipped={"lag": DEMO_DATA})
    assert admin.get(f"/api/v1/analytics/runs/{run.pk}/").json()["skipped"] == {"lag": "demo_data"}
