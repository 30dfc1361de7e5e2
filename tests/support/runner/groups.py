"""Which tests share a worker of pytest-xdist, and in which order these groups start.

A group runs on one worker, one test after the other, so it shares the fixtures of its session, package or module. Tests that share
processes which take long to start (a browser, a JVM, a whole system) are one group; every other file is a group of its own. The
longest groups start first, so that no worker is left alone with one at the end.
"""

from collections.abc import Generator
from pathlib import PurePosixPath
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SHARED = {
    "spark": ("tests/served/spark",),
    "browser": ("tests/served/e2e",),
    "live": ("tests/served/live",),
    "java": ("tests/served/conformance",),
    "control": ("tests/served/control", "tests/faults/control"),
    "up": ("tests/served/up",),
    "sql servers": (
        "tests/served/support/test_services.py",
        "tests/faults/test_database_away.py",
        "tests/faults/outbox",
        "tests/faults/test_marker_killed.py",
        "tests/faults/replication/test_control_plane_away.py",
    ),
}
"""Groups of more than one file, the longest first."""
ORDER = (
    *(path for paths in SHARED.values() for path in paths),
    "tests/served/cli",
    "tests/faults",
    "tests/served/api/test_openapi.py",
    "tests/served/api/nodes",
    "tests/served/client",
    "tests/served/broker",
    "tests/served",
    "tests/sim",
)
"""What starts first; then everything else, whose files take a few seconds at most."""


def _is_inside(path: PurePosixPath, place: str) -> bool:
    return path == PurePosixPath(place) or PurePosixPath(place) in path.parents


def group_of(nodeid: str) -> str:
    """Return the group of a test, by its id or its path relative to the project."""
    path = PurePosixPath(nodeid.partition("::")[0])
    for name, places in SHARED.items():
        if any(_is_inside(path, place) for place in places):
            return name
    return str(path)


def rank(group: str) -> int:
    """Return the place of a group in the order of starting."""
    path = PurePosixPath(SHARED[group][0] if group in SHARED else group)
    return next((number for number, place in enumerate(ORDER) if _is_inside(path, place)), len(ORDER))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist is untyped here
    """Gives each worker whole groups in the order of their rank."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        # `min` keeps the order of collection among groups of one rank.
        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> GroupScheduling:
    """Schedule by groups, whatever `--dist` names."""
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Escape lone surrogates in a report, such as in a captured log: a worker ends when it can't encode what it sends."""
    return encodable((yield))


def encodable(value: Any) -> Any:
    """Return a report's data with every string encodable as UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(encodable(inner) for inner in value)
    return value
