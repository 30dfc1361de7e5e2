"""Whole systems of a test's own: these tests break them, or look at them from their first start."""

import functools
from collections.abc import Callable

import pytest

from tests.support.system import System


@pytest.fixture
def make_plane(new_system: Callable[..., System]) -> Callable[..., System]:
    """Create a system with its control plane (other parts of `System` may be given), not started."""
    return functools.partial(new_system, console=True, workers=1, beats=1)


@pytest.fixture
def plane(make_plane: Callable[..., System]) -> System:
    """Two broker groups, the metaserver, console, collector, a worker and beat, started."""
    found = make_plane()
    found.start()
    return found


@pytest.fixture
def console_only(make_plane: Callable[..., System]) -> System:
    """The console's process alone, over an empty database."""
    found = make_plane(groups=0)
    found.prepare()
    found.console.start()
    return found
