"""Files of hours that a member repairs from another one: what is checked, what is written, what a crash leaves."""

import contextlib
import errno
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from delay_node import hour_checks, hour_ranges
from delay_node.checkpoint import DelayCheckpoints, DelayDraft
from delay_node.hour_checks import HourFile, file_named, files_of, messages_of, place_messages
from delay_node.schedule_log import DISPATCH, DISPATCH_BYTES, INDEX, INDEX_BYTES, checks_of
from qmq.checksum import crc32
from qmq.errors import ReadRefused
from qmq.protocol.replication import (
    COPY_BEYOND,
    COPY_DAMAGED,
    COPY_NO_FILE,
    COPY_REMOVED,
    ReadRangeResponse,
)
from qmq.protocol.scan import CRC_BYTES
from qmq_node.repair.ranges import RepairRejected, WantedRange
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import PAGE_BYTES, SimulatedCrash
from tests.support.drivers.delay_states import differences, state_of
from tests.support.drivers.hour_repairs import RepairingMember, break_pages, flip, largest, members

KINDS = (".index", ".data", "dispatch")
CRASH_STATES = 3


def writes_of(member: RepairingMember) -> list[str]:
    """The files that are written from now on."""
    written: list[str] = []
    member.disk.observe = lambda what, path: written.append(path) if what == "write" else None
    return written


