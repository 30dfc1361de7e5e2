"""One websocket: its subscription, its queue and its end."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from urllib.parse import parse_qs

from console.accounts.roles import Right
from console.live import access
from console.live.audiences import NOTHING_SHOWN, Shown
from console.live.rows import SHOW_BYTES_MAX, SHOW_SECONDS, Rows, rows_of
from console.snapshot.feeds import Feed

logger = logging.getLogger("qmq.live")

CLIENT_QUEUE_MAX = 32
"""Messages waiting for one client; half a minute of deltas."""
SEND_SECONDS = 5.0
"""How long one message may take to leave."""
CLIENT_MESSAGE_BYTES_MAX = 1_024
"""Of a client that names no rows."""
REASON_BYTES_MAX = 120
"""Of a close; the protocol allows 123."""
NAME_CHARS_MAX = 400
FILTER_CHARS_MAX = 4_000
"""Of a tail. Nodes have the same limit."""
KINDS: Mapping[str, tuple[str, ...]] = {
    "lag": ("subject", "group"),
    "nodes": (),
    "events": (),
    "tail": ("subject", "filter"),
}
"""The websockets there are, by the last part of their path, with their parameters."""

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Close(IntEnum):
    """Why we close a websocket."""

    FAILED = 1011
    TRY_LATER = 1013
    TOO_LARGE = 1009
    BAD_REQUEST = 4400
    NOT_SIGNED_IN = 4401
    NOT_ALLOWED = 4403
    NOT_FOUND = 4404
    TOO_SLOW = 4408
    TOO_MANY = 4429


@dataclass(frozen=True, slots=True)
class Request:
    """What a client wants to see, and the right it takes."""

    right: Right
    feed: Feed | None = None
    tail: str | None = None
    """The subject of a tail. Without feed and tail: the rows that the client names."""
    filter_text: str = ""
    """Of a tail: which messages are shown; empty: all."""
    role: str = ""
    """Of the reader of a tail, which decides what is masked."""


class BadRequest(Exception):
    """The address or its parameters are wrong; the text says what."""


def request_of(path: str, query: bytes) -> Request:
    """From the address.

    Raises:
        BadRequest: it is not valid.
    """
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True, max_num_fields=10)
    subject, group = (given.get(name, [""])[0] or None for name in ("subject", "group"))
    if any(name is not None and (len(name) > NAME_CHARS_MAX or "\n" in name) for name in (subject, group)):
        raise BadRequest(f"a name has more than {NAME_CHARS_MAX} characters or contains a line break")
    kind = path.removeprefix("/ws/").strip("/") if path.startswith("/ws/") else ""
    if kind not in KINDS:
        raise BadRequest(f"available: {', '.join(f'/ws/{name}/' for name in KINDS)}")
    for name, values in given.items():
        if name not in KINDS[kind]:
            raise BadRequest(f"unknown parameter {name[:40]!r}; known: {', '.join(KINDS[kind]) or 'none'}")
        if len(values) > 1:
            raise BadRequest(f"parameter {name} is given {len(values)} times")
    if subject is None and (kind == "tail" or group is not None):
        raise BadRequest(f"{'tail' if kind == 'tail' else 'group'} requires subject")
    if kind == "tail":
        filter_text = given.get("filter", [""])[0]
        if len(filter_text) > FILTER_CHARS_MAX:
            raise BadRequest(f"the filter has {len(filter_text)} characters; the limit is {FILTER_CHARS_MAX}")
        return Request(Right.READ_MESSAGES, None, subject, filter_text)
    if kind == "lag" and subject is None:
        return Request(Right.READ)
    return Request(Right.READ, Feed(kind, subject, group))


class Socket:
    """One client."""

    def __init__(self, request: Request, credential: access.Credential, username: str) -> None:
        self.request = request
        self.credential = credential
        self.username = username
        self.checked_at = 0.0
        self.on_show: Callable[[Rows], None] | None = None
        """Gets the rows that the client names. None: it may not name any."""
        self.shown = NOTHING_SHOWN
        """Messages that were sent to this client, those of a failed send included: a part of it may have arrived."""
        self._waiting: asyncio.Queue[tuple[str, Shown]] = asyncio.Queue(CLIENT_QUEUE_MAX)
        self._closing: asyncio.Future[tuple[Close, str]] = asyncio.get_running_loop().create_future()

    def offer(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        """Queue a text that contains this number of messages; a full queue disconnects the client."""
        try:
            self._waiting.put_nowait((text, shown))
        except asyncio.QueueFull:
            self.drop(Close.TOO_SLOW, f"{CLIENT_QUEUE_MAX} messages are queued")

    def drop(self, code: Close, reason: str) -> None:
        """Close it; the first reason counts."""
        if not self._closing.done():
            self._closing.set_result((code, reason))

    async def serve(self, receive: Receive, send: Send) -> None:
        """Hand on messages until either side has enough."""
        tasks: list[asyncio.Task[None]] = [
            asyncio.create_task(self._write(send)),
            asyncio.create_task(self._read(receive)),
        ]
        try:
            ends: list[asyncio.Future[Any]] = [*tasks, self._closing]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception) and not isinstance(result, OSError):
                logger.error("a websocket of %s failed", self.username, exc_info=result)
                self.drop(Close.FAILED, "internal error")
        if self._closing.done():
            code, reason = self._closing.result()
            logger.info("a websocket of %s is closed: %d %s", self.username, code, reason)
            await close(send, code, reason)
        else:
            self._closing.cancel()

    async def _write(self, send: Send) -> None:
        while True:
            text, shown = await self._waiting.get()
            self.shown = self.shown.plus(shown)
            try:
                async with asyncio.timeout(SEND_SECONDS):
                    await send({"type": "websocket.send", "text": text})
            except TimeoutError:
                self.drop(Close.TOO_SLOW, f"a message could not be sent within {SEND_SECONDS:g} s")
                return

    async def _read(self, receive: Receive) -> None:
        while True:
            event = await receive()
            if event["type"] == "websocket.disconnect":
                return
            given = (event.get("text") or "").encode(errors="surrogatepass") or event.get("bytes") or b""
            bytes_max = CLIENT_MESSAGE_BYTES_MAX if self.on_show is None else SHOW_BYTES_MAX
            if len(given) > bytes_max:
                self.drop(Close.TOO_LARGE, f"more than {bytes_max} bytes")
                return
            try:
                message = json.loads(given)
                if message == {"type": "ping"}:
                    self.offer('{"type":"pong"}')
                    continue
                if self.on_show is None or not isinstance(message, dict) or message.get("type") != "show":
                    raise ValueError(f"supported: {'ping' if self.on_show is None else 'ping and show'}")
                self.on_show(rows_of(message))
            except (ValueError, RecursionError) as error:
                self.drop(Close.BAD_REQUEST, str(error))
                return
            await asyncio.sleep(SHOW_SECONDS)


async def close(send: Send, code: Close, reason: str) -> None:
    """Send the reason and close. A client that does not read does not receive it."""
    try:
        async with asyncio.timeout(SEND_SECONDS):
            shown = reason.encode()[:REASON_BYTES_MAX].decode("utf-8", "ignore")
            await send({"type": "websocket.close", "code": int(code), "reason": shown})
    except (TimeoutError, OSError, RuntimeError) as error:
        logger.debug("a close was not heard: %s", error)
