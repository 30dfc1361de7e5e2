"""One process of a small system, watched: started again with a growing pause whenever it ends."""

import asyncio
import contextlib
import os
import signal
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from redis.exceptions import RedisError

from console.child_processes import tied_to_parent
from console.launcher.programs import Program
from console.snapshot.bus import connect
from qmq.errors import ConnectionLost
from qmq.net.discovery import http_get

READY_SECONDS = 60.0
"""How long a process may take to answer before the start counts as failed."""
PROBE_SECONDS = 0.1
STOP_GRACE_SECONDS = 15.0
CRASHES_MAX = 5
"""Crashes of one process within CRASH_WINDOW_SECONDS after which everything is stopped, or a node restarts rarely."""
CRASH_WINDOW_SECONDS = 60.0
PAUSE_FIRST_SECONDS = 0.5
PAUSE_LONGEST_SECONDS = 8.0
NODE_PAUSE_SECONDS = 60.0
"""Pause before each restart of a node that keeps crashing."""
LINE_BYTES_MAX = 1 << 16
PROJECT_DIR = str(Path(__file__).resolve().parents[2])


class GaveUp(Exception):
    """A process can't be kept running; the text says which, and what it said last."""


class Child:
    """One watched process."""

    def __init__(
        self,
        program: Program,
        say: Callable[[str, str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.program = program
        self._sleep = sleep
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._crashes: deque[float] = deque()
        self._last_lines: deque[str] = deque(maxlen=5)
        self._is_stopping = False
        self._reader: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start it."""
        self._process = await asyncio.create_subprocess_exec(
            *self.program.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **self.program.environment, "PYTHONUNBUFFERED": "1"},
            cwd=PROJECT_DIR,
            start_new_session=True,
            preexec_fn=tied_to_parent(),
            limit=LINE_BYTES_MAX,
        )
        self._reader = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                line = b"(a line too long to show)\n"
            if not line:
                return
            text = line.decode("utf-8", "replace").rstrip("\n")
            self._last_lines.append(text)
            self._say(self.program.name, text)

    async def wait_ready(self) -> None:
        """Return when it answers.

        Raises:
            GaveUp: it ended, or did not answer in time.
        """
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self._process is not None and self._process.returncode is not None:
                raise GaveUp(f"{self.program.name} ended with code {self._process.returncode} {self._last_output()}")
            for url in (self.program.ready_url, *self.program.other_ready_urls):
                if await _answers(url):
                    return
            await asyncio.sleep(PROBE_SECONDS)
        raise GaveUp(
            f"{self.program.name} did not respond at {_without_password(self.program.ready_url)} in {READY_SECONDS:g} s"
            f" {self._last_output()}"
        )

    async def serves(self) -> bool:
        """Whether it answers that it serves; of a group's members, only the master does."""
        return await _answers(self.program.ready_url)

    def _last_output(self) -> str:
        return f"(last output: {' | '.join(self._last_lines)})" if self._last_lines else ""

    async def watch(self) -> None:
        """Start it again whenever it ends, until it is stopped.

        Raises:
            GaveUp: it ended too often, or its output can't be shown: it would stop at its next line.
        """
        while not self._is_stopping:
            assert self._process is not None
            assert self._reader is not None
            ending = asyncio.create_task(self._process.wait())
            try:
                # The output may end before the process, and after it: its own children may hold it open.
                await asyncio.wait([ending, self._reader], return_when=asyncio.FIRST_COMPLETED)
                if self._reader.done() and not self._reader.cancelled() and (error := self._reader.exception()):
                    raise GaveUp(f"the output of {self.program.name} can't be shown: {error}")
                code = await ending
            finally:
                ending.cancel()
            if self._is_stopping:
                return
            now = time.monotonic()
            self._crashes.append(now)
            while self._crashes[0] < now - CRASH_WINDOW_SECONDS:
                self._crashes.popleft()
            pause = min(PAUSE_LONGEST_SECONDS, PAUSE_FIRST_SECONDS * 2 ** (len(self._crashes) - 1))
            if len(self._crashes) > CRASHES_MAX:
                if not self.program.is_node:
                    raise GaveUp(
                        f"{self.program.name} ended {len(self._crashes)} times within a minute {self._last_output()}"
                    )
                # The crashes stay: until it has run for CRASH_WINDOW_SECONDS, each further one has this pause.
                pause = NODE_PAUSE_SECONDS
            self._say("up", f"{self.program.name} ended with code {code}, restarting it in {pause:g} s")
            await self._sleep(pause)
            if self._is_stopping:
                return
            if pause == NODE_PAUSE_SECONDS:
                now = time.monotonic()
                self._crashes = deque([now] * CRASHES_MAX)
            await self.start()

    async def stop(self) -> None:
        """SIGTERM, a grace, SIGKILL; returns when it is gone."""
        self._is_stopping = True
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            async with asyncio.timeout(STOP_GRACE_SECONDS):
                await process.wait()
        except TimeoutError:
            self._say("up", f"{self.program.name} did not stop in {STOP_GRACE_SECONDS:g} s and is killed")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if self._reader is not None:
            # Its failure was reported by `watch`; the other processes still have to be stopped.
            await asyncio.wait([self._reader])


async def _answers(url: str) -> bool:
    """Whether a process serves: 200 for a page, PONG for Redis; one without an address counts once it runs."""
    if not url:
        return True
    try:
        if url.startswith("redis://"):
            async with connect(url) as client:
                return bool(await client.ping())
        status, _ = await http_get(url, timeout_s=1.0)
    except (ConnectionLost, RedisError, OSError, TimeoutError):
        return False
    return status == 200


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