def assert_equal(member: RepairingMember, other: RepairingMember) -> None:
    """Both have the same state, and the same bytes on their disks."""
    assert not differences(state_of(member.store), state_of(other.store))
    for one in (member, other):
        one.checkpoint()
        assert not one.disk.unreadable_pages
    for hour in member.store.hours.values():
        for file in files_of(hour):
            contents = [one.disk.names[file.file.path()].content[: file.end] for one in (member, other) if file.end]
            assert all(content == contents[0] for content in contents), file.name


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bits_are_repaired_where_they_are(kind: str) -> None:
    ours, other = members()
    file = largest(ours, kind)
    end = file.file.written_end
    for at in (0, 40, end // 2, end - 1):
        flip(ours, file, at)
    damaged = ours.damaged()
    assert {one.file for one in damaged} == {file.name}
    assert sum(one.end - one.begin for one in damaged) < end // 2
    written = writes_of(ours)
    for one in damaged:
        ours.repair(one, other.answer)
    assert set(written) == {file.file.path()}
    assert len(written) == len(damaged)
    assert_equal(ours, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pages", ["first", "one", "neighbours", "last", "all"])
def test_pages_that_can_t_be_read_are_written_as_a_whole(kind: str, pages: str) -> None:
    ours, other = members()
    file = largest(ours, kind)
    end = file.file.written_end
    last = (end - 1) // PAGE_BYTES * PAGE_BYTES
    assert end < file.end, "the last page has bytes in memory"
    begin, stop = {
        "first": (0, 1), "one": (PAGE_BYTES, PAGE_BYTES + 1), "neighbours": (0, 2 * PAGE_BYTES), "last": (last, end),
        "all": (0, end),
    }[pages]  # fmt: skip
    break_pages(ours, file, begin, stop)
    assert ours.repair_all(other.answer) > 0
    assert_equal(ours, other)


@pytest.mark.parametrize("kind", KINDS)
def test_files_that_are_lost_or_cut_are_made_again(kind: str) -> None:
    ours, other = members()
    file = largest(ours, kind)
    path = file.file.path()
    ours.store.hours.handles.drop(path)
    ours.disk.remove(path)
    ours.disk.sync_dir(path.rpartition("/")[0])
    others = [one for one in files_of(file.hour) if one.name != file.name]
    del ours.disk.names[others[0].file.path()].content[50:]
    ours.repair_all(other.answer)
    assert not RepairingMember(ours.disk.after_power_cut()).damaged()
    assert_equal(ours, other)


@pytest.mark.parametrize("seed", range(4))
def test_damage_in_200_places_is_repaired(seed: int) -> None:
    ours, other = members()
    rng = random.Random(seed)
    files = [file for hour in ours.store.hours.values() for file in files_of(hour) if file.file.written_end]
    for _ in range(200):
        file = rng.choices(files, [file.file.written_end for file in files])[0]
        at = rng.randrange(file.file.written_end)
        if rng.random() < 0.1:
            break_pages(ours, file, at, at + 1)
        else:
            flip(ours, file, at, rng.randrange(8))
    assert len(ours.damaged()) > 20
    ours.repair_all(other.answer)
    assert_equal(ours, other)


def test_a_large_region_that_can_t_be_read_is_repaired_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hour_checks, "RANGE_BYTES", 3 * PAGE_BYTES)
    monkeypatch.setattr(hour_ranges, "READ_COPY_BYTES_MAX", 700)
    ours, other = members()
    file = largest(ours, ".data")
    break_pages(ours, file, PAGE_BYTES, file.file.written_end)
    wanted: list[WantedRange] = []

    def answer(range_: WantedRange) -> ReadRangeResponse:
        wanted.append(range_)
        return other.answer(range_)

    ours.repair(ours.damaged()[0], answer)
    assert max(one.end - one.begin for one in wanted) <= 3 * PAGE_BYTES
    ours.repair_all(answer)
    assert_equal(ours, other)


@pytest.mark.parametrize("is_unreadable", [False, True], ids=["flipped", "unreadable"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_power_cut_at_any_disk_operation_of_a_repair_leaves_nothing_worse(kind: str, is_unreadable: bool) -> None:
    base, other = members()
    base.checkpoint()
    other.checkpoint()
    file = largest(base, kind)
    if is_unreadable:
        break_pages(base, file, file.file.written_end - 1, file.file.written_end)
    for at in (0, 41, file.file.written_end - 1):
        flip(base, file, at)
    before = {place for one in base.damaged() for place in range(one.begin, one.end)}
    total = RepairingMember(base.disk.after_process_end())
    first = total.disk.steps
    total.repair_all(other.answer)
    assert total.disk.steps - first >= 6
    for crash_at in range(total.disk.steps - first):
        ours = RepairingMember(base.disk.after_process_end())
        ours.disk.crash_at = ours.disk.steps + crash_at
        with contextlib.suppress(SimulatedCrash):
            ours.repair_all(other.answer)
        ours.disk.crash_at = None
        left = [ours.disk.after_kill(), ours.disk.after_power_cut(), *ours.disk.crash_states(CRASH_STATES, crash_at)]
        for disk in left:
            again = RepairingMember(disk)
            assert {place for one in again.damaged() for place in range(one.begin, one.end)} <= before
            again.repair_all(other.answer)
            assert_equal(again, other)
            assert not RepairingMember(again.disk.after_power_cut()).damaged()


# --- what is refused -------------------------------------------------------------------------------------------------


def wanted_of(member: RepairingMember, file: HourFile, begin: int, end: int) -> WantedRange:
    return WantedRange(file.name, file.hour.begins_at, begin, end)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda wanted: replace(wanted, file="../" + wanted.file), COPY_NO_FILE),
        (lambda wanted: replace(wanted, file="schedule/../" + wanted.file), COPY_NO_FILE),
        (lambda wanted: replace(wanted, file=wanted.file + "/."), COPY_NO_FILE),
        (lambda wanted: replace(wanted, file=wanted.file.replace("index", "other")), COPY_NO_FILE),
        (lambda wanted: replace(wanted, file="dispatch/" + wanted.file.partition("/")[2]), COPY_NO_FILE),
        (lambda wanted: replace(wanted, file="schedule/2001010100.index"), COPY_NO_FILE),
        (lambda wanted: replace(wanted, file="log"), COPY_NO_FILE),
        (lambda wanted: replace(wanted, since=wanted.since + 1), COPY_REMOVED),
        (lambda wanted: replace(wanted, end=1 << 40), COPY_BEYOND),
        (lambda wanted: replace(wanted, begin=wanted.begin + 1), COPY_BEYOND),
        (lambda wanted: replace(wanted, end=wanted.end + 1), COPY_BEYOND),
    ],
)
def test_requests_for_what_a_member_does_not_have_are_refused_and_touch_no_file(
    change: Callable[[WantedRange], WantedRange], code: str
) -> None:
    (other,) = members(1)
    file = largest(other, ".index")
    wanted = wanted_of(other, file, INDEX_BYTES, 3 * INDEX_BYTES)
    assert len(other.answer(wanted).data) == 2 * INDEX_BYTES
    reads = other.disk.reads
    with pytest.raises(ReadRefused) as refused:
        other.answer(change(wanted))
    assert refused.value.code == code
    assert other.disk.reads == reads


