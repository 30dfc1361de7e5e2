"""No Redis here: what these tests look at does not depend on it."""

from collections.abc import Iterator

import pytest

from tests.support.console.people import without_redis


@pytest.fixture(autouse=True)
def _without_redis() -> Iterator[None]:
    with without_redis():
        yield
