"""`manage.py up`: every process of a small system, watched.

Starts in order, each when what it needs answers; prints a table of addresses and `ready`; streams prefixed logs; restarts
what crashes with a growing pause; stops everything in reverse order. When a node keeps crashing, on a full or damaged disk for
example, it is restarted once a minute and the others go on; when any other process does, everything is stopped.
"""

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from redis.exceptions import RedisError

from console.http_protocol import UVICORN_OPTIONS
from console.live.bus import connect
from console.redis_server import redis_command, redis_password, redis_url, write_redis_config
from qmq.errors import ConnectionLost, SettingError
from qmq.net import node_secret
from qmq.net.discovery import http_get
from qmq.net.open_files import raise_open_files_limit
from qmq.private_files import make_private_dir

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
FILES_WANTED = 12_288
"""Files that one process may want open: a broker node's 10,000 connections, its log and its indexes."""
REDIS_MEMORY = "256mb"
"""Of the Redis that `up` starts; it holds live numbers, rate limits and words to run, nothing that must not be lost."""
WORKERS = "2"
"""Control loops that run at a time, without the one for analytics."""
PROJECT_DIR = str(Path(__file__).resolve().parent.parent)
_PR_SET_PDEATHSIG = 1
_COLOURS = (36, 32, 33, 35, 34, 31)


@dataclass(frozen=True, slots=True)
class Ports:
    """Where everything listens."""

    console: int
    meta_http: int
    meta_tcp: int
    brokers: tuple[tuple[int, int], ...]
    """(clients, admin) of each broker."""
    delay: tuple[int, int]
    """(clients, admin) of the delay node."""
    redis: int

    @classmethod
    def choose(cls, base: int | None) -> "Ports":
        """QMQ's defaults, or from `base` on in a row."""
        if base is None:
            return cls(8000, 8080, 20880, ((20881, 20981), (20883, 20983)), (20885, 20985), 6390)
        return cls(
            base, base + 1, base + 2, ((base + 3, base + 4), (base + 5, base + 6)), (base + 7, base + 8), base + 9
        )

    def named(self) -> dict[str, int]:
        """Ports with what they are for."""
        names = {"console": self.console, "metaserver HTTP": self.meta_http, "metaserver TCP": self.meta_tcp}
        for i, (clients, admin) in enumerate(self.brokers, 1):
            names |= {f"broker g{i}": clients, f"broker g{i} admin": admin}
        names |= {"delay d1": self.delay[0], "delay d1 admin": self.delay[1]}
        return names if "QMQ_REDIS_URL" in os.environ else names | {"Redis": self.redis}


@dataclass(frozen=True, slots=True)
class Program:
    """One process: its command line, and the page that answers 200 once it serves ("": it counts once it runs)."""

    name: str
    command: tuple[str, ...]
    ready_url: str
    """`http://...`, or `redis://...` for one that answers PING."""
    environment: Mapping[str, str] = field(default_factory=dict)
    is_node: bool = False
    """A broker or delay node: the system works without it."""


