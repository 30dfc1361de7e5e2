"""Real processes for tests: started on free ports in a temporary folder, killed, restarted, always stopped."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.ports import free_port
from tests.support.waiting import eventually

PROJECT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 60.0


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
        self, name: str, command: list[str], folder: Path, ready_url: str, environment: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self._environment = {**os.environ, "PYTHONUNBUFFERED": "1", **(environment or {})}
        self._command = command
        self._log_path = folder / f"{name}.log"
        self._ready_url = ready_url
        self._process: subprocess.Popen[bytes] | None = None

    def set_environment(self, **values: str) -> None:
        """From its next start on."""
        self._environment |= values

    def start(self, *, wait: bool = True) -> None:
        """Start it, and by default wait until it serves."""
        with open(self._log_path, "ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, cwd=PROJECT, env=self._environment)
        if wait:
            self.wait_ready()

    def wait_ready(self) -> None:
        """Wait until it serves; fails the test with its log when it ended."""

        def look() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"{self.name} ended with {self._process.returncode}:\n{self.log()}"
            return answers(self._ready_url)

        eventually(look, START_SECONDS, f"{self.name} serves")

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self, timeout: float = 60.0) -> int:
        """Its exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self) -> int | None:
        """SIGTERM, then SIGKILL if need be; the exit code."""
        if self._process is None or self._process.poll() is not None:
            return None if self._process is None else self._process.returncode
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """What it wrote."""
        return self._log_path.read_text(errors="replace") if self._log_path.exists() else ""


_ACCEPT_LOG_LOSS = """
import sys
from metaserver.__main__ import set_up_django
from metaserver.options import MetaOptions
set_up_django(MetaOptions(data_dir=sys.argv[1]))
from metaserver.services.broker_groups import accept_log_loss
from metaserver.services.changes import Actor
accept_log_loss(sys.argv[2], log_end=0, actor=Actor("a test"), reason="its folder was emptied")
"""


class System:
    """A metaserver and broker groups, without the launcher."""

    def __init__(
        self, folder: Path, *, groups: int = 2, broker_flags: tuple[str, ...] = ("--retry-delay-seconds", "0.3")
    ) -> None:
        self.folder = folder
        self.http_port, self.tcp_port = free_port(), free_port()
        self.meta_url = f"http://127.0.0.1:{self.http_port}/meta/address"
        self.meta = Process(
            "meta",
            [
                sys.executable, "-m", "metaserver", "--data-dir", str(folder / "meta"),
                "--http-port", str(self.http_port), "--tcp-port", str(self.tcp_port), "--new-groups", "allow",
            ],
            folder,
            f"http://127.0.0.1:{self.http_port}/readyz",
        )  # fmt: skip
        self.broker_flags = broker_flags
        self._commands: list[Command] = []
        self.brokers: dict[str, Process] = {}
        self.ports: dict[str, tuple[int, int]] = {}
        self.delays: dict[str, Process] = {}
        for number in range(1, groups + 1):
            self.add_broker(f"g{number}")

    def add_broker(self, group: str, *flags: str) -> Process:
        """One more broker group; not started."""
        size = () if "--segment-bytes" in self.broker_flags else ("--segment-bytes", str(64 << 20))
        self.brokers[group] = self._node("broker_node", group, (*size, *self.broker_flags, *flags))
        return self.brokers[group]

    def add_delay(self, group: str, *flags: str) -> Process:
        """A delay group; not started."""
        self.delays[group] = self._node("delay_node", group, flags)
        return self.delays[group]

    def _node(self, module: str, group: str, flags: tuple[str, ...]) -> Process:
        port, admin = free_port(), free_port()
        self.ports[group] = (port, admin)
        return Process(
            group,
            [
                sys.executable, "-m", module, "--group", group, "--data-dir", str(self.folder / group),
                "--port", str(port), "--admin-port", str(admin), "--meta", self.meta_url, *flags,
            ],
            self.folder,
            f"http://127.0.0.1:{admin}/readyz",
        )  # fmt: skip

    @property
    def nodes(self) -> list[Process]:
        """Brokers and delay nodes."""
        return [*self.brokers.values(), *self.delays.values()]

    def start(self) -> None:
        """Start everything and wait until it serves."""
        self.meta.start(wait=False)
        for node in self.nodes:
            node.start(wait=False)
        for process in (self.meta, *self.nodes):
            process.wait_ready()

    def stop(self) -> None:
        """Stop everything."""
        for command in self._commands:
            command.kill()
        for process in (*reversed(self.nodes), self.meta):
            process.stop()

    def accept_log_loss(self, group: str) -> None:
        """Let a group's node serve whose data folder was emptied, as an operator does by the API."""
        command = [sys.executable, "-c", _ACCEPT_LOG_LOSS, str(self.folder / "meta"), f"{group}-a"]
        subprocess.run(command, cwd=PROJECT, check=True, timeout=60)

    def admin(self, group: str, path: str) -> Any:
        """A page of a broker's admin HTTP."""
        return get_json(f"http://127.0.0.1:{self.ports[group][1]}{path}")

    def group_states(self) -> list[str]:
        """The states of all groups as the metaserver knows them."""
        cluster = get_json(f"http://127.0.0.1:{self.http_port}/meta/cluster")
        return [group["state"] for group in cluster["broker_groups"]]

    def qmq(
        self, *arguments: str, timeout: float = 120.0, stdin: bytes | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the `qmq` command against this system."""
        done = subprocess.run(
            [sys.executable, "-m", "qmq.cli", *arguments, "--meta", self.meta_url],
            cwd=PROJECT, capture_output=True, timeout=timeout, input=stdin, check=False,
        )  # fmt: skip
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    def qmq_soon(self, *arguments: str) -> "Command":
        """Start the `qmq` command; the caller waits for it."""
        command = Command(
            [sys.executable, "-m", "qmq.cli", *arguments, "--meta", self.meta_url],
            self.folder / f"qmq-{len(self._commands)}.out",
        )
        self._commands.append(command)
        return command


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
