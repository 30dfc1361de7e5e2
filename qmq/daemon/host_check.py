"""class HostCheck: an admin HTTP server accepts requests of a browser only from its own pages.

A page of another site can make a browser send requests to loopback and private addresses, and can read the answers when its host
name resolves to such an address (DNS rebinding). Such a request has the page's host in its Host field. An IP address in that field
can't be rebound.
"""

import ipaddress
import logging
from collections.abc import Iterable
from urllib.parse import urlsplit

from aiohttp import web

from qmq.net.node_secret import FILE_VARIABLE, VARIABLE

LOOPBACK_NAME = "localhost"


class HostCheck:
    """Refuses requests whose host is not one of the server's names, and those that a page of another origin caused.

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
        return _is_ip_address(name) or _normal(name) in self._names


def names_of(text: str) -> frozenset[str]:
    """The names of a setting, which are separated by commas."""
    return frozenset(name for part in text.split(",") if (name := part.strip()))


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    return host == LOOPBACK_NAME or (_is_ip_address(host) and ipaddress.ip_address(host).is_loopback)


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


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _is_same_origin(origin: str, hosts: list[str]) -> bool:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and [parts.netloc.lower()] == [host.lower() for host in hosts]


def _refused(code: str, text: str) -> web.Response:
    return web.json_response({"code": code, "message": text}, status=403)
