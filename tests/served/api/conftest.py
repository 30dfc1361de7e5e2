"""No Redis here: what these tests look at does not depend on it."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from api import downloads, problems
from tests.support.console.people import without_redis
from tests.support.console.sentences import has_chinese


@pytest.fixture(autouse=True)
def _without_redis() -> Iterator[None]:
    with without_redis():
        yield


@pytest.fixture(autouse=True)
def running(monkeypatch: pytest.MonkeyPatch) -> downloads.RunningDownloads:
    """The downloads of this test: one that it does not read to its end does not count for the users of the next."""
    found = downloads.RunningDownloads()
    monkeypatch.setattr(downloads, "running", found)
    return found


@pytest.fixture(autouse=True)
def _problems_are_known_in_chinese(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What the API says of a problem has a Chinese sentence. SQL that an operator is to run has none."""
    said: set[str] = set()
    problem = problems.problem

    def noted(status: int, code: str, detail: str, fields: Mapping[str, Any] | None = None) -> dict[str, Any]:
        said.update([detail, *map(str, (fields or {}).values())])
        return problem(status, code, detail, fields)

    monkeypatch.setattr(problems, "problem", noted)
    yield
    sentences = [text for text in said if not text.startswith("GRANT ")]
    assert [text for text in sentences if not has_chinese(text)] == [], (
        "add them to frontend/src/i18n/zh/sentences.json"
    )
