"""class Scrub: reads all stored data of a node again within `scrub_days`, and reports damaged ranges for repair.

A disk loses bits and sectors of data that no one reads. A slave reads old data only when it is promoted: then a damaged copy could
be the last one.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Protocol

from qmq.clock import Clock
from qmq_node.process.counters import counted
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.scrub_progress import ScrubProgress, ScrubProgressFile

SCRUB_SECONDS = 1.0
"""How often the next read is due at the earliest; reads of less than that are made one after the other."""
RUN_SECONDS = 10.0
"""A run of the job ends after this time; the next one continues."""
PAUSE_SECONDS_MAX = 600.0
"""Longest pause between two pieces, however little there is to read: more may be written meanwhile."""
PLAN_SECONDS = 60.0
"""How long the number of bytes that are left is counted down before it is measured again."""
SAVE_SECONDS = 600.0
"""How often progress is written to disk."""
DAY_SECONDS = 86_400
PLANNED_SHARE = 6 / 7
"""Of the time of a pass, for which reading is planned. The rest is for a node that does not run, and for a limit of the rate."""

logger = logging.getLogger("qmq_node.repair")


class Found(NamedTuple):
    """Something that is damaged."""

    damaged: DamagedRange
    is_readable: bool
    """Whether the disk can read it. Otherwise a later read may succeed."""


class Step(NamedTuple):
    """What was read next."""

    bytes: int
    found: Sequence[Found]


class Unit(Protocol):
    """A part of the stored data that is read from its begin to its end."""

    @property
    def key(self) -> int:
        """Where it is among those of its kind, which are read in this order."""

    def steps(self) -> Iterator[Step]:
        """Read it from the disk, a piece at a time; each step in a thread that may wait. Raises LogError, OSError."""

    def is_current(self) -> bool:
        """Whether it still is what it was; on the event loop. If not, it was removed, and what was found in it means nothing."""

    def ended(self) -> None:
        """All of it was read; on the event loop."""


class Scrubbed(Protocol):
    """Data of one kind that is read again. On the event loop."""

    @property
    def kind(self) -> str:
        """What it is called."""

    def next_unit(self, key: int) -> Unit | None:
        """Return the first part whose key is at least this one; None if there is none."""

    def bytes_from(self, key: int) -> int:
        """Return how many bytes there are from this key on."""


@dataclass(slots=True)
class ScrubCounters:
    """Counts since the start."""

    read_bytes: int = counted("scrub_read_bytes", "Bytes of stored data that were read again to check them")
    found: int = counted(
        "scrub_found_ranges", "Damaged ranges that were met by reading stored data again, once in each pass"
    )
    passes: int = counted("scrub_passes", "Times that all stored data was read again")


@dataclass(frozen=True, slots=True)
class ScrubReport:
    """How far it is; the table `scrub` of the page /stats."""

    pass_seconds: float
    """For how long the present pass has run."""
    done_share: float
    """Of the data that this pass reads, 0 to 1."""
    last_pass_age_seconds: float | None
    """Since the end of the last whole pass; None: none was completed."""
    read_bytes: int
    """Since the start of the process."""

    def as_json(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


@dataclass(eq=False, repr=False)
class _Reading:
    """The unit that is being read."""

    kind: str
    unit: Unit
    steps: Iterator[Step]
    read_bytes: int = 0


@dataclass(eq=False, repr=False)
class Scrub:
    """Reads evenly over PLANNED_SHARE of the time of a pass, and at the highest rate once that is over. On the event loop."""

    _kinds: Sequence[Scrubbed]
    _file: ScrubProgressFile
    _found: Callable[[Found], None]
    _clock: Clock
    _bytes_per_second_max: int
    _pass_seconds: float
    """In which all data is to be read once."""
    _pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    """Waits for this number of seconds."""
    counters: ScrubCounters = field(default_factory=ScrubCounters, init=False)
    _progress: ScrubProgress | None = field(default=None, init=False)
    """None: not loaded yet."""
    _saved: ScrubProgress | None = field(default=None, init=False)
    """What is on disk; None: nothing that can be used."""
    _reading: _Reading | None = field(default=None, init=False)
    _free_at: float = field(default=0.0, init=False)
    """When the next piece may be read."""
    _left_bytes: int = field(default=0, init=False)
    _total_bytes: int = field(default=0, init=False)
    _measured_at: float | None = field(default=None, init=False)
    _saved_at: float | None = field(default=None, init=False)

    async def run(self) -> None:
        """Read what is due now. Raises LogError, OSError; the next run continues with the next unit."""
        if self._progress is None:
            self._saved = await asyncio.to_thread(self._file.load)
            self._progress = self._saved or ScrubProgress(self._clock.wall_ms())
        end = self._clock.monotonic() + RUN_SECONDS
        while (now := self._clock.monotonic()) < end and (delay := self._free_at - now) < SCRUB_SECONDS:
            if delay > 0:
                await self._pause(delay)
            if not await self._read_next():
                return

    async def close(self) -> None:
        """Make durable how far it is; nothing is read any more."""
        if self._progress not in (None, self._saved):
            await self._save()

    async def _read_next(self) -> bool:
        """Read the next piece; False if there is none now."""
        reading = self._reading = self._reading or self._next_reading()
        if reading is None:
            await self._end_pass()
            return False
        self._measure()
        try:
            step = await asyncio.to_thread(next, reading.steps, None)
        except Exception:
            self._leave(reading)
            raise
        is_current = reading.unit.is_current()
        if step is not None:
            self._spend(step.bytes)
            reading.read_bytes += step.bytes
            self._left_bytes -= step.bytes
            self.counters.read_bytes += step.bytes
            if is_current:
                self._report(step.found)
        if step is None or not is_current:
            if is_current:
                reading.unit.ended()
            self._leave(reading)
            await self._maybe_save()
        return True

    def _next_reading(self) -> _Reading | None:
        for kind in self._kinds:
            unit = kind.next_unit(self._now.key(kind.kind))
            if unit is not None:
                return _Reading(kind.kind, unit, unit.steps())
        return None

    def _leave(self, reading: _Reading) -> None:
        """Continue behind a unit."""
        self._reading, self._progress = None, self._now.behind(reading.kind, reading.unit.key)

    def _report(self, found: Sequence[Found]) -> None:
        self.counters.found += len(found)
        for one in found:
            self._found(one)

    async def _end_pass(self) -> None:
        """Begin another pass, unless there is time left: what was written meanwhile is read in this one."""
        if self._elapsed_seconds < self._planned_seconds:
            return
        if self._elapsed_seconds > self._pass_seconds:
            logger.warning(
                "reading all stored data again took %.1f days instead of %.1f: the node did not run, or --scrub-bytes-per-second"
                " is too low",
                self._elapsed_seconds / DAY_SECONDS, self._pass_seconds / DAY_SECONDS,
            )  # fmt: skip
        now_ms = self._clock.wall_ms()
        self._progress, self._measured_at = ScrubProgress(now_ms, now_ms), None
        self.counters.passes += 1
        await self._save()

    # --- rate ------------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> ScrubProgress:
        assert self._progress is not None
        return self._progress

    @property
    def _elapsed_seconds(self) -> float:
        return max(0, self._clock.wall_ms() - self._now.began_at_ms) / 1000

    @property
    def _planned_seconds(self) -> float:
        return self._pass_seconds * PLANNED_SHARE

    def _spend(self, size: int) -> None:
        """A piece of `size` bytes was read: the next one may be read later."""
        rate, seconds_left = float(self._bytes_per_second_max), self._planned_seconds - self._elapsed_seconds
        if seconds_left > 0:
            rate = min(rate, max(size, self._left_bytes) / seconds_left)
        pause = min(size / rate, PAUSE_SECONDS_MAX) if seconds_left > 0 else size / rate
        self._free_at = max(self._free_at, self._clock.monotonic() - SCRUB_SECONDS) + pause

    def _measure(self) -> None:
        """Measure how much data there is, if that was long ago."""
        now = self._clock.monotonic()
        if self._measured_at is not None and now - self._measured_at < PLAN_SECONDS:
            return
        self._measured_at = now
        self._total_bytes = sum(kind.bytes_from(0) for kind in self._kinds)
        left = sum(kind.bytes_from(self._now.key(kind.kind)) for kind in self._kinds)
        self._left_bytes = left - (self._reading.read_bytes if self._reading is not None else 0)

    # --- progress --------------------------------------------------------------------------------------------------

    async def _maybe_save(self) -> None:
        now = self._clock.monotonic()
        if self._saved_at is None:
            self._saved_at = now
        if now - self._saved_at >= SAVE_SECONDS:
            await self._save()

    async def _save(self) -> None:
        self._saved_at, progress = self._clock.monotonic(), self._now
        try:
            await asyncio.to_thread(self._file.save, progress)
            self._saved = progress
        except OSError as error:
            logger.warning("a restart reads some stored data again that was read already: %s", error)

    def report(self) -> ScrubReport | None:
        """Return how far it is; None before the first run."""
        if self._progress is None:
            return None
        self._measure()
        total, left, ended_at_ms = self._total_bytes, max(0, self._left_bytes), self._progress.ended_at_ms
        age = None if ended_at_ms is None else max(0, self._clock.wall_ms() - ended_at_ms) / 1000
        done = 1 - min(left / total, 1.0) if total else 1.0
        return ScrubReport(self._elapsed_seconds, round(done, 4), age, self.counters.read_bytes)