@pytest.mark.parametrize("is_unreadable", [False, True], ids=["flipped", "unreadable"])
@pytest.mark.parametrize("kind", KINDS)
async def test_what_is_damaged_at_both_members_is_never_sent_and_stays(kind: str, is_unreadable: bool) -> None:
    ours, other = members()
    file = largest(ours, kind)
    for member in (ours, other):
        if is_unreadable:
            break_pages(member, file, 0, 1)
        else:
            flip(member, file, 40)
    damaged = ours.damaged()
    content = bytes(ours.disk.names[file.file.path()].content)
    for one in damaged:
        with pytest.raises(ReadRefused) as refused:
            ours.repair(one, other.answer)
        assert refused.value.code == COPY_DAMAGED
    assert ours.damaged() == damaged
    assert ours.disk.names[file.file.path()].content == content
    # The other one has found its own damage by that.
    await other.damage.check()
    assert {one.file for one in other.ranges.damaged()} == {file.name}


def test_a_range_with_damaged_index_entries_is_not_sent() -> None:
    """Messages are checked by the index, so without it nothing is known of them."""
    ours, other = members()
    file = largest(ours, ".data")
    flip(other, files_of(file.hour)[0], 3 * INDEX_BYTES)
    break_pages(ours, file, 0, 1)
    with pytest.raises(ReadRefused) as refused:
        ours.repair(ours.damaged()[0], other.answer)
    assert refused.value.code == COPY_DAMAGED


def test_the_file_of_another_use_of_the_hour_is_neither_read_nor_written() -> None:
    ours, other = members()
    file = largest(ours, ".index")
    flip(ours, file, 40)
    (damaged,) = ours.damaged()
    other.store.hours[file.hour.number].begins_at += 100
    with pytest.raises(ReadRefused) as refused:
        ours.repair(damaged, other.answer)
    assert refused.value.code == COPY_REMOVED
    ours.store.hours[file.hour.number].begins_at += 100
    writes = writes_of(ours)
    # The hour of the range has ended: nothing is left to repair.
    ours.repair(damaged, other.answer)
    assert not writes


def test_an_hour_that_ends_while_its_range_is_read_is_not_written() -> None:
    ours, other = members()
    file = largest(ours, ".index")
    flip(ours, file, 40)
    (damaged,) = ours.damaged()

    def answer(wanted: WantedRange) -> ReadRangeResponse:
        found = other.answer(wanted)
        ours.store._forget(file.hour)
        return found

    writes = writes_of(ours)
    ours.repair(damaged, answer)
    assert not writes


def with_check(entries: "np.ndarray[tuple[int], np.dtype[np.void]]") -> bytes:
    entries["check"] = checks_of(entries)
    return entries.tobytes()


