"""How slow the machine was during a run: CPU time stolen by other guests of its host, and the time a small sync takes."""

import math
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

SAMPLE_SECONDS = 1.0
BLOCK = bytes(4096)
STAT = Path("/proc/stat")
STEAL_FIELD = 7


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the values do not exceed."""
    return sorted(values)[max(math.ceil(share * len(values)), 1) - 1]


def cpu_ticks(stat: str) -> tuple[int, int]:
    """Return (stolen, all) ticks of all cores since boot, from the text of /proc/stat."""
    fields = [int(field) for field in stat.splitlines()[0].split()[1:]]
    # The fields behind `steal` are guests' time, which `user` and `nice` include.
    return fields[STEAL_FIELD], sum(fields[: STEAL_FIELD + 1])


class MachineWatch:
    """Measures the machine inside a `with` block; `report()` is its result."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sync_seconds: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sync-sampler")
        self._stolen = self._all = 0

    def __enter__(self) -> "MachineWatch":
        self._stolen, self._all = cpu_ticks(STAT.read_text())
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()
        stolen, every = cpu_ticks(STAT.read_text())
        self._stolen, self._all = stolen - self._stolen, every - self._all

    def report(self) -> str:
        """Return the figures of the block as one line."""
        syncs = self._sync_seconds
        p50, p99 = (percentile(syncs, share) * 1000 for share in (0.5, 0.99))
        return (
            f"machine: CPU steal {self._stolen / max(self._all, 1):.1%}; sync of 4 KiB: p50 {p50:.1f} ms, p99 {p99:.1f} ms, "
            f"max {max(syncs) * 1000:.1f} ms ({len(syncs)} samples)"
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
