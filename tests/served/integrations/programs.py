"""Programs of these tests as processes, with their output in a file."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually

STOP_SECONDS = 60.0


class Program:
    """A running program."""

    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def output(self) -> str:
        """What it has written so far."""
        return self._log.read_text(errors="replace")

    def wait_for(self, text: str) -> None:
        """Wait until the program has written a text."""

        def is_written() -> bool:
            assert text in self.output or self.process.poll() is None, f"it ended:\n{self.output}"
            return text in self.output

        eventually(is_written, what=f"{text!r} in {self._log.name}")

    def stop(self, number: int = signal.SIGTERM, *, group: bool = False) -> int:
        """Send a signal, to the whole process group as Ctrl-C does if asked, and return the exit code."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)
        return self.process.wait(STOP_SECONDS)


@contextmanager
def running(folder: Path, name: str, *arguments: str, cwd: Path = PROJECT, **environment: str) -> Iterator[Program]:
    """A Python program in a process group of its own, which is killed at the end of the block."""
    log = folder / f"{name}.log"
    paths = os.pathsep.join([str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    with open(log, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=cwd, stdout=output, stderr=output,
            env={**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )  # fmt: skip
    try:
        yield Program(process, log)
    finally:
        # With the processes that it has started.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(folder: Path, name: str, *arguments: str, cwd: Path = PROJECT, **environment: str) -> tuple[int, str]:
    """Run a program to its end; exit code and output."""
    with running(folder, name, *arguments, cwd=cwd, **environment) as program:
        code = program.process.wait(120)
        return code, program.output


def ask(url: str, body: object = None) -> tuple[int, Any]:
    """Status and JSON of a page, None if it is no JSON; with a body a POST. Status 0: nothing listens yet."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error) if "json" in error.headers["Content-Type"] else None
    except (urllib.error.URLError, OSError):
        return 0, None
