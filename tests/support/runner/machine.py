"""How slow the machine was during a run: CPU time stolen by other guests of its host, and the time a small sync takes."""

import math
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

SAMPLE_SECONDS = 1.0
BLOCK = bytes(4096)
STAT = Path("/proc/stat")
IDLE_FIELDS = slice(3, 5)
"""Idle, and idle while a disk works."""
STEAL_FIELD = 7


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


@dataclass(frozen=True, slots=True)
class Ticks:
    """Ticks of all cores since boot."""

    stolen: int
    idle: int
    total: int

    def since(self, before: "Ticks") -> "Ticks":
        """Return the ticks between two readings."""
        return Ticks(self.stolen - before.stolen, self.idle - before.idle, self.total - before.total)


def cpu_ticks(stat: str) -> Ticks:
    """Return the ticks of all cores, from the text of /proc/stat."""
    fields = [int(field) for field in stat.splitlines()[0].split()[1:]]
    # The fields behind `steal` are guests' time, which `user` and `nice` include.
    return Ticks(fields[STEAL_FIELD], sum(fields[IDLE_FIELDS]), sum(fields[: STEAL_FIELD + 1]))


class MachineWatch:
    """Measures the machine inside a `with` block; `report()` is its result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sync_seconds: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sync-sampler")
        self._ticks = Ticks(0, 0, 0)

    def __enter__(self) -> "MachineWatch":
        self._ticks = cpu_ticks(STAT.read_text())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        self._ticks = cpu_ticks(STAT.read_text()).since(self._ticks)

    def report(self) -> str:
        """Return the figures of the block as one line."""
        syncs = self._sync_seconds
        p50, p99 = (percentile(syncs, share) * 1000 for share in (0.5, 0.99))
        total = max(self._ticks.total, 1)
        return (
            f"machine: {os.cpu_count()} cores, busy {1 - self._ticks.idle / total:.0%}, "
            f"CPU steal {self._ticks.stolen / total:.1%}; "
            f"sync of 4 KiB: p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {max(syncs) * 1000:.1f} ms ({len(syncs)} samples)"
        )

    def _sample(self) -> None:
        """Write and sync a block of a file that is there already, once at the start and then every SAMPLE_SECONDS."""
        with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
            while True:
                began = time.perf_counter()
                os.pwrite(file.fileno(), BLOCK, 0)
                os.fdatasync(file.fileno())
                self._sync_seconds.append(time.perf_counter() - began)
                if self._is_over.wait(SAMPLE_SECONDS):
                    return
