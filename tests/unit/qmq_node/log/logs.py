"""Logs on a disk in memory."""

import random
from typing import Any

from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import Inspection, inspect
from qmq_node.log.record import (
    iter_records,
)
from qmq_node.log.recovery import Commit
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import open_log


def written(log: SegmentedLog, *, is_confirmed: bool = False) -> int:
    """Write one commit with a record; its end."""
    log.gather.append(1, b"record")
    taken = log.gather.take()
    assert taken is not None
    log.writer.write(taken)
    log.complete(taken, is_confirmed=is_confirmed)
    return taken.end


def seal(log: SegmentedLog) -> int:
    """Write a seal; its end."""
    taken = log.gather.seal_idle()
    assert taken is not None
    log.writer.write(taken, sync=False)
    log.complete(taken)
    return taken.end


SEGMENT = 16 * 1024


Record = tuple[int, int, bytes]


def opened(disk: MemoryDisk, **settings: object) -> tuple[SegmentedLog, list[Record]]:
    """A log, and the records that opening visited."""
    found: list[Record] = []

    def visit(commit: Commit) -> None:
        found.extend((o, k, bytes(p)) for o, k, p in iter_records(commit.body, commit.body_offset))

    log = open_log(disk, "log", segment_bytes=SEGMENT, visit=visit, **settings)  # type: ignore[arg-type]
    return log, found


def commit(log: SegmentedLog, *, seal: bool = False) -> None:
    """Write everything pending."""
    while (taken := log.gather.take()) is not None:
        log.writer.write(taken)
        log.complete(taken)
    if seal and (taken := log.gather.seal_idle()) is not None:
        log.writer.write(taken, sync=False)
        log.complete(taken)


def filled(disk: MemoryDisk, commits: int, seed: int = 1) -> tuple[SegmentedLog, list[Record]]:
    """A log with random records; seals here and there."""
    rng = random.Random(seed)
    log, _ = opened(disk)
    written: list[Record] = []
    for _ in range(commits):
        for _ in range(rng.randint(1, 4)):
            payload = rng.randbytes(rng.randint(1, 2000))
            written.append((log.gather.append(rng.randint(1, 5), payload[:7], payload[7:]), 0, payload))
        commit(log, seal=rng.random() < 0.3)
    return log, written


def inspected(disk: MemoryDisk, **settings: Any) -> tuple[Inspection, list[int]]:
    """What is in the log, and the ends of the commits that were visited."""
    visited: list[int] = []

    def visit(commit: Commit) -> None:
        visited.append(commit.end)

    return inspect(disk, "log", visit=visit, **settings), visited


def content(disk: MemoryDisk) -> dict[str, bytes]:
    return {path: bytes(inode.content) for path, inode in disk.names.items()}


def without_seal(disk: MemoryDisk, at: int, end: int) -> MemoryDisk:
    """Return what a power cut leaves of the log of `rolled_behind_a_seal` if the seal was not synced, as in older versions."""
    left = disk.after_power_cut()
    inode = left.names[f"log/{0:020d}"]
    for content in (inode.content, inode.synced):
        content[at:end] = bytes(end - at)
    return left
