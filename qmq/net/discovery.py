"""Where the metaserver is: GET its address page (`docs/reference/wire.md`, section 1), and other small requests."""

import asyncio
import errno
import os
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from qmq.errors import ConnectionLost, ProtocolError, QmqError, SettingError, Unreachable
from qmq.net.http_auth import RequestSigner
from qmq.protocol.reasons import Code, Reason

STATUS_OK = 200
STATUS_UNAUTHORIZED = 401
STATUS_NOT_FOUND = 404
ADDRESS_PATH = "/meta/address"
DEFAULT_META_URL = f"http://127.0.0.1:8080{ADDRESS_PATH}"
METASERVERS_MAX = 5
"""Metaservers of one system that a node or client may name."""
ANSWER_BYTES_MAX = 64 << 20
"""Most bytes of an answer's body."""
HEAD_BYTES_MAX = 64 << 10
"""Most bytes of an answer's head."""
READ_BYTES = 1 << 20
CLOSED_ATTEMPTS_MAX = 3
"""How often a GET is sent whose connection is closed without a response."""
CLOSED_PAUSE_SECONDS = 0.1
PORT_MAX = 65_535


def meta_url(text: str) -> str:
    """A metaserver's address page from `host:port`, a base URL or the whole URL. Raises SettingError for anything else."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError as error:
        raise SettingError(f"{text!r} is not a metaserver URL: {error}") from error
    if parts.scheme != "http" or not parts.hostname:
        raise SettingError(f"{text!r} is not a metaserver URL such as {DEFAULT_META_URL}")
    path = parts.path if parts.path not in ("", "/") else ADDRESS_PATH
    host = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
    return f"http://{host}:{port or 80}{path}"


def meta_urls(text: str) -> tuple[str, ...]:
    """The address pages of one or more metaservers, separated by commas, in that order; each as `meta_url`.

    Raises SettingError for an invalid or empty entry, one that is listed twice, or more than METASERVERS_MAX.
    """
    entries = [entry.strip() for entry in text.split(",")]
    if len(entries) > METASERVERS_MAX:
        raise SettingError(f"{text!r} names {len(entries)} metaservers; at most {METASERVERS_MAX} are possible")
    urls: list[str] = []
    for number, entry in enumerate(entries, 1):
        if not entry and len(entries) > 1:
            raise SettingError(f"entry {number} of {text!r} is empty; separate metaservers by single commas")
        url = meta_url(entry)
        if url in urls:
            raise SettingError(f"{text!r} names {url} twice; name each metaserver once")
        urls.append(url)
    return tuple(urls)


def page_beside(url: str, path: str) -> str:
    """The URL of another page of the metaserver with this address page."""
    return url.rsplit("/meta/", 1)[0] + path


def all_lost(errors: Sequence[ConnectionLost]) -> ConnectionLost:
    """The error when none of several metaservers could be used: that of the only one, or one with all reasons."""
    return errors[0] if len(errors) == 1 else ConnectionLost("; ".join(map(str, errors)), code=errors[-1].code)


def split_address(text: str) -> tuple[str, int]:
    """Host and port of `host:port`. Raises ProtocolError for another form, or a port that is not between 1 and 65535."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port[:6]) <= PORT_MAX:
        raise ProtocolError(f"{text[:80]!r} is not of the form host:port")
    return host, int(port)


def failure_reason(error: Exception, timeout_s: float) -> Reason:
    """Return why a connection failed, without its address: "connection refused", "no response within 5 s".

    Args:
        error: what opening the connection, or reading from it, raised.
        timeout_s: how long that was allowed to take.
    """
    if isinstance(error, socket.gaierror):
        return Reason((error.strerror or str(error)).lower())
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
        return Reason.of(Code.CONNECTION_REFUSED)
    if isinstance(error, OSError) and error.errno:
        # The text of asyncio's errors repeats the address.
        return Reason(os.strerror(error.errno).lower())
    return Reason(str(error)) or Reason.of(Code.NO_RESPONSE, seconds=f"{round(timeout_s, 2):g}")


class _Closed(Unreachable):
    """The connection was closed without a response: the server made room for others, or it ended."""