def programs(data_dir: str, ports: Ports, password: str) -> list[Program]:
    """Everything, in the order of starting; `password` is that of the Redis started here."""
    python = sys.executable
    meta = f"http://127.0.0.1:{ports.meta_http}/meta/address"
    redis = os.environ.get("QMQ_REDIS_URL", redis_url(ports.redis, password))
    shared = {
        "QMQ_DATA_DIR": data_dir,
        "QMQ_META": meta,
        "QMQ_REDIS_URL": redis,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        # Celery warns of root at length; a container's only user is one.
        "PYTHONWARNINGS": "ignore:You're running the worker",
    }
    secret = _node_secret(data_dir)
    shared |= secret
    database = ("--database-url", os.environ["QMQ_DATABASE_URL"]) if "QMQ_DATABASE_URL" in os.environ else ()
    found = []
    if "QMQ_REDIS_URL" not in os.environ:
        found.append(
            Program(
                "redis",
                (
                    *redis_command(data_dir, ports.redis),
                    *("--loglevel", "warning", "--maxmemory", REDIS_MEMORY, "--maxmemory-policy", "volatile-lru"),
                ),
                redis,
            )
        )
    found.append(
        Program(
            "meta",
            (
                python, "-m", "metaserver", "--data-dir", f"{data_dir}/meta", "--http-port", str(ports.meta_http),
                "--tcp-port", str(ports.meta_tcp), "--new-groups", "allow", *database,
            ),
            f"http://127.0.0.1:{ports.meta_http}/readyz",
            secret,
        )
    )  # fmt: skip
    nodes = [("broker_node", f"g{i}", places) for i, places in enumerate(ports.brokers, 1)]
    for module, group, (clients, admin) in (*nodes, ("delay_node", "d1", ports.delay)):
        found.append(
            Program(
                f"{group}-a",
                (
                    python, "-m", module, "--group", group, "--node-id", f"{group}-a",
                    "--data-dir", f"{data_dir}/{group}-a", "--port", str(clients), "--admin-port", str(admin), "--meta", meta,
                ),
                f"http://127.0.0.1:{admin}/readyz",
                secret,
                is_node=True,
            )
        )  # fmt: skip
    found.append(
        Program(
            "console",
            (
                python, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(ports.console),
                "--log-level", "warning", *UVICORN_OPTIONS,
            ),
            f"http://127.0.0.1:{ports.console}/healthz",
            shared,
        )
    )  # fmt: skip
    celery = (python, "-m", "celery", "-A", "console.celery", "--quiet")
    worker = (*celery, "worker", "--loglevel", "warning", "--without-mingle", "--without-gossip")
    found += [
        Program("collector", (python, "-m", "console.manage", "collect"), "", shared),
        Program(
            "worker",
            (*worker, "--queues", settings.CELERY_TASK_DEFAULT_QUEUE, "--concurrency", WORKERS),
            "",
            shared,
        ),
        Program("beat", (*celery, "beat", "--loglevel", "warning", "--pidfile", ""), "", shared),
    ]
    if settings.ANALYTICS_EVERY_SECONDS:
        # One process, not two: a pool would be a second copy of the console in memory, which waits for the jobs' process.
        alone = (
            "--queues", settings.ANALYTICS_QUEUE, "--pool", "solo", "--hostname", "analytics@%h", "--without-heartbeat",
        )  # fmt: skip
        found.insert(-1, Program("analytics", (*worker, *alone), "", shared))
    return found


def _node_secret(data_dir: str) -> dict[str, str]:
    """Where processes find the node secret: as the environment says, else in the data folder."""
    if node_secret.VARIABLE in os.environ:
        return {}
    path = os.environ.get(node_secret.FILE_VARIABLE) or os.path.join(data_dir, node_secret.FILE_NAME)
    return {node_secret.FILE_VARIABLE: os.path.abspath(path)}


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
        parent = os.getpid()

        def before_exec() -> None:
            os.setsid()
            # The child ends with the launcher, however the launcher ends.
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:
                os._exit(1)

        self._process = await asyncio.create_subprocess_exec(
            *self.program.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **self.program.environment, "PYTHONUNBUFFERED": "1"},
            cwd=PROJECT_DIR,
            preexec_fn=before_exec,
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
                raise GaveUp(f"{self.program.name} ended with code {self._process.returncode} {self._said()}")
            if await _answers(self.program.ready_url):
                return
            await asyncio.sleep(PROBE_SECONDS)
        raise GaveUp(
            f"{self.program.name} did not answer {_without_password(self.program.ready_url)} in {READY_SECONDS:g} s"
            f" {self._said()}"
        )

    def _said(self) -> str:
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
                    raise GaveUp(f"{self.program.name} ended {len(self._crashes)} times within a minute {self._said()}")
                # The crashes stay: until it has run for CRASH_WINDOW_SECONDS, each further one has this pause.
                pause = NODE_PAUSE_SECONDS
            self._say("up", f"{self.program.name} ended with code {code}, starting it again in {pause:g} s")
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


