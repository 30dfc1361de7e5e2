"""Which requests an admin HTTP server accepts: signed ones, those of open pages, and of a browser those of its own pages."""

import hmac
import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from qmq.clock import Clock
from qmq.net.http_auth import SCHEME, Challenges
from qmq.net.log_limiter import LogLimiter
from qmq.net.node_secret import FILE_VARIABLE, VARIABLE, NodeSecret

logger = logging.getLogger("qmq.admin")

HEALTH_PATHS = frozenset({"/healthz", "/readyz"})
METRICS_PATH = "/metrics"
LOOPBACK_NAME = "localhost"
_BEARER = "Bearer "
_HAS_PROOF = web.RequestKey("has_proof", bool)
_IS_TRUSTED = web.RequestKey("is_trusted", bool)


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """The settings of one server."""

    clock: Clock
    secret: NodeSecret | None = None
    """None: every request is accepted."""
    metrics_token: str = ""
    """A bearer token that allows to read /metrics; "" for none."""
    names: frozenset[str] = frozenset()
    """Host names of the server, beside the address that it listens on."""
    open_paths: frozenset[str] = frozenset()
    """Pages that need no proof and accept any Host, in addition to the health pages."""


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
            return bool(self._challenges or self._metrics_token) and not is_loopback(request.remote or "")
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
        return self._challenges.accept(header, request.method, request.raw_path, await request.read())

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


class HostCheck:
    """Refuses requests whose host is not one of the server's names, and those that a page of another origin caused.

    A page of another site can make a browser send requests to loopback and private addresses, and can read the answers when its
    host name resolves to such an address (DNS rebinding). Such a request has the page's host in its Host field. An IP address in
    that field can't be rebound.

    Args:
        names: host names of the server, beside IP addresses and localhost.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset({LOOPBACK_NAME, *(_normal(name) for name in names if name)})

    def refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a refused request; None for an accepted one."""
        hosts = request.headers.getall("Host", [])
        # A browser always sends one; programs of HTTP/1.0 may leave it out.
        if len(hosts) > 1 or (hosts and not self._is_ours(hosts[0])):
            text = (
                f"host {', '.join(hosts)[:100]!r} is not a name of this server; use its IP address, or add the name to its"
                " setting admin_names"
            )
            return _refused("host.unknown", text)
        origin = request.headers.get("Origin")
        if origin is not None and not _is_same_origin(origin, hosts):
            return _refused("origin.foreign", f"pages of {origin[:100]} are not allowed to use this server")
        if request.headers.get("Sec-Fetch-Site") == "cross-site":
            return _refused("origin.foreign", "pages of other sites are not allowed to use this server")
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return _ip_address(name) is not None or _normal(name) in self._names


def names_of(text: str) -> frozenset[str]:
    """The names of a setting, which are separated by commas."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    address = _ip_address(host)
    return host == LOOPBACK_NAME or (address is not None and address.is_loopback)


def warn_if_exposed(logger: logging.Logger, secret: object | None, *hosts: str) -> None:
    """Log a warning when a process without a node secret listens on an address that other machines can reach."""
    exposed = [host or "all addresses" for host in hosts if not is_loopback(host)]
    if secret is None and exposed:
        logger.warning(
            "listening on %s without a node secret: every machine that reaches this port can register nodes, read messages and"
            " change groups; set %s or %s (docs/security.md)",
            " and ".join(dict.fromkeys(exposed)), VARIABLE, FILE_VARIABLE,
        )  # fmt: skip


def _normal(name: str) -> str:
    return name.lower().rstrip(".")


def _ip_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _is_same_origin(origin: str, hosts: list[str]) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and [parts.netloc.lower()] == [host.lower() for host in hosts]


def _refused(code: str, text: str) -> web.Response:
    return web.json_response({"code": code, "message": text}, status=403)
