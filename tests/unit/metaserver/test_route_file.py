"""The route file: what is saved is loaded again, a crash leaves a whole one, and an unreadable one is reported."""

import asyncio
import errno
import json
import logging
import threading

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.domain import BrokerGroup, Metadata, Node, Route, SubjectRule
from metaserver.route_file import ROUTES_PER_PART, RouteFile
from tests.support.memory_disk import MemoryDisk

PATH = "meta/routes.json"


def metadata(routes: int = 1, log_end: int = 7) -> Metadata:
    return Metadata(
        (BrokerGroup("g1", GroupKind.BROKER, GroupState.READ_ONLY, 3, "a", ("a", "b"), 4, OperatorState.DRAINING),),
        (Node("a", "g1", 0, "10.0.0.1:1", "10.0.0.1:2", "1", log_end),),
        tuple(Route(f"s{i}", ("g1", "g2"), i, 5, {"g2": Phase.JOINING}) for i in range(routes)),
        {"s0": SubjectRule(True, 1, 2, 0.5, ("x",)), "s1": SubjectRule()},
        frozenset({("s0", "x", ""), ("s0", "y", "c")}),
    )


def empty_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("meta")
    return disk


@pytest.mark.parametrize("routes", [0, 1, ROUTES_PER_PART, 2 * ROUTES_PER_PART + 1])
async def test_what_is_saved_is_loaded_again_after_a_power_cut(routes: int) -> None:
    disk = empty_disk()
    await RouteFile(disk, PATH).save(metadata(routes))
    for state in disk.crash_states(20, seed=1):
        file = RouteFile(state, PATH)
        assert await file.load() == metadata(routes)
        assert (file.load_problem, file.counters.failures) == ("", 0)


async def test_a_file_of_an_older_version_is_read() -> None:
    disk = empty_disk()
    content = {"broker_groups": [], "nodes": [], "routes": [{"subject": "s", "broker_groups": ["g"], "version": 1,
               "created_at_ms": 2}]}  # fmt: skip
    disk.create(PATH, 0).pwritev([json.dumps(content).encode()], 0)
    assert await RouteFile(disk, PATH).load() == Metadata(routes=(Route("s", ("g",), 1, 2),))


async def test_the_file_is_written_when_something_changed() -> None:
    disk = empty_disk()
    file = RouteFile(disk, PATH)
    await file.save(metadata())
    steps = disk.steps
    await file.save(metadata())
    await file.save(metadata(log_end=8))
    assert (disk.steps, file.counters.saves) == (steps, 1)
    await file.save(metadata(routes=2))
    assert file.counters.saves == 2


async def test_no_file_is_no_problem() -> None:
    file = RouteFile(empty_disk(), PATH)
    assert await file.load() is None
    assert (file.load_problem, file.counters.failures) == ("", 0)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff\xfe", b'{"broker_groups": [{}], "nodes": [], "routes": []}',
     b'{"broker_groups": [], "nodes": [{"x": 1}], "routes": []}',
     b'{"broker_groups": [], "nodes": [], "routes": [{"subject": "s", "broker_groups": [], "phases": 1}]}'],
)  # fmt: skip
async def test_an_unreadable_file_is_an_error_and_is_kept(content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    disk = empty_disk()
    disk.create(PATH, 0).pwritev([content], 0)
    file = RouteFile(disk, PATH)
    with caplog.at_level(logging.ERROR, "qmq.meta"):
        assert await file.load() is None
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert PATH in caplog.text
    assert file.load_problem
    assert file.counters.failures == 1
    await file.save(metadata())
    assert bytes(disk.names[f"{PATH}.unreadable"].content) == content
    assert await RouteFile(disk, PATH).load() == metadata()
    assert file.load_problem, "the operator can still see it"


async def test_a_failed_save_is_an_error_counted_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = empty_disk()
    file = RouteFile(disk, PATH)
    disk.fail = lambda what, path: OSError(errno.ENOSPC, "disk full") if what == "write" else None
    with caplog.at_level(logging.ERROR, "qmq.meta"):
        await file.save(metadata())
        await file.save(metadata())
    assert len(caplog.records) == 1, "once for each time it begins"
    assert (file.counters.failures, file.counters.saves) == (2, 0)
    assert "disk full" in file.save_problem
    disk.fail = None
    await file.save(metadata())
    assert (file.save_problem, file.counters.saves) == ("", 1)


async def test_the_event_loop_does_not_wait_for_the_disk() -> None:
    disk, may_write = empty_disk(), threading.Event()

    def fail(what: str, path: str) -> None:
        assert may_write.wait(20)

    disk.fail = fail
    saving = asyncio.ensure_future(RouteFile(disk, PATH).save(metadata()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not saving.done()
    may_write.set()
    await saving
    assert await RouteFile(disk, PATH).load() == metadata()
