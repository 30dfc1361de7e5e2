"""A delay slave's store follows the high watermark, and is at every step what a replay of the same bytes gives."""

import random
from typing import Any

import pytest

from delay_node.recovery import open_store
from delay_node.store import DelayStore
from qmq_node.commits.applying import Applying
from qmq_node.log.copied_log import CopiedLog
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening, RecoveryReport
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import sent
from tests.support.drivers.delay_driver import ROOT, DelayDriver
from tests.support.promises import Check, judging


def opened(disk: MemoryDisk, high_watermark: int) -> tuple[DelayStore, RecoveryReport]:
    return open_store(
        disk, ROOT, segment_bytes=32 * 1024, handles=HandleCache(disk), member=MemberOpening(high_watermark)
    )


def replayed(disk: MemoryDisk, high_watermark: int) -> DelayStore:
    """A store made from the bytes of the log alone."""
    fresh = MemoryDisk()
    fresh.make_dir(f"{ROOT}/log")
    for path, inode in disk.names.items():
        if path.startswith(f"{ROOT}/log"):
            fresh.create(path, 0).pwritev([bytes(inode.content)], 0)
    return opened(fresh, high_watermark)[0]


def state_of(store: DelayStore) -> dict[str, Any]:
    """Everything that follows from the log."""
    return {
        "names": store.subjects.names,
        "totals": (store.pending, store.refused),
        "position": store.log.watermark.position,
        "hours": {
            number: (
                hour.schedule.read_index(0, hour.schedule.count).tobytes(),
                hour.schedule.data.read(0, hour.schedule.data.end),
                hour.dispatch.read(0, hour.dispatch.count)[0].tobytes(),
                (hour.gone, hour.refused, hour.lost, hour.schedule.next_number, hour.begins_at),
            )
            for number, hour in sorted(store.hours.items())
        },
    }


@pytest.mark.parametrize("seed", range(6))
async def test_the_store_of_a_delay_slave_is_at_every_step_a_replay_of_its_log(seed: int) -> None:
    rng, master = random.Random(seed), DelayDriver(MemoryDisk(), seed)
    # Checkpoints let the log's first segments go.
    master.checkpoint = lambda: None  # type: ignore[method-assign]
    master.run(80)
    master.commit()
    disk = MemoryDisk()
    store, report = opened(disk, 0)
    copied, applying = CopiedLog(store.log, epoch=1, is_copying=False), Applying(store.log, report.replay)
    ends = [0]
    for commits in sent(master.store.log, rng):
        headers = copied.write(commits)
        copied.complete(headers)
        applying.received(commits, headers)
        ends.append(store.log.synced_end)
        await applying.advance(rng.choice(ends[-3:]))
        with judging(Check.APPLIED):
            assert state_of(store) == state_of(replayed(disk, applying.applied_end))
    await applying.advance(ends[-1])
    ours, theirs = state_of(store), state_of(master.store)
    with judging(Check.APPLIED):
        assert ours == state_of(replayed(disk, ends[-1]))
        assert (ours["names"], ours["totals"]) == (theirs["names"], theirs["totals"]), "as the master's own"
        assert ours["hours"] == theirs["hours"]
