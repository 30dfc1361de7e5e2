"""No Redis here: what these tests look at does not depend on it."""

from collections.abc import Iterator

import pytest

from api import downloads
from tests.support.console.people import without_redis


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
