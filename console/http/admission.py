"""Admits HTTP requests and websocket handshakes before Django sees them: rates by address, sizes of bodies, requests in progress.

Django reads a whole body into a temporary file before any middleware runs, and gives every request a thread. What is refused
here costs neither, nor a query.
"""

import asyncio
import contextlib
import json
import logging
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import parse_cookie

from console.http.headers import API_POLICY
from console.http.problems import MEDIA_TYPE, problem
from console.http.rate_limits import RateLimit, RedisCounts, network_of
from console.http.requests import new_id
from console.http.verified import VerifiedCredentials, verified
from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.net.log_limiter import LogLimiter

logger = logging.getLogger("qmq.api")

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

HEALTH_PATH = "/healthz"
SCHEME = "bearer"
TOKEN_SUBPROTOCOL = "bearer."


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one process; the rates are those of all processes together while Redis answers."""

    unverified_per_minute: int = 600
    """Requests and handshakes of an address without a credential that authenticated in the last minutes."""
    handshakes_per_minute: int = 300
    """Websocket handshakes with one verified credential."""
    body_bytes_max: int = 4 << 20
    """The largest request body."""
    bodies_bytes_max: int = 256 << 20
    """Bodies of all requests in progress."""
    bodies_of_address_bytes_max: int = 64 << 20
    """The same of one address."""
    requests_max: int = 64
    """Maximum number of requests that Django processes concurrently: each uses a thread and often a database connection."""
    waiting_max: int = 1_000
    """Requests that wait for one of these places."""
    wait_seconds: float = 5.0
    """How long they wait before they are refused."""
    linger_seconds: float = 1.0
    """How long the rest of a body that is too large is read and dropped, so that the client gets to read the answer."""
    linger_bytes_max: int = 1 << 20


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer without Django."""

    status: int
    code: str
    detail: str
    retry_seconds: int = 0
    is_closing: bool = False
    """Whether the connection is closed: the rest of the request is not read."""


class Places:
    """The requests in progress: a number of places, and a bounded queue in order of arrival."""

    def __init__(self, places: int, waiting_max: int, wait_seconds: float) -> None:
        self._free = asyncio.Semaphore(places)
        self._waiting_max = waiting_max
        self._wait_seconds = wait_seconds
        self._waiting = 0

    async def take(self) -> bool:
        """Take a place; False when there was none in time, or too many wait."""
        if self._free.locked() and self._waiting >= self._waiting_max:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        return True

    def give_back(self) -> None:
        """Free a place."""
        self._free.release()


class Bodies:
    """Bytes of the bodies of requests in progress, in all and by address."""

    def __init__(self, bytes_max: int, of_address_bytes_max: int) -> None:
        self._max = bytes_max
        self._of_address_max = of_address_bytes_max
        self.total = 0
        self.by_address: Counter[str] = Counter()

    def take(self, address: str, count: int) -> bool:
        """Count bytes; False, and nothing counted, when that is too many."""
        if self.total + count > self._max or self.by_address[address] + count > self._of_address_max:
            return False
        self.total += count
        self.by_address[address] += count
        return True

    def give_back(self, address: str, count: int) -> None:
        """Stop counting bytes."""
        self.total -= count
        self.by_address[address] -= count
        if not self.by_address[address]:
            del self.by_address[address]