def flipped(data: bytes) -> bytes:
    wrong = bytearray(data)
    wrong[len(wrong) // 2] ^= 1
    return bytes(wrong)


def other_due(data: bytes) -> bytes:
    entries = np.frombuffer(data, dtype=INDEX).copy()
    entries["due"] += 3_600_000
    return with_check(entries)


def other_place(data: bytes) -> bytes:
    entries = np.frombuffer(data, dtype=INDEX).copy()
    entries["place"] += 1
    return with_check(entries)


def other_number(data: bytes) -> bytes:
    entries = np.frombuffer(data, dtype=DISPATCH).copy()
    entries["number"] += 1_000_000
    return with_check(entries)


def no_decision(data: bytes) -> bytes:
    entries = np.frombuffer(data, dtype=DISPATCH).copy()
    entries["what"] = 7
    return with_check(entries)


def other_message(data: bytes) -> bytes:
    """A whole message with another ID."""
    at = data.index(b"m", CRC_BYTES + 20)
    raw = data[CRC_BYTES:at] + b"x" + data[at + 1 :]
    return crc32(raw).to_bytes(CRC_BYTES, "big") + raw


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (".index", flipped),
        (".index", other_due),
        (".index", other_place),
        ("dispatch", flipped),
        ("dispatch", other_number),
        ("dispatch", no_decision),
        (".data", flipped),
        (".data", other_message),
        (".data", lambda data: data + data),
        (".index", lambda data: data + data),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_answers_that_fail_a_check_are_rejected_and_not_written(kind: str, wrong: Callable[[bytes], bytes]) -> None:
    ours, other = members()
    file = largest(ours, kind)
    flip(ours, file, 45)
    (damaged,) = ours.damaged()

    def answer(wanted: WantedRange) -> ReadRangeResponse:
        found = other.answer(wanted)
        return replace(found, data=wrong(bytes(found.data)))

    writes = writes_of(ours)
    with pytest.raises(RepairRejected):
        ours.repair(damaged, answer)
    assert not writes
    assert ours.damaged() == [damaged]
    ours.repair(damaged, other.answer)
    assert_equal(ours, other)


def test_an_answer_that_begins_elsewhere_is_rejected() -> None:
    ours, other = members()
    flip(ours, largest(ours, ".data"), 45)
    (damaged,) = ours.damaged()
    with pytest.raises(RepairRejected):
        ours.repair(damaged, lambda wanted: replace(other.answer(wanted), begin=wanted.begin + 1))


def test_what_passes_its_check_on_this_disk_is_never_replaced() -> None:
    """If both members have other valid bytes, one of them has the file of something else."""
    ours, other = members()
    file = largest(ours, ".index")
    hour = other.store.hours[file.hour.number]
    break_pages(ours, file, 0, 1)
    entries = other.disk.names[hour.schedule.index.path()].content
    wrong = np.frombuffer(bytes(entries[:INDEX_BYTES]), dtype=INDEX).copy()
    wrong["id"] ^= 1
    entries[:INDEX_BYTES] = with_check(wrong)
    (damaged, *_) = ours.damaged()

    def answer(wanted: WantedRange) -> ReadRangeResponse:
        # The disk can read the page again.
        ours.disk.unreadable_pages.clear()
        return other.answer(wanted)

    with pytest.raises(RepairRejected, match="differ although both pass their checks"):
        ours.repair(damaged, answer)


# --- the disk --------------------------------------------------------------------------------------------------------


def test_a_disk_that_refuses_leaves_the_range_damaged() -> None:
    ours, other = members()
    file = largest(ours, ".data")
    flip(ours, file, 45)
    (damaged,) = ours.damaged()
    flip(ours, file, damaged.end - 1)
    syncs = iter((None, OSError(errno.EIO, "no")))
    for fail in (
        lambda what, path: OSError(errno.EIO, "no") if what == "write" else None,
        lambda what, path: next(syncs) if what == "sync" else None,
    ):
        ours.disk.fail = fail
        with pytest.raises(OSError, match="no"):
            ours.repair(damaged, other.answer)
    # The page cache has all of it, and no later sync writes it.
    ours.disk.names[file.file.path()].sync_failed()
    ours.disk.fail = None
    assert not ours.damaged()
    ours.repair(damaged, other.answer)
    assert_equal(RepairingMember(ours.disk.after_power_cut()), other)


def test_a_page_that_only_the_page_cache_has_is_not_repaired() -> None:
    ours, other = members()
    file = largest(ours, ".data")
    break_pages(ours, file, 0, 1)
    ours.disk.is_worn_out = True
    damaged = ours.damaged()
    with pytest.raises(OSError, match="Input/output error"):
        ours.repair(damaged[0], other.answer)
    assert ours.damaged() == damaged


def test_no_checkpoint_writes_a_page_while_it_is_repaired() -> None:
    ours, other = members()
    file = largest(ours, ".data")
    flip(ours, file, file.file.written_end - 1)
    held: list[bool] = []
    ours.disk.observe = lambda what, path: (
        held.append(ours.store.hours.writing.locked())
        if what in ("write", "remove") and "/checkpoint" not in path
        else None
    )
    (damaged,) = ours.damaged()
    ours.repair(damaged, other.answer)
    assert held == [True]
    ours.checkpoint()
    assert len(held) > 3
    assert all(held)


@pytest.mark.parametrize("is_written", [False, True], ids=["in memory", "written by a checkpoint"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_checkpoint_writes_behind_a_range_is_kept(kind: str, is_written: bool) -> None:
    """Messages and decisions that come while a range is read are in memory, or on the page that is written as a whole."""
    ours, other = members()
    file = largest(ours, kind)
    ours.checkpoint()
    break_pages(ours, file, file.file.written_end - 1, file.file.written_end)
    before = file.file.end
    # Entries that pass their check.
    added = file.file.read(0, 4 * INDEX_BYTES * DISPATCH_BYTES)
    checkpoints = DelayCheckpoints(ours.store)
    drafts: list[DelayDraft] = []

    def answer(wanted: WantedRange) -> ReadRangeResponse:
        found = other.answer(wanted)
        if file.file.end == before:
            file.file.append(added)
            ours.store.hours.dirty[file.hour] = None
            if is_written:
                # The disk can read the page for a moment.
                broken, ours.disk.unreadable_pages = ours.disk.unreadable_pages, set()
                drafts.append(run_to_end(checkpoints.draft()))
                checkpoints.save(drafts[0])
                ours.disk.unreadable_pages = broken
        return found

    damaged = next(one for one in ours.damaged() if one.file == file.name)
    with contextlib.suppress(OSError):
        ours.repair(damaged, answer)
    if not drafts:
        drafts.append(run_to_end(checkpoints.draft()))
        checkpoints.save(drafts[0])
    checkpoints.saved(drafts[0])
    content = ours.disk.names[file.file.path()].content
    assert content[before : before + len(added)] == added
    if not is_written:
        assert not ours.disk.unreadable_pages


def test_a_file_is_found_by_its_name_alone() -> None:
    (member,) = members(1)
    for hour in member.store.hours.values():
        for file in files_of(hour):
            assert file_named(member.store.hours, file.name) == file
    for name in ("", "log", "schedule/2023111500", "dispatch/2023111500.data", "schedule/ 2023111500.data"):
        assert file_named(member.store.hours, name) is None


def test_messages_are_found_by_their_place_whatever_of_the_index_is_damaged() -> None:
    (member,) = members(1)
    file = largest(member, ".data")
    index = files_of(file.hour)[0]
    every = [
        (int(number), int(entry["place"]), int(entry["place"] + entry["size"]))
        for numbers, entries in place_messages(file.hour, 0, file.end)
        for number, entry in zip(numbers, entries, strict=True)
    ]
    assert [number for number, _, _ in every] == list(range(index.end // INDEX_BYTES))
    rng = random.Random(1)
    bad = set(rng.sample(range(index.file.written_end // INDEX_BYTES), 60))
    for number in bad:
        flip(member, index, number * INDEX_BYTES)
    for _ in range(100):
        begin, end = sorted(rng.sample(range(file.end), 2))
        found = [int(n) for numbers, _ in place_messages(messages_of(file.hour).hour, begin, end) for n in numbers]
        assert found == [n for n, place, stop in every if place < end and stop > begin and n not in bad]
    assert DISPATCH_BYTES == 24
