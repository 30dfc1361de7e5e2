"""class AdminHttp: the admin HTTP server of a daemon: /healthz, /readyz, /metrics, and the pages that a daemon adds.

Listens on loopback by default. Answers are JSON; errors have a code and a message. Changes are POSTs with a JSON object. Requests
of pages of other sites are refused, and, where there is a node secret, those not signed with it (`admin_auth`).
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from aiohttp import web
from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from qmq.clock import Clock
from qmq.supervisor import Supervisor
from qmq_node.admin.auth import AdminAccess, AdminAuth, HostCheck, has_proof, is_trusted
from qmq_node.admin.http_guard import CHECK_SECONDS, GuardedConnection, HttpGuard, HttpHandler, HttpLimits
from qmq_node.admin.shared_page import SharedPages, exposition

REQUEST_BYTES_MAX = 64 << 10
MOMENT_DIGITS_MAX = 20
"""Longest number that is read as a time in milliseconds."""
ACCEPT_ROUNDS = 2
"""Of the event loop, after which an accepted connection has its protocol: one makes its transport, one informs the protocol."""
METRICS_LIFETIME_FACTOR = 20.0
"""Building /metrics takes at most 1/20 of the time, however often it is requested."""
logger = logging.getLogger("qmq.admin")

JsonHandler = Callable[[web.Request], Awaitable[Any]]
JsonPost = Callable[[web.Request, "Params"], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class AdminPages:
    """What a kind of daemon adds to the pages of every daemon; by path."""

    json_routes: Mapping[str, JsonHandler]
    json_posts: Mapping[str, JsonPost] = field(default_factory=dict)


class BadRequest(Exception):
    """A request that is answered with an error: HTTP status, code, message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class Params:
    """Typed reading of parameters, from a query or a JSON object."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def only(self, *names: str) -> "Params":
        """Return these parameters; raises BadRequest if others are given. `name.key` belongs to `name`."""
        for given in self._values:
            if given not in names and given.partition(".")[0] not in names:
                raise BadRequest(400, "parameter.unknown", f"{given[:40]!r} is unknown; known: {', '.join(names)}")
        return self

    def has(self, name: str) -> bool:
        """Whether it is given."""
        return name in self._values

    def text(self, name: str, default: str | None = None) -> str:
        """A text; required without a default."""
        value = self._values.get(name, default)
        if value is None:
            raise BadRequest(400, "parameter.missing", f"{name} is required")
        return str(value)

    def several(self, name: str, most: int) -> list[str]:
        """A text, or a list of at most `most` texts; none when it is missing."""
        value = self._values.get(name, [])
        found = value if isinstance(value, list) else [value]
        if len(found) > most or not all(isinstance(one, str) for one in found):
            raise BadRequest(400, "parameter.wrong", f"{name} must be a text, or a list of at most {most} texts")
        return found

    def flag(self, name: str) -> bool:
        """A truth value; false when it is missing."""
        value = self._values.get(name, False)
        if value in (True, False):
            return bool(value)
        raise BadRequest(400, "parameter.wrong", f"{name} is {value!r}; must be true or false")

    def texts(self, name: str) -> dict[str, str]:
        """A map of texts: a JSON object, or query parameters `name.key=value`."""
        found = self._values.get(name, {})
        if not isinstance(found, dict):
            raise BadRequest(400, "parameter.wrong", f"{name} is {found!r}; must be an object")
        dotted = {key.removeprefix(f"{name}."): self._values[key] for key in self._values if key.startswith(f"{name}.")}
        return {str(key): str(value) for key, value in {**found, **dotted}.items()}

    def whole(self, name: str, default: int, *, minimum: int | None = None) -> int:
        """A whole number."""
        value = self._values.get(name, default)
        try:
            found = int(value)
        except (TypeError, ValueError) as error:
            raise BadRequest(400, "parameter.wrong", f"{name} is {value!r}; must be a whole number") from error
        if minimum is not None and found < minimum:
            raise BadRequest(400, "parameter.wrong", f"{name} is {found}; must be at least {minimum}")
        return found

    def moment_ms(self, name: str, default: int | None = None) -> int:
        """A time: milliseconds since the epoch, or an ISO time with its zone."""
        value = self._values.get(name, default)
        if value is None:
            raise BadRequest(400, "parameter.missing", f"{name} is required: milliseconds, or an ISO time with a zone")
        text = str(value)
        if text.removeprefix("-").isdecimal() and len(text) <= MOMENT_DIGITS_MAX:
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError as error:
            raise BadRequest(
                400, "parameter.wrong", f"{name} is {text!r}; must be milliseconds or an ISO time"
            ) from error
        if moment.tzinfo is None:
            raise BadRequest(400, "parameter.wrong", f"{name} {text!r} has no time zone: add Z or an offset")
        return int(moment.timestamp() * 1000)


class AdminHttp:
    """One server. `health` and `ready` return "" or the problem.

    `/healthz` lists the supervisor's failing jobs and stays 200; `/readyz` answers 503 while a vital job fails.

    `restrictions` returns what the daemon does not do although it serves, with the reasons, and the role of a member of a larger
    group; `/readyz` includes them.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        health: Callable[[], str],
        ready: Callable[[], str],
        metrics: Callable[[], Awaitable[list[Metric]]],
        pages: AdminPages,
        restrictions: Callable[[], dict[str, str]] = dict,
        supervisor: Supervisor,
        clock: Clock,
        limits: HttpLimits | None = None,
        access: AdminAccess,
    ) -> None:
        self.host, self._port = host, port
        self._health, self._ready = health, ready
        self._restrictions = restrictions
        self._supervisor = supervisor
        self._families = metrics
        self._metric_pages = SharedPages(clock, lifetime_factor=METRICS_LIFETIME_FACTOR)
        self.guard = HttpGuard(clock, logger, limits)
        self._auth, self._host_check = AdminAuth(access), HostCheck({host, *access.names})
        app = web.Application(
            client_max_size=REQUEST_BYTES_MAX,
            middlewares=[self.guard.answer, self._report_errors, self._admit, self.guard.receive],
        )
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        for path, handler in pages.json_routes.items():
            app.router.add_get(path, _json(handler))
        for path, post_handler in pages.json_posts.items():
            app.router.add_post(path, _json(_with_params(post_handler)))
        self._runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=1.0,
            keepalive_timeout=self.guard.limits.idle_seconds,
            logger=self.guard.request_logger,
        )
        self._server: asyncio.Server | None = None
        self._checker: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Bind and serve. Raises OSError when the address is in use."""
        await self._runner.setup()
        handlers = self._runner.server
        assert handlers is not None
        self._server = await asyncio.get_running_loop().create_server(
            lambda: GuardedConnection(self.guard, handlers()), self.host, self._port, reuse_address=True
        )
        self._checker = self._supervisor.every(CHECK_SECONDS, "admin_deadlines", self.guard.check, until_close=True)

    @property
    def address(self) -> tuple[str, int]:
        """The address it listens on; with the actual port if port 0 was requested."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return str(host), int(port)

    async def close(self) -> None:
        """Stop accepting, let requests in progress end within a second, and close all connections."""
        if self._server is not None:
            await self._stop_accepting(self._server)
            self._server.close()
        await self._runner.cleanup()
        if self._checker is not None:
            await self._supervisor.cancel(self._checker)
            self._checker = None

    @staticmethod
    async def _stop_accepting(server: asyncio.Server) -> None:
        """Accept no further connections, and let those that were accepted get their protocols.

        A connection that asyncio has accepted, and that has no protocol yet when its server is closed, would stay open and never be
        served (`Server._attach` fails, at least up to Python 3.13). The process does not end when a member steps down, so the
        peer would wait until its own time limit.
        """
        loop = asyncio.get_running_loop()
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        for _ in range(ACCEPT_ROUNDS):
            await asyncio.sleep(0)

    @web.middleware
    async def _report_errors(self, request: web.Request, handler: HttpHandler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except BadRequest as error:
            return web.json_response({"code": error.code, "message": str(error)}, status=error.status)
        except Exception as error:  # noqa: BLE001 - reported; other requests are served
            self._supervisor.report("admin_request", error)
            return web.json_response({"code": "admin.failed", "message": "internal error, see the log"}, status=500)

    @web.middleware
    async def _admit(self, request: web.Request, handler: HttpHandler) -> web.StreamResponse:
        refusal = await self._auth.refusal(request)
        if refusal is None and not is_trusted(request):
            refusal = self._host_check.refusal(request)
        if refusal is None and has_proof(request):
            self.guard.proved(request)
        elif not await self.guard.pace(request.protocol):
            return web.Response(status=503)
        return await handler(request) if refusal is None else refusal

    async def _healthz(self, _: web.Request) -> web.Response:
        problem = self._health()
        body = _state(problem)
        failing = self._supervisor.failing()
        if failing:
            body["failing_jobs"] = failing
        return web.json_response(body, status=503 if problem else 200)

    async def _readyz(self, _: web.Request) -> web.Response:
        vital = self._supervisor.failing(vital_only=True)
        problem = self._ready() or "; ".join(f"job {name} fails: {why}" for name, why in vital.items())
        return web.json_response(_state(problem) | self._restrictions(), status=503 if problem else 200)

    async def _metrics(self, _: web.Request) -> web.Response:
        body = await self._metric_pages.get("", self.metrics_text)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def metrics_text(self) -> bytes:
        """Build the page /metrics."""
        return await exposition(await self._families())


def by_query(page: JsonPost) -> JsonHandler:
    """A page that takes its parameters from the query, not from a JSON object."""
    return lambda request: page(request, Params(request.query))


def _json(ask: JsonHandler) -> HttpHandler:
    async def handler(request: web.Request) -> web.Response:
        answer = await ask(request)
        if isinstance(answer, web.Response):
            return answer
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json", charset="utf-8")
        return web.json_response(answer, dumps=partial(json.dumps, ensure_ascii=False))

    return handler


def _with_params(change: JsonPost) -> JsonHandler:
    async def ask(request: web.Request) -> Any:
        if request.content_type != "application/json":
            text = "the body must be a JSON object with Content-Type: application/json"
            raise BadRequest(415, "body.not_json", text)
        try:
            body = await request.json()
        except ValueError as error:
            raise BadRequest(400, "body.not_json", f"the body is not valid JSON: {error}") from error
        if not isinstance(body, dict):
            raise BadRequest(400, "body.not_json", "the body must be a JSON object")
        return await change(request, Params(body))

    return ask


def _state(problem: str) -> dict[str, Any]:
    return {"status": "failing", "reason": problem} if problem else {"status": "ok"}
