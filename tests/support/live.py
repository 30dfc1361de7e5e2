"""A whole system with live feeds as real processes: metaserver, brokers, Redis, collector, uvicorn; and websocket clients."""

import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from console.http_protocol import UVICORN_OPTIONS
from tests.support.ports import free_port
from tests.support.processes import PROJECT, Process, System
from tests.support.services import Server
from tests.support.waiting import PATIENCE

OWN_ORIGIN = "own"
WORD_OF_SILENCE = ("stale", "fresh")

_ACCOUNTS = """
import json, sys
import django
django.setup()
from datetime import timedelta
from django.conf import settings
from django.test import Client
from django.utils import timezone
from console.accounts.models import ApiToken, User
from console.accounts.tokens import new_token
found = {}
for name, role in json.loads(sys.argv[1]).items():
    user = User.objects.create_user(name, password="a long password", role=role)
    client = Client()
    client.force_login(user)
    token, prefix, digest = new_token()
    ApiToken.objects.create(
        name=name, owner=user, prefix=prefix, digest=digest, scopes=["read"], expires_at=timezone.now() + timedelta(days=1)
    )
    found[name] = {"session": client.cookies[settings.SESSION_COOKIE_NAME].value, "token": token}
print(json.dumps(found))
"""


class LiveSystem:
    """Start with `start()`. `accounts` are names with roles; each gets a session and a token with scope read."""

    def __init__(self, folder: Path, redis: Server, accounts: dict[str, str], *, groups: int = 2) -> None:
        self.redis = redis
        self.system = System(folder, groups=groups)
        self._folder = folder
        self._accounts = accounts
        self._environment = {
            "QMQ_DATA_DIR": str(folder),
            "QMQ_DATABASE_URL": f"sqlite:///{self.database}",
            "QMQ_REDIS_URL": redis.url,
            "QMQ_SECRET_KEY": "a key for tests only",
            "QMQ_TRUSTED_ORIGINS": "https://console.example",
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "QMQ_ANALYTICS_EVERY_SECONDS": "0",  # a JVM every ten minutes: tests of analytics start their own
        }
        self.credentials: dict[str, dict[str, str]] = {}
        self.port = free_port()
        self.web = self._process(
            "web", "-m", "uvicorn", "console.asgi:application", "--host", "127.0.0.1", "--port", str(self.port),
            "--log-level", "info", *UVICORN_OPTIONS,
        )  # fmt: skip
        self.collector = self.another_collector("collector")

    @property
    def origin(self) -> str:
        """Of the console's pages."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        """The metaserver's and the console's."""
        return self._folder / "meta" / "meta.sqlite3"

    def another_collector(self, name: str) -> Process:
        """One more collector, not started."""
        return self._process(name, "manage.py", "collect")

    def _process(self, name: str, *command: str) -> Process:
        settings = [f"{key}={value}" for key, value in self._environment.items()]
        return Process(
            name, ["env", *settings, sys.executable, *command], self._folder, f"http://127.0.0.1:{self.port}/healthz"
        )

    def python(self, *arguments: str) -> str:
        """Run Python in the console's environment; what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], env={**os.environ, **self._environment}, cwd=PROJECT, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def start(self) -> None:
        """Start everything."""
        self._prepare()
        self.system.start()
        self.collector.start(wait=False)
        self.web.start()

    def start_web(self) -> None:
        """Start uvicorn alone; whoever tests is the collector."""
        self._prepare()
        self.web.start()

    def _prepare(self) -> None:
        self.database.parent.mkdir(parents=True)
        self.python("manage.py", "migrate", "--verbosity", "0")
        self.credentials = json.loads(self.python("-c", _ACCOUNTS, json.dumps(self._accounts)))

    def stop(self) -> None:
        """Stop everything but Redis."""
        self.web.stop()
        self.collector.stop()
        self.system.stop()

    def execute(self, statement: str, *values: Any) -> None:
        """Change the database behind everybody's back."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection, connection:
            connection.execute(statement, values)

    def query(self, statement: str, *values: Any) -> list[Any]:
        """Rows of the database."""
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as connection:
            return connection.execute(statement, values).fetchall()

    @contextlib.asynccontextmanager
    async def open(
        self,
        path: str,
        user: str | None = "viewer",
        *,
        origin: str | None = OWN_ORIGIN,
        by_token: bool = False,
        **options: Any,
    ) -> AsyncIterator["LiveClient"]:
        """A websocket of a user's session, or of their token; OWN_ORIGIN: from a page of this console."""
        if origin == OWN_ORIGIN:
            origin = self.origin
        headers = {}
        if user is not None and by_token:
            headers["Authorization"] = f"Bearer {self.credentials[user]['token']}"
        elif user is not None:
            headers["Cookie"] = f"qmq_session={self.credentials[user]['session']}"
        settings: dict[str, Any] = {"compression": None, "max_size": None, **options}
        async with connect(
            f"ws://127.0.0.1:{self.port}{path}", additional_headers=headers, origin=origin, **settings
        ) as socket:
            yield LiveClient(socket)


@dataclass
class LiveClient:
    """Reads messages and keeps the state they make, as a browser would."""

    socket: ClientConnection
    seen: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, dict[str, dict[str, Any]]] | None = None
    version: int = -1

    @property
    def contents(self) -> list[dict[str, Any]]:
        """What was seen, without word of silence and its end: on a busy machine beats come late."""
        return [message for message in self.seen if message["type"] not in WORD_OF_SILENCE]

    async def next(self, within_s: float = 10.0) -> dict[str, Any]:
        """The next message that is not word of silence or its end."""
        return await self.until(lambda message: message["type"] not in WORD_OF_SILENCE, within_s)

    async def _receive(self) -> dict[str, Any]:
        """The next message, applied; checks that no version is missed unsaid."""
        from console.live.state import apply

        message: dict[str, Any] = json.loads(await self.socket.recv())
        self.seen.append(message)
        if message["type"] == "snapshot" and "state" in message:
            self.state, self.version = message["state"], message["version"]
        elif message["type"] == "reset":
            self.state = None
        elif message["type"] == "delta" and "delta" in message:
            assert self.state is not None, "a delta without a snapshot"
            assert message["version"] == self.version + 1, (self.version, message["version"])
            self.state, self.version = apply(self.state, message["delta"]), message["version"]
        return message

    async def until(self, condition: Callable[[dict[str, Any]], Any], within_s: float = 10.0) -> dict[str, Any]:
        """Read on to the first message that fits (it is looked at after it was applied)."""
        async with asyncio.timeout(within_s * PATIENCE):
            while True:
                message = await self._receive()
                if condition(message):
                    return message
