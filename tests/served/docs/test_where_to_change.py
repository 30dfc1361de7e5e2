"""The places that CONTRIBUTING.md lists for likely changes: what one of them has, the others have."""

import json
import re
from itertools import takewhile
from typing import Any

import pytest

from console.alerts.rules import Kind
from console.jobs.jobs import JOBS
from tests.served.api.alerts.receiver import documented_body
from tests.served.e2e.pages import PAGES
from tests.support.servers.processes import PROJECT

LANGUAGES = pytest.mark.parametrize("language", ["en", "zh"])
WITHOUT_UNIT = {
    Kind.GROUP_STATE,
    Kind.ANOMALY,
    Kind.NO_CANDIDATE,
    Kind.ONE_RACK,
    Kind.REPLICATION,
    Kind.OUTBOX_UNREACHABLE,
    Kind.UNKNOWN,
}
"""Kinds whose value is a state or a flag."""


def catalogue(language: str, name: str) -> Any:
    return json.loads((PROJECT / f"frontend/src/i18n/{language}/{name}.json").read_text())


def first_cells(page: str, header: str) -> set[str]:
    """The words of the first column of a table."""
    lines = (PROJECT / page).read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"| {header} |")) + 2
    rows = takewhile(lambda line: line.startswith("|"), lines[begin:])
    return {name for row in rows for name in re.findall(r"\w+", row.split("|")[1])}


@LANGUAGES
def test_each_kind_of_alert_has_its_texts(language: str) -> None:
    texts, pages = catalogue(language, "alerts"), catalogue(language, "alert_pages")
    kinds = {str(kind) for kind in Kind}
    assert set(texts["kind"]) == set(pages["kind_about"]) == set(pages["explain"]["when"]) == kinds
    assert set(texts["unit"]) == kinds - WITHOUT_UNIT


def test_each_kind_of_alert_is_documented() -> None:
    assert first_cells("docs/alerts.md", "Kind") == {str(kind) for kind in Kind}


def test_each_field_of_a_webhook_is_explained() -> None:
    assert first_cells("docs/alerts.md", "Field of `alert`") == set(documented_body()["alert"])


@LANGUAGES
def test_each_background_job_has_a_text(language: str) -> None:
    assert set(catalogue(language, "jobs")["job"]) == set(JOBS)


def test_each_background_job_is_documented() -> None:
    assert first_cells("docs/control.md", "Job") == set(JOBS)


def test_each_page_is_opened_in_a_browser() -> None:
    source = (PROJECT / "frontend/src/app/pages.ts").read_text()
    paths = set(re.findall(r"path: \"([^\"]+)\"", source)) - {"/sign-in"}
    opened = {re.sub(r"\{[^}]+\}", "$", path.partition("?")[0]) for group in PAGES.values() for path in group}
    assert {re.sub(r"\$\w+", "$", path) for path in paths} == opened
