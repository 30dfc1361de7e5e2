"""Limits lowered below what is stored: they apply to new ones only, and never stop a start."""

import pytest

from broker_node.recovery.open_store import open_store
from broker_node.storage.actions import StartReason
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import LimitReached, StoreLimits
from qmq_node.log.handles import HandleCache
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.store_driver import ROOT, StoreDriver


def reopened(driver: StoreDriver, limits: StoreLimits, *, with_checkpoint: bool) -> MessageStore:
    if with_checkpoint:
        driver.checkpoint()
    disk = driver.disk.after_kill()
    handles = HandleCache(disk)
    return open_store(disk, ROOT, driver.clock, limits=limits, segment_bytes=1 << 20, handles=handles)[0]


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_more_subjects_than_the_limit_are_all_recovered(
    with_checkpoint: bool, caplog: pytest.LogCaptureFixture
) -> None:
    driver = StoreDriver(MemoryDisk(), 1)
    for name in ("a", "b", "c", "d"):
        driver.send(name, 2)
    driver.commit()
    store = reopened(driver, StoreLimits(subjects_max=2), with_checkpoint=with_checkpoint)
    assert {name: subject.visible_end for name, subject in store.subjects.items()} == dict.fromkeys("abcd", 2)
    assert store.subject("d") is store.subjects["d"]
    with pytest.raises(LimitReached, match="subjects_max"):
        store.subject("e")
    assert "4 subjects are stored, more than subjects_max (2)" in caplog.text


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_more_groups_than_the_limit_are_all_recovered(with_checkpoint: bool) -> None:
    driver = StoreDriver(MemoryDisk(), 1)
    subject = driver.store.subject("orders")
    for name in ("f", "g", "h"):
        driver.store.start_group(subject, name, "", 0, False, StartReason.RESET)
    driver.commit()
    store = reopened(driver, StoreLimits(groups_per_subject_max=1), with_checkpoint=with_checkpoint)
    subject = store.subjects["orders"]
    assert list(subject.groups) == ["f", "g", "h"]
    store.start_group(subject, "g", "", 0, False, StartReason.RESET)
    with pytest.raises(LimitReached, match="groups_per_subject_max"):
        store.start_group(subject, "i", "", 0, False, StartReason.RESET)
