"""class Repairs: has damaged ranges of a member repaired from other members, one at a time."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmq.clock import Clock
from qmq.errors import LogError, QmqError
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.replication import ReadRangeResponse
from qmq.supervisor import Supervisor
from qmq_node.repair.range_reader import RangeReader
from qmq_node.repair.ranges import DamagedRange, RepairableFiles, WantedRange
from qmq_node.replication.rules.growing_pause import GrowingPause

CHECK_SECONDS = 1.0
"""How often a member looks for ranges to repair."""
DAMAGED_RANGES_MAX = 1_000
"""Ranges that wait to be repaired. Further ones follow when some of these were repaired."""
RETRY_SECONDS, RETRY_SECONDS_MAX = 5.0, 600.0
"""Pause before a range that could not be repaired is tried again: at first, and at most. It doubles."""
REPORTED_MAX = 20
"""Most ranges that /stats names."""

logger = logging.getLogger("qmq_node.repair")


@dataclass(eq=False, slots=True)
class PendingRepair:
    """A range that waits to be repaired."""

    damaged: DamagedRange
    pause: GrowingPause = field(default_factory=lambda: GrowingPause(RETRY_SECONDS, RETRY_SECONDS_MAX))
    problem: str = ""
    """Why the last attempt failed."""


@dataclass(eq=False, repr=False)
class Repairs:
    """The damaged ranges of one node. On the event loop; what waits for the disk runs in threads."""

    _log: RepairableFiles
    _hours: RepairableFiles | None
    """The hour files of a delay node; None: this kind of node has none."""
    _readers: Callable[[], Sequence[RangeReader]]
    """Returns one for each other member that can be asked now, the best first; none: this node is the only member, or has no role
    in which it repairs."""
    _clock: Clock
    _supervisor: Supervisor
    _may_repair: Callable[[], Awaitable[bool]]
    """Called when there are ranges to repair. They wait if it returns False: another member leads first."""
    _attempted: Callable[[], None]
    """Called when all ranges that were due were tried."""
    repaired: Counter[str] = field(default_factory=Counter, init=False)
    """Ranges that were repaired, by kind: "log" or "hour"."""
    failed_attempts: int = field(default=0, init=False)
    _pending: dict[tuple[str, int, int, int], PendingRepair] = field(default_factory=dict, init=False)
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)

    def start(self) -> None:
        """Begin to repair what is found."""
        self._supervisor.every(CHECK_SECONDS, "repairs", self.check)

    @property
    def pending(self) -> list[PendingRepair]:
        """The ranges that wait to be repaired, in order."""
        return sorted(self._pending.values(), key=lambda pending: pending.damaged)

    @property
    def damaged(self) -> Iterator[DamagedRange]:
        """What is damaged, and not repaired."""
        return (damaged for files in self._kinds for damaged in files.damaged())

    @property
    def is_damaged(self) -> bool:
        """Whether anything is damaged that is not repaired."""
        return any(True for _ in self.damaged)

    @property
    def has_untried(self) -> bool:
        """Whether no repair of one of the ranges was tried yet."""
        self._gather()
        return any(not pending.pause.failures for pending in self._pending.values())

    def report(self) -> dict[str, Any]:
        """Return what /stats shows."""
        return {
            "repaired": dict(self.repaired),
            "failed_attempts": self.failed_attempts,
            "pending": [
                {
                    "file": pending.damaged.file,
                    "begin": pending.damaged.begin,
                    "end": pending.damaged.end,
                    "why": pending.damaged.why,
                    "problem": pending.problem,
                }
                for pending in self.pending[:REPORTED_MAX]
            ],
        }

    def found(self, damaged: DamagedRange) -> None:
        """Damage was found: have it repaired."""
        self._files_of(damaged).add(damaged)
        self._gather()

    def _gather(self) -> None:
        """Take in what is known to be damaged, at most DAMAGED_RANGES_MAX ranges; what retention removed is dropped."""
        known = {damaged.place: damaged for damaged in self.damaged}
        self._pending = {place: pending for place, pending in self._pending.items() if place in known}
        for place, damaged in known.items():
            if place not in self._pending and len(self._pending) < DAMAGED_RANGES_MAX:
                self._pending[place] = PendingRepair(damaged)

    async def check(self) -> None:
        """Repair the ranges whose turn it is, one after the other."""
        self._gather()
        now = self._clock.monotonic()
        due = [pending for pending in self.pending if not pending.pause.remaining(now)]
        if not due or not self._readers() or not await self._may_repair():
            return
        for pending in due:
            await self._repair(pending)
        self._gather()
        self._attempted()

    @property
    def _kinds(self) -> list[RepairableFiles]:
        return [self._log] if self._hours is None else [self._log, self._hours]

    def _files_of(self, damaged: DamagedRange) -> RepairableFiles:
        files = self._log if damaged.is_log else self._hours
        assert files is not None, f"{damaged.file} is no file of this node"
        return files

    async def _repair(self, pending: PendingRepair) -> None:
        """Repair a range from the first member that has it."""
        damaged, problems = pending.damaged, []
        files = self._files_of(damaged)
        for reader in self._readers():
            try:
                await self._repair_from(reader, files, damaged)
            except (QmqError, LogError, OSError) as error:
                problems.append(f"from {reader.name}: {error}")
                continue
            await files.repaired(damaged)
            self.repaired["log" if damaged.is_log else "hour"] += 1
            logger.warning("repaired from %s: %s", reader.name, damaged)
            return
        self.failed_attempts += 1
        now = self._clock.monotonic()
        pending.pause.failed(now)
        pending.problem = "; ".join(problems)
        self._log_limiter.warning(
            logger, damaged.file, str(damaged.begin), f"not repaired: {damaged}: {pending.problem}", now
        )

    async def _repair_from(self, reader: RangeReader, files: RepairableFiles, damaged: DamagedRange) -> None:
        """Repair a range from one member. Raises QmqError, OSError: what is left of it stays damaged."""
        repair = files.repair(damaged)
        try:
            wanted = await asyncio.to_thread(next, repair, None)
            while wanted is not None:
                answer = await reader.read(wanted)
                wanted = await asyncio.to_thread(_send, repair, answer)
        finally:
            await asyncio.to_thread(repair.close)
            await reader.close()


def _send(repair: Generator[WantedRange, ReadRangeResponse, None], answer: ReadRangeResponse) -> WantedRange | None:
    """Continue a repair with an answer; what it needs next, None when it is complete."""
    try:
        return repair.send(answer)
    except StopIteration:
        return None
