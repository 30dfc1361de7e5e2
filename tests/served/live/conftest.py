"""The long-lived system with its console, for tests of live feeds."""

import pytest

from tests.support.servers.system import System


@pytest.fixture
def live(served_console: System) -> System:
    """The system. A test that stops something starts it again."""
    return served_console
