"""The route file: what is saved is loaded again, a crash leaves the last save, changes cost what changed, errors are reported."""

import asyncio
import errno
import logging
import random
import threading
from dataclasses import replace

import pytest

from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.domain import BrokerGroup, Metadata, Node, Route, SubjectRule
from metaserver.memory.directory import Directory
from metaserver.stored import route_file as route_file_module
from metaserver.stored.route_file import ITEMS_PER_PART, LOG_ITEMS_MAX, RouteFile
from metaserver.stored.stored_metadata import StoredMetadata
from qmq_node.replication.rules.membership import Membership
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.manual_clock import ManualClock

PATH = "meta/routes.json"
LOG = "meta/routes.log"


def metadata(routes: int = 1, log_end: int = 7) -> Metadata:
    return Metadata(
        (
            BrokerGroup(
                GroupKind.BROKER,
                GroupState.READ_ONLY,
                Membership(
                    "g1",
                    ("a", "b", "c"),
                    "a",
                    ("a", "b"),
                    3,
                    4,
                    "00000000-0000-4000-8000-000000000001",
                    in_sync_min=1,
                    copies=3,
                ),
                operator_state=OperatorState.DRAINING,
                preferred=("b", "a"),
            ),
        ),
        (Node("a", "g1", 0, "10.0.0.1:1", "10.0.0.1:2", "1", log_end, 0, 5),),
        tuple(Route(f"s{i}", ("g1", "g2"), i, 5, {"g2": Phase.JOINING}) for i in range(routes)),
        {"s0": SubjectRule(True, 1, 2, 0.5, ("x",)), "s1": SubjectRule()},
        frozenset({("s0", "x", ""), ("s0", "y", "c")}),
    )


def empty_disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("meta")
    return disk


async def filled(content: Metadata) -> Directory:
    """A metaserver's memory with this content."""
    directory = Directory(ManualClock(), random.Random(1))
    await StoredMetadata(directory, ManualClock()).load(content, from_file=True)
    return directory


def content_of(directory: Directory) -> Metadata:
    """The metadata, its routes by subject: their order is not stored."""
    found = directory.metadata()
    return replace(found, routes=tuple(sorted(found.routes, key=lambda route: route.subject)))


async def loaded(disk: MemoryDisk) -> Metadata:
    file = RouteFile(disk, PATH)
    found = await file.load()
    assert found is not None
    assert (file.load_problem, file.counters.failures) == ("", 0)
    return replace(found, routes=tuple(sorted(found.routes, key=lambda route: route.subject)))


def size(disk: MemoryDisk, path: str) -> int:
    return len(disk.names[path].content)


@pytest.mark.parametrize("routes", [0, 1, ITEMS_PER_PART, 2 * ITEMS_PER_PART + 1])
async def test_what_is_saved_is_loaded_again_after_a_power_cut(routes: int) -> None:
    disk = empty_disk()
    directory = await filled(metadata(routes))
    await RouteFile(disk, PATH).save(directory)
    for state in disk.crash_states(20, seed=1):
        assert await loaded(state) == content_of(directory)


async def test_changes_are_appended_and_loaded_again_after_a_power_cut() -> None:
    disk = empty_disk()
    directory = await filled(metadata(2 * ITEMS_PER_PART))
    file = RouteFile(disk, PATH)
    await file.save(directory)
    file_bytes, log_bytes = size(disk, PATH), size(disk, LOG)
    directory.put_route(Route("s3", ("g1",), 9, 5))
    directory.put_route(Route("new", ("g1",), 1, 5))
    directory.remove_route("s4")
    await file.save(directory)
    directory.groups["g1"].reported = GroupState.OFFLINE
    directory.put_route(Route("s4", ("g2",), 1, 6))
    await file.save(directory)
    directory.rules, directory.paused = {"s7": SubjectRule(messages_per_second=3)}, frozenset({("s7", "z", "")})
    await file.save(directory)
    assert (size(disk, PATH), file.counters.rewrites, file.counters.saves) == (file_bytes, 1, 4)
    assert size(disk, LOG) - log_bytes < 2_000
    for state in disk.crash_states(20, seed=1):
        assert await loaded(state) == content_of(directory)


async def test_a_newer_place_of_a_membership_that_becomes_known_is_saved() -> None:
    disk = empty_disk()
    directory = await filled(metadata())
    file = RouteFile(disk, PATH)
    await file.save(directory)
    directory.groups["g1"].reported_place = (9, 9)
    await file.save(directory)
    (group,) = (await loaded(disk)).broker_groups
    assert group.membership.known_place == (9, 9)


