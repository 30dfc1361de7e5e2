"""Start processes of the project as forks of one that has imported their modules: importing costs more CPU than most tests.

`python -m tests.support.servers.fork_server FD MODULE...` is that process. It imports the modules and forks for each
request that it receives: the fork gets the environment and the arguments of the request, and runs its program to the
interpreter's usual end. It differs from a program that was executed only in /proc/PID/cmdline and in what the modules
take from the environment when they are imported; these modules take nothing.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

PROJECT = Path(__file__).resolve().parents[3]
REQUEST_BYTES_MAX = 1 << 20
NUMBER = struct.Struct("i")
NODES = (
    "broker_node.broker", "delay_node.delay_node", "metaserver.requests.handlers", "metaserver.server",
    "django.db.backends.sqlite3.base", "django.db.migrations.executor",
)  # fmt: skip
# Not the modules of console and api, and none that imports rest_framework.settings: they read the settings, which differ.
CONSOLE = (
    "channels.routing", "celery.bin.celery", "django.contrib.auth.hashers", "django.contrib.postgres.fields",
    "django.core.asgi", "django.core.management", "django.db.backends.sqlite3.base", "django.forms",
    "django.template.backends.django", "fido2.server", "prometheus_client", "psycopg", "pygments.lexers", "qmq.client",
    "redis.asyncio", "requests", "uvicorn.main", "uvicorn.protocols.http.httptools_impl", "yaml",
)  # fmt: skip
MARKED = (
    "django.conf", "django.db.backends.sqlite3.base", "psycopg", "pymysql", "qmq.client.consumer", "qmq.idempotent.dbapi",
    "qmq.idempotent.sqlalchemy",
)  # fmt: skip
MODULES = {
    "broker_node": NODES,
    "tests.faults.replication.faulty_node": NODES,
    "tests.faults.marked_consumer": MARKED,
    "delay_node": NODES,
    "metaserver": NODES,
    "celery": CONSOLE,
    "manage.py": CONSOLE,
    "uvicorn": CONSOLE,
}
"""Program -> what its server imports."""


class ForkedProcess:
    """A process that a server forked; with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, status: BinaryIO) -> None:
        self._status = status
        """The process id, and when the process has ended and was waited for, its exit code."""
        (self.pid,) = NUMBER.unpack(status.read(NUMBER.size))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, -N after signal N; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code.

        Raises:
            subprocess.TimeoutExpired: It runs after so many seconds.
        """
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0.0)
            (self.returncode,) = NUMBER.unpack(self._status.read(NUMBER.size))
            self._status.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Server:
    """The client's end of a server. It ends with this process."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.of_interpreter = _of_interpreter(os.environ)
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(theirs.fileno()), *modules], cwd=PROJECT, pass_fds=[theirs.fileno()],
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        theirs.close()
        atexit.register(self._close)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], output: BinaryIO) -> ForkedProcess:
        receives, sends = os.pipe()
        request = json.dumps([arguments, dict(environment)]).encode()
        with self._lock:
            socket.send_fds(self._control, [request], [output.fileno(), sends])
        os.close(sends)
        return ForkedProcess(open(receives, "rb", buffering=0))

    def _close(self) -> None:
        self._control.close()
        self._process.wait()


@functools.cache
def _server(modules: Sequence[str]) -> _Server:
    return _Server(modules)


def start(
    command: list[str], environment: Mapping[str, str], output: BinaryIO
) -> "ForkedProcess | subprocess.Popen[bytes]":
    """Start a command in the project's folder with its output and errors in a file: as a fork when it is a program of MODULES."""
    arguments = command[2:] if command[1:2] == ["-m"] else command[1:]
    if command[0] == sys.executable and (modules := _modules_of(arguments[0])):
        server = _server(modules)
        if server.of_interpreter == _of_interpreter(environment):
            return server.start(arguments, environment, output)
    return subprocess.Popen(command, stdout=output, stderr=output, cwd=PROJECT, env=environment)


def _modules_of(program: str) -> tuple[str, ...]:
    """Return what the server of a program imports; nothing when it has none."""
    return MODULES.get(program.removeprefix(f"{PROJECT}/"), ())


def _of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what the interpreter and its libraries read at their start. PROJECT is on the path of each program anyway."""
    prefixes = ("PYTHON", "LD_", "MALLOC_", "OPENSSL_", "SSL_", "LC_", "LANG", "TZ")
    skipped = ("PYTHONPATH", "PYTHONUNBUFFERED")
    return {name: value for name, value in environment.items() if name.startswith(prefixes) and name not in skipped}


def main() -> None:
    """Import the modules, and serve until the control socket closes. Each fork returns from here when its program has ended."""
    control = socket.socket(fileno=int(sys.argv[1]))
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork would write to, and so copy, every page of these modules
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group, and the server is needed to the end
    signal.signal(signal.SIGCHLD, _reap)
    while True:
        request, fds, _, _ = socket.recv_fds(control, REQUEST_BYTES_MAX, 2)
        if not request:
            return
        if os.fork() == 0:
            control.close()
            _run(*json.loads(request), *fds)
            return
        for fd in fds:
            os.close(fd)


def _reap(*_: object) -> None:
    """Wait for forks that have ended: so their CPU time counts as that of the tests."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _run(arguments: list[str], environment: dict[str, str], output: int, status: int) -> None:
    """Fork the program; wait for it here, and write its process id and exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    if pid := os.fork():
        os.write(status, NUMBER.pack(pid))
        os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.close(status)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = arguments
    if arguments[0].endswith(".py"):
        sys.path[0] = os.path.dirname(arguments[0])
        runpy.run_path(arguments[0], run_name="__main__")
    else:
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
