"""What the disk itself does, measured in the same run as the broker: the yardstick for its figures."""

import os
import time
from dataclasses import dataclass

BLOCK_BYTES = 1 << 20
TOTAL_BYTES = 512 << 20


@dataclass(frozen=True)
class DiskRates:
    """Sequential write of 1 MiB blocks with one fsync at the end, and write + fdatasync of one block, medians."""

    sequential_mb_per_s: float
    synced_4k_ms: float
    synced_64k_ms: float
    synced_1m_ms: float


def measure(folder: str) -> DiskRates:
    """Measure in a folder; leaves nothing behind."""
    path = os.path.join(folder, "disk-rate")
    block = os.urandom(BLOCK_BYTES)
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        began = time.perf_counter()
        for _ in range(TOTAL_BYTES // BLOCK_BYTES):
            os.write(fd, block)
        os.fsync(fd)
        sequential = TOTAL_BYTES / (time.perf_counter() - began) / 1e6
        synced = [_synced(fd, block[:size], 60) for size in (4096, 65536, BLOCK_BYTES)]
    finally:
        os.close(fd)
        os.unlink(path)
    return DiskRates(sequential, *synced)


def _synced(fd: int, block: bytes, times: int) -> float:
    os.ftruncate(fd, 0)
    os.posix_fallocate(fd, 0, len(block) * times)
    taken = []
    for i in range(times):
        began = time.perf_counter()
        os.pwrite(fd, block, i * len(block))
        os.fdatasync(fd)
        taken.append(time.perf_counter() - began)
    return sorted(taken)[len(taken) // 2] * 1000
