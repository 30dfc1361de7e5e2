"""Subscriptions of one web process to Redis: one per feed regardless of the number of clients, and every text encoded once.

The hub keeps the state of each feed that has clients. A client receives that state as its snapshot and then the deltas as they
come from the collector; a missed version causes a reset and a new snapshot for all. When nothing is received for SILENT_SECONDS,
all
clients are notified that their state is stale. Snapshots are read, parsed and encoded in threads, in pieces.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Sequence
from typing import Any

from redis.exceptions import RedisError

from console.live.audiences import PENDING_DELTAS_MAX, Client, Subscribed
from console.live.rows import RowFeed, Rows
from console.snapshot.bus import PREFIX, connect, read_stored, text_of
from console.snapshot.feeds import Feed, views
from console.snapshot.frames import is_delta
from console.snapshot.state import State, encode
from console.times import rfc3339
from qmq.clock import Clock

logger = logging.getLogger("qmq.live")

SILENT_SECONDS = 2.4
"""Time without a heartbeat after which clients are notified, so that they know within 3 s."""
LOOK_SECONDS = 0.2
"""How often the hub looks for new feeds and for silence."""
PING_SECONDS = 0.25
RECONNECT_FIRST_SECONDS = 0.1
RECONNECT_LONGEST_SECONDS = 1.0


class Hub:
    """Feeds of one process and event loop."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._redis = connect(url)
        self._feeds: dict[str, Subscribed] = {}
        self._rows = RowFeed(url)
        self._received_at = clock.monotonic()
        self._received_wall_ms = clock.wall_ms()
        self._has_received = False
        self._stale: str | None = None
        """The last notification to clients, while it applies."""
        self._trouble: str | None = None
        self._task: asyncio.Task[None] | None = None

    # --- clients ----------------------------------------------------------------------------------------------------

    def join(self, feed: Feed, client: Client) -> None:
        """Offer this client the feed's snapshot, at once or when it was read, and what comes."""
        subscribed = self._feeds.setdefault(feed.name, Subscribed(feed))
        subscribed.joining.add(client)
        subscribed.admit()
        self._joined(client)

    def join_rows(self, client: Client) -> None:
        """Offer this client the rows that it shows, and what comes of them."""
        self._rows.join(client)
        self._joined(client)

    def show(self, client: Client, rows: Rows) -> None:
        """The rows that a client shows now."""
        self._rows.show(client, rows)

    def _joined(self, client: Client) -> None:
        if self._task is None or self._task.done():
            self._received_at = self._clock.monotonic()
            self._received_wall_ms = self._clock.wall_ms()
            self._stale, self._has_received = None, False
            self._start()
        if self._stale is not None:
            client.offer(self._stale)

    def leave(self, feed: Feed, client: Client) -> None:
        """No more for this client."""
        subscribed = self._feeds.get(feed.name)
        if subscribed is None:
            return
        subscribed.audience.clients.discard(client)
        subscribed.joining.discard(client)
        if not subscribed.has_clients:
            del self._feeds[feed.name]

    def leave_rows(self, client: Client) -> None:
        """No more rows for this client."""
        self._rows.leave(client)

    @property
    def _has_clients(self) -> bool:
        return bool(self._feeds) or self._rows.has_clients

    def _send_all(self, text: str) -> None:
        for subscribed in tuple(self._feeds.values()):
            subscribed.offer_to_all(text)
        self._rows.offer_to_all(text)

    def _start(self) -> None:
        if self._has_clients and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the live hub failed and starts again", exc_info=error)
            self._became_stale("the live hub of this process failed")
            asyncio.get_running_loop().call_later(RECONNECT_LONGEST_SECONDS, self._start)

    # --- Redis ------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Listen while there are clients; retry indefinitely when Redis is unavailable."""
        silence = asyncio.create_task(self._watch_silence())
        try:
            await self._listen_for_ever(silence)
        finally:
            silence.cancel()

    async def _listen_for_ever(self, silence: "asyncio.Task[None]") -> None:
        pause = RECONNECT_FIRST_SECONDS
        while self._has_clients:
            if silence.done():
                silence.result()
            try:
                async with self._redis.pubsub() as pubsub:
                    await pubsub.subscribe(f"{PREFIX}beat")
                    for one in self._feeds.values():
                        one.is_requested = one.is_subscribed = False
                    while self._has_clients and not silence.done():
                        await self._listen(pubsub)
                        self._trouble = None
                        pause = RECONNECT_FIRST_SECONDS
            except (RedisError, OSError) as error:
                if self._trouble is None:
                    logger.warning("Redis is away: %s", error)
                self._trouble = f"Redis can't be reached: {error}"[:300]
                await asyncio.sleep(pause)
                pause = min(pause * 2, RECONNECT_LONGEST_SECONDS)
        self._task = None

    async def _listen(self, pubsub: Any) -> None:
        """One look: subscriptions as the feeds need them, what came, snapshots, silence."""
        subscribed = {text_of(name)[len(PREFIX) :] for name in pubsub.channels} - {"beat"}
        if new := [one for one in self._feeds.values() if not one.is_requested]:
            await pubsub.subscribe(*(PREFIX + one.feed.name for one in new))
            for one in new:
                one.is_requested = True
        if old := subscribed - self._feeds.keys():
            await pubsub.unsubscribe(*(PREFIX + name for name in old))
        message = await pubsub.get_message(timeout=LOOK_SECONDS)
        while message is not None:
            self._take(text_of(message["channel"])[len(PREFIX) :], message)
            message = await pubsub.get_message(timeout=0)
        wanting = [one for one in self._feeds.values() if one.is_wanting and one.is_subscribed]
        if wanting:
            await self._read(wanting)

    def _take(self, name: str, message: dict[str, Any]) -> None:
        subscribed = self._feeds.get(name)
        if message["type"] == "subscribe":
            if subscribed is not None:
                # What came between the old connection and this one is not known.
                subscribed.is_subscribed = subscribed.is_wanting = True
                subscribed.pending.clear()
            return
        if message["type"] != "message":
            return
        try:
            text = text_of(message["data"])
            value = json.loads(text)
            if name == "beat":
                self._received()
            elif subscribed is not None:
                self._take_delta(subscribed, value, text)
        except (ValueError, KeyError, TypeError) as error:
            logger.warning("a message on %s can't be read: %s %s", name, type(error).__name__, error)

    def _take_delta(self, one: Subscribed, value: dict[str, Any], text: str) -> None:
        if not is_delta_of(value, one.feed):
            raise ValueError("no delta of this feed")
        if one.is_wanting or one.state is None:
            one.pending.append(value)
            if len(one.pending) > PENDING_DELTAS_MAX:
                one.pending.clear()
            return
        if value["stream"] == one.stream and value["version"] <= one.version:
            return
        if value["stream"] != one.stream or value["version"] != one.version + 1:
            one.is_wanting = True
            one.pending = [value]
            return
        one.advance(value, text)
        one.audience.send(text)
        one.admit()

    async def _read(self, wanting: Sequence[Subscribed]) -> None:
        """Read the stored snapshot once for all feeds that need it."""

        def read() -> tuple[dict[str, Any] | None, list[State]]:
            stored, _ = read_stored(self._url)
            return stored, views(stored["state"], [one.feed for one in wanting]) if stored is not None else []

        stored, states = await asyncio.to_thread(read)
        if stored is None:
            return  # the next beat brings one; until then silence is reported
        if not self._has_received:
            self._received_wall_ms = stored["at_ms"]
        for one, state in zip(wanting, states, strict=True):
            following = [
                value
                for value in one.pending
                if value["stream"] == stored["stream"] and value["version"] > stored["version"]
            ]
            one.pending.clear()
            if following and following[0]["version"] != stored["version"] + 1:
                continue
            one.replace(stored, state)
            for value in following:
                if value["version"] == one.version + 1:
                    one.advance(value, "")
            one.admit()

    # --- silence ----------------------------------------------------------------------------------------------------

    def _received(self) -> None:
        self._has_received = True
        self._received_at = self._clock.monotonic()
        self._received_wall_ms = self._clock.wall_ms()
        if self._stale is not None:
            self._stale = None
            self._send_all(encode({"type": "fresh"}))
        self._rows.read()

    async def _watch_silence(self) -> None:
        """Separate from the subscription, which a hanging Redis blocks."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if self._stale is None and self._clock.monotonic() - self._received_at >= SILENT_SECONDS:
                reason = self._trouble or await self._why()
                if self._clock.monotonic() - self._received_at >= SILENT_SECONDS:
                    self._became_stale(reason)

    async def _why(self) -> str:
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._redis.ping()
        except (RedisError, OSError, TimeoutError):
            return "Redis is not responding"
        return "the collector is not running"

    def _became_stale(self, reason: str) -> None:
        self._stale = encode({"type": "stale", "since": rfc3339(self._received_wall_ms), "reason": reason})
        self._send_all(self._stale)

    async def close(self) -> None:
        """Stop listening."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._rows.close()
        await self._redis.aclose()


def is_delta_of(value: Any, feed: Feed) -> bool:
    """Whether this has the shape of a feed's delta, so that nothing that is kept can fail later."""
    return (
        isinstance(value, dict)
        and all(isinstance(value.get(name), kind) for name, kind in (("stream", str), ("version", int), ("at", str)))
        and is_delta(value.get("delta"), feed.sections)
    )
