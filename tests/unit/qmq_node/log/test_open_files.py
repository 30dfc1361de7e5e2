"""Caches of open files: a slow open in one thread delays no other, and no handle of a removed file is kept."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from qmq.errors import LogError
from qmq_node.log import segment
from qmq_node.log.handles import HandleCache
from qmq_node.log.segment import Segments
from tests.support.disks.memory_disk import MemoryDisk, MemoryFile

STUCK_SECONDS = 10.0
"""A thread that comes no further in this time is stuck: the test fails instead of hanging."""


class SlowDisk(MemoryDisk):
    """Opening one path waits until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.slow = ""
        self.is_opening = threading.Event()
        self.may_open = threading.Event()

    def open(self, path: str, *, writable: bool) -> MemoryFile:
        file = super().open(path, writable=writable)
        if path == self.slow:
            self.is_opening.set()
            assert self.may_open.wait(STUCK_SECONDS)
        return file


@contextmanager
def opening(disk: SlowDisk, path: str, get: Callable[[], object]) -> Iterator[None]:
    """While another thread is inside the opening of a file."""
    disk.slow = path
    thread = threading.Thread(target=get)
    thread.start()
    assert disk.is_opening.wait(STUCK_SECONDS)
    try:
        yield
    finally:
        disk.may_open.set()
        thread.join()


def in_time(get: Callable[[], object]) -> object:
    """What a call returns; the test fails when it waits for a lock."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(get()), daemon=True)
    thread.start()
    thread.join(STUCK_SECONDS / 2)
    assert found, "it waits for the open of another file"
    return found[0]


def test_a_slow_open_of_an_index_file_holds_up_no_open_file() -> None:
    disk = SlowDisk()
    handles = HandleCache(disk, 8)
    for name in ("a", "b"):
        disk.create(name, 0)
    quick = handles.get("a")
    with opening(disk, "b", lambda: handles.get("b")):
        assert in_time(lambda: handles.get("a")) is quick


def test_a_slow_open_of_a_segment_holds_up_no_open_segment() -> None:
    disk = SlowDisk()
    segments = Segments(disk, "log")
    segments.create(0, 100)
    segments.create(100, 100)
    segments.close()
    quick = segments.file(0)
    with opening(disk, segments.path(100), lambda: segments.file(100)):
        assert in_time(lambda: segments.file(0)) is quick
        assert in_time(lambda: segments.holding(150)) is not None


def test_a_file_removed_while_it_is_opened_is_not_kept() -> None:
    disk = SlowDisk()
    handles = HandleCache(disk, 8)
    disk.create("a", 0)
    with opening(disk, "a", lambda: handles.get("a")):
        handles.drop("a")
        disk.remove("a")
        disk.create("a", 0)
    disk.slow = ""
    handles.get("a").pwritev([b"new"], 0)
    assert bytes(disk.names["a"].content) == b"new"


def test_a_segment_hidden_while_it_is_opened_is_not_kept() -> None:
    disk = SlowDisk()
    segments = Segments(disk, "log")
    segments.create(0, 100)
    segments.close()
    with opening(disk, segments.path(0), lambda: segments.file(0)):
        segments.remove(0)
    with pytest.raises(FileNotFoundError):
        segments.file(0)


def test_two_threads_that_open_one_file_get_the_same() -> None:
    disk = SlowDisk()
    handles = HandleCache(disk, 8)
    disk.create("a", 0)
    first: list[object] = []
    with opening(disk, "a", lambda: first.append(handles.get("a"))):
        disk.slow = ""
        second = in_time(lambda: handles.get("a"))
    assert first == [second]


def test_new_segments_are_open_so_that_nothing_on_the_event_loop_opens_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "OPEN_SEGMENTS_MAX", 2)
    disk = MemoryDisk()
    segments = Segments(disk, "log")
    for base in (0, 100, 200):
        segments.create(base, 100)
    for found in (segments, Segments(disk, "log")):
        assert [found.opened(base, 100) is not None for base in (0, 100, 200)] == [False, True, True]
        found.locate(0, 100)
        assert [found.opened(base, 100) is not None for base in (0, 100, 200)] == [True, False, True]
        with pytest.raises(LogError):
            found.opened(250, 60)
