"""Reads the numbers of nodes over their admin HTTP. What can't be read is None with the reason, never 0.

A node with many subjects has many pages. What does not arrive within TURN_SECONDS of one call of `stats` is read by the next
calls; meanwhile the node's own numbers are new, and those of its subjects are from the last complete reading.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from console.live.state import NodePlace
from console.measured import Measured
from console.node_admin import node_admin
from qmq.clock import Clock, SystemClock
from qmq.errors import QmqError

ASK_SECONDS = 1.0
"""How long a node may take to answer one page."""
NODE_SECONDS_MAX = 2.5
"""How long the pages that one call reads of a node may take together."""
TURN_SECONDS = 0.75
"""After so long no further page of a node is requested by this call."""
READING_SECONDS_MAX = 30.0
"""How long all pages of a node may take over several calls; older numbers of subjects are unknown."""
PAGE_BYTES_MAX = 32 << 20
"""A page of 1,000 subjects with five groups and ten consumers each is 9 MB."""
PAGES_MAX = 410
"""Pages of one node: its `subjects_max` real subjects, as many retry and dead-letter subjects, and a few."""
ASKED_AT_ONCE_MAX = 32
"""Nodes that are asked at the same time."""


class NodeProblem(QmqError):
    """A node can't be asked, or answers what can't be used; the text says what happened."""

    code = "node.unusable"


@dataclass(slots=True)
class _Reading:
    """The pages of one node."""

    began_at: float = 0.0
    pages: int = 0
    after: str | None = None
    """Where the next page begins; None: a new reading begins."""
    subjects: list[dict[str, Any]] = field(default_factory=list)
    complete: list[dict[str, Any]] | None = None
    """The subjects of the last reading that reached the end."""
    complete_at: float = 0.0
    """When it began."""


class _Unfinished(NodeProblem):
    """A node's first reading takes more than one call."""


class NodeAsker:
    """Asks many nodes at once, at most `at_once` at the same time.

    Args:
        page_seconds: for one page; a node that is slower is not known.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        page_seconds: float = ASK_SECONDS,
        node_seconds: float = NODE_SECONDS_MAX,
        at_once: int = ASKED_AT_ONCE_MAX,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> None:
        self._clock = clock or SystemClock()
        self._page_seconds = page_seconds
        self._node_seconds = node_seconds
        self._places = asyncio.Semaphore(at_once)
        self._page_bytes = page_bytes
        self._readings: dict[tuple[str, str], _Reading] = {}
        """By node id and admin address."""

    async def stats(self, places: Iterable[NodePlace]) -> dict[str, Measured[dict[str, Any]]]:
        """`/stats` of every node, all pages in one, by node id."""
        asked = list(places)
        known = {(place.node_id, place.admin_address) for place in asked}
        self._readings = {key: reading for key, reading in self._readings.items() if key in known}
        answers = await asyncio.gather(*(self._stats_of(place) for place in asked))
        return {place.node_id: answer for place, answer in zip(asked, answers, strict=True)}

    async def _stats_of(self, place: NodePlace) -> Measured[dict[str, Any]]:
        async with self._places:
            try:
                async with asyncio.timeout(self._node_seconds):
                    value = await self._pages(place)
            except _Unfinished as problem:
                return Measured(None, f"node {place.node_id}: {problem}", self._clock.wall_ms())
            except QmqError as problem:
                self._readings.pop((place.node_id, place.admin_address), None)
                return Measured(None, f"node {place.node_id}: {problem}", self._clock.wall_ms())
            except TimeoutError:
                self._readings.pop((place.node_id, place.admin_address), None)
                reason = f"node {place.node_id}: not all pages came in {self._node_seconds:g} s"
                return Measured(None, reason, self._clock.wall_ms())
        return Measured(value, None, self._clock.wall_ms())

    async def _pages(self, place: NodePlace) -> dict[str, Any]:
        """The node's numbers with its subjects. Raises NodeProblem while the first reading is not complete."""
        if not place.admin_address:
            raise NodeProblem("it registered no admin address")
        node = node_admin(place.admin_address, self._page_seconds, self._page_bytes)
        reading = self._readings.setdefault((place.node_id, place.admin_address), _Reading())
        began_at = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            if reading.after is None:
                reading.began_at, reading.pages, reading.subjects = now, 0, []
            if reading.pages == PAGES_MAX:
                raise NodeProblem(f"it has more than {PAGES_MAX} pages of subjects")
            page = await node.stats(after=reading.after or "")
            if "next_after" not in page:
                # A delay node: its numbers are one page, and `subjects` is how many it has.
                return page
            reading.subjects += page["subjects"]
            reading.after, reading.pages = page.get("next_after"), reading.pages + 1
            now = self._clock.monotonic()
            if reading.after is None:
                reading.complete, reading.complete_at = reading.subjects, reading.began_at
            if reading.after is None or now - began_at >= TURN_SECONDS:
                break
        if reading.complete is not None and now - reading.complete_at <= READING_SECONDS_MAX:
            return {**page, "subjects": reading.complete, "next_after": None}
        if now - reading.began_at > READING_SECONDS_MAX:
            raise NodeProblem(f"its subjects were not read in {READING_SECONDS_MAX:g} s: {reading.pages} pages so far")
        raise _Unfinished(f"its subjects are being read: {reading.pages} pages so far")
