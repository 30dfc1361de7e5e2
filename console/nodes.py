"""Asks nodes over their admin HTTP. What can't be had is None with the reason, never 0."""

import asyncio
from collections.abc import Iterable
from typing import Any

from console.live.state import NodePlace
from console.measured import Measured
from console.node_admin import node_admin
from qmq.clock import Clock, SystemClock
from qmq.errors import QmqError

ASK_SECONDS = 1.0
"""How long a node may take to answer one page."""
NODE_SECONDS_MAX = 2.5
"""How long all pages of a node may take together."""
PAGE_BYTES_MAX = 32 << 20
"""A page of 1,000 subjects with five groups and ten consumers each is 9 MB."""
PAGES_MAX = 50
"""Pages asked of one node: 50,000 subjects."""
ASKED_AT_ONCE_MAX = 32
"""Nodes that are asked at the same time."""


class NodeProblem(QmqError):
    """A node can't be asked, or answers what can't be used; the text says what happened."""

    code = "node.unusable"


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

    async def stats(self, places: Iterable[NodePlace]) -> dict[str, Measured[dict[str, Any]]]:
        """`/stats` of every node, all pages in one, by node id."""
        asked = list(places)
        answers = await asyncio.gather(*(self._stats_of(place) for place in asked))
        return {place.node_id: answer for place, answer in zip(asked, answers, strict=True)}

    async def _stats_of(self, place: NodePlace) -> Measured[dict[str, Any]]:
        async with self._places:
            try:
                async with asyncio.timeout(self._node_seconds):
                    value = await self._all_pages(place.admin_address)
            except QmqError as problem:
                return Measured(None, f"node {place.node_id}: {problem}", self._clock.wall_ms())
            except TimeoutError:
                reason = f"node {place.node_id}: not all pages came in {self._node_seconds:g} s"
                return Measured(None, reason, self._clock.wall_ms())
        return Measured(value, None, self._clock.wall_ms())

    async def _all_pages(self, admin_address: str) -> dict[str, Any]:
        if not admin_address:
            raise NodeProblem("it registered no admin address")
        node = node_admin(admin_address, self._page_seconds, self._page_bytes)
        whole = await node.stats()
        after, pages = whole.get("next_after"), 1
        while after is not None:
            if pages == PAGES_MAX:
                raise NodeProblem(f"it has more than {PAGES_MAX} pages of subjects")
            page = await node.stats(after=str(after))
            whole["subjects"] += page["subjects"]
            after, pages = page.get("next_after"), pages + 1
        return whole
