"""What a person sees of a run: a line a step, and on a terminal a bar of Spark's tasks under them."""

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

LOOK_SECONDS = 0.2
BAR_CHARS = 24
_CLEAR = "\r\x1b[K"


class Progress:
    """Lines, and on a terminal a bar that shows how far Spark is with what is under way."""

    def __init__(self, out: TextIO | None = None, *, tasks: Callable[[], tuple[int, int]] | None = None) -> None:
        """`tasks` says how many of the active stages' tasks are done, and how many there are."""
        self._out = out or sys.stdout
        self._tasks = tasks
        self._lock = threading.Lock()
        self._is_tty = self._out.isatty()
        self._what = ""
        self._since = time.monotonic()

    def watch(self, tasks: Callable[[], tuple[int, int]]) -> None:
        """From now on tasks are counted this way."""
        self._tasks = tasks

    def say(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            print(f"{_CLEAR if self._is_tty else ''}{text}", file=self._out, flush=True)

    @contextmanager
    def doing(self, what: str) -> Iterator[None]:
        """Show a bar while the block runs, if the output is a terminal."""
        if not self._is_tty:
            yield
            return
        self._what, self._since = what, time.monotonic()
        stop = threading.Event()
        thread = threading.Thread(target=self._show, args=(stop,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            with self._lock:
                self._out.write(_CLEAR)
                self._out.flush()

    def _show(self, stop: threading.Event) -> None:
        while not stop.wait(LOOK_SECONDS):
            try:
                done, count = self._tasks() if self._tasks is not None else (0, 0)
            except Exception:  # noqa: BLE001 - the session may end any time, and no error stops the bar
                done, count = 0, 0
            line = bar(self._what, done, count, time.monotonic() - self._since)
            with self._lock:
                self._out.write(f"{_CLEAR}{line[: shutil.get_terminal_size().columns - 1]}")
                self._out.flush()


def bar(what: str, done: int, count: int, seconds: float) -> str:
    """Return a line with the task, how much of it is done, and its duration. Without a bar if the progress is unknown."""
    if not count:
        return f"{what}  {seconds:.0f} s"
    filled = BAR_CHARS * min(done, count) // count
    return f"{what}  [{'#' * filled}{'.' * (BAR_CHARS - filled)}] {done}/{count} tasks, {seconds:.0f} s"
