"""Formats: records of the log, schedule and dispatch entries, files that grow."""

import errno
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delay_node import checkpoint
from delay_node.records import (
    Action,
    Ended,
    Moved,
    RecordKind,
    Scheduled,
    decode_record,
    encode_action,
    encode_ended,
    encode_moved_head,
    encode_scheduled_head,
)
from delay_node.schedule_log import INDEX_BYTES, DispatchLog, checks_of, hour_name, hour_number, is_valid, make_index
from qmq.errors import LogError
from qmq.protocol.messages import FLAG_DELAY, KEY_SCHEDULE, Message, encode_entry, redate_entry
from qmq.protocol.scan import BatchScanner
from qmq_node.log import append_file
from qmq_node.log.append_file import AppendFile
from qmq_node.log.disk import SystemDisk
from qmq_node.log.handles import HandleCache
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk
from tests.support.drivers.delay_driver import DelayDriver
from tests.support.drivers.wire import decode_entries

times = st.integers(0, (1 << 62) - 1)
refs = st.integers(0, (1 << 63) - 1)


@given(st.text(min_size=1, max_size=30), times, st.lists(st.tuples(times, st.integers(0, (1 << 32) - 1)), max_size=9))
def test_scheduled_records_come_back(subject: str, at_ms: int, places: list[tuple[int, int]]) -> None:
    try:
        subject.encode()
    except UnicodeEncodeError:
        return
    dues, numbers = [due for due, _ in places], [number for _, number in places]
    payload = encode_scheduled_head(subject, at_ms, dues, numbers) + b"entries"
    record = decode_record(0, RecordKind.SCHEDULED, memoryview(payload))
    assert isinstance(record, Scheduled)
    assert (record.subject, record.received_at_ms) == (subject, at_ms)
    assert (list(record.dues_ms), list(record.numbers), bytes(record.entries)) == (dues, numbers, b"entries")


@given(times, st.lists(st.tuples(refs, st.booleans()), max_size=20, unique_by=lambda one: one[0]))
def test_actions_and_moves_come_back(at_ms: int, some: list[tuple[int, bool]]) -> None:
    named, held = [ref for ref, _ in some], [ref for ref, was_held in some if was_held]
    for kind in (RecordKind.CLAIMED, RecordKind.DELIVERED, RecordKind.CANCELLED, RecordKind.REFUSED):
        record = decode_record(0, kind, memoryview(encode_action(at_ms, named, set(held))))
        assert record == Action(kind, at_ms, tuple(named), tuple(held))
    for ref, was_held in some:
        head = encode_moved_head(at_ms, ref, 5, 7, was_held=was_held)
        moved = decode_record(0, RecordKind.MOVED, memoryview(head + b"entry"))
        assert isinstance(moved, Moved)
        assert (moved.at_ms, moved.ref, moved.due_ms, moved.number, bytes(moved.entry)) == (at_ms, ref, 5, 7, b"entry")
        assert moved.was_held is was_held


@given(times, st.lists(st.integers(0, (1 << 32) - 1), max_size=20))
def test_ended_hours_come_back(at_ms: int, hours: list[int]) -> None:
    record = decode_record(0, RecordKind.ENDED, memoryview(encode_ended(at_ms, hours)))
    assert record == Ended(at_ms, tuple(hours))


@pytest.mark.parametrize(
    ("kind", "payload"),
    [(9, b""), (1, b"\0"), (2, b"\0" * 11), (5, b"x"), (3, b"\0" * 8 + b"\0\0\0\x05"), (8, b"\0" * 11 + b"\1")],
)
def test_what_is_no_record_says_so(kind: int, payload: bytes) -> None:
    with pytest.raises(LogError, match="log offset 77"):
        decode_record(77, kind, memoryview(payload))


