"""The pytest plugin: fixtures `qmq_server`, `qmq_time` and `qmq_settings`.

pytest imports this module in every run of an environment that has PyQMQ, so it imports nothing of the project until a fixture is
requested.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from qmq_testing.loop_thread import LoopThread
    from qmq_testing.server import Server, ServerTime
    from qmq_testing.settings import ServerSettings


@pytest.fixture
def qmq_settings() -> "ServerSettings":
    """The settings of `qmq_server`. Override this fixture to change them: return another `qmq_testing.ServerSettings`."""
    from qmq_testing.settings import ServerSettings

    return ServerSettings()


@pytest.fixture(scope="session")
def _qmq_thread() -> "Iterator[LoopThread]":
    """The thread of all servers of this session."""
    try:
        # The nodes' modules load here, once, and not in the first test's server.
        import_module("qmq_testing.server")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] not in ("aiohttp", "numpy", "prometheus_client"):
            raise
        pytest.fail(f"qmq_server needs {error.name}: install pyqmq[testing]", pytrace=False)
    from qmq_testing.loop_thread import LoopThread

    with LoopThread("qmq-test-server") as thread:
        yield thread


@pytest.fixture
def qmq_server(_qmq_thread: "LoopThread", qmq_settings: "ServerSettings") -> "Iterator[Server]":
    """A metaserver, a broker and a delay node for this test alone: `qmq_testing.Server`, started.

    Every test gets new nodes, which takes some tens of milliseconds: subjects, groups and delayed messages of other tests do not
    exist for it, although applications use fixed names. Ports are free ones, so workers of pytest-xdist do not disturb each other.
    Clients must be closed by the test, as in production.
    """
    from qmq_testing.server import Server

    with Server(qmq_settings, thread=_qmq_thread) as server:
        yield server


@pytest.fixture
def qmq_time(qmq_server: "Server", monkeypatch: pytest.MonkeyPatch) -> "ServerTime":
    """The clock of `qmq_server`: `qmq_testing.ServerTime`.

    In a test with this fixture, clients of this process use the server's wall clock, so that a delay which is requested after
    `advance` counts from the new time. Clients with a `clock` argument of their own, and clients of other processes, do not.
    """
    from qmq.clock import SYSTEM_CLOCK

    monkeypatch.setattr(SYSTEM_CLOCK, "wall_ms", qmq_server.time.clock.wall_ms, raising=True)
    return qmq_server.time
