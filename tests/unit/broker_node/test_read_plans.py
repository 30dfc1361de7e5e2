"""Reads that would wait for the disk: what is read in a thread, what of it a request takes, and what is searched there."""

import pytest

from broker_node.reads import message_reader
from broker_node.reads.filters import tag_match
from broker_node.reads.message_reader import ReadPlan, Wanted, read_messages
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.oldest_sequence import SubjectBegin, adjust_begin
from broker_node.storage.subject import Subject
from qmq.protocol.commands import PullRequest, TagFilter
from qmq_node.log import stored
from tests.support.disks.disk_work import complete, repeat
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.indexes import read_entries
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver, id_of


def filled(count: int, *, segment_bytes: int = 4 << 20) -> tuple[StoreDriver, Subject]:
    driver = StoreDriver(MemoryDisk(), 1, segment_bytes=segment_bytes)
    for _ in range(count):
        driver.send("orders", 1)
        driver.commit()
    subject = driver.store.subjects["orders"]
    write_index(subject)
    return driver, subject


def write_index(subject: Subject) -> None:
    index = subject.consume_log
    assert index.take()
    index.write()
    index.written()


def plan_of(driver: StoreDriver, subject: Subject, wanted: Wanted) -> ReadPlan:
    with pytest.raises(ReadPlan) as raised:
        read_messages(driver.store, subject, wanted)
    return raised.value


@pytest.mark.parametrize("folder", ["log", "consume"])
def test_a_plan_reads_entries_and_messages_and_serves_the_request_that_is_still_the_same(folder: str) -> None:
    driver, subject = filled(20)
    driver.disk.chill(f"{ROOT}/{folder}/")
    wanted = Wanted(((3, 13),), 10)
    plan = plan_of(driver, subject, wanted)
    complete(plan)
    driver.disk.chill(f"{ROOT}/")
    assert [id_of(bytes(raw or b"")) for raw in read_messages(driver.store, subject, wanted, plan).raws] == [
        f"m{n}" for n in range(3, 13)
    ]
    # More was stored meanwhile, or the consumer may take less.
    assert len(read_messages(driver.store, subject, Wanted(((3, 20),), 17), plan).raws) == 10
    assert len(read_messages(driver.store, subject, Wanted(((3, 13),), 4), plan).raws) == 4
    for other in (
        Wanted(((4, 13),), 10),
        Wanted(((3, 12),), 10),
        Wanted(((1, 2), (3, 13)), 10),
        Wanted(((3, 13),), 10, match=tag_match([TagFilter(1, ("a",))])),
    ):
        with pytest.raises(DiskWork):
            read_messages(driver.store, subject, other, plan)


def test_a_pull_that_others_overtake_reads_again_and_no_message_is_delivered_twice() -> None:
    driver, _ = filled(20)
    driver.delivery.pull(PullRequest("orders", GROUP, "first", 1, -1, -1, 0, False))
    group = driver.store.subjects["orders"].groups[GROUP]
    group.progress.next_sequence = 0
    driver.disk.chill(f"{ROOT}/")
    with pytest.raises(ReadPlan) as raised:
        driver.delivery.pull(PullRequest("orders", GROUP, "slow", 5, -1, -1, 0, False))
    complete(raised.value)
    quick = driver._pulled(driver.delivery, PullRequest("orders", GROUP, "quick", 5, -1, -1, 0, False))
    slow = repeat(
        lambda plan: driver.delivery.pull(
            PullRequest("orders", GROUP, "slow", 5, -1, -1, 0, False), plan=plan or raised.value
        )
    )
    assert [id_of(bytes(raw)) for raw in quick.raws] == [f"m{n}" for n in range(5)]
    assert [id_of(bytes(raw)) for raw in slow.raws] == [f"m{n}" for n in range(5, 10)]


@pytest.mark.parametrize("name", [None, "READ_AHEAD_BYTES", "AHEAD_ENTRIES"])
def test_a_read_in_a_thread_brings_the_next_entries_and_messages_into_memory(
    name: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name is not None:
        monkeypatch.setattr(message_reader, name, 1)
    monkeypatch.setattr(stored, "WARM_BYTES", 1000)
    # Three pages of the index.
    driver, subject = filled(300)
    driver.disk.chill(f"{ROOT}/")
    complete(plan_of(driver, subject, Wanted(((0, 1),), 1)))
    later = Wanted(((200, 260),), 60)
    if name is None:
        assert None not in read_messages(driver.store, subject, later).raws
    else:
        plan_of(driver, subject, later)


def test_a_filter_is_read_in_one_plan_over_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_reader, "SCAN_STEP", 4)
    driver, subject = filled(50)
    driver.disk.chill(f"{ROOT}/")
    wanted = Wanted(((0, 50),), 10, match=tag_match([TagFilter(1, ("a",))]))
    plan = plan_of(driver, subject, wanted)
    complete(plan)
    assert read_messages(driver.store, subject, wanted, plan).raws == [None] * 50


def test_where_a_subject_begins_is_searched_in_a_thread_once_retention_has_removed_segments() -> None:
    driver, subject = filled(200, segment_bytes=16 * 1024)
    log = driver.store.log
    segments = log.stored.segments()
    adjust_begin(driver.store, subject)
    assert (len(segments) > 3, subject.begin) == (True, 0)
    offsets = [entry.log_offset for entry in read_entries(subject.consume_log, 0, 200)]
    log.hide_before(segments[2].base)
    driver.disk.chill(f"{ROOT}/consume/")
    with pytest.raises(SubjectBegin) as raised:
        driver.delivery.pull(PullRequest("orders", GROUP, "c", 1, -1, -1, 0, False))
    assert subject.begin == 0
    complete(raised.value)
    assert subject.begin == next(n for n, offset in enumerate(offsets) if offset >= segments[2].base)
    adjust_begin(driver.store, subject)