class Admission:
    """An ASGI application in front of another one."""

    def __init__(
        self,
        app: App,
        *,
        limits: Limits | None = None,
        clock: Clock = SYSTEM_CLOCK,
        shared: RedisCounts | None = None,
        credentials: VerifiedCredentials = verified,
    ) -> None:
        self.app = app
        self._clock = clock
        self.credentials = credentials
        self._lines = LogLimiter()
        self.limits = limits or Limits(body_bytes_max=settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
        self.bodies = Bodies(self.limits.bodies_bytes_max, self.limits.bodies_of_address_bytes_max)
        self.places = Places(self.limits.requests_max, self.limits.waiting_max, self.limits.wait_seconds)
        self._unverified = RateLimit("address", self.limits.unverified_per_minute, clock, shared)
        self._handshakes = RateLimit("handshakes", self.limits.handshakes_per_minute, clock, shared)

    @classmethod
    def over_redis(cls, app: App) -> "Admission":
        """With the counts of all processes in the configured Redis."""
        return cls(app, shared=RedisCounts(settings.REDIS_URL))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = _headers(scope)
        credential = _credential(headers, is_websocket=kind == "websocket")
        address = network_of((scope.get("client") or ("",))[0])
        refusal = await self._over_rate(scope, headers, credential, address)
        if kind == "websocket":
            if refusal is None:
                await self.app(scope, receive, send)
            else:
                await _refuse_handshake(scope, receive, send, refusal)
        elif refusal is not None:
            await _refuse(send, refusal)
        else:
            await _Exchange(self, address, credential).run(scope, headers, receive, send)

    def log(self, address: str, refusal: Refusal) -> None:
        """Log the first refusal of a kind and address, and then ever fewer."""
        suppressed = self._lines.admit((refusal.code, address), self._clock.monotonic())
        if suppressed is not None:
            logger.warning(
                "a request from %s is refused: %s (%d more since the last line)", address, refusal.code, suppressed
            )

    async def _over_rate(self, scope: Scope, headers: dict[str, str], credential: str, address: str) -> Refusal | None:
        path = scope["path"]
        is_verified = bool(credential) and credential in self.credentials
        if scope["type"] == "websocket" and is_verified:
            seconds = await self._handshakes.admit(credential_key(credential))
        elif is_verified or path.startswith(settings.STATIC_URL) or (path == HEALTH_PATH and "cookie" not in headers):
            return None  # files and the health page take no query
        else:
            seconds = await self._unverified.admit(address)
        if seconds is None:
            return None
        wait = int(seconds) + 1
        detail = f"Too many requests from this address without a valid credential. Try again in {wait} s."
        refusal = Refusal(429, "request.throttled", detail, wait)
        self.log(address, refusal)
        return refusal


class _Exchange:
    """One HTTP request that was admitted by its rate."""

    def __init__(self, admission: Admission, address: str, credential: str) -> None:
        self._admission = admission
        self._address = address
        self._credential = credential
        self._receive: Receive
        self._send: Send
        self._body_bytes = 0
        self._needs_place = True
        self._has_place = False
        self._is_read = False
        self._is_started = False
        self._refusal: Refusal | None = None

    async def run(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self._needs_place = scope["path"] != HEALTH_PATH
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > self._admission.limits.body_bytes_max:
            self._refusal = self._too_large()
        else:
            try:
                await self._admission.app(scope, self._next, self._answer)
            finally:
                self._admission.bodies.give_back(self._address, self._body_bytes)
                self._give_place_back()
        if self._refusal is not None and not self._is_started:
            self._admission.log(self._address, self._refusal)
            await _refuse(send, self._refusal, None if self._is_read else self._drop_rest)

    async def _next(self) -> Message:
        """The application's `receive`: a refused request is to it one whose client went away."""
        message = await self._receive()
        if message["type"] != "http.request" or self._is_read:
            return message
        count = len(message.get("body", b""))
        if self._body_bytes + count > self._admission.limits.body_bytes_max:
            return self._gone(self._too_large())
        if not self._admission.bodies.take(self._address, count):
            return self._gone(_busy("Too many request bodies are being received", is_closing=True))
        self._body_bytes += count
        if message.get("more_body", False):
            return message
        self._is_read = True
        if self._needs_place:
            # Taken when the body is complete: a slow sender must not occupy a place.
            self._has_place = await self._admission.places.take()
            if not self._has_place:
                return self._gone(_busy("Too many requests are being processed"))
        return message

    async def _answer(self, message: Message) -> None:
        """The application's `send`."""
        if message["type"] == "http.response.start":
            self._is_started = True
            # The work is done, or continues in chunks as a download, which has its own limits: a slow reader must not
            # occupy a place.
            self._give_place_back()
            if message["status"] == 401 and self._credential:
                self._admission.credentials.discard(self._credential)
        await self._send(message)

    def _gone(self, refusal: Refusal) -> Message:
        self._refusal = refusal
        return {"type": "http.disconnect"}

    def _give_place_back(self) -> None:
        if self._has_place:
            self._has_place = False
            self._admission.places.give_back()

    def _too_large(self) -> Refusal:
        detail = f"The request body exceeds the limit of {self._admission.limits.body_bytes_max} bytes."
        return Refusal(413, "request.too_large", detail, is_closing=True)

    async def _drop_rest(self) -> None:
        """Read on for a moment: closing a connection with unread bytes resets it, and the answer may be lost."""
        left = self._admission.limits.linger_bytes_max
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._admission.limits.linger_seconds):
                while left > 0:
                    message = await self._receive()
                    if message["type"] != "http.request" or not message.get("more_body", False):
                        return
                    left -= len(message.get("body", b""))


def credential_key(credential: str) -> str:
    """A credential as a key of counts: nothing that could be used elsewhere."""
    return uuid.uuid5(uuid.NAMESPACE_OID, credential).hex


def _busy(detail: str, *, is_closing: bool = False) -> Refusal:
    return Refusal(503, "server.busy", f"{detail}. Try again shortly.", 1, is_closing)


def _headers(scope: Scope) -> dict[str, str]:
    """Headers by lower-case name, repeated ones joined as Django joins them: both have to see the same credential."""
    found: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _credential(headers: dict[str, str], *, is_websocket: bool) -> str:
    """What a request authenticates with: a token, or else the session cookie; "" for neither."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == SCHEME:
        return token.strip()
    if is_websocket:
        for offered in headers.get("sec-websocket-protocol", "").split(","):
            if offered.strip().startswith(TOKEN_SUBPROTOCOL):
                return offered.strip().removeprefix(TOKEN_SUBPROTOCOL)
    return str(parse_cookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME, ""))


def _answer_of(refusal: Refusal) -> tuple[list[tuple[bytes, bytes]], bytes]:
    request_id = new_id()
    content = json.dumps(problem(refusal.status, refusal.code, refusal.detail, request_id=request_id)).encode()
    headers = {
        "content-type": MEDIA_TYPE,
        "content-length": str(len(content)),
        "cache-control": "no-store",
        "content-security-policy": API_POLICY,
        "x-content-type-options": "nosniff",
        "x-request-id": request_id,
    }
    if refusal.retry_seconds:
        headers["retry-after"] = str(refusal.retry_seconds)
    if refusal.is_closing:
        headers["connection"] = "close"
    return [(name.encode(), value.encode()) for name, value in headers.items()], content


async def _refuse(send: Send, refusal: Refusal, drop_rest: Callable[[], Awaitable[None]] | None = None) -> None:
    headers, content = _answer_of(refusal)
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    if refusal.is_closing and drop_rest is not None:
        await send({"type": "http.response.body", "body": content, "more_body": True})
        await drop_rest()
        content = b""
    await send({"type": "http.response.body", "body": content, "more_body": False})


async def _refuse_handshake(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    await receive()
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": 4429})
        return
    headers, content = _answer_of(refusal)
    await send({"type": "websocket.http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": content, "more_body": False})
