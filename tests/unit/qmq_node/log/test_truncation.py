"""What a truncation refuses, and what a damaged record leads to."""

import pytest

from qmq.errors import LogError
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.truncation import Truncation, TruncationFile, finish_truncation
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.delay_driver import DelayDriver
from tests.support.drivers.logs import drop_before
from tests.support.drivers.store_driver import ROOT, StoreDriver
from tests.unit.qmq_node.log.logs import opened, written


def three_commits(disk: MemoryDisk) -> tuple[SegmentedLog, list[int]]:
    log, _ = opened(disk)
    return log, [written(log) for _ in range(3)]


def to(log: SegmentedLog, end: int) -> Truncation:
    return Truncation(end, log.crc_at(end) or 0, 2, "p-2")


def test_a_truncated_log_is_closed_and_opens_at_its_new_end() -> None:
    disk = MemoryDisk()
    log, ends = three_commits(disk)
    log.truncate(to(log, ends[0]), high_watermark=0, checkpoint_offset=ends[0])
    with pytest.raises(LogError, match="it has to be opened again"):
        log.gather.append(1, b"x")
    again, found = opened(disk)
    assert (again.written_end, len(found), again.stored.damaged) == (ends[0], 1, ())


def test_acknowledged_data_is_never_truncated() -> None:
    disk = MemoryDisk()
    log, ends = three_commits(disk)
    log.watermark.confirm(ends[1])
    last = to(log, ends[2])
    for wrong, known, checkpoint, why in (
        (
            to(log, ends[0]),
            0,
            0,
            f"to offset {ends[0]}, below the high watermark {ends[1]}: acknowledged data would be lost",
        ),
        (to(log, ends[1]), ends[2], 0, f"to offset {ends[1]}, below the high watermark {ends[2]}"),
        (to(log, ends[1]), 0, ends[2], f"below the checkpoint at {ends[2]}"),
        (Truncation(ends[2], last.crc ^ 1, 2, "p"), 0, 0, f"CRC {last.crc ^ 1} would have to end; found: {last.crc}"),
        (Truncation(ends[2] - 1, 7, 2, "p"), 0, 0, "where a commit with CRC 7 would have to end; found: None"),
        (Truncation(ends[2] + 64, 7, 2, "p"), 0, 0, "where a commit with CRC 7 would have to end; found: None"),
    ):
        steps = disk.steps
        with pytest.raises(LogError, match=why) as refused:
            log.truncate(wrong, high_watermark=known, checkpoint_offset=checkpoint)
        assert (refused.value.code, disk.steps, log.failed) == ("log.not_truncated", steps, None)


def test_a_log_whose_first_segments_are_gone_is_not_emptied() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    for _ in range(2):
        log.gather.append(1, bytes(log.gather.record_bytes_max))
        taken = log.gather.take()
        assert taken is not None
        log.writer.write(taken)
        log.complete(taken, is_confirmed=False)
    drop_before(log, log.stored.segments()[1].base)
    with pytest.raises(LogError, match=f"to offset 0, because it begins at {log.begin}"):
        log.truncate(Truncation(0, 0, 2, "p"), high_watermark=0, checkpoint_offset=0)


def test_a_log_is_not_read_while_a_truncation_is_incomplete() -> None:
    disk = MemoryDisk()
    log, ends = three_commits(disk)
    TruncationFile(disk, "log").save(to(log, ends[1]))
    with pytest.raises(LogError, match=f"truncation of the log in log to offset {ends[1]} is not complete") as refused:
        inspect(disk, "log", visit=lambda _: None)
    assert refused.value.code == "log.truncating"
    assert finish_truncation(disk, "log") == to(log, ends[1])
    assert finish_truncation(disk, "log") is None
    assert opened(disk)[0].written_end == ends[1]


@pytest.mark.parametrize("content", [b"", b"nonsense", b"x" * 5000])
def test_a_record_that_can_not_be_read_stops_the_node_and_says_what_to_do(content: bytes) -> None:
    disk = MemoryDisk()
    three_commits(disk)
    disk.create("./log.truncation", 0).pwritev([content], 0)
    for read in (lambda: finish_truncation(disk, "log"), lambda: opened(disk)):
        with pytest.raises(LogError, match=r"log.truncation can't be read: .*move the data folder away") as refused:
            read()
        assert refused.value.code == "log.truncation_unreadable"


def test_a_record_of_another_log_is_not_carried_out() -> None:
    for crc_change, end_change in ((1, 0), (0, 1), (0, 10_000)):
        disk = MemoryDisk()
        log, ends = three_commits(disk)
        right = to(log, ends[1])
        TruncationFile(disk, "log").save(Truncation(right.end + end_change, right.crc ^ crc_change, 2, "p"))
        with pytest.raises(LogError, match="the record belongs to another log"):
            finish_truncation(disk, "log")
        assert inspect_without_record(disk) == ends[2]
    disk = MemoryDisk()
    TruncationFile(disk, "log").save(Truncation(0, 0, 2, "p"))
    with pytest.raises(LogError, match="the record belongs to another log"):
        finish_truncation(disk, "log")


def inspect_without_record(disk: MemoryDisk) -> int:
    TruncationFile(disk, "log").remove()
    return opened(disk)[0].written_end


@pytest.mark.parametrize("kind", [StoreDriver, DelayDriver])
def test_a_store_completes_a_truncation_before_it_reads_anything(kind: type[StoreDriver] | type[DelayDriver]) -> None:
    driver = kind(MemoryDisk(), 1)
    driver.send("orders", 2)
    driver.commit()
    log = driver.store.log
    end = log.gather.records_end
    target = to(log, end)
    driver.send("orders", 2)
    driver.commit()
    TruncationFile(driver.disk, f"{ROOT}/log").save(target)
    opened_again = driver._open(driver.disk)
    store = opened_again[0] if isinstance(opened_again, tuple) else opened_again
    assert store.log.written_end == end
