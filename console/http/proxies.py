"""Forwarded addresses: trusted from configured proxies only (QMQ_BEHIND_PROXY).

Sessions, rate limits, the audit log and `/metrics` use the address of the connection. Behind a proxy that is the proxy's own:
its `X-Forwarded-For` and `X-Forwarded-Proto` then replace address and scheme of the request. Those headers of any other
client are ignored, so uvicorn runs with --no-proxy-headers: by default it trusts every process of its machine.
"""

from collections.abc import Sequence
from typing import Any

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


def behind_proxies(application: Any, proxies: Sequence[str]) -> Any:
    """Returns the ASGI application, which takes address and scheme of a request from these proxies.

    Args:
        proxies: addresses and networks, like 10.0.0.7 and 10.1.0.0/16.
    """
    return ProxyHeadersMiddleware(application, list(proxies)) if proxies else application
