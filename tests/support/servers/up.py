"""A whole system as `manage.py up` starts it, with nothing of the tests' in between."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.servers.ports import free_ports
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually

PORTS = 31
"""That it takes, in a row."""
STOP_SECONDS = 40.0
ANSWER_SECONDS = 30.0


class Up:
    """`manage.py up` as `make up` starts it; `environment` is added to ours."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.base = free_ports(PORTS)
        self.data_dir = folder / "data"
        self.environment = {**os.environ, **environment}
        self._log = folder / "up.log"
        self.command = [
            sys.executable, "manage.py", "up", "--data-dir", str(self.data_dir), "--port-base", str(self.base),
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def meta(self) -> str:
        """Where clients find the metaserver."""
        return f"127.0.0.1:{self.base + 1}"

    def start(self) -> float:
        """Start; seconds until it says ready."""
        began = time.monotonic()
        with open(self._log, "wb") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=PROJECT, env=self.environment)

        def is_ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.text()
            return "\nready\n" in self.text()

        eventually(is_ready, what="ready")
        return time.monotonic() - began

    def text(self) -> str:
        """What it printed since its last start."""
        return self._log.read_text(errors="replace")

    def token(self, *scopes: str) -> str:
        """A token of the first administrator's."""
        return self.manage("make_token", "admin", "--name", "tests", *(f"--scope={scope}" for scope in scopes))

    def manage(self, *arguments: str) -> str:
        """Run a command of manage.py on this system; what it printed."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments], capture_output=True, text=True, timeout=60, cwd=PROJECT,
            env={**self.environment, "QMQ_DATA_DIR": str(self.data_dir)}, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def get(self, path: str, token: str) -> Any:
        """A page of /api/v1 that has to be there."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.base}/api/v1{path}", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)

    def stop(self) -> int:
        """Ctrl-C; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(STOP_SECONDS)
