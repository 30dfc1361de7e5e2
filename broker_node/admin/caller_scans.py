"""class CallerScans: one scan of a caller at a time, so that one user or program can't occupy the scans of a node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from qmq_node.admin.server import BadRequest

CALLER_CHARS_MAX = 200
"""Longest name of a caller."""


@dataclass(slots=True)
class _Running:
    next: asyncio.Future[bool] | None = None
    """Of the scan that waits for this one: True when it may begin, False when a newer one replaced it."""


class CallerScans:
    """While a caller's scan runs, their next one waits for its end. A newer one replaces the one that waits, so there are at most
    two of each caller.
    """

    def __init__(self) -> None:
        self._running: dict[str, _Running] = {}

    @asynccontextmanager
    async def slot(self, caller: str) -> AsyncIterator[None]:
        """Around a scan of a caller; "" for one that is not limited. Raises BadRequest if a newer one replaced it."""
        if not caller:
            yield
            return
        running = self._running.get(caller)
        if running is None:
            running = self._running[caller] = _Running()
        else:
            await self._wait(caller, running)
        try:
            yield
        finally:
            self._pass_on(caller, running)

    async def _wait(self, caller: str, running: _Running) -> None:
        if running.next is not None:
            running.next.set_result(False)
        mine = running.next = asyncio.get_running_loop().create_future()
        try:
            is_first = await mine
        except asyncio.CancelledError:
            if running.next is mine:
                running.next = None
            elif mine.done() and not mine.cancelled() and mine.result():
                self._pass_on(caller, running)
            raise
        if not is_first:
            text = (
                "a newer search of the same caller replaced this one. Run one search at a time, then continue this one"
            )
            raise BadRequest(409, "scan.replaced", text)

    def _pass_on(self, caller: str, running: _Running) -> None:
        following, running.next = running.next, None
        if following is None:
            del self._running[caller]
        else:
            following.set_result(True)