def test_any_flipped_bit_of_an_index_entry_is_noticed() -> None:
    rng = random.Random(2)
    count = 50
    entries = make_index(
        np.array([rng.randrange(1 << 40) for _ in range(count)]),
        np.array([rng.randrange(1 << 45) for _ in range(count)]),
        np.array([rng.randrange(1 << 20) for _ in range(count)]),
        np.array([rng.randrange(1 << 32) for _ in range(count)], dtype=np.uint32),
        rng.randrange(1 << 20),
    )
    assert (entries["check"] == checks_of(entries)).all()
    assert all(is_valid(entry.tobytes()) for entry in entries)
    raw = bytearray(entries.tobytes())
    for bit in range(8 * INDEX_BYTES):
        for at in (0, 17, count - 1):
            flipped = bytearray(raw)
            flipped[at * INDEX_BYTES + bit // 8] ^= 1 << bit % 8
            found = np.frombuffer(bytes(flipped), dtype=entries.dtype)
            assert np.flatnonzero(found["check"] != checks_of(found)).tolist() == [at]
            assert not is_valid(found[at].tobytes())
    empty = np.frombuffer(bytes(INDEX_BYTES), dtype=entries.dtype)
    assert empty["check"][0] != checks_of(empty)[0], "zeros are no entry"


def test_hours_have_names_and_names_hours() -> None:
    assert hour_name(0) == "1970010100"
    assert hour_name(498_681) == "2026112109"
    for hour in (0, 498_681, 500_000, 700_000):
        assert hour_number(hour_name(hour)) == hour
    assert hour_number("2026112199") is None
    assert hour_number("lost+found") is None


@pytest.mark.parametrize("piece_bytes", [1, 700, append_file.PIECE_BYTES])
def test_a_file_that_grows_reads_the_same_before_during_and_after_a_write(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_file, "PIECE_BYTES", piece_bytes)
    disk, rng, expected = SystemDisk(), random.Random(4), bytearray()
    file = AppendFile(HandleCache(disk), lambda: str(tmp_path / "file"))

    def same() -> None:
        assert file.end == len(expected)
        for _ in range(5):
            begin = rng.randrange(len(expected) + 1)
            end = rng.randrange(begin, len(expected) + 1)
            assert file.read(begin, end) == expected[begin:end]

    for _ in range(60):
        for _ in range(rng.randrange(5)):
            data = rng.randbytes(rng.randrange(900))
            file.append(data)
            expected += data
            same()
            begin = rng.randrange(file.written_end, file.end + 1)
            part = rng.randbytes(rng.randrange(min(2_000, file.end - begin) + 1))
            file.replace(begin, part)
            expected[begin : begin + len(part)] = part
            same()
        if rng.random() < 0.5:
            file.take()
            same()
            file.append(b"more")
            expected += b"more"
            same()
            if rng.random() < 0.7:
                file.write()
                same()
                file.written()
                same()
    file.take()
    file.write()
    file.written()
    again = AppendFile(HandleCache(disk), lambda: str(tmp_path / "file"), file.written_end)
    assert again.read(0, len(expected)) == expected


@pytest.mark.parametrize(("bad", "stale"), [(0, 0), (0, 3 * PAGE_BYTES), (1, 3 * PAGE_BYTES)])
def test_an_unreadable_page_that_a_file_ends_in_is_written_whole(
    bad: int, stale: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The page where it ended, or the one where it ends, which a process before a crash wrote."""
    disk = MemoryDisk()
    first, second = b"a" * (PAGE_BYTES // 2), b"b" * PAGE_BYTES
    disk.create("file", 0).pwritev([first + b"s" * stale], 0)
    file = AppendFile(HandleCache(disk), lambda: "file", len(first))
    file.append(second)
    file.take()
    disk.break_pages("file", bad * PAGE_BYTES, bad * PAGE_BYTES + 1)
    file.write()
    file.written()
    is_lost = bad == 0
    assert file.read(0, file.end) == (bytes(len(first)) if is_lost else first) + second
    assert (f"file: bytes [0, {len(first)}) can't be read and are lost" in caplog.text) is is_lost
    file.append(second)
    file.take()
    file.write()
    file.written()
    assert file.read(len(first), file.end) == 2 * second


def test_a_write_that_fails_for_another_reason_changes_nothing_and_can_be_tried_again() -> None:
    disk = MemoryDisk()
    file = AppendFile(HandleCache(disk), lambda: "file")
    for part in (b"first", b"second"):
        file.append(part)
        file.take()
        disk.fail = lambda what, path: OSError(errno.EIO, "bad", path) if what == "write" else None
        with pytest.raises(OSError, match="bad"):
            file.write()
        disk.fail = None
        file.write()
        file.written()
    assert file.read(0, file.end) == b"firstsecond"


def test_what_waits_to_be_written_is_not_moved_to_larger_and_larger_rooms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(append_file, "PIECE_BYTES", 1_000)
    file = AppendFile(HandleCache(SystemDisk()), lambda: str(tmp_path / "file"))
    for _ in range(100):
        file.append(bytes(70))
    file.take()
    _, pieces = file.taken
    assert sum(map(len, pieces)) == 7_000
    assert max(map(len, pieces)) <= 1_500


def test_the_dispatch_log_tells_damage_from_entries(tmp_path: Path) -> None:
    disk = SystemDisk()
    log = DispatchLog(AppendFile(HandleCache(disk), lambda: str(tmp_path / "log")))
    log.append([1, 2, 3], 3, 1_000)
    log.append([2], 5, 2_000, to_hour=99)
    entries, bad = log.read(0, log.count)
    assert entries["number"].tolist() == [1, 2, 3, 2]
    assert entries["to_hour"].tolist() == [0, 0, 0, 99]
    assert bad == 0
    log.file.take()
    log.file.write()
    log.file.written()
    content = bytearray((tmp_path / "log").read_bytes())
    content[30] ^= 4
    (tmp_path / "log").write_bytes(content)
    entries, bad = log.read(0, log.count)
    assert entries["number"].tolist() == [1, 3, 2]
    assert bad == 1


@given(
    st.dictionaries(st.text("abc#", min_size=1, max_size=5), st.text("xyzä", max_size=9), max_size=5),
    st.lists(st.text("tag", min_size=1, max_size=4), max_size=3),
    st.integers(0, 10**14),
    st.booleans(),
)
def test_another_due_time_changes_nothing_else(
    properties: dict[str, str], tags: list[str], due_ms: int, has_property: bool
) -> None:
    base = {"qmq_createTime": "1700000000000", **properties}
    if has_property:
        base = {**base, KEY_SCHEDULE: "1700000000500", "after": "it"}
    entry = encode_entry(Message("orders", "m1", base, tuple(tags), FLAG_DELAY, 17, 1_700_000_000_500))
    moved = redate_entry(entry, due_ms)
    (before,), (after,) = decode_entries(entry), decode_entries(moved)
    assert after.time_ms == due_ms
    assert after.properties == ({**base, KEY_SCHEDULE: str(due_ms)} if has_property else base)
    assert (after.tags, after.flag, after.message_id, after.created_at_ms) == (
        before.tags, before.flag, before.message_id, before.created_at_ms,
    )  # fmt: skip
    runs, failures = BatchScanner().scan(moved)
    assert len(runs) == 1
    assert not failures


def test_files_are_set_aside_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "SLICE_HOURS", 10)
    driver = DelayDriver(MemoryDisk(), 1)
    for number in range(45):
        driver.store.hours.make(number).schedule.data.append(b"x")
        driver.store.hours.dirty[driver.store.hours[number]] = None
    driver.store.hours.unwritten_bytes = 45
    steps = driver.checkpoints.draft()
    for _ in range(5):
        next(steps)
    draft = run_to_end(steps)
    driver.checkpoints.save(draft)
    driver.checkpoints.saved(draft)
    assert driver.store.hours.unwritten_bytes == 0
    assert not driver.store.hours.dirty


def test_messages_that_come_while_files_are_set_aside_are_in_the_next_checkpoint() -> None:
    driver = DelayDriver(MemoryDisk(), 1)
    driver.send("orders", 20)
    driver.commit()
    steps = driver.checkpoints.draft()
    next(steps)
    driver.send("orders", 20)
    driver.commit()
    draft = run_to_end(steps)
    driver.checkpoints.save(draft)
    driver.checkpoints.saved(draft)
    assert driver.store.hours.unwritten_bytes == 0, "the files of the first checkpoint hold them"
    second = run_to_end(driver.checkpoints.draft())
    driver.checkpoints.save(second)
    driver.checkpoints.saved(second)
    driver.restart()
    assert driver.store.pending == 40
