"""class AdminAuth: which requests an admin HTTP server accepts: those signed with the node secret, and pages open without it."""

import hmac
import ipaddress
import logging
from dataclasses import dataclass

from aiohttp import web

from qmq.clock import Clock
from qmq.net.http_auth import SCHEME, Challenges
from qmq.net.log_limiter import LogLimiter
from qmq.net.node_secret import FILE_VARIABLE, VARIABLE, NodeSecret

logger = logging.getLogger("qmq.admin")

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
METRICS_PATH = "/metrics"
_BEARER = "Bearer "
_HAS_PROOF = web.RequestKey("has_proof", bool)
_IS_TRUSTED = web.RequestKey("is_trusted", bool)


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """The settings of one server.

    Args:
        secret: None: every request is accepted.
        metrics_token: a bearer token that allows to read /metrics; "" for none.
        names: host names of the server, beside the address that it listens on.
        open_paths: pages that need no proof and accept any Host, in addition to the health pages.
    """

    clock: Clock
    secret: NodeSecret | None = None
    metrics_token: str = ""
    names: frozenset[str] = frozenset()
    open_paths: frozenset[str] = frozenset()


class AdminAuth:
    """Authenticates the requests of one server."""

    def __init__(self, access: AdminAccess) -> None:
        self._open_paths = access.open_paths | HEALTH_PATHS
        self._metrics_token = access.metrics_token.encode()
        self._clock = access.clock
        self._challenges = Challenges(access.secret, access.clock) if access.secret is not None else None
        self._log_limiter = LogLimiter()

    async def refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a refused request; None for an accepted one. `is_trusted` works afterwards."""
        request[_HAS_PROOF] = self._has_metrics_token(request) or await self._is_signed(request)
        request[_IS_TRUSTED] = has_proof(request) or _page(request) in self._open_paths
        if is_trusted(request) or not self._requires_proof(request):
            return None
        if self._challenges is None:
            return self._refused(
                request, 'Bearer realm="metrics"', "/metrics requires a bearer token (QMQ_METRICS_TOKEN)"
            )
        text = (
            f"this page requires the node secret of this system: set {VARIABLE} or {FILE_VARIABLE} for the process that"
            " requests it"
        )
        return self._refused(request, self._challenges.challenge(), text)

    def _requires_proof(self, request: web.Request) -> bool:
        if _page(request) == METRICS_PATH:
            return bool(self._challenges or self._metrics_token) and not _is_from_this_machine(request)
        return self._challenges is not None

    def _has_metrics_token(self, request: web.Request) -> bool:
        header = request.headers.get("Authorization", "")
        if not self._metrics_token or _page(request) != METRICS_PATH or not header.startswith(_BEARER):
            return False
        return hmac.compare_digest(header.removeprefix(_BEARER).encode("utf-8", "surrogateescape"), self._metrics_token)

    async def _is_signed(self, request: web.Request) -> bool:
        header = request.headers.get("Authorization", "")
        if self._challenges is None or not header.startswith(SCHEME) or not self._challenges.may_be_valid(header):
            return False
        body = await request.read()
        return self._challenges.accept(header, request.method, request.raw_path, body)

    def _refused(self, request: web.Request, challenge: str, text: str) -> web.Response:
        # Not logged: requests without a proof, or with an outdated nonce. Every client sends those to get a challenge.
        header = request.headers.get("Authorization", "")
        is_outdated = (
            self._challenges is not None and header.startswith(SCHEME) and not self._challenges.may_be_valid(header)
        )
        if header and not is_outdated:
            what = f"{request.method} {request.path[:100]!r} refused"
            self._log_limiter.warning(logger, f"{request.remote}:0", "not authenticated", what, self._clock.monotonic())
        body = {"code": "auth.required", "message": text}
        return web.json_response(body, status=401, headers={"WWW-Authenticate": challenge})


def has_proof(request: web.Request) -> bool:
    """Whether a request carries a valid token or is signed with the node secret."""
    return bool(request.get(_HAS_PROOF, False))


def is_trusted(request: web.Request) -> bool:
    """Whether a request is authenticated for its page, or the page is open."""
    return bool(request.get(_IS_TRUSTED, False))


def _page(request: web.Request) -> str:
    """The page that answers a request, as it was registered; "" when there is none."""
    resource = request.match_info.route.resource
    return resource.canonical if resource is not None else ""


def _is_from_this_machine(request: web.Request) -> bool:
    try:
        return ipaddress.ip_address(request.remote or "").is_loopback
    except ValueError:
        return False
