"""What the store of one of several members does, and what only that of an only member may do."""

import pytest

from delay_node.recovery import open_store
from delay_node.store import DelayStore
from qmq.errors import LogError
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.delay_driver import ROOT, DelayDriver
from tests.support.drivers.delay_states import state_of


def opened(disk: MemoryDisk, member: MemberOpening | None) -> DelayStore:
    return open_store(disk, ROOT, segment_bytes=32 * 1024, handles=HandleCache(disk), member=member)[0]


def test_a_rejected_record_gives_its_subject_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """T6: members number subjects in the order of the log."""
    driver = DelayDriver(MemoryDisk(), 1)
    driver.send("orders", 2)
    driver.commit()

    def reject(*_: object) -> int:
        raise LogError("no space")

    with monkeypatch.context() as patch:
        patch.setattr(driver.store.log.gather, "append", reject)
        with pytest.raises(LogError, match="no space"):
            driver.send("mail", 2)
    assert driver.store.subjects.names == ["orders"]
    driver.send("bills", 1)
    driver.commit()
    again = opened(driver.disk.after_kill(), MemberOpening(driver.store.log.high_watermark))
    assert again.subjects.names == ["orders", "bills"]


def test_without_a_checkpoint_only_an_only_member_salvages_hours() -> None:
    """T4: another member has the whole hours: what is lost here is copied."""
    driver = DelayDriver(MemoryDisk(), 4)
    while driver.store.log.begin == 0:
        driver.step()
    driver.commit()
    disk = driver.disk.after_kill()
    for path in [path for path in disk.names if "/checkpoint/" in path]:
        disk.remove(path)
    files = {path: bytes(inode.content) for path, inode in disk.names.items()}
    member = opened(disk, MemberOpening(0))
    assert "no checkpoint can be read" in str(member.log.failed)
    assert {path: bytes(inode.content) for path, inode in disk.names.items()} == files
    alone = opened(disk, None)
    assert alone.log.failed is None
    assert state_of(alone)["totals"] == state_of(driver.store)["totals"]


def test_one_of_several_members_fills_no_numbers() -> None:
    """T4: a log that lacks a commit is damaged. What it held is on another member's disk."""
    driver, ends = DelayDriver(MemoryDisk(), 11, segment_bytes=1 << 20), []
    for _ in range(30):
        driver.send("orders", 3)
        driver.commit()
        ends.append(driver.store.log.written_end)
    disk = driver.disk.after_kill()
    (path,) = [path for path in disk.names if "/log/" in path]
    disk.names[path].content[ends[9] + 100] ^= 0x40
    assert "are missing in the log" in str(opened(disk, MemberOpening(ends[-1])).log.failed)
    assert opened(disk, None).log.failed is None


def test_a_slave_that_meets_missing_numbers_applies_no_more() -> None:
    driver = DelayDriver(MemoryDisk(), 11)
    driver.send("orders", 3)
    driver.commit()
    store = opened(driver.disk.after_kill(), MemberOpening(0))
    hour = store.hours.make(1)
    with pytest.raises(LogError, match="hour 1: 5 messages from number 0 on are missing"):
        store.placer._fill(hour, 5)
