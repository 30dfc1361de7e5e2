"""class SharedPages: expensive pages, built one at a time, each of which answers all requests of a short period."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from qmq.clock import Clock

SHARED_SECONDS = 0.8
"""How long a page answers further requests. Below a second, so that a reader that requests it every second gets a new one."""
ANSWERS_MAX = 10
"""Requests that one page answers. A further one waits for the next page, which limits the cost of requests in a loop."""
LIFETIME_MAX_SECONDS = 5.0
"""The longest time for which a page answers requests."""
PAGES_MAX = 64
"""Stored pages, by their parameters; a further one replaces the oldest."""


@dataclass(slots=True)
class _Page:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    body: bytes = b""
    answers: int = 0
    until: float = float("-inf")


@dataclass(eq=False, repr=False)
class SharedPages:
    """Answers of one kind of page, by key."""

    _clock: Clock
    _: KW_ONLY
    lifetime_factor: float = 0.0
    """A page answers requests at least this many times as long as it took to build it, up to LIFETIME_MAX_SECONDS: 20 leaves 95 %
    of the time to clients."""
    pages_max: int = PAGES_MAX
    _pages: OrderedDict[object, _Page] = field(default_factory=OrderedDict, init=False)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def get(self, key: object, build: Callable[[], Awaitable[bytes]]) -> bytes:
        """The page of this key: the stored one if it is recent, else a new one. Only one page is built at a time."""
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = _Page()
            if len(self._pages) > self.pages_max:
                self._pages.popitem(last=False)
        async with page.lock:
            left = page.until - self._clock.monotonic()
            if left > 0:
                if page.answers < ANSWERS_MAX:
                    page.answers += 1
                    return page.body
                await asyncio.sleep(left)
            async with self._lock:
                began = self._clock.monotonic()
                page.body = await build()
                now = self._clock.monotonic()
            page.answers = 1
            lifetime = max(SHARED_SECONDS, min(self.lifetime_factor * (now - began), LIFETIME_MAX_SECONDS))
            page.until = now + lifetime
            return page.body


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


async def exposition(families: list[Metric]) -> bytes:
    """Prometheus' text of these families, built in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, generate_latest, _Families(families))
