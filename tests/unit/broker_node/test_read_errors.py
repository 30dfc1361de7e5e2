"""Sectors that the disk can't read: messages there are withheld, those before and after are delivered."""

import errno
from collections.abc import Callable

import pytest

from broker_node.reads.message_reader import ReadPlan, Wanted
from broker_node.recovery.checkpoint import CHECKPOINT_NAME
from broker_node.storage import unreadable
from broker_node.storage.consume_log import Entry
from broker_node.storage.unreadable import RETRY_SECONDS, UnreadablePlaces
from qmq.errors import ReadFailed
from qmq.protocol.commands import PullRequest
from qmq.protocol.messages import decode_raw
from qmq_node.log.record import MAGIC_BYTES
from qmq_node.log.window import SECTOR_BYTES
from tests.support.disks.disk_work import complete, read_and_repair
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.indexes import read_entries
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver, walks
from tests.support.manual_clock import ManualClock

BAD = 5
"""The sequence of the message in the bad place."""


def error_at(path_part: str, begin: int, end: int) -> Callable[[str, int, int], OSError | None]:
    """Fail every read that touches bytes [begin, end) of a file."""

    def fail(path: str, offset: int, size: int) -> OSError | None:
        touches = path_part in path and offset < end and offset + size > begin
        return OSError(errno.EIO, "Input/output error") if touches else None

    return fail


