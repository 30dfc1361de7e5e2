"""A broker's store as a slave keeps it, and what it is compared by."""

import json
from typing import Any

from broker_node.recovery.open_store import open_store
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening, RecoveryReport
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.store_driver import ROOT
from tests.support.manual_clock import ManualClock

SEGMENT_BYTES = 32 * 1024


def opened_slave(disk: MemoryDisk, high_watermark: int) -> tuple[MessageStore, RecoveryReport]:
    """Open a store of a member of a larger group."""
    clock = ManualClock()
    store, report = open_store(
        disk,
        ROOT,
        clock,
        limits=StoreLimits(),
        segment_bytes=SEGMENT_BYTES,
        handles=HandleCache(disk, clock=clock),
        member=MemberOpening(high_watermark),
    )
    if store.log.failed is not None:
        raise store.log.failed
    return store, report


def replayed(disk: MemoryDisk, high_watermark: int) -> MessageStore:
    """A store made from the bytes of a log alone, up to the high watermark."""
    fresh = MemoryDisk()
    for path, inode in disk.names.items():
        if path.startswith(f"{ROOT}/log"):
            fresh.make_dir(path.rpartition("/")[0])
            file = fresh.create(path, 0)
            file.pwritev([bytes(inode.content)], 0)
            file.datasync()
    return opened_slave(fresh, high_watermark)[0]


def state_of(store: MessageStore) -> dict[str, Any]:
    """Everything that follows from the log."""
    store.write_histories()
    subjects = {}
    for name, subject in sorted(store.subjects.items()):
        subject.changed()
        index = subject.consume_log
        line = json.loads(subject.checkpoint_line())
        for group in line["groups"]:
            # A master has consumers in the order of their first requests, which are in the log only if they got something.
            group[5] = sorted(consumer for consumer in group[5] if consumer[1:] != [0, 0, -1, []])
        subjects[name] = {
            "line": line,
            "next": subject.next_sequence,
            "entries": index.read(index.begin, index.end),
            "histories": {
                group: part.history.read(part.history.begin, part.history.end)
                for group, part in sorted(subject.groups.items())
            },
        }
    return {
        "subjects": subjects,
        "floor": store.sequence_floor,
        "ages": dict(sorted(store.segment_newest_ms.items())),
        "damaged": store.log.stored.damaged,
        "position": store.log.watermark.position,
    }
