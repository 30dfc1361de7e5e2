"""Reads the numbers of nodes over their admin HTTP. What can't be read is None with the reason, never 0.

A node with many subjects has many pages. Once all were read, only the subjects that changed are requested. What does not arrive
within STATS_SLICE_SECONDS of one call of `stats` is read by the next calls; meanwhile the node's own numbers are new, and those of
a subject are from the last time its page was read. While pages are missing the answer has a `subjects_reason`, and
`are_subjects_overdue` when pages are missing because they are too old.
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
from qmq.lag import ages
from qmq.node_admin import NodeAdmin

PAGE_BYTES_MAX = 32 << 20
"""A page of 1,000 subjects with five groups and ten consumers each is 9 MB."""
PAGES_MAX = 410
"""Pages of one node: its `subjects_max` real subjects, as many retry and dead-letter subjects, and a few."""
KNOWN_PAGE_SUBJECTS = 1_000
"""Subjects that are replaced together while all pages of a node are read again."""
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
    cursor: str = ""
    """Of what changed since the first page was read, or since the last changes; "": the node does not report changes."""
    changing: dict[str, dict[str, Any]] | None = None
    """The subjects by name when all pages were read, updated by changes; None: pages are being read."""
    lagging: dict[str, None] = field(default_factory=dict)
    """Subjects of `changing` with a time lag, which grows without a change."""
    complete_at: float = 0.0
    """Monotonic time up to which `changing` has all changes."""

    def take(self, page: dict[str, Any], now: float) -> None:
        """Add the next page."""
        if self.after is None:
            self.pages, self.before = [], self.pages
            self.cursor, self.complete_at = str(page.get("cursor") or ""), now
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
        if self.after is None and self.cursor:
            self.changing = {}
            self._update(item for page in self.pages for item in page.subjects)
            self.pages = []

    def change(self, page: dict[str, Any], now: float) -> None:
        """Apply a page of changes."""
        assert self.changing is not None
        for name in page["removed"]:
            self.changing.pop(name, None)
            self.lagging.pop(name, None)
        self._update(page["subjects"])
        self.cursor = page["cursor"]
        self.complete_at = now - max(0, page["at_ms"] - page["complete_to_ms"]) / 1000

    def read_all_again(self) -> None:
        """The node no longer knows the cursor: its pages are read again, and replace what is known one by one."""
        items = sorted(self.changing.values(), key=lambda item: item["subject"]) if self.changing else []
        self.pages = [
            _Page(items[at : at + KNOWN_PAGE_SUBJECTS], self.complete_at)
            for at in range(0, len(items), KNOWN_PAGE_SUBJECTS)
        ]
        self.changing = None
        self.lagging.clear()

    def _update(self, items: Iterable[dict[str, Any]]) -> None:
        assert self.changing is not None
        for item in items:
            name = item["subject"]
            self.changing[name] = item
            if any(ages(group, 0) for group in item.get("groups", ())):
                self.lagging[name] = None
            else:
                self.lagging.pop(name, None)

    def set_time_lags(self, at_ms: int) -> None:
        """Set the time lags as of a wall time of the node. Subjects without one stay the same objects."""
        if self.changing is None:
            return
        for name in self.lagging:
            item = self.changing[name]
            groups = [{**group, **found} if (found := ages(group, at_ms)) else group for group in item["groups"]]
            self.changing[name] = {**item, "groups": groups}

    def known(self, now: float, node_id: str) -> dict[str, Any]:
        """The subjects whose numbers are new enough, as `stats` returns them."""
        pages = [*self.pages, *self.before]
        if self.changing is not None:
            pages = [_Page(list(self.changing.values()), self.complete_at)]
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
            if reading.changing is not None:
                page = await node.stats(since=reading.cursor)
                if "since" not in page:
                    reading.read_all_again()
            else:
                page = await node.stats(after=reading.after or "")
            if "next_after" not in page:
                # A delay node: its numbers are one page, and `subjects` is how many it has.
                return page
            problem = _problem(page, reading) if reading.changing is None else _change_problem(page)
            if problem:
                self._readings.pop((node_id, node.admin_address))
                raise NodeProblem(problem)
            now = self._clock.monotonic()
            if reading.changing is None:
                reading.take(page, now)
                has_more = reading.after is not None
            else:
                reading.change(page, now)
                has_more = page["has_more"]
            if not has_more or now - began_at >= limits.STATS_SLICE_SECONDS:
                break
        if "at_ms" in page:
            reading.set_time_lags(page["at_ms"])
        return {**page, "next_after": None, **reading.known(now, node_id)}


def node_stats(node_id: str, admin_address: str) -> Measured[dict[str, Any]]:
    """A node's own numbers, without its subjects."""
    answers = Nodes.at({node_id: admin_address}).ask(lambda _, node: node.stats(limit=1))
    reason = {**answers.unreachable, **answers.absent}.get(node_id)
    return Measured(answers.values.get(node_id), reason, SystemClock().wall_ms())


def _has_subjects(page: dict[str, Any]) -> bool:
    subjects = page.get("subjects")
    return isinstance(subjects, list) and all(
        isinstance(item, dict) and isinstance(item.get("subject"), str) for item in subjects
    )


def _change_problem(page: dict[str, Any]) -> str:
    """Why a page of changes can't be used; "" when it can."""
    removed, times = page.get("removed"), (page.get("at_ms"), page.get("complete_to_ms"))
    if not _has_subjects(page) or not isinstance(removed, list) or not all(isinstance(name, str) for name in removed):
        return "a page of changes has no list of subjects"
    if not isinstance(page.get("cursor"), str) or not page["cursor"] or not isinstance(page.get("has_more"), bool):
        return "a page of changes has no cursor"
    return "" if all(isinstance(at_ms, int) for at_ms in times) else "a page of changes has no time"


def _problem(page: dict[str, Any], reading: _Reading) -> str:
    """Why the next page of a reading can't be used; "" when it can."""
    after = page["next_after"]
    if not _has_subjects(page):
        return "a page has no list of subjects"
    if after is None:
        return ""
    if not isinstance(after, str) or after <= (reading.after or ""):
        return "its pages do not advance"
    number = 1 if reading.after is None else len(reading.pages) + 1
    return f"it has more than {PAGES_MAX} pages of subjects" if number >= PAGES_MAX else ""
