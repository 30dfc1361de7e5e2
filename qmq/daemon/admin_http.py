"""The admin HTTP server that every daemon has: /healthz /readyz /metrics /stats, and what a daemon adds.

Reads only, on loopback unless told otherwise. Answers are JSON; errors say code and message.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

REQUEST_BYTES_MAX = 64 << 10
logger = logging.getLogger("qmq.admin")

JsonHandler = Callable[[web.Request], Awaitable[Any]]


class BadRequest(Exception):
    """A request that can't be answered: HTTP status, code, message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def number(request: web.Request, name: str, default: int | None = None, minimum: int = 0) -> int | None:
    """A whole-number query parameter."""
    text = request.query.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError as error:
        raise BadRequest(400, "parameter.wrong", f"{name} is {text!r}: a whole number is needed") from error
    if value < minimum:
        raise BadRequest(400, "parameter.wrong", f"{name} is {value}: at least {minimum} is needed")
    return value


class AdminHttp:
    """One server. `health` and `ready` answer "" when all is well, else what is wrong."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        health: Callable[[], str],
        ready: Callable[[], str],
        registry: CollectorRegistry,
        json_routes: Mapping[str, JsonHandler],
        text_routes: Mapping[str, Callable[[web.Request], Awaitable[str]]] | None = None,
    ) -> None:
        self._host, self._port = host, port
        self._health, self._ready = health, ready
        self._registry = registry
        app = web.Application(client_max_size=REQUEST_BYTES_MAX)
        app.router.add_get("/healthz", self._state(health))
        app.router.add_get("/readyz", self._state(ready))
        app.router.add_get("/metrics", self._metrics)
        for path, handler in json_routes.items():
            app.router.add_get(path, self._json(handler))
        for path, text_handler in (text_routes or {}).items():
            app.router.add_get(path, self._text(text_handler))
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
        self._site: web.TCPSite | None = None

    async def start(self) -> None:
        """Bind and serve. Raises OSError when the address is taken."""
        await self._runner.setup()
        self._site = web.TCPSite(self._runner, self._host, self._port)
        await self._site.start()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens; the real port after port 0."""
        host, port = self._runner.addresses[0][:2]
        return str(host), int(port)

    async def close(self) -> None:
        await self._runner.cleanup()

    @staticmethod
    def _state(ask: Callable[[], str]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(_: web.Request) -> web.Response:
            problem = ask()
            body = {"status": "ok"} if not problem else {"status": "failing", "reason": problem}
            return web.json_response(body, status=200 if not problem else 503)

        return handler

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    @staticmethod
    def _json(ask: JsonHandler) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            try:
                answer = await ask(request)
            except BadRequest as error:
                return web.json_response({"code": error.code, "message": str(error)}, status=error.status)
            return web.json_response(answer, dumps=lambda value: json.dumps(value, ensure_ascii=False))

        return handler

    @staticmethod
    def _text(ask: Callable[[web.Request], Awaitable[str]]) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handler(request: web.Request) -> web.Response:
            try:
                return web.Response(text=await ask(request))
            except BadRequest as error:
                return web.Response(text=str(error), status=error.status)

        return handler
