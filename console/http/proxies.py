"""Forwarded addresses: trusted from configured proxies only (QMQ_BEHIND_PROXY).

Sessions, rate limits, the audit log and `/metrics` use the address of the connection. Behind a proxy that is the proxy's own:
its `X-Forwarded-For` and `X-Forwarded-Proto` then replace address and scheme of the request. Those headers of any other
client are ignored, so uvicorn runs with --no-proxy-headers: by default it trusts every process of its machine.
"""

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


def behind_proxies(application: Any, proxies: Sequence[str]) -> Any:
    """Returns the ASGI application, which takes address and scheme of a request from these proxies.

    Args:
        proxies: addresses and networks, like 10.0.0.7 and 10.1.0.0/16.
    """
    return ProxyHeadersMiddleware(application, list(proxies)) if proxies else application


def wrong_proxies(proxies: Sequence[str]) -> list[str]:
    """Returns the entries that are neither an address nor a network, or that are a network of all addresses."""
    return [proxy for proxy in proxies if not _is_network(proxy)]


def _is_network(text: str) -> bool:
    try:
        return ip_network(text).prefixlen > 0
    except ValueError:
        return False