async def test_a_crash_at_any_step_of_a_save_leaves_that_save_or_the_one_before() -> None:
    for step in range(40):
        disk = empty_disk()
        directory = await filled(metadata())
        file = RouteFile(disk, PATH)
        await file.save(directory)
        before = content_of(directory)
        directory.put_route(Route("new", ("g1",), 1, 5))
        if step % 2:
            file._log_bytes_max = 0  # the file is replaced
        steps = 0

        def fail(what: str, path: str, limit: int = step // 2) -> OSError | None:
            nonlocal steps
            steps += 1
            return OSError(errno.EIO, "crash") if steps > limit else None

        disk.fail = fail
        await file.save(directory)
        is_saved = not file.save_problem
        disk.fail = None
        for state in disk.crash_states(5, seed=step):
            found = await loaded(state)
            assert found == content_of(directory) if is_saved else found in (before, content_of(directory))


async def test_a_log_that_has_become_as_large_as_the_file_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_file_module, "LOG_BYTES_MIN", 1_000)
    disk = empty_disk()
    directory = await filled(metadata(100))
    file = RouteFile(disk, PATH)
    for version in range(1, 400):
        directory.put_route(Route("s1", ("g1",), 200 + version, 5))
        await file.save(directory)
        assert size(disk, LOG) <= size(disk, PATH) + 1_000
    assert 2 <= file.counters.rewrites < 20
    assert await loaded(disk) == content_of(directory)


async def test_very_many_changes_replace_the_file() -> None:
    directory = await filled(metadata())
    file = RouteFile(empty_disk(), PATH)
    await file.save(directory)
    for number in range(LOG_ITEMS_MAX + 1):
        directory.put_route(Route(f"n{number}", ("g1",), 1, 5))
    await file.save(directory)
    assert file.counters.rewrites == 2


async def test_a_log_of_another_file_is_ignored() -> None:
    disk = empty_disk()
    directory = await filled(metadata())
    file = RouteFile(disk, PATH)
    await file.save(directory)
    directory.remove_route("s0")
    await file.save(directory)
    old_log = bytes(disk.names[LOG].content)
    file._log_bytes_max = 0
    directory.put_route(Route("s0", ("g1",), 1, 5))
    await file.save(directory)
    disk.names[LOG].content[:] = old_log
    assert await loaded(disk) == content_of(directory)


async def test_a_damaged_change_ends_the_log_and_is_reported() -> None:
    disk = empty_disk()
    directory = await filled(metadata())
    file = RouteFile(disk, PATH)
    await file.save(directory)
    for number in range(3):
        directory.put_route(Route(f"n{number}", ("g1",), 1, 5))
        await file.save(directory)
    content = disk.names[LOG].content
    content[content.index(b'"n1"') + 1] ^= 1
    reader = RouteFile(disk, PATH)
    found = await reader.load()
    assert found is not None
    assert {route.subject for route in found.routes} == {"s0", "n0"}
    assert "2 changes are lost" in reader.load_problem


async def test_the_file_is_written_when_something_changed() -> None:
    disk = empty_disk()
    directory = await filled(metadata())
    file = RouteFile(disk, PATH)
    await file.save(directory)
    steps = disk.steps
    await file.save(directory)
    directory.nodes["a"] = replace(directory.nodes["a"], log_end=8)
    await file.save(directory)
    assert (disk.steps, file.counters.saves) == (steps, 1)
    directory.nodes["a"] = replace(directory.nodes["a"], address="10.0.0.2:1")
    await file.save(directory)
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
    directory = await filled(metadata())
    await file.save(directory)
    assert bytes(disk.names[f"{PATH}.unreadable"].content) == content
    assert await loaded(disk) == content_of(directory)
    assert file.load_problem, "the operator can still see it"


@pytest.mark.parametrize("wrong", [{"colour": "red"}, {"preferred": None}])
def test_a_group_with_a_name_too_many_or_too_few_is_refused_by_that_name(wrong: dict[str, str | None]) -> None:
    (group,) = metadata().broker_groups[:1]
    record = {name: value for name, value in (group.record() | wrong).items() if value is not None}
    with pytest.raises(TypeError, match=next(iter(wrong))):
        BrokerGroup.of(record)


@pytest.mark.parametrize("has_log", [False, True])
async def test_a_failed_save_is_an_error_counted_and_tried_again(
    caplog: pytest.LogCaptureFixture, has_log: bool
) -> None:
    disk = empty_disk()
    directory = await filled(metadata())
    file = RouteFile(disk, PATH)
    if has_log:
        await file.save(directory)
        directory.put_route(Route("new", ("g1",), 1, 5))
    saves = file.counters.saves
    disk.fail = lambda what, path: OSError(errno.ENOSPC, "disk full") if what == "write" else None
    with caplog.at_level(logging.ERROR, "qmq.meta"):
        await file.save(directory)
        await file.save(directory)
    assert len(caplog.records) == 1, "once for each time it begins"
    assert (file.counters.failures, file.counters.saves) == (2, saves)
    assert "disk full" in file.save_problem
    disk.fail = None
    await file.save(directory)
    assert (file.save_problem, file.counters.saves) == ("", saves + 1)
    assert await loaded(disk) == content_of(directory)


async def test_the_event_loop_does_not_wait_for_the_disk() -> None:
    disk, may_write = empty_disk(), threading.Event()
    directory = await filled(metadata())

    def fail(what: str, path: str) -> None:
        assert may_write.wait(20)

    disk.fail = fail
    saving = asyncio.ensure_future(RouteFile(disk, PATH).save(directory))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not saving.done()
    may_write.set()
    await saving
    assert await loaded(disk) == content_of(directory)