async def http_get(
    url: str, *, timeout_s: float, bytes_max: int = ANSWER_BYTES_MAX, signer: RequestSigner | None = None
) -> tuple[int, bytes]:
    """A plain GET: (status, body); `signer` signs the request when the server requires it.

    It is sent up to CLOSED_ATTEMPTS_MAX times when the connection is closed without a response.

    Raises ConnectionLost without an HTTP response in time, or for one with more than `bytes_max` bytes.
    """
    loop, attempts = asyncio.get_running_loop(), 1
    deadline = loop.time() + timeout_s
    while True:
        try:
            return await _signed(url, "GET", "", b"", max(0.0, deadline - loop.time()), bytes_max, signer)
        except _Closed:
            if attempts == CLOSED_ATTEMPTS_MAX or loop.time() + CLOSED_PAUSE_SECONDS >= deadline:
                raise
        attempts += 1
        await asyncio.sleep(CLOSED_PAUSE_SECONDS)


async def http_post_json(
    url: str, body: bytes, *, timeout_s: float, bytes_max: int = ANSWER_BYTES_MAX, signer: RequestSigner | None = None
) -> tuple[int, bytes]:
    """A POST of a JSON object: (status, body). Raises ConnectionLost; whether the request took effect is unknown then."""
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return await _signed(url, "POST", fields, body, timeout_s, bytes_max, signer)


async def _signed(
    url: str, method: str, fields: str, body: bytes, timeout_s: float, bytes_max: int, signer: RequestSigner | None
) -> tuple[int, bytes]:
    """Send a request; sign it and send it again when it is answered with a challenge, which means that it was not executed."""
    if signer is None:
        return (await _http(url, method, fields, body, timeout_s, bytes_max))[:2]
    parts, loop = urlsplit(url), asyncio.get_running_loop()
    deadline = loop.time() + timeout_s

    async def send() -> tuple[int, bytes, str]:
        header = signer.header(parts.netloc, method, _target(parts), body)
        signed = f"{fields}Authorization: {header}\r\n" if header else fields
        return await _http(url, method, signed, body, max(0.0, deadline - loop.time()), bytes_max)

    status, answer, challenge = await send()
    if status == STATUS_UNAUTHORIZED and signer.learn(parts.netloc, challenge):
        status, answer, _ = await send()
    return status, answer


def _target(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


async def _http(
    url: str, method: str, fields: str, body: bytes, timeout_s: float, bytes_max: int
) -> tuple[int, bytes, str]:
    """One request: (status, body, value of the WWW-Authenticate field)."""
    parts = urlsplit(url)
    request = f"{method} {_target(parts)} HTTP/1.0\r\nHost: {parts.netloc}\r\nConnection: close\r\n{fields}\r\n"
    writer = None
    pieces: list[bytes] = []
    room = bytes_max + HEAD_BYTES_MAX
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
            writer.write(request.encode() + body)
            while room >= 0 and (piece := await reader.read(READ_BYTES)):
                pieces.append(piece)
                room -= len(piece)
    except (OSError, TimeoutError, UnicodeError) as error:
        kind = _Closed if isinstance(error, ConnectionResetError) else Unreachable
        raise kind(url, failure_reason(error, timeout_s)) from error
    finally:
        if writer is not None:
            writer.close()
    if not pieces:
        raise _Closed(url, "connection closed without a response")
    head, _, answer = b"".join(pieces).partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ConnectionLost(f"{url} does not respond with HTTP")
    if len(answer) > bytes_max or room < 0:
        raise ConnectionLost(
            f"{url} returned more than {bytes_max} bytes", code="net.answer_too_large", retriable=False
        )
    length = _field(head, b"content-length")
    if length.isdigit() and len(answer) < int(length):
        raise ConnectionLost(f"{url}: the connection ended after {len(answer)} of {int(length)} bytes")
    return int(words[1]), answer, _field(head, b"www-authenticate").decode("latin-1")


def _field(head: bytes, name: bytes) -> bytes:
    """The value of a header field's first occurrence; empty without one."""
    for line in head.split(b"\r\n"):
        key, colon, value = line.partition(b":")
        if colon and key.lower() == name:
            return value.strip()
    return b""


def pages_missing(url: str) -> QmqError:
    """The error of a page beside the address page that a metaserver does not have."""
    return QmqError(
        f"{url} answered 404: this is a QMQ metaserver without PyQMQ's pages. Sending and consuming work with it; status, subjects,"
        " lag and pending delayed messages require PyQMQ's metaserver",
        code="meta.pages_missing",
    )


async def find_metaserver(url: str, *, timeout_s: float = 1.5) -> tuple[str, int]:
    """The metaserver's TCP address from its address page. Raises ConnectionLost when the page does not contain `host:port`."""
    status, body = await http_get(url, timeout_s=timeout_s)
    text = body.decode("latin-1").strip()
    try:
        if status == STATUS_OK:
            return split_address(text)
    except ProtocolError:
        pass
    raise ConnectionLost(f"{url} answered {status} {text[:80]!r}; a metaserver returns host:port")
