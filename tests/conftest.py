"""Shared fixtures; a failing test prints where its processes wrote."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import System

os.environ.setdefault("QMQ_SECRET_KEY", "a key for tests only")


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    """A metaserver and two broker groups as real processes on free ports; stopped afterwards."""
    running = System(tmp_path)
    try:
        running.start()
        yield running
    finally:
        running.stop()
