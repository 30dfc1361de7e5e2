"""A master's log to be copied, as a slave receives it, and the comparison of the copy with it."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from qmq.clock import Clock
from qmq_node.log.copied_log import CopiedCommits
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import Inspection, inspect
from qmq_node.log.record import HEADER_BYTES, CommitHeader, commit_crc, decode_header, encode_crc, encode_header
from qmq_node.replication.replica_state import ReplicaStateFile
from qmq_node.replication.rules.roles import Copying, ReplicaState
from qmq_node.replication.slave.slave_copy import SaveState, SlaveCopy
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.logs import open_log

FOLDER = "data/log"
SEGMENT = 16 * 1024


def master_log(seed: int = 1, commits: int = 40, record_bytes_max: int = 1500) -> SegmentedLog:
    """A log of several segments with records of random sizes, seals and promotions."""
    rng, disk = random.Random(seed), MemoryDisk()
    log = open_log(disk, FOLDER, segment_bytes=SEGMENT)
    for number in range(commits):
        if rng.random() < 0.1:
            log.begin_epoch(log.epoch + rng.randint(1, 2))
        if rng.random() < 0.05:
            # As after a restart: the last seal is synced.
            log = open_log(disk, FOLDER, segment_bytes=SEGMENT, epochs=log.epochs)
        for _ in range(rng.randint(1, 3)):
            log.gather.append(1, rng.randbytes(rng.randint(1, record_bytes_max)))
        while (taken := log.gather.take()) is not None:
            log.writer.write(taken)
            log.complete(taken)
        if number < commits - 1 and rng.random() < 0.4 and (taken := log.gather.seal_idle()) is not None:
            log.writer.write(taken, sync=False)
            log.complete(taken)
    return log


def commits_of(log: SegmentedLog, begin: int = 0) -> Iterator[CopiedCommits]:
    """The commits of a log from an offset on, seals included, one by one."""
    for info in log.stored.segments():
        at = max(info.base, begin)
        while at + 64 <= min(info.end, log.written_end):
            header = decode_header(log.stored.read(at, 64), at, info.base)
            if header is None:
                break
            data = memoryview(log.stored.read(at, header.end - at))
            yield CopiedCommits(info.base, info.bytes, at, data)
            at = header.end


def together(commits: Sequence[CopiedCommits]) -> CopiedCommits:
    """Neighbours of one segment as one."""
    first = commits[0]
    data = memoryview(b"".join(commit.data for commit in commits))
    return CopiedCommits(first.segment_base, first.segment_bytes, first.offset, data)


def sent(log: SegmentedLog, rng: random.Random, begin: int = 0) -> list[CopiedCommits]:
    """The commits from an offset on, as they may arrive: several at a time."""
    found: list[CopiedCommits] = []
    gathered: list[CopiedCommits] = []
    for commit in commits_of(log, begin):
        if gathered and (gathered[0].segment_base != commit.segment_base or rng.random() < 0.4):
            found.append(together(gathered))
            gathered = []
        gathered.append(commit)
    return [*found, together(gathered)] if gathered else found


def slave_copy_of(
    log: SegmentedLog,
    epoch: int,
    promotion_id: str,
    clock: Clock,
    copying: Copying | None = None,
    save_state: SaveState = lambda data: (0, 0),
) -> tuple[SlaveCopy, ReplicaStateFile]:
    """What a follower of a log needs to copy, with the replica state on a disk of its own."""
    disk = MemoryDisk()
    disk.make_dir("data")
    replica = ReplicaStateFile(disk, "data")
    replica.save(ReplicaState(epoch, promotion_id, False, copying))
    return SlaveCopy(replica, log, replica.copied_log(log), clock, save_state), replica


def opened_copy(
    disk: MemoryDisk, copied_from: int | None = None, **settings: object
) -> tuple[SegmentedLog, Inspection]:
    """A slave's log, opened as a member of a larger group."""
    found = inspect(disk, FOLDER, visit=lambda _: None, copied_from=copied_from, **settings)  # type: ignore[arg-type]
    return SegmentedLog.activate(found, segment_bytes=SEGMENT * 4, is_only_member=False), found


def assert_prefix(copy: SegmentedLog, master: SegmentedLog) -> None:
    """The copy has the master's bytes up to its end, in segments of the same sizes."""
    end = copy.written_end
    for info in master.stored.segments():
        size = min(info.end, end) - info.base
        if size <= 0:
            break
        assert copy.stored.read(info.base, size) == master.stored.read(info.base, size)
        assert info in copy.stored.segments()


def header_of(commit: CopiedCommits) -> CommitHeader:
    found = decode_header(commit.data, commit.offset, commit.segment_base)
    assert found is not None
    return found


def changed(commit: CopiedCommits, **fields: Any) -> CopiedCommits:
    """The commit with another header and the right CRC."""
    header = header_of(commit)
    names = ("segment_base", "epoch", "offset", "body_bytes", "record_count", "previous_crc", "synced_to")
    head = encode_header(**{name: getattr(header, name) for name in names} | fields)
    body = bytes(commit.data[HEADER_BYTES:])
    return replace(commit, data=memoryview(head + encode_crc(commit_crc(head, body)) + body))