def filled(count: int = 10) -> StoreDriver:
    """Messages in a log of one segment, one a commit."""
    driver = StoreDriver(MemoryDisk(), 1, segment_bytes=1 << 20)
    driver.store.start_group(driver.store.subject("orders"), GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    for _ in range(count):
        driver.send("orders", 1)
        driver.commit()
    return driver


def entry(driver: StoreDriver, sequence: int) -> Entry:
    (found,) = read_entries(driver.store.subjects["orders"].consume_log, sequence, sequence + 1)
    return found


def pulled(driver: StoreDriver, consumer: str = "c", last: int = -1) -> list[str]:
    answer = driver._pulled(driver.delivery, PullRequest("orders", GROUP, consumer, 50, -1, last, 0, False))
    return [decode_raw(raw)[0].message_id for raw in answer.raws]


def test_a_message_in_an_unreadable_place_is_withheld_and_the_others_are_delivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, begins = filled(), walks(monkeypatch)
    bad = entry(driver, BAD)
    driver.disk.fail_read = error_at("/log/", bad.log_offset, bad.log_offset + 1)
    assert pulled(driver) == [f"m{n}" for n in range(10) if n != BAD]
    places = driver.store.message_log.unreadable
    assert list(places) == [(bad.log_offset, bad.size)]
    assert (places.read_errors, begins) == (1, [])
    assert not driver.store.withheld


def test_repeated_reads_ask_the_disk_for_an_unreadable_place_once_in_a_while_and_heal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver, begins = filled(), walks(monkeypatch)
    bad, store = entry(driver, BAD), driver.store
    subject, places = store.subjects["orders"], store.message_log.unreadable
    driver.disk.fail_read = error_at("/log/", bad.log_offset, bad.log_offset + 1)
    for _ in range(20):
        raws = read_and_repair(store, subject, 0, 10)
        assert [raw is None for raw in raws] == [n == BAD for n in range(10)]
    assert (places.read_errors, begins) == (1, [])
    driver.clock.advance(RETRY_SECONDS)
    assert read_and_repair(store, subject, BAD, BAD + 1) == [None]
    assert places.read_errors == 2
    driver.disk.fail_read = None
    assert read_and_repair(store, subject, BAD, BAD + 1) == [None]
    driver.clock.advance(RETRY_SECONDS)
    assert None not in read_and_repair(store, subject, 0, 10)
    assert len(places) == 0
    assert begins == []


def test_a_cold_read_that_fails_withholds_its_messages_before_the_pull_is_tried_again() -> None:
    driver = filled()
    bad, log = entry(driver, BAD), driver.store.message_log
    driver.disk.fail_read = error_at("/log/", bad.log_offset, bad.log_offset + 1)
    complete(ReadPlan(driver.store, driver.store.subjects["orders"], Wanted(((0, 10),), 10)))
    assert list(log.unreadable) == [(bad.log_offset, bad.size)]
    reads = driver.disk.reads
    assert len(pulled(driver)) == 9
    assert driver.disk.reads - reads <= 2, "one read on each side of the bad place"


def test_a_damaged_index_entry_is_repaired_though_the_walk_meets_an_unreadable_place() -> None:
    driver = filled(40)
    bad, store = entry(driver, BAD), driver.store
    subject = store.subjects["orders"]
    index = subject.consume_log
    assert entry(driver, 35).log_offset > bad.log_offset + 2 * SECTOR_BYTES
    right = index.read(35, 36)
    index.repair(35, bytes([right[0] ^ 1]) + right[1:])
    driver.disk.fail_read = error_at("/log/", bad.log_offset, bad.log_offset + 1)
    assert pulled(driver) == [f"m{n}" for n in range(40) if n != BAD]
    assert index.read(35, 36) == right


def test_unreadable_places_are_bounded_and_logged_with_a_back_off(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unreadable, "UNREADABLE_MAX", 3)
    clock = ManualClock()
    places = UnreadablePlaces(clock)
    for offset in range(5):
        places.add(offset * 100, 10, ReadFailed("EIO"))
    assert list(places) == [(200, 10), (300, 10), (400, 10)]
    assert len(caplog.records) == 1
    clock.advance(unreadable.LOG_INTERVAL_SECONDS)
    places.add(400, 10, ReadFailed("EIO"))
    assert len(caplog.records) == 2
    assert "4 read errors were not logged" in caplog.records[-1].getMessage()
    places.forget_before(400)
    assert list(places) == [(400, 10)]


# --- start-up ---------------------------------------------------------------------------------------------------------


def commits(driver: StoreDriver) -> list[int]:
    """Where the log's commits begin, in its only segment."""
    (path,) = [path for path in driver.disk.names if "/log/" in path]
    content = bytes(driver.disk.names[path].content)
    places = []
    at = content.find(MAGIC_BYTES)
    while at >= 0:
        places.append(at)
        at = content.find(MAGIC_BYTES, at + 1)
    return places


@pytest.mark.parametrize("with_checkpoint", [True, False])
def test_recovery_that_meets_a_read_error_stops_with_a_clear_error_and_changes_nothing(with_checkpoint: bool) -> None:
    driver = filled()
    needed_from = 0
    if with_checkpoint:
        driver.checkpoint()
        needed_from = driver.store.log.watermark.position.offset
        for _ in range(4):
            driver.send("orders", 1)
            driver.commit()
    places = [at for at in commits(driver) if at >= needed_from]
    checked = 0
    for at in places:
        for begin in (at, at + 70):
            disk = driver.disk.after_kill()
            before = {path: bytes(disk.names[path].content) for path in disk.names if "/log/" in path}
            disk.fail_read = error_at("/log/", begin, begin + 1)
            if begin >= driver.store.log.written_end:
                continue
            checked += 1
            with pytest.raises(ReadFailed, match=r"log offset \d+.*Input/output error"):
                driver._open(disk)
            assert {path: bytes(disk.names[path].content) for path in before} == before
            disk.fail_read = None
            # A passing error: the next start finds everything.
            driver.check(disk)
    assert checked >= 4


def test_a_read_error_below_the_checkpoint_does_not_stop_the_start() -> None:
    driver = StoreDriver(MemoryDisk(), 3, segment_bytes=8192)
    while driver.store.log.written_end < 3 * 8192:
        driver.send("orders", 3)
        driver.commit()
    driver.checkpoint()
    disk = driver.disk.after_kill()
    assert any(f"/checkpoint/{CHECKPOINT_NAME}" in path for path in disk.names)
    disk.fail_read = error_at(f"{ROOT}/log/{0:020d}", 0, 8192)
    store, _, _ = driver._open(disk)
    assert not store.log.stored.damaged
    subject = store.subjects["orders"]
    raws = read_and_repair(store, subject, 0, subject.visible_end)
    assert None in raws
    assert len(raws) - raws.count(None) > 0
    tail = store.log.watermark.tails[0]
    assert tail == driver.store.log.watermark.tails[0]
