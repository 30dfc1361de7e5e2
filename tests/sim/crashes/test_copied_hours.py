"""A delay slave that crashes at any disk operation while it copies a master's state, files of hours and log."""

import contextlib
from functools import cache

import pytest

from delay_node import files_copy
from delay_node.whole_files import Whole, WholeFiles
from qmq_node.log.epochs import EpochChain
from qmq_node.replication.rules.roles import Copying, CopyPhase, ReplicaState
from qmq_node.replication.state_files import WantedBytes
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.delay_driver import ROOT, DelayDriver
from tests.support.drivers.delay_states import state_of
from tests.support.drivers.hour_copies import SEGMENT_BYTES, Master, Slave, applied, assert_equal
from tests.support.promises import Check, judging

STATES = 3
"""What a power cut may leave, tried for each crash."""
STRIDE = 11


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some files share a sync, and a large one takes several."""
    monkeypatch.setattr(files_copy, "FILES_PER_SYNC", 3)
    monkeypatch.setattr(files_copy, "BYTES_PER_SYNC", 4_000)


@cache
def master() -> Master:
    return Master(3)


@cache
def between() -> Master:
    """The same master some time later: hours have grown."""
    return _between()


def _between() -> Master:
    found = Master(3)
    while found.driver.store.log.watermark.position.offset < master().store.log.written_end + 1_000:
        found.driver.send("orders", 3)
        found.driver.commit()
    found.checkpoint()
    found.keep()
    assert {file.since for file in found.counted.values()} == {file.since for file in master().counted.values()}
    return found


@cache
def later() -> Master:
    """The same master later: hours have ended, and are in use again."""
    found = _between()
    while len(found.driver.store.hours) == len(master().store.hours):
        found.driver.end_hour()
    found.run(20)
    found.checkpoint()
    found.keep()
    before, now = master().counted, found.counted
    uses = [(before[name], now[name]) for name in before.keys() & now.keys()]
    assert any(one.since == other.since and 0 < one.bytes < other.bytes for one, other in uses), "some have grown"
    assert any(one.since != other.since for one, other in uses), "some are used again"
    return found


def added_bytes(known: Master, new: Master) -> int:
    """What a copy of `known` lacks of `new`."""
    return sum(
        file.bytes - min(file.bytes, known.counted[name].bytes)
        if name in known.counted and known.counted[name].since == file.since
        else file.bytes
        for name, file in new.counted.items()
    )


def copied(of: Master) -> Slave:
    """A slave that has copied a master and follows."""
    slave = Slave(MemoryDisk(), of, 1).begin()
    slave.run()
    slave.read_bytes = 0
    return slave


def other_disk() -> MemoryDisk:
    """The disk of a node that has hours of its own, which no other member knows."""
    driver = DelayDriver(MemoryDisk(), 8, segment_bytes=SEGMENT_BYTES)
    driver.run(60)
    driver.commit()
    driver.checkpoint()
    return driver.disk


async def check_applied(slave: Slave) -> None:
    """With the rest of the log applied, the slave's store is the master's."""
    store = await applied(slave)
    ours, theirs = state_of(store), state_of(slave.master.store)
    with judging(Check.APPLIED):
        assert ours["hours"] == theirs["hours"]
        assert (ours["names"], ours["totals"]) == (theirs["names"], theirs["totals"])


@pytest.mark.parametrize("is_new", [True, False], ids=["empty folder", "other files"])
async def test_a_copy_without_a_crash_is_what_the_master_has(is_new: bool) -> None:
    slave = Slave(MemoryDisk() if is_new else other_disk(), master(), 1).begin()
    slave.run()
    assert_equal(slave)
    assert slave.read_bytes == sum(file.bytes for file in master().counted.values())
    await check_applied(slave)
    assert WholeFiles(slave.disk, ROOT).load() is None, "the files change from now on"


@pytest.mark.parametrize("first", range(STRIDE))
def test_a_crash_at_any_disk_operation_is_continued(first: int) -> None:
    crashes(first)


def crashes(first: int) -> None:
    """Crash at every STRIDE-th disk operation."""
    start = other_disk()
    Slave(start, master(), 1).begin()
    total = start.after_kill()
    Slave(total, master(), 1).run()
    for crash_at in range(first, total.steps, STRIDE):
        disk = start.after_kill()
        disk.crash_at = disk.steps + crash_at
        with contextlib.suppress(SimulatedCrash):
            Slave(disk, master(), 1).run()
        disk.crash_at = None
        for left in (disk.after_kill(), disk.after_power_cut(), *disk.crash_states(STATES, crash_at)):
            slave = Slave(left, master(), 2)
            slave.run()
            assert_equal(slave)
            # What was copied to the end lasts.
            slave.disk = left.after_power_cut()
            assert_equal(slave)


def stop_after(slave: Slave, read_bytes: int) -> None:
    """Run a slave until it has so much of the files."""
    answer = slave.answer

    def limited(wanted: WantedBytes) -> bytes:
        if slave.read_bytes >= read_bytes:
            raise SimulatedCrash("now")
        return answer(wanted)

    slave.answer = limited
    with contextlib.suppress(SimulatedCrash):
        slave.run()


def test_what_was_synced_before_a_power_cut_is_not_copied_again() -> None:
    total = sum(file.bytes for file in master().counted.values())
    disk = MemoryDisk()
    slave = Slave(disk, master(), 1).begin()
    stop_after(slave, total // 2)
    first = slave.read_bytes
    assert total // 2 < first < total
    second = Slave(disk.after_power_cut(), master(), 2)
    second.run()
    assert_equal(second)
    assert (
        total
        <= first + second.read_bytes
        <= total + files_copy.BYTES_PER_SYNC + max(file.bytes for file in master().counted.values())
    )


async def test_a_slave_that_was_away_copies_what_was_added() -> None:
    known = copied(master())
    slave = Slave(known.disk, later(), 2).begin(log_end=master().store.log.written_end)
    slave.run()
    assert_equal(slave)
    assert slave.read_bytes == added_bytes(master(), later()) < sum(file.bytes for file in later().counted.values())
    await check_applied(slave)


@pytest.mark.parametrize("why", ["unknown log end", "applied beyond the state", "another log", "another history"])
async def test_files_that_may_not_be_the_masters_are_copied_whole(why: str) -> None:
    known, end = copied(master()), master().store.log.written_end
    if why == "another log":
        known.replica.set_log_id("00000000000000a2")
    end = {"unknown log end": 0, "applied beyond the state": later().offset + 1}.get(why, end)
    slave = Slave(known.disk, later(), 2).begin(log_end=end)
    slave.advance(Copying(0, end, CopyPhase.CLEARING))
    if why == "another history":
        whole = WholeFiles(slave.disk, ROOT)
        found = whole.load()
        assert found is not None
        # The last master of this slave wrote commits of an epoch that the present one does not know.
        found.epochs = EpochChain.of([(1, 0), (2, found.log_end - 1)])
        whole.save(found)
    slave.run()
    assert_equal(slave)
    assert slave.read_bytes == sum(file.bytes for file in later().counted.values())
    await check_applied(slave)


async def test_another_master_with_a_newer_checkpoint_continues_the_copy() -> None:
    slave = Slave(MemoryDisk(), master(), 1).begin()
    slave.advance(Copying(0, 0, CopyPhase.CLEARING))
    total = sum(file.bytes for file in master().counted.values())
    stop_after(slave, total // 2)
    first = sum(whole.total for whole in (WholeFiles(slave.disk, ROOT).load() or Whole()).hours.values())
    assert total // 4 < first < total
    second = Slave(slave.disk, later(), 2, epoch=2)
    second.replica.load()
    second.replica.save(ReplicaState(2, "promotion", is_only_member=False, copying=second.replica.state.copying))
    second.run()
    assert_equal(second)
    assert second.read_bytes < sum(file.bytes for file in later().counted.values())
    await check_applied(second)


def test_files_that_were_overwritten_do_not_count_for_an_older_state() -> None:
    """A slave copies a newer state over its files, then another master has an older one: its hours were used again since."""
    start = copied(master()).disk
    Slave(start, later(), 2).begin(log_end=master().store.log.written_end)
    total = start.after_kill()
    Slave(total, later(), 2).run()
    for crash_at in range(total.steps):
        disk = start.after_kill()
        disk.crash_at = disk.steps + crash_at
        with contextlib.suppress(SimulatedCrash):
            Slave(disk, later(), 2).run()
        disk.crash_at = None
        slave = Slave(disk.after_kill(), between(), 3, epoch=2)
        copying = slave.replica.load().copying
        if copying is None or copying.is_usable:
            break
        slave.replica.save(ReplicaState(2, "promotion", is_only_member=False, copying=copying))
        if copying.phase is CopyPhase.LOG:
            # It has commits that the other master lacks.
            slave.replica.set_copying(Copying(0, 0, CopyPhase.CLEARING))
        slave.run()
        assert_equal(slave)


@pytest.mark.parametrize("at", [0, -1])
def test_without_readable_progress_everything_is_copied_again(at: int) -> None:
    slave = Slave(MemoryDisk(), master(), 1).begin()
    total = sum(file.bytes for file in master().counted.values())
    stop_after(slave, total // 2)
    slave.disk.names[f"{ROOT}/copied"].content[at] ^= 1
    slave = Slave(slave.disk, master(), 2)
    slave.run()
    assert_equal(slave)
    assert slave.read_bytes == total
