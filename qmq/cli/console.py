"""Requests of commands to the console's API."""

import argparse
import contextlib
import json
import os
import urllib.error
import urllib.request
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from qmq.cli import limits
from qmq.cli.output import warn
from qmq.errors import ConnectionLost, QmqError, SettingError

DEFAULT_CONSOLE_URL = "http://127.0.0.1:8000"
TIMEOUT_SECONDS = 60.0
"""For the console's answer, once it is connected."""


class Rejected(QmqError):
    """The console rejects a request. `fields` has the reasons by field or place, if there are any."""

    def __init__(self, message: str, *, code: str, fields: dict[str, str]) -> None:
        super().__init__(message, code=code)
        self.fields = fields


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that uses the console."""
    parser.add_argument(
        "--console",
        default=os.environ.get("QMQ_CONSOLE", DEFAULT_CONSOLE_URL),
        help="URL of the console; default: QMQ_CONSOLE, or http://localhost:8000",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def token(scope: str) -> str:
    """Return the API token of the environment. Raises SettingError without one, which names the `scope` that it needs."""
    found = os.environ.get("QMQ_TOKEN", "")
    if not found:
        raise SettingError(f"set QMQ_TOKEN to an API token with scope {scope}; the console creates tokens")
    return found


def call(
    console: str,
    token: str,
    method: str,
    path: str,
    data: bytes | None = None,
    *,
    content_type: str = "application/json",
) -> dict[str, Any]:
    """Return the JSON object that the console's API answers.

    Args:
        console: its URL.
        path: behind /api/v1/, with its query.

    Raises:
        SettingError: that is not a URL.
        ConnectionLost: it can't be reached, directly or through the web proxy of the environment.
        Rejected: it rejects the request; the code and texts are its own.
        QmqError: what answers is no console, or names another address.
    """
    parts = urlsplit(console if "://" in console else f"http://{console}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"{console!r} is not a console URL such as {DEFAULT_CONSOLE_URL}")
    url = f"{parts.scheme}://{parts.netloc}/api/v1/{path}"
    headers = {"Authorization": f"Bearer {token}", "Content-Type": content_type}
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    proxy = _proxy_of(parts)
    way = f" through the web proxy {_without_password(proxy)} of {parts.scheme}_proxy" if proxy else ""
    if proxy:
        warn(f"{parts.netloc} is requested{way}; name the host in no_proxy to connect directly")
    handlers = (urllib.request.ProxyHandler({parts.scheme: proxy} if proxy else {}), _NoRedirects, _Patient)
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=limits.REACH_SECONDS) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        raise _refused(url, error) from error
    except (urllib.error.URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise ConnectionLost(
            f"{url} can't be reached{way}: {reason}. Check that the console is running and that --console or QMQ_CONSOLE is its"
            " address."
        ) from error


def _proxy_of(parts: SplitResult) -> str | None:
    """The web proxy of the environment for a URL; None for this machine, and where no_proxy says so."""
    host = parts.hostname or ""
    with contextlib.suppress(ValueError):
        if ip_address(host).is_loopback:
            return None
    if host == "localhost" or host.endswith(".localhost") or urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _without_password(url: str) -> str:
    return url.rpartition("@")[2]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Another address must not get the token."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Patient(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    """Connects within the timeout of the request, then waits TIMEOUT_SECONDS for the answer."""

    def do_open(self, http_class: Any, req: urllib.request.Request, **http_conn_args: Any) -> Any:
        class Connection(http_class):  # type: ignore[misc]
            def connect(self) -> None:
                super().connect()
                self.sock.settimeout(TIMEOUT_SECONDS)

        return super().do_open(Connection, req, **http_conn_args)


def _refused(url: str, error: urllib.error.HTTPError) -> QmqError:
    if 300 <= error.code < 400:
        target = urljoin(url, error.headers.get("Location", ""))
        return QmqError(
            f"{url} answered {error.code} and names {target}: redirects are not followed, because the other address would get the"
            f" token. If it is the console, use URL {target.partition('/api/v1/')[0]} (--console or QMQ_CONSOLE)"
        )
    try:
        problem = json.load(error)
        fields = {str(name): str(text) for name, text in problem.get("fields", {}).items()}
        return Rejected(str(problem["detail"]), code=str(problem["code"]), fields=fields)
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        advice = ""
        if error.code == HTTPStatus.NOT_FOUND:
            advice = ": no PyQMQ console at this address (--console or QMQ_CONSOLE); a metaserver can't answer this"
        return QmqError(f"{url} answered {error.code} {error.reason}{advice}")
