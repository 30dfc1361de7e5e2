"""The feed of rows: the subjects and consumer groups that each client shows now, which it names and changes as it scrolls.

A process reads the stored snapshot once for each heartbeat, as long as it has such clients: of a beat that is what changed. Entries
that did not change are the same objects, so a client costs a comparison for each of its rows.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from redis.exceptions import RedisError

from console.live.audiences import Client
from console.snapshot.bus import read_stored
from console.snapshot.state import State, delta, encode

logger = logging.getLogger("qmq.live")

SECTIONS = ("subjects", "groups")
ROWS_MAX = 200
"""Rows that a client may name at once, in both sections together."""
SHOW_BYTES_MAX = 60_000
"""Of the message that names them. uvicorn closes websockets that send more than 64 KB."""
SHOW_SECONDS = 0.05
"""Pause before a client's next message is read: fast scrolling is not answered row by row."""

Rows = Mapping[str, tuple[str, ...]]
"""The keys of each section."""


def rows_of(message: Mapping[str, Any]) -> Rows:
    """The rows that a `show` message names.

    Raises:
        ValueError: it is not valid; the text says why.
    """
    if unknown := message.keys() - {"type", *SECTIONS}:
        raise ValueError(f"unknown field {sorted(unknown)[0][:40]!r} of show; known: {', '.join(SECTIONS)}")
    rows = {}
    for section in SECTIONS:
        keys = message.get(section, [])
        if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            raise ValueError(f"{section} of show must be a list of keys")
        rows[section] = tuple(dict.fromkeys(keys))
    if (count := sum(map(len, rows.values()))) > ROWS_MAX:
        raise ValueError(f"show names {count} rows; the limit is {ROWS_MAX}")
    return rows


@dataclass(slots=True)
class _Shown:
    """What a client shows, and what it was sent of that."""

    rows: Rows | None = None
    """None: it has not named any yet."""
    version: int = 0
    """Messages that it was sent."""
    state: State = field(default_factory=lambda: {section: {} for section in SECTIONS})


class RowFeed:
    """The clients of one process that name their rows.

    Args:
        url: of Redis.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._clients: dict[Client, _Shown] = {}
        self._state: State | None = None
        self._at = ""
        self._due = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def has_clients(self) -> bool:
        """Whether it has any, with rows or without."""
        return bool(self._clients)

    def join(self, client: Client) -> None:
        """Offer this client its rows as soon as it names some."""
        self._clients[client] = _Shown()
        self.read()

    def leave(self, client: Client) -> None:
        """No more for this client."""
        self._clients.pop(client, None)
        self._due.set()

    def show(self, client: Client, rows: Rows) -> None:
        """Offer these rows from now on, and no others."""
        shown = self._clients.get(client)
        if shown is not None:
            shown.rows = rows
            self._offer(client, shown)

    def offer_to_all(self, text: str) -> None:
        """Offer a text that is no part of the state to all clients."""
        for client in tuple(self._clients):
            client.offer(text)

    def read(self) -> None:
        """Read the stored snapshot and offer what changed: a heartbeat arrived."""
        if not self._clients:
            return
        self._due.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
            self._task.add_done_callback(_ended)

    async def close(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            await self._due.wait()
            self._due.clear()
            if not self._clients:
                break
            try:
                stored, _ = await asyncio.to_thread(read_stored, self._url)
            except (RedisError, OSError) as error:
                logger.debug("the snapshot can't be read; the next heartbeat tries again: %s", error)
                continue
            if stored is None:
                continue
            self._state, self._at = stored["state"], stored["at"]
            for client, shown in tuple(self._clients.items()):
                self._offer(client, shown)
                await asyncio.sleep(0)
        self._state = None

    def _offer(self, client: Client, shown: _Shown) -> None:
        if shown.rows is None or self._state is None or client not in self._clients:
            return
        state: State = {}
        for section, keys in shown.rows.items():
            entries = self._state[section]
            state[section] = {key: entries[key] for key in keys if key in entries}
        shown.version += 1
        head = {"version": shown.version, "at": self._at}
        if shown.version == 1:
            client.offer(encode({"type": "snapshot", **head, "state": state}))
        else:
            client.offer(encode({"type": "delta", **head, "delta": delta(shown.state, state)}))
        shown.state = state


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the feed of rows failed; the next heartbeat tries again", exc_info=error)