class Launcher:
    """All processes of one system."""

    def __init__(self, data_dir: str, ports: Ports) -> None:
        self._data_dir = os.path.abspath(data_dir)
        self._ports = ports
        make_private_dir(self._data_dir)
        self._redis_password = "" if "QMQ_REDIS_URL" in os.environ else redis_password(self._data_dir)
        """Of the Redis that is started here; "" when another one is used."""
        self._children = [
            Child(program, self._say) for program in programs(self._data_dir, ports, self._redis_password)
        ]
        self._width = max(len(child.program.name) for child in self._children)
        self._is_tty = sys.stdout.isatty()
        self._lock_fd = -1

    def _say(self, name: str, text: str) -> None:
        prefix = f"{name:<{self._width}} | "
        if self._is_tty:
            prefix = f"\x1b[{_COLOURS[sum(name.encode()) % len(_COLOURS)]}m{prefix}\x1b[0m"
        print(f"{prefix}{text}", flush=True)

    def check(self) -> None:
        """Refuse what can't work before anything starts.

        Raises:
            SettingError: another system uses the folder, the node secret can't be used, or a port is taken.
        """
        raise_open_files_limit(FILES_WANTED)  # every process inherits it
        self._lock_fd = os.open(f"{self._data_dir}/up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SettingError(
                f"another system is running in {self._data_dir}; stop it, or choose another --data-dir"
            ) from error
        if self._redis_password:
            write_redis_config(self._data_dir, self._redis_password)
        secret = _node_secret(self._data_dir)
        own_file = os.path.join(self._data_dir, node_secret.FILE_NAME)
        if secret.get(node_secret.FILE_VARIABLE) == own_file:
            node_secret.make_secret_file(Path(own_file))
        node_secret.NodeSecret.from_environment({**os.environ, **secret})
        for what, port in self._ports.named().items():
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise SettingError(
                        f"port {port} ({what}) is in use: {error.strerror}; choose other ports with --port-base"
                    ) from error

    async def run(self) -> int:
        """Start, watch, stop; the exit code."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop.set)
        started: list[Child] = []
        try:
            starting = asyncio.create_task(self._start(started))
            stopping = asyncio.create_task(_set(stop))
            await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
            if not starting.done():
                starting.cancel()
                await asyncio.wait([starting])
                return 0
            starting.result()
            self._table()
            watching = [asyncio.create_task(child.watch()) for child in started]
            done, _ = await asyncio.wait([stopping, *watching], return_when=asyncio.FIRST_COMPLETED)
            for task in watching:
                if task not in done:
                    task.cancel()
            for task in done:
                if task is not stopping:
                    task.result()
            return 0
        except GaveUp as error:
            print(f"up: {error}", file=sys.stderr, flush=True)
            return 1
        finally:
            print("stopping", flush=True)
            for child in reversed(started):
                await child.stop()

    async def _start(self, started: list[Child]) -> None:
        by_name = {child.program.name: child for child in self._children}
        # Nobody needs another one to start; but Redis, where it is ours, is there first, and loops run last.
        for child in by_name.values():
            started.append(child)
            await child.start()
            if child.program.name == "redis":
                await child.wait_ready()
        for child in started:
            try:
                await child.wait_ready()
            except GaveUp as error:
                if not child.program.is_node:
                    raise
                self._say("up", f"the system starts without it: {error}")

    def _table(self) -> None:
        ports = self._ports
        rows = [
            ("console", f"http://127.0.0.1:{ports.console}/"),
            ("metaserver", f"http://127.0.0.1:{ports.meta_http}/meta/address (TCP {ports.meta_tcp})"),
        ]
        for i, (clients, admin) in enumerate(ports.brokers, 1):
            rows.append((f"broker g{i}", f"127.0.0.1:{clients}, admin http://127.0.0.1:{admin}/stats"))
        clients, admin = ports.delay
        rows.append(("delay d1", f"127.0.0.1:{clients}, admin http://127.0.0.1:{admin}/stats"))
        rows.append(("data", self._data_dir))
        print()
        for name, text in rows:
            print(f"  {name:<12} {text}")
        exports = {"QMQ_META": f"http://127.0.0.1:{ports.meta_http}/meta/address"} if ports.meta_http != 8080 else {}
        for variable, value in {**exports, **_node_secret(self._data_dir)}.items():
            print(f"  {'for qmq':<12} export {variable}={value}")
        print("\nready", flush=True)


def main(data_dir: str, port_base: int | None) -> int:
    """Run a system until Ctrl-C; the exit code."""
    try:
        launcher = Launcher(data_dir, Ports.choose(port_base))
        launcher.check()
    except SettingError as error:
        print(f"up: {error}", file=sys.stderr)
        return 2
    return asyncio.run(launcher.run())


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


async def _set(event: asyncio.Event) -> None:
    await event.wait()
