"""Index pages that the disk can't read: repaired from the log by whole-page writes, or withheld; neighbours stay as they are."""

import asyncio
import errno
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_node.reads.filters import tag_match
from broker_node.reads.index_repair import DamagedEntries
from broker_node.retention.retention_clock import RetentionClock
from broker_node.retention.subject_retention import HistoryRetention, SubjectRetention
from broker_node.storage import progress_log
from broker_node.storage.consume_log import ENTRY_BYTES, find_offset, find_time
from broker_node.storage.subject import Subject
from broker_node.storage.subject_table import StorePaths
from qmq.protocol.commands import PullRequest, TagFilter
from qmq.protocol.messages import KEY_CREATED, Message, decode_raw, encode_entry
from qmq.protocol.scan import BatchScanner
from qmq_node.log import unreadable_pages
from qmq_node.log.disk import SystemDisk
from qmq_node.log.handles import HandleCache
from qmq_node.log.index import DenseIndex
from qmq_node.log.unreadable_pages import PAGE_BYTES, RETRY_SECONDS, RETRY_SECONDS_MAX, UnreadablePages
from qmq_node.policy import NodePolicy, SubjectPolicy
from tests.support.disks.disk_work import complete, read_and_repair, read_once, repeat
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.indexes import flush, read_entries
from tests.support.drivers.store_driver import GROUP, ROOT, StoreDriver, walks
from tests.support.manual_clock import ManualClock

PAGE_ENTRIES = PAGE_BYTES // ENTRY_BYTES
COUNT = 2 * PAGE_ENTRIES + 44
"""Two full pages and a part of a third."""
PATHS = StorePaths(ROOT)


