"""A supervisor whose jobs a test makes fail, and whose periods pass only when the test asks."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from qmq.clock import Clock
from qmq.supervisor import Job, JobKind, Supervisor

T = TypeVar("T")


class Injected(Exception):
    """What a broken job raises."""


def _for_ever(_: float) -> "asyncio.Future[None]":
    return asyncio.get_running_loop().create_future()


class BreakingSupervisor(Supervisor):
    """Periodic jobs run when they start and when `run_soon` asks for it. Broken jobs raise, whatever they are."""

    def __init__(self, clock: Clock, **arguments: Any) -> None:
        super().__init__(clock, **{**arguments, "pause": _for_ever})
        self._broken: set[str] = set()
        self._breaks: dict[str, asyncio.Event] = {}

    def break_job(self, name: str) -> None:
        """From now on each run of the job raises; one that is under way raises at once if it is critical."""
        self._broken.add(name)
        if name in self._breaks:
            self._breaks[name].set()

    def repair_job(self, name: str) -> None:
        """The job works again."""
        self._broken.discard(name)

    def _begin(self, record: Job) -> None:
        super()._begin(record)
        if record.name in self._broken:
            raise Injected(f"{record.name} is broken")

    async def _invoke(self, record: Job, work: Coroutine[Any, Any, T]) -> T:
        if record.kind is not JobKind.CRITICAL:
            return await super()._invoke(record, work)
        return await super()._invoke(record, self._breakable(record, work))

    async def _breakable(self, record: Job, work: Coroutine[Any, Any, T]) -> T:
        event = self._breaks[record.name] = asyncio.Event()
        inner, broken = asyncio.ensure_future(work), asyncio.ensure_future(event.wait())
        try:
            await asyncio.wait([inner, broken], return_when=asyncio.FIRST_COMPLETED)
            if event.is_set():
                raise Injected(f"{record.name} is broken")
            return inner.result()
        finally:
            for task in (inner, broken):
                task.cancel()
            await asyncio.wait([inner, broken])
