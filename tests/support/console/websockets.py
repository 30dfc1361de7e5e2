"""Websockets of the console in this process: the ASGI application alone, without a server and without Redis."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from console.live.consumers import LiveApp


class InProcessSocket:
    """One websocket; `sent` is everything the application sent to it."""

    def __init__(self, path: str, headers: Iterable[tuple[str, str]]) -> None:
        path, _, query = path.partition("?")
        self.scope = {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            "client": ("192.0.2.7", 1),
            "subprotocols": [],
        }
        self.sent: list[dict[str, Any]] = []
        self.code: int | None = None
        """What the application closed it with; None: it is open."""
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._arrived = asyncio.Condition()
        self._events.put_nowait({"type": "websocket.connect"})

    async def receive(self) -> dict[str, Any]:
        return await self._events.get()

    async def send(self, event: dict[str, Any]) -> None:
        async with self._arrived:
            if event["type"] == "websocket.close":
                self.code = event["code"]
            elif event["type"] == "websocket.send":
                self.sent.append(json.loads(event["text"]))
            self._arrived.notify_all()

    async def until(self, is_there: Callable[["InProcessSocket"], bool], seconds: float = 60) -> None:
        """Wait until this holds or the socket is closed."""
        async with asyncio.timeout(seconds), self._arrived:
            await self._arrived.wait_for(lambda: self.code is not None or is_there(self))

    async def verdict(self) -> int | None:
        """Return the code it is closed with, None once it answers a ping."""
        self._events.put_nowait({"type": "websocket.receive", "text": '{"type":"ping"}'})
        await self.until(lambda socket: {"type": "pong"} in socket.sent)
        return self.code

    def hang_up(self) -> None:
        """Close it from the client's side."""
        self._events.put_nowait({"type": "websocket.disconnect"})


@asynccontextmanager
async def opened(app: LiveApp, path: str, headers: Iterable[tuple[str, str]]) -> AsyncIterator[InProcessSocket]:
    """Open a websocket; at the end the client hangs up, and the application is done with it."""
    socket = InProcessSocket(path, headers)
    work: Awaitable[None] = asyncio.create_task(app(socket.scope, socket.receive, socket.send))
    try:
        yield socket
    finally:
        socket.hang_up()
        await work
