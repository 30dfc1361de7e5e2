"""Websocket clients of a system's live feeds."""

import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect

from tests.support.servers.system import System

OWN_ORIGIN = "own"
NOTICES_OF_SILENCE = ("stale", "fresh")


@contextlib.asynccontextmanager
async def open_feed(
    system: System,
    path: str,
    user: str | None = "viewer",
    *,
    origin: str | None = OWN_ORIGIN,
    by_token: bool = False,
    **options: Any,
) -> AsyncIterator["LiveClient"]:
    """Open a websocket with a user's session, or with their token; OWN_ORIGIN: from a page of this console."""
    headers = {}
    if user is not None and by_token:
        headers["Authorization"] = f"Bearer {system.credentials[user]['token']}"
    elif user is not None:
        headers["Cookie"] = f"qmq_session={system.credentials[user]['session']}"
    settings: dict[str, Any] = {
        "additional_headers": headers,
        "origin": system.url if origin == OWN_ORIGIN else origin,
        "compression": None,
        "max_size": None,
        **options,
    }
    async with connect(f"ws://127.0.0.1:{system.port}{path}", **settings) as socket:
        yield LiveClient(socket)


@dataclass
class LiveClient:
    """Reads messages and applies them to its state, as a browser does. The limit of the test is the only deadline."""

    socket: ClientConnection
    seen: list[dict[str, Any]] = field(default_factory=list)
    state: dict[str, dict[str, dict[str, Any]]] | None = None
    version: int = -1

    @property
    def contents(self) -> list[dict[str, Any]]:
        """Messages that were received, without notices of silence: on a busy machine beats come late."""
        return [message for message in self.seen if message["type"] not in NOTICES_OF_SILENCE]

    async def show(self, **rows: list[str]) -> None:
        """Name the rows, of `subjects` and `groups`, that a client of `/ws/lag/` shows now."""
        await self.socket.send(json.dumps({"type": "show", **rows}))

    async def next(self) -> dict[str, Any]:
        """Return the next message that is not a notice of silence."""
        return await self.until(lambda message: message["type"] not in NOTICES_OF_SILENCE)

    async def _receive(self) -> dict[str, Any]:
        """Return the next message, applied; a version that is missing without a reset fails the test."""
        from console.snapshot.state import apply

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

    async def until(self, condition: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """Receive and apply messages up to the first that meets the condition, and return it."""
        while True:
            message = await self._receive()
            if condition(message):
                return message