def filled(count: int = COUNT, segment_bytes: int = 1 << 20) -> StoreDriver:
    """A subject with this many messages, its index on disk and checkpointed."""
    driver = StoreDriver(MemoryDisk(), 1, segment_bytes=segment_bytes)
    driver.store.start_group(driver.store.subject("orders"), GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    while driver.store.subject("orders").next_sequence < count:
        driver.send("orders", min(20, count - driver.store.subject("orders").next_sequence))
        driver.commit()
    driver.checkpoint()
    return driver


def subject_of(driver: StoreDriver) -> Subject:
    return driver.store.subjects["orders"]


def index_path(driver: StoreDriver) -> str:
    (path,) = [path for path in driver.disk.names if path.startswith(PATHS.consume)]
    return path


def break_page(driver: StoreDriver, page: int) -> bytes:
    """Make a page of the index unreadable and its bytes random; what the index held before."""
    content = driver.disk.names[index_path(driver)].content
    right = bytes(content)
    garbage = random.Random(page).randbytes(PAGE_BYTES)
    content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = garbage[: len(right) - page * PAGE_BYTES]
    driver.disk.break_pages(index_path(driver), page * PAGE_BYTES, page * PAGE_BYTES + 1)
    return right


def pulled(driver: StoreDriver, consumer: str = "c") -> list[str]:
    """All messages that are there for a consumer, in pulls of 50."""
    found: list[str] = []
    last = -1
    while True:
        answer = driver._pulled(driver.delivery, PullRequest("orders", GROUP, consumer, 50, -1, last, 0, False))
        if not answer.raws and not answer.has_more:
            return found
        found += [decode_raw(raw)[0].message_id for raw in answer.raws]
        last = answer.pull_begin + len(answer.raws) - 1 if answer.raws else last


def all_messages(driver: StoreDriver) -> list[str]:
    """The ids of all messages, "" for one withheld."""
    subject = subject_of(driver)
    raws = read_and_repair(driver.store, subject, 0, subject.visible_end)
    return [decode_raw(raw)[0].message_id if raw is not None else "" for raw in raws]


def ids(*ranges: range) -> list[str]:
    return [f"m{n}" for part in ranges for n in part]


def fail_at(what: str, path_part: str) -> Callable[[str, str], OSError | None]:
    def fail(step: str, path: str) -> OSError | None:
        return OSError(errno.EIO, "Input/output error") if step == what and path_part in path else None

    return fail


@pytest.mark.parametrize("page", [0, 1, 2])
def test_an_unreadable_page_is_repaired_from_the_log(page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, begins = filled(), walks(monkeypatch)
    right = break_page(driver, page)
    assert pulled(driver) == ids(range(COUNT))
    assert bytes(driver.disk.names[index_path(driver)].content) == right
    assert not driver.disk.unreadable_pages
    assert len(begins) == 1
    assert driver.store.counters.repaired_entries == min(PAGE_ENTRIES, COUNT - page * PAGE_ENTRIES)
    assert not driver.store.withheld
    assert len(driver.store.handles.unreadable) == 0


def test_the_page_is_durable_once_it_is_repaired() -> None:
    driver = filled()
    right = break_page(driver, 1)
    assert len(pulled(driver)) == COUNT
    after = driver.disk.after_power_cut()
    assert bytes(after.names[index_path(driver)].content) == right


def test_each_read_of_the_event_loop_meets_one_read_error_at_most() -> None:
    driver = filled(8 * PAGE_ENTRIES)
    for page in range(1, 7):
        break_page(driver, page)
    index = subject_of(driver).consume_log
    for _ in range(3):
        index.read(0, 8 * PAGE_ENTRIES)
        assert driver.disk.read_errors == 1
    assert pulled(driver) == ids(range(8 * PAGE_ENTRIES))


def test_pages_beside_an_unreadable_one_are_not_written() -> None:
    driver = filled()
    right = break_page(driver, 1)
    content = driver.disk.names[index_path(driver)].content
    # A damaged entry beside, which no pull has met yet, shows whether the page was written.
    content[5] ^= 1
    subject = subject_of(driver)
    subject.consume_log.read(0, COUNT)
    damaged = DamagedEntries(driver.store, subject, [PAGE_ENTRIES])
    complete(damaged)
    assert content[5] == right[5] ^ 1
    assert content[PAGE_BYTES:] == right[PAGE_BYTES:]


def test_a_passing_read_error_changes_nothing() -> None:
    driver = filled()
    content = bytes(driver.disk.names[index_path(driver)].content)
    failures = [OSError(errno.EIO, "Input/output error")]
    driver.disk.fail_read = lambda path, *_: failures.pop() if PATHS.consume in path and failures else None
    writes: list[str] = []
    driver.disk.observe = lambda what, path: writes.append(path) if what == "write" else None
    assert pulled(driver) == ids(range(COUNT))
    assert not failures
    assert not [path for path in writes if PATHS.consume in path]
    assert bytes(driver.disk.names[index_path(driver)].content) == content
    assert not driver.store.withheld
    assert driver.store.counters.repaired_entries == 0


@pytest.mark.parametrize("reason", ["write", "sync", "worn out"])
def test_a_page_that_can_not_be_written_is_withheld_and_tried_again_later(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = filled()
    break_page(driver, 1)
    driver.disk.is_worn_out = reason == "worn out"
    driver.disk.fail = None if driver.disk.is_worn_out else fail_at(reason, PATHS.consume)
    driver.disk.is_worn_out |= reason == "sync"
    begins, store, subject = walks(monkeypatch), driver.store, subject_of(driver)
    assert pulled(driver) == ids(range(PAGE_ENTRIES), range(2 * PAGE_ENTRIES, COUNT))
    assert len(begins) == 1
    errors = driver.disk.read_errors
    for _ in range(20):
        raws = read_and_repair(store, subject, 0, COUNT)
        assert [raw is None for raw in raws] == [n // PAGE_ENTRIES == 1 for n in range(COUNT)]
    assert (len(begins), driver.disk.read_errors) == (1, errors)
    assert len(store.handles.unreadable) == 1
    attempts, passed = [], 0.0
    while passed < 10 * RETRY_SECONDS:
        driver.clock.advance(10)
        passed += 10
        assert read_and_repair(store, subject, 0, COUNT).count(None) == PAGE_ENTRIES
        if len(begins) > 1 + len(attempts):
            attempts.append(passed)
    assert len(attempts) == 3, attempts
    assert attempts[0] >= RETRY_SECONDS
    assert attempts[2] - attempts[1] > attempts[1] - attempts[0]
    driver.disk.fail, driver.disk.is_worn_out = None, False
    driver.clock.advance(RETRY_SECONDS_MAX)
    assert None not in read_and_repair(store, subject, 0, COUNT)
    assert len(store.handles.unreadable) == 0


def test_messages_that_the_log_lost_too_are_withheld_once_and_the_rest_of_the_page_is_repaired(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    driver = filled()
    (entry,) = read_entries(subject_of(driver).consume_log, PAGE_ENTRIES + 10, PAGE_ENTRIES + 11)
    break_page(driver, 1)
    driver.disk.fail = fail_at("write", PATHS.consume)
    (path,) = [path for path in driver.disk.names if path.startswith(f"{PATHS.log}/")]
    driver.disk.break_pages(path, entry.log_offset, entry.log_offset + 1)
    begins = walks(monkeypatch)
    assert len(pulled(driver, "c0")) == COUNT - PAGE_ENTRIES
    driver.disk.fail = None
    driver.clock.advance(RETRY_SECONDS)
    got = [one for one in all_messages(driver) if one]
    lost = set(ids(range(COUNT))) - set(got)
    assert f"m{PAGE_ENTRIES + 10}" in lost
    assert len(lost) < PAGE_ENTRIES
    assert got == [one for one in ids(range(COUNT)) if one not in lost]
    assert driver.store.withheld <= {("orders", int(one[1:])) for one in lost}
    assert driver.store.counters.withheld_messages == len(driver.store.withheld) > 0
    all_messages(driver)
    assert len(begins) == 2
    assert driver.store.counters.withheld_messages == len(driver.store.withheld)
    assert not [key for key in driver.disk.unreadable_pages if PATHS.consume in key[0]]
    assert sum("withheld" in record.getMessage() and "subject" in record.getMessage() for record in caplog.records) == 1


def test_a_page_of_which_the_log_has_nothing_is_not_written_and_looked_for_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = filled()
    break_page(driver, 1)
    (path,) = [path for path in driver.disk.names if path.startswith(f"{PATHS.log}/")]
    driver.disk.break_pages(path, 0, len(driver.disk.names[path].content))
    begins = walks(monkeypatch)
    subject = subject_of(driver)
    for begin in range(PAGE_ENTRIES, 2 * PAGE_ENTRIES, 8):
        assert read_and_repair(driver.store, subject, begin, begin + 8) == [None] * 8
    assert len(begins) == 1
    assert driver.store.withheld == {("orders", n) for n in range(PAGE_ENTRIES, 2 * PAGE_ENTRIES)}
    assert driver.disk.unreadable_pages >= {(index_path(driver), 1)}


def test_what_is_not_synced_is_not_written_into_the_last_page() -> None:
    driver = filled()
    right = break_page(driver, 2)
    driver.send("orders", 30)
    assert subject_of(driver).next_sequence == COUNT + 30
    assert pulled(driver) == ids(range(COUNT))
    assert bytes(driver.disk.names[index_path(driver)].content) == right
    driver.commit()
    driver.checkpoint()
    assert len(driver.disk.names[index_path(driver)].content) == (COUNT + 30) * ENTRY_BYTES
    assert None not in read_and_repair(driver.store, subject_of(driver), 0, COUNT + 30)


@pytest.mark.parametrize("is_passing", [True, False])
def test_entries_that_are_flushed_into_the_page_during_its_repair_stay(is_passing: bool) -> None:
    driver = filled()
    content = driver.disk.names[index_path(driver)].content
    before = bytes(content)
    break_page(driver, 2)
    index = subject_of(driver).consume_log
    index.read(0, COUNT)
    repair = DamagedEntries(driver.store, subject_of(driver), [COUNT - 1])
    repair.read()
    if is_passing:
        driver.disk.unreadable_pages.clear()
        content[:] = before
    driver.send("orders", 10)
    driver.commit()
    flush(index)
    flushed = bytes(content[COUNT * ENTRY_BYTES :])
    assert len(flushed) == 10 * ENTRY_BYTES
    repair.finish()
    assert bytes(content[COUNT * ENTRY_BYTES :]) == flushed
    assert pulled(driver) == ids(range(COUNT + 10))
    assert not driver.store.withheld


def test_a_repair_that_ends_after_retention_took_the_page_changes_nothing() -> None:
    driver = filled()
    break_page(driver, 0)
    index = subject_of(driver).consume_log
    index.read(0, COUNT)
    repair = DamagedEntries(driver.store, subject_of(driver), list(range(5)))
    repair.read()
    index.start_at(1000)
    assert repair.finish() is None
    assert not driver.store.withheld
    assert driver.store.counters.repaired_entries == 0


def test_messages_that_retention_deletes_during_a_repair_are_not_lost_to_damage() -> None:
    driver = filled(segment_bytes=32 * 1024)
    store, subject = driver.store, subject_of(driver)
    (entry,) = read_entries(subject.consume_log, 5, 6)
    driver.disk.names[f"{ROOT}/log/{0:020d}"].content[entry.log_offset + entry.size // 2] ^= 1
    repair = DamagedEntries(store, subject, [5])
    repair.read()
    store.log.hide_before(store.log.stored.segments()[0].end)
    assert repair.finish() is repair, "where the subject begins now is searched in the thread"
    complete(repair)
    assert subject.begin > 5
    assert (subject.withheld_count, store.counters.withheld_messages, store.log.stored.damaged) == (0, 0, ())


@pytest.mark.slow
def test_a_crash_at_any_step_of_a_repair_leaves_what_the_next_read_repairs() -> None:
    for page in (1, 2):
        step, crashed = 0, True
        while crashed:
            driver = filled()
            break_page(driver, page)
            driver.disk.crash_at = driver.disk.steps + step
            try:
                read_and_repair(driver.store, subject_of(driver), 0, COUNT)
                crashed = False
            except SimulatedCrash:
                step += 1
            for seed, disk in enumerate(driver.disk.crash_states(5, step)):
                disk.unreadable_pages = set() if seed % 2 else disk.unreadable_pages
                driver.check(disk)
        assert step >= 2


def test_a_filtered_pull_repairs_the_index_before_it_passes_over_messages() -> None:
    driver = StoreDriver(MemoryDisk(), 1, segment_bytes=1 << 20)
    subject = driver.store.subject("orders")
    for n in range(COUNT):
        properties = {KEY_CREATED: "1700000000000", "data": "x"}
        tags = ("a",) if n % 2 else ("b",)
        body = encode_entry(Message("orders", f"m{n}", properties, tags, 0, 1_700_000_000_000, 1_700_000_000_000))
        (run,), _ = BatchScanner().scan(body)
        driver.store.append_run(subject, run, memoryview(body), driver.clock.wall_ms())
    driver.commit()
    driver.checkpoint()
    break_page(driver, 1)
    match = tag_match([TagFilter(1, ("a",))])
    raws = repeat(lambda plan: read_once(driver.store, subject, 0, COUNT, match=match, plan=plan))
    assert [n for n, raw in enumerate(raws) if raw is not None] == list(range(1, COUNT, 2))


def test_times_and_offsets_are_found_although_a_page_is_unreadable() -> None:
    driver = StoreDriver(MemoryDisk(), 1, segment_bytes=1 << 20)
    begin_ms = driver.clock.wall_ms()
    for _ in range(8 * PAGE_ENTRIES):
        driver.send("orders", 1)
        driver.clock.advance(1)
    driver.commit()
    driver.checkpoint()
    log = subject_of(driver).consume_log
    offsets = [entry.log_offset for entry in read_entries(log, 0, log.end)]
    for page in range(8):
        driver.restart()
        break_page(driver, page)
        log = subject_of(driver).consume_log
        for n in (0, 100, 300, 500, 700, 900, log.end - 1):
            if n // PAGE_ENTRIES != page:
                assert find_time(log, begin_ms + 1000 * n) == n, (page, n)
                assert find_offset(log, offsets[n]) == n, (page, n)
        read_and_repair(driver.store, subject_of(driver), 0, log.end)


def test_a_subject_s_own_retention_waits_for_entries_whose_page_can_not_be_repaired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = filled()
    subject = subject_of(driver)
    repairs, read = list[DamagedEntries](), DamagedEntries.read

    def counted(repair: DamagedEntries) -> None:
        repairs.append(repair)
        read(repair)

    monkeypatch.setattr(DamagedEntries, "read", counted)
    retention = SubjectRetention(driver.store, 1000.0, RetentionClock(driver.clock, 1000 * 3_600_000))
    retention.apply(NodePolicy(version=1, subjects={"orders": SubjectPolicy(retention_hours=1.0)}))
    driver.clock.advance(2 * 3600)
    break_page(driver, 0)
    driver.disk.fail = fail_at("write", PATHS.consume)

    asyncio.run(retention.tick())
    assert (len(repairs), subject.begin) == (1, 0)
    for _ in range(3):
        asyncio.run(retention.tick())
    assert (len(repairs), subject.begin) == (1, 0)
    driver.disk.fail = None
    driver.clock.advance(RETRY_SECONDS)
    asyncio.run(retention.tick())
    assert (len(repairs), subject.begin) == (2, COUNT)


# --- start-up and checkpoints -----------------------------------------------------------------------------------------


def derived_pages(disk: MemoryDisk) -> list[tuple[str, int]]:
    return [
        (path, page)
        for path, inode in sorted(disk.names.items())
        if path.startswith((PATHS.consume, PATHS.progress))
        for page in range(-(-len(inode.content) // PAGE_BYTES))
    ]


def test_no_unreadable_page_of_a_derived_file_stops_a_start_or_a_checkpoint() -> None:
    driver = filled()
    for _ in range(200):
        driver.pull("orders", "c1", 1)
        driver.commit()
    driver.checkpoint()
    # Written after the checkpoint: the start cuts it off in the middle of a page.
    driver.send("orders", 10)
    driver.pull("orders", "c1", 8)
    driver.commit()
    for subject in driver.store.subjects.values():
        for index in subject.indexes:
            flush(index)
    before = driver.disk.after_kill()
    broken = derived_pages(before)
    assert len(broken) >= 5
    for key in broken:
        disk = before.after_kill()
        disk.unreadable_pages = {key}
        driver.check(disk)
        driver.disk = before.after_kill()
        driver.disk.unreadable_pages = {key}
        driver.restart()
        assert not driver.recovery.rebuilt
        driver.send("orders", 10)
        driver.commit()
        driver.checkpoint()
        driver.check(driver.disk.after_power_cut())
        driver._number -= 10
        driver.oracle.sent["orders"] = {n: i for n, i in driver.oracle.sent["orders"].items() if n < COUNT + 10}


@pytest.mark.parametrize("seed", range(12))
def test_whatever_pages_become_unreadable_while_a_broker_runs_and_restarts_nothing_is_lost(seed: int) -> None:
    driver = StoreDriver(MemoryDisk(), seed)
    rng = random.Random(seed)
    for _ in range(12):
        driver.run(60)
        driver.commit()
        driver.checkpoint()
        for path, page in rng.sample(pages := derived_pages(driver.disk), min(2, len(pages))):
            content = driver.disk.names[path].content
            part = content[page * PAGE_BYTES : (page + 1) * PAGE_BYTES]
            content[page * PAGE_BYTES : page * PAGE_BYTES + len(part)] = rng.randbytes(len(part))
            driver.disk.unreadable_pages.add((path, page))
        driver.clock.advance(rng.choice((0, RETRY_SECONDS, RETRY_SECONDS_MAX)))
        if rng.random() < 0.5:
            driver.restart()
            assert not driver.recovery.rebuilt
    driver.commit()
    assert driver.disk.read_errors > 0
    driver.check(driver.disk.after_kill())
    driver.checkpoint()
    driver.check(driver.disk.after_power_cut())
    assert not driver.store.withheld


# --- histories --------------------------------------------------------------------------------------------------------


def test_a_history_s_times_are_found_behind_an_unreadable_page() -> None:
    driver = filled()
    begin_ms = driver.clock.wall_ms()
    for _ in range(COUNT):
        driver.clock.advance(1)
        driver.pull("orders", "c1", 1)
        driver.commit()
    driver.checkpoint()
    history = subject_of(driver).groups[GROUP].history
    times = [progress_log.time_of(history, n) for n in range(history.end)]
    assert times[10] == begin_ms + 10_000
    (path,) = [path for path in driver.disk.names if path.startswith(PATHS.progress)]
    driver.disk.break_pages(path, PAGE_BYTES, 2 * PAGE_BYTES)
    hole = range(PAGE_BYTES // 48, -(-2 * PAGE_BYTES // 48))
    for n in range(0, history.end, 7):
        if n not in hole:
            assert progress_log.find_time(history, begin_ms + 1000 * n) == n
            assert progress_log.time_of(history, n) == times[n]
        else:
            assert progress_log.time_of(history, n) is None
            assert progress_log.time_from(history, n) == times[hole.stop]


def test_a_file_of_a_history_is_not_old_because_its_last_entry_is_unreadable(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = StoreDriver(MemoryDisk(), 1)
    group = driver.store.start_group(driver.store.subject("orders"), GROUP, "", 0, False, 0)  # type: ignore[arg-type]
    group._history = DenseIndex(driver.store.handles, "history", progress_log.PROGRESS_ENTRY_BYTES, segment_entries=10)
    for _ in range(25):
        driver.send("orders", 1)
        driver.commit()
        driver.pull("orders", "c1", 1)
    flush(group.history)
    assert len(group.history.firsts) > 1
    retention = HistoryRetention(driver.store, 1.0, RetentionClock(driver.clock, 3_600_000))
    first = f"history/{0:020d}"
    driver.disk.break_pages(first, 0, 1)
    asyncio.run(retention.tick())
    assert group.history.begin == 0
    driver.clock.advance(2 * 3600)
    asyncio.run(retention.tick())
    assert group.history.begin == 20


# --- the index itself -------------------------------------------------------------------------------------------------


def test_a_page_is_counted_from_the_begin_of_its_file() -> None:
    disk = MemoryDisk()
    index = DenseIndex(HandleCache(disk), "index", 32, segment_entries=300)
    index.start_at(77)
    assert index.page_of(80) == range(77, 205)
    index.append(bytes(32 * 1000))
    flush(index)
    assert index.page_of(77) == range(77, 205)
    assert index.page_of(204) == range(77, 205)
    assert index.page_of(340) == range(333, 377), "the last page of a file"
    assert index.page_of(377) == range(377, 505)
    assert index.page_of(1200) == range(1105, 1233)


def test_a_flush_behind_an_unreadable_page_writes_it_whole_and_nothing_else() -> None:
    disk = MemoryDisk()
    index = DenseIndex(HandleCache(disk), "index", 32)
    index.append(b"a" * 32 * 200)
    flush(index)
    (path,) = disk.names
    disk.break_pages(path, PAGE_BYTES, PAGE_BYTES + 1)
    index.append(b"b" * 32 * 300)
    flush(index)
    content = bytes(disk.names[path].content)
    assert content == b"a" * PAGE_BYTES + bytes(32 * 72) + b"b" * 32 * 300
    assert index._handles.unsynced == {path}


def test_a_rewritten_page_is_checked_on_a_real_file_system(tmp_path: Path) -> None:
    disk = SystemDisk()
    handles = HandleCache(disk)
    index = DenseIndex(handles, str(tmp_path / "index"), 32)
    index.append(b"a" * 32 * 200)
    flush(index)
    (path,) = handles.unsynced
    handles.unreadable.add(path, range(1, 2), OSError(errno.EIO, "Input/output error"), is_checked=True)
    page = index.rewrite_page(dict.fromkeys(range(128, 200), b"b" * 32))
    assert page is not None
    page.sync_and_read_back()
    assert Path(path).read_bytes() == b"a" * PAGE_BYTES + b"b" * 32 * 72
    assert index.read(0, 200) == b"a" * PAGE_BYTES + b"b" * 32 * 72
    index.start_at(0)
    page.sync_and_read_back()


def test_a_failed_write_is_not_taken_for_an_unreadable_page() -> None:
    disk = MemoryDisk()
    index = DenseIndex(HandleCache(disk), "index", 32)
    index.append(b"a" * 32 * 200)
    flush(index)
    (path,) = disk.names
    index.append(b"b" * 32)
    disk.fail = fail_at("write", "index")
    with pytest.raises(OSError, match="Input/output error"):
        flush(index)
    disk.fail = None
    flush(index)
    assert bytes(disk.names[path].content) == b"a" * 32 * 200 + b"b" * 32


def test_unreadable_pages_are_bounded_logged_with_a_back_off_and_forgotten_with_their_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(unreadable_pages, "PAGES_MAX", 3)
    clock = ManualClock()
    pages, error = UnreadablePages(clock), OSError(errno.EIO, "Input/output error")
    for page in range(5):
        pages.add("a" if page % 2 else "b", range(page, page + 1), error, is_checked=True)
    assert (len(pages), pages.read_errors) == (3, 5)
    assert not pages.has_any("a", range(3))
    assert len(caplog.records) == 1
    clock.advance(unreadable_pages.LOG_INTERVAL_SECONDS)
    pages.add("c", range(1), error, is_checked=True)
    assert "4 such errors were not logged" in caplog.records[-1].getMessage()
    pages.forget("c")
    assert len(pages) == 2


def test_the_pause_before_the_next_read_of_a_page_doubles_up_to_a_limit() -> None:
    clock = ManualClock()
    pages, pauses = UnreadablePages(clock), []
    for _ in range(10):
        pages.add("a", range(1), OSError(errno.EIO, "Input/output error"), is_checked=True)
        pause = 0
        while pages.is_skipped("a", 0, may_wait=False):
            clock.advance(RETRY_SECONDS)
            pause += 1
        pauses.append(pause * RETRY_SECONDS)
    assert pauses[:4] == [RETRY_SECONDS * factor for factor in (1, 2, 4, 8)]
    assert set(pauses[6:]) == {RETRY_SECONDS_MAX}
