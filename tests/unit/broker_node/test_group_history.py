"""Every reader of a group's history gets all actions, although entries are encoded later."""

import pytest

from broker_node.recovery.open_store import open_store
from broker_node.storage import subject as subject_module
from broker_node.storage.actions import RecordKind
from broker_node.storage.progress_log import PROGRESS_ENTRY, PROGRESS_ENTRY_BYTES
from broker_node.storage.subject import Group
from broker_node.storage.subject_table import StoreLimits
from qmq.protocol.commands import AckRequest, PullRequest
from qmq_node.log.handles import HandleCache
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver


def pulling(pulls: int) -> tuple[StoreDriver, Group]:
    """A group on which one consumer pulled one message after the other, without a commit between."""
    driver = StoreDriver(MemoryDisk(), 1)
    group = driver.store.start_group(driver.store.subject("orders"), GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    driver.send("orders", pulls)
    driver.commit()
    for _ in range(pulls):
        last = group.progress.next_sequence - 1
        assert driver.delivery.pull(PullRequest("orders", GROUP, "c1", 1, -1, last, 0, False)).raws
    return driver, group


def entries(group: Group) -> list[tuple[int, int]]:
    """(kind, position after it) of each entry."""
    data = group.history.read(0, group.history.end)
    rows = (PROGRESS_ENTRY.unpack_from(data, at) for at in range(0, len(data), PROGRESS_ENTRY_BYTES))
    return [(row[5], row[4]) for row in rows]


def test_an_entry_has_the_position_of_its_own_time() -> None:
    driver, group = pulling(3)
    for n in range(3):
        driver.delivery.acks.ack(AckRequest("orders", GROUP, "c1", n, n, False))
    driver.send("orders", 1)
    driver.commit()
    driver.delivery.pull(PullRequest("orders", GROUP, "c1", 1, -1, 2, 0, False))
    pulls, acks = [(RecordKind.PULL, n) for n in (1, 2, 3)], [(RecordKind.ACK, 3)] * 3
    expected = [(RecordKind.START, 0), *pulls, *acks, (RecordKind.PULL, 4)]
    assert entries(group) == expected
    driver.store.write_histories()
    assert entries(group) == expected, "once"
    driver.store.forget_group(driver.store.subjects["orders"], group)
    assert entries(group) == [*expected, (RecordKind.FORGET, -1)]


def test_histories_are_written_before_a_group_has_noted_too_many_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_module, "NOTED_MAX", 4)
    _, group = pulling(5)
    assert (group._history.end, group.history.end) == (5, 6)


def test_all_groups_are_written_at_once() -> None:
    driver, group = pulling(2)
    other = driver.store.start_group(driver.store.subject("mail"), GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    driver.store.write_histories()
    assert (group._history.end, other._history.end) == (3, 1)


def test_the_groups_of_a_start_after_a_kill_have_nothing_left_to_write() -> None:
    driver, _ = pulling(5)
    driver.commit()
    handles = HandleCache(driver.disk, clock=driver.clock)
    store, report = open_store(
        driver.disk, ROOT, driver.clock, limits=StoreLimits(), segment_bytes=driver.segment_bytes, handles=handles
    )
    assert report.replayed_commits
    assert store.subjects["orders"].groups[GROUP]._history.end == 6
