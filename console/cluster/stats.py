"""Reads the numbers of nodes over their admin HTTP. What can't be read is None with the reason, never 0.

A node with many subjects has many pages. What does not arrive within STATS_TURN_SECONDS of one call of `stats` is read by the next
calls; meanwhile the node's own numbers are new, and those of a subject are from the last time its page was read. While pages are
missing the answer has a `subjects_reason`, and `are_subjects_overdue` when pages are missing because they are too old.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from console.cluster import limits
from console.cluster.asking import Nodes
from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from qmq.clock import Clock, SystemClock
from qmq.errors import QmqError
from qmq.node_admin import NodeAdmin

PAGE_BYTES_MAX = 32 << 20
"""A page of 1,000 subjects with five groups and ten consumers each is 9 MB."""
PAGES_MAX = 410
"""Pages of one node: its `subjects_max` real subjects, as many retry and dead-letter subjects, and a few."""
CONCURRENT_NODES_MAX = 32
"""Nodes that are queried at the same time."""


class NodeProblem(QmqError):
    """A node answers what can't be used; the text says what happened."""

    code = "node.unusable"


@dataclass(frozen=True, slots=True)
class _Page:
    """One page of a node."""

    subjects: list[dict[str, Any]]
    """In the order of their names."""
    read_at: float


@dataclass(slots=True)
class _Reading:
    """The pages of one node, of the reading under way and of the one before."""

    after: str | None = None
    """The last name that was read; None: a new reading begins."""
    pages: list[_Page] = field(default_factory=list)
    before: list[_Page] = field(default_factory=list)
    """Pages of the reading before, which the present one has not reached yet."""
    has_all: bool = False
    """Whether a reading has reached the end."""

    def take(self, page: dict[str, Any], now: float) -> None:
        """Add the next page."""
        if self.after is None:
            self.pages, self.before = [], self.pages
        self.pages.append(_Page(page["subjects"], now))
        self.after = page["next_after"]
        if self.after is None:
            self.before, self.has_all = [], True
        while self.before and self.after is not None:
            later = [item for item in self.before[0].subjects if item["subject"] > self.after]
            if later:
                self.before[0] = _Page(later, self.before[0].read_at)
                return
            del self.before[0]

    def known(self, now: float, node_id: str) -> dict[str, Any]:
        """The subjects whose numbers are new enough, as `stats` returns them."""
        pages = [*self.pages, *self.before]
        fresh = [page for page in pages if now - page.read_at <= limits.READING_SECONDS_MAX]
        reason = None
        if len(fresh) < len(pages):
            reason = f"node {node_id}: its subjects were not read in {limits.READING_SECONDS_MAX:g} s"
        elif not self.has_all:
            reason = f"node {node_id}: its subjects are being read"
        return {
            "subjects": [item for page in fresh for item in page.subjects],
            "subjects_reason": reason,
            "are_subjects_overdue": True if len(fresh) < len(pages) else None,
        }


class NodeAsker:
    """Asks many nodes at once, at most `at_once` at the same time.

    Args:
        page_seconds: for one page; a node that is slower is not known.
    """

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        page_seconds: float = limits.STATS_PAGE_SECONDS,
        node_seconds: float = limits.STATS_NODE_SECONDS,
        at_once: int = CONCURRENT_NODES_MAX,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> None:
        self._clock = clock or SystemClock()
        self._page_seconds = page_seconds
        self._node_seconds = node_seconds
        self._at_once = at_once
        self._page_bytes = page_bytes
        self._readings: dict[tuple[str, str], _Reading] = {}
        """By node id and admin address."""

    async def stats(self, places: Iterable[NodePlace]) -> dict[str, Measured[dict[str, Any]]]:
        """`/stats` of every node, all pages in one, by node id."""
        requested = list(places)
        known = {(place.node_id, place.admin_address) for place in requested}
        self._readings = {key: reading for key, reading in self._readings.items() if key in known}
        addresses = {place.node_id: place.admin_address for place in requested}

        async def question(node_id: str, node: NodeAdmin) -> Measured[dict[str, Any]]:
            value = await self._pages(node_id, node)
            return Measured(value, None, self._clock.wall_ms())

        nodes = Nodes.at(addresses, self._page_seconds, self._page_bytes)
        answers = await nodes.answers(question, seconds=self._node_seconds, at_once=self._at_once)
        at_ms = self._clock.wall_ms()
        reasons = {**answers.unreachable, **answers.absent}
        return answers.values | {name: Measured(None, why, at_ms) for name, why in reasons.items()}

    async def _pages(self, node_id: str, node: NodeAdmin) -> dict[str, Any]:
        """The node's numbers with its subjects."""
        reading = self._readings.setdefault((node_id, node.admin_address), _Reading())
        began_at = self._clock.monotonic()
        while True:
            page = await node.stats(after=reading.after or "")
            if "next_after" not in page:
                # A delay node: its numbers are one page, and `subjects` is how many it has.
                return page
            if problem := _problem(page, reading):
                self._readings.pop((node_id, node.admin_address))
                raise NodeProblem(problem)
            now = self._clock.monotonic()
            reading.take(page, now)
            if reading.after is None or now - began_at >= limits.STATS_SLICE_SECONDS:
                break
        return {**page, "next_after": None, **reading.known(now, node_id)}


def node_stats(node_id: str, admin_address: str) -> Measured[dict[str, Any]]:
    """A node's own numbers, without its subjects."""
    answers = Nodes.at({node_id: admin_address}).ask(lambda _, node: node.stats(limit=1))
    reason = {**answers.unreachable, **answers.absent}.get(node_id)
    return Measured(answers.values.get(node_id), reason, SystemClock().wall_ms())


def _problem(page: dict[str, Any], reading: _Reading) -> str:
    """Why the next page of a reading can't be used; "" when it can."""
    subjects, after = page.get("subjects"), page["next_after"]
    if not isinstance(subjects, list) or not all(
        isinstance(item, dict) and isinstance(item.get("subject"), str) for item in subjects
    ):
        return "a page has no list of subjects"
    if after is None:
        return ""
    if not isinstance(after, str) or after <= (reading.after or ""):
        return "its pages do not advance"
    number = 1 if reading.after is None else len(reading.pages) + 1
    return f"it has more than {PAGES_MAX} pages of subjects" if number >= PAGES_MAX else ""
