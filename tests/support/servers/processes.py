"""Processes of tests: each with a log file of its own; started, killed, paused, stopped."""

import contextlib
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.servers import fork_server
from tests.support.servers.fork_server import PROJECT as PROJECT
from tests.support.waiting import eventually

STOP_SECONDS = 60.0
"""For a process to end by itself after SIGTERM; then it is killed."""
LOG_CHARS = 4_000
"""Of each log in the report of a failed test."""


def get_json(url: str, timeout: float = 20.0) -> Any:
    """The JSON behind a URL."""
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return json.load(answer)


def answers(url: str) -> bool:
    """Whether a page says 200."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Process:
    """One process with its own log file."""

    def __init__(
        self,
        name: str,
        command: list[str],
        folder: Path,
        ready_url: str = "",
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name = name
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._command = command
        self._log_path = folder / f"{name}.log"
        self._ready_url = ready_url
        self._process: fork_server.ForkedProcess | subprocess.Popen[bytes] | None = None
        self._tree: Path | None = None

    def set_environment(self, **values: str) -> None:
        """Set variables from the next start on."""
        self._environment |= values

    def run_from(self, tree: Path) -> None:
        """Run the program of this source tree from the next start on; as a process that is executed, not as a fork."""
        self._tree = tree

    def start(self, *, wait: bool = True) -> None:
        """Start the process; by default return when its page answers 200."""
        with open(self._log_path, "ab") as log:
            if self._tree is None:
                self._process = fork_server.start(self._command, self._environment, log)
            else:
                self._process = subprocess.Popen(
                    self._command, stdout=log, stderr=log, cwd=self._tree, env=self._environment
                )
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until the page of the process answers 200; without a page, do nothing. A process that ended fails the test."""

        def is_ready() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}:\n{self.log()}"
            return answers(self._ready_url)

        if self._ready_url:
            eventually(is_ready, what=f"{self.name} serves")

    def kill(self) -> None:
        """Send SIGKILL and wait for the end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP inside the block for the process and its children, SIGCONT after it."""
        pids = self.family()
        try:
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            yield
        finally:
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def family(self) -> list[int]:
        """Return the ids of the process and its children; the messages of a Celery worker are handled by its children."""
        found = [self.pid]
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    parent = int(Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[1])
                except OSError:
                    continue  # it has just ended
                if parent == self.pid:
                    found.append(int(entry))
        return found

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Wait for the end and return the exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self) -> int | None:
        """Send SIGTERM, then SIGKILL after STOP_SECONDS, and return the exit code; None when the process was never started."""
        if self._process is None or self._process.poll() is not None:
            return None if self._process is None else self._process.returncode
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return what the process wrote to standard output and error since its first start."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""


class Command:
    """A command that runs beside the test, with its output in a file (a pipe nobody reads would stop it)."""

    def __init__(self, command: list[str], path: Path) -> None:
        self._path = path
        with open(path, "wb") as out:
            self._process = subprocess.Popen(command, stdout=out, cwd=PROJECT)

    def output(self) -> str:
        """What it has written so far."""
        return self._path.read_text(errors="replace")

    def finish(self, timeout: float = 120.0) -> tuple[int, str]:
        """Wait for its end: (exit code, output)."""
        code = self._process.wait(timeout)
        return code, self.output()

    def end(self) -> tuple[int, str]:
        """As by Ctrl-C: (exit code, output)."""
        self._process.send_signal(signal.SIGINT)
        return self.finish()

    def kill(self) -> None:
        """Nothing is left of it."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
