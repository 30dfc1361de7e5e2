"""The control plane as real processes beside a `System`: console, Celery worker and beat, collector; and its API over HTTP."""

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import quote

from console.http_protocol import UVICORN_OPTIONS
from tests.support.ports import free_port
from tests.support.processes import PROJECT, Process, System
from tests.support.waiting import eventually

_MAKE_TOKEN = """
import django, sys
django.setup()
from datetime import timedelta
from django.utils import timezone
from console.accounts import services, tokens
from console.accounts.models import ApiToken, User
from console.accounts.roles import Scope
services.ensure_first_admin()
token, prefix, digest = tokens.new_token()
ApiToken.objects.create(
    name="tests", owner=User.objects.get(username="admin"), prefix=prefix, digest=digest,
    scopes=[scope.value for scope in Scope], expires_at=timezone.now() + timedelta(days=1),
)
print(token)
"""


class Answer:
    """What the API said."""

    def __init__(self, status: int, headers: dict[str, str], raw: bytes) -> None:
        self.status = status
        self.headers = headers
        self.raw = raw

    @property
    def body(self) -> Any:
        return json.loads(self.raw)


class ControlPlane:
    """The console's processes over one system and one Redis."""

    def __init__(self, system: System, redis_url: str, *, workers: int = 1, beats: int = 1) -> None:
        self.system = system
        self.folder: Path = system.folder
        self.port = free_port()
        self.environment = {
            "QMQ_DATA_DIR": str(self.folder),
            "QMQ_META": system.meta_url,
            "QMQ_REDIS_URL": redis_url,
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "QMQ_ANALYTICS_EVERY_SECONDS": "0",  # a JVM every ten minutes: tests of analytics start their own
            "PYTHONPATH": str(PROJECT),
        }
        celery = [sys.executable, "-m", "celery", "-A", "console.celery", "--quiet"]
        self.console = self._process(
            "console",
            [
                sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port",
                str(self.port), "--log-level", "warning", *UVICORN_OPTIONS,
            ],
            f"http://127.0.0.1:{self.port}/healthz",
        )  # fmt: skip
        self.workers = [
            self._process(
                f"worker{number}",
                [
                    *celery, "worker", "--concurrency", "2", "--loglevel", "info", "--without-mingle", "--without-gossip",
                    "-n", f"worker{number}@test",
                ],
            )
            for number in range(workers)
        ]  # fmt: skip
        self.beats = [
            self._process(f"beat{number}", [*celery, "beat", "--loglevel", "warning", "--pidfile", ""])
            for number in range(beats)
        ]
        self.collector = self._process("collector", [sys.executable, "manage.py", "collect"])
        self.token = ""

    def _process(self, name: str, command: list[str], ready_url: str = "") -> Process:
        return Process(name, command, self.folder, ready_url, self.environment)

    @property
    def processes(self) -> list[Process]:
        """In the order of starting."""
        return [self.console, self.collector, *self.workers, *self.beats]

    def migrate(self) -> None:
        """Make the tables and an administrator's token."""
        environment = {**os.environ, **self.environment}
        (self.folder / "meta").mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity", "0"], cwd=PROJECT, env=environment, check=True
        )
        made = subprocess.run(
            [sys.executable, "-c", _MAKE_TOKEN],
            cwd=PROJECT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
        self.token = made.stdout.strip().splitlines()[-1]

    def start(self) -> None:
        """Start everything (the tables have to be there) and wait until the loops run."""
        for process in self.processes:
            process.start(wait=False)
        self.console.wait_ready()
        eventually(lambda: self.loop("heartbeats")["succeeded_at"], 40, "the loops run")

    def stop(self) -> None:
        """Stop everything."""
        for process in reversed(self.processes):
            process.stop()

    # --- API -----------------------------------------------------------------------------------------------------------

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = None,
        headers: dict[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Answer:
        """One request to /api/v1."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{path}",
            data=data,
            method=method,
            headers={
                "Authorization": f"Bearer {self.token if token is None else token}",
                "Content-Type": "application/json",
                **(headers or {}),
            },
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def get(self, path: str, **kwargs: Any) -> Any:
        """A page that has to be there."""
        answer = self.ask("GET", path, **kwargs)
        assert answer.status == 200, (path, answer.status, answer.raw[:2000])
        return answer.body

    def post(self, path: str, body: Any = None, **kwargs: Any) -> Any:
        """A change that has to succeed."""
        answer = self.ask("POST", path, body if body is not None else {}, **kwargs)
        assert answer.status in (200, 201), (path, answer.status, answer.raw[:2000])
        return answer.body

    def group(self, name: str) -> Any:
        """A broker group."""
        return self.get(f"/broker-groups/{quote(name, safe='')}/")

    def loop(self, name: str) -> Any:
        """A control loop."""
        return self.get(f"/tasks/{name}/")
