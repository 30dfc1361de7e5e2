"""CheckedDisk: a disk that records what a daemon does with it on its event loop, where nothing may wait for a disk.

Allowed on the loop are what never waits (`pread_cached`, a file's size) and what only goes to the page cache (`pwritev`). What a
test itself does is not recorded: only calls whose frames lead from the product's code to the event loop.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from qmq_node.daemon.daemon import Daemon
from qmq_node.log.disk import Disk, File

PROJECT = str(Path(__file__).parents[3])
PRODUCT = tuple(f"{PROJECT}/{name}/" for name in ("qmq", "qmq_node", "broker_node", "delay_node", "metaserver"))
SIMULATION = tuple(f"{PROJECT}/tests/sim/world/{name}.py" for name in ("loop", "network", "world"))
WAITING = frozenset(
    ("make_dir", "add_dir", "list_dir", "create", "open", "rename", "remove", "sync_dir", "sync_file_system",
     "pread", "next_data", "datasync", "truncate")
)  # fmt: skip


class CheckedDisk:
    """A `Disk` around another one. It records while its `node`, any daemon, serves, not while that starts and stops."""

    def __init__(self, disk: Disk) -> None:
        self.inner = disk
        self.node: Daemon | None = None
        self.calls: dict[str, str] = {}
        """What was called on the event loop, by the functions that led there; the value is the path."""

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return self._checked(name, found) if callable(found) else found

    def _checked(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        if name not in WAITING:
            return function

        def call(path: str, *arguments: Any, **named: Any) -> Any:
            self.note(name, path)
            found = function(path, *arguments, **named)
            return _CheckedFile(self, path, found) if name in ("create", "open") else found

        return call

    def note(self, operation: str, path: str) -> None:
        """Record a call, if it is one of the node's on its event loop."""
        node = self.node
        if node is None or not node.is_ready or not _is_on_loop():
            return
        frames, frame = list[str](), sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.startswith((*PRODUCT, __file__)):
            if frame.f_code.co_filename != __file__:
                frames.append(_name(frame))
            frame = frame.f_back  # type: ignore[assignment]
        caller = "" if frame is None else frame.f_code.co_filename
        is_loop = not caller.startswith(f"{PROJECT}/tests/") or caller in SIMULATION
        if frames and is_loop:
            self.calls.setdefault(f"{operation} < {' < '.join(frames)}", path)

    def assert_clean(self) -> None:
        """Fail if the node called the disk on its event loop."""
        found = "\n".join(f"{calls}: {path}" for calls, path in self.calls.items())
        assert not found, f"called on the event loop:\n{found}"


class _CheckedFile:
    def __init__(self, disk: CheckedDisk, path: str, file: File) -> None:
        self._disk, self._path, self._file = disk, path, file

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._file, name)
        if name not in WAITING:
            return function

        def call(*arguments: Any) -> Any:
            self._disk.note(name, self._path)
            return function(*arguments)

        return call


def _name(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).stem}:{frame.f_code.co_name}"


def _is_on_loop() -> bool:
    loop = asyncio._get_running_loop()
    return loop is not None and not getattr(loop, "is_in_thread", False)
