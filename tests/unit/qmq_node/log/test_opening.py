"""Opening a log in three parts: inspecting writes nothing, the caller decides, acting makes the log ready."""

import random
from typing import Any

import pytest

from qmq.errors import LogError, ReadFailed
from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.record import HEADER_BYTES, Position, commit_crc, decode_header, encode_crc, encode_header
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk
from tests.unit.qmq_node.log.logs import (
    SEGMENT,
    commit,
    content,
    filled,
    inspected,
    opened,
    seal,
    without_seal,
    written,
)


def torn(disk: MemoryDisk) -> MemoryDisk:
    """A log with a torn tail, an unfinished segment, and a lost first segment."""
    log, _ = filled(disk, 30)
    log.gather.append(1, b"x" * 500)
    taken = log.gather.take()
    assert taken is not None
    log.writer.write(taken, sync=False)
    left = disk.after_kill()
    left.names[max(left.names)].content[taken.offset - taken.segment_base + HEADER_BYTES] ^= 1
    left.create(f"log/{max(info.end for info in log.stored.segments()):020d}.new", 100)
    del left.names[f"log/{0:020d}"]
    return left


@pytest.mark.parametrize("make", [torn, lambda disk: disk], ids=["used", "new"])
def test_inspecting_writes_nothing_at_all(make: Any) -> None:
    disk = make(MemoryDisk())
    steps, before, folders = disk.steps, content(disk), set(disk.folders)
    for _ in range(2):
        found, _ = inspected(disk)
        assert (disk.steps, content(disk), disk.folders) == (steps, before, folders)
    SegmentedLog.activate(found, segment_bytes=SEGMENT)
    assert disk.steps > steps
    assert not any(path.endswith(".new") for path in disk.names)


def test_what_inspecting_finds_is_what_opening_finds() -> None:
    disk = torn(MemoryDisk())
    found, visited = inspected(disk)
    assert [damage.why for damage in found.damaged] == ["the first segment is missing"]
    log = SegmentedLog.activate(found, segment_bytes=SEGMENT)
    assert (log.stored.damaged, log.written_end, log.begin) == (found.damaged, found.end, 0)
    assert log.torn_bytes > 0
    assert log.high_watermark == log.watermark.position.offset == found.end
    assert 0 <= found.end - visited[-1] <= HEADER_BYTES, "a seal may follow"
    again, _ = opened(disk)
    assert (again.stored.damaged, again.torn_bytes) == (log.stored.damaged, 0)


def damaged_at_the_end(disk: MemoryDisk) -> tuple[MemoryDisk, int]:
    """A log whose last commit is damaged, and the end that a checkpoint knows of."""
    log, _ = opened(disk)
    end = [written(log) for _ in range(3)][-2]
    left = disk.after_kill()
    left.names[f"log/{0:020d}"].content[end + HEADER_BYTES] ^= 8
    return left, log.written_end


def test_a_member_of_a_larger_group_does_not_continue_behind_damage() -> None:
    """Its offsets would name bytes that no other member has."""
    disk, end = damaged_at_the_end(MemoryDisk())
    found, _ = inspected(disk, synced_to=end)
    assert found.continues_at is not None
    steps, before = disk.steps, content(disk)
    log = SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
    assert isinstance(log.failed, LogError)
    assert log.failed.code == "log.damaged"
    assert f"lacks acknowledged bytes from offset {found.end} to {end}" in str(log.failed)
    assert (log.written_end, log.synced_end, log.prepare_next()) == (found.end, found.end, False)
    with pytest.raises(LogError, match="the log has failed: the log lacks acknowledged bytes"):
        log.gather.append(1, b"x")
    assert (disk.steps, content(disk)) == (steps, before)
    log = SegmentedLog.activate(found, segment_bytes=SEGMENT)
    assert log.written_end == found.continues_at >= end


def test_a_member_of_a_larger_group_creates_no_segment_of_its_own_size() -> None:
    disk = MemoryDisk()
    found, _ = inspected(disk)
    log = SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
    assert (disk.list_dir("log"), log.written_end, log.begin, log.high_watermark) == ([], 0, 0, 0)
    log.begin_epoch(1)
    written(log)
    assert (opened(disk.after_kill())[0].written_end, disk.list_dir("log")) == (log.written_end, [f"{0:020d}"])


def test_a_member_of_a_larger_group_appends_nothing_before_it_begins_an_epoch() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    end = written(log)
    log = SegmentedLog.activate(inspected(disk)[0], segment_bytes=SEGMENT, is_only_member=False)
    steps = disk.steps
    with pytest.raises(LogError, match="this node is not the master") as refused:
        log.gather.append(1, b"x")
    assert refused.value.code == "log.slave"
    assert (log.gather.needs_seal, log.gather.seal_idle(), log.gather.take(), log.gather.has_pending) == (
        True,
        None,
        None,
        False,
    )
    assert not log.prepare_next(), "its size is the master's"
    assert (disk.steps, log.gather.appended_end) == (steps, end)
    log.begin_epoch(2)
    assert written(log) > end


def test_commits_above_the_limit_are_checked_and_not_visited() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    ends = [written(log) for _ in range(3)]
    ends.append(seal(log))
    ends += [written(log) for _ in range(3)]
    records = [end for end in ends if end != ends[3]]
    for limit in range(ends[-1] + 2):
        found, visited = inspected(disk.after_kill(), visit_end=limit)
        assert visited == [end for end in records if end <= limit]
        again = SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
        place = max((end for end in ends if end <= limit), default=0)
        assert (again.written_end, again.synced_end) == (ends[-1], ends[-1])
        assert (again.high_watermark, again.watermark.position.offset) == (place, place)
        assert again.watermark.unconfirmed_commits == sum(end > limit for end in ends)
    # What is above is confirmed later.
    again.watermark.confirm(ends[-1])
    found, _ = inspected(disk.after_kill(), visit_end=ends[1])
    again = SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
    again.watermark.confirm(ends[4])
    assert again.watermark.position.offset == ends[4]
    # A commit above the limit that is damaged is noticed.
    left = disk.after_kill()
    left.names[f"log/{0:020d}"].content[ends[4] + HEADER_BYTES] ^= 1
    found, _ = inspected(left, visit_end=ends[1])
    assert [(damage.begin, damage.end) for damage in found.damaged] == [(ends[4], ends[5])]


def test_a_start_above_the_limit_visits_nothing_and_keeps_its_place() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    written(log, is_confirmed=True)
    position = log.watermark.position
    written(log)
    found, visited = inspected(disk.after_kill(), start=position, visit_end=0)
    again = SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
    assert (visited, again.watermark.position, again.high_watermark) == ([], position, position.offset)


def rolled_behind_a_seal(disk: MemoryDisk) -> tuple[SegmentedLog, int, int]:
    """Write a log whose first segment ends with a seal; return where that begins and ends."""
    log, _ = opened(disk)
    written(log)
    at = log.written_end
    end = seal(log)
    # In the next segment: the seal's own is not written any more.
    log.gather.append(1, bytes(log.gather.record_bytes_max))
    commit(log)
    return log, at, end


def test_a_seal_is_synced_before_the_next_segment_is_written() -> None:
    """A start behind a checkpoint does not look for it, and slaves could not copy the log without it."""
    disk = MemoryDisk()
    log, at, end = rolled_behind_a_seal(disk)
    assert disk.after_power_cut().names[f"log/{0:020d}"].content[at:end] == log.stored.read(at, end - at)


def test_a_seal_that_a_power_cut_took_is_written_again() -> None:
    """Else members that have it would have other bytes than the one that lost it, and it could not send them."""
    disk = MemoryDisk()
    log, at, end = rolled_behind_a_seal(disk)
    data = log.stored.read(at, end - at)
    name, left = f"log/{0:020d}", without_seal(disk, at, end)
    found, _ = inspected(left)
    assert [(lost.segment_base, lost.offset, lost.data) for lost in found.walked.lost_seals] == [(0, at, data)]
    assert left.names[name].content[at:end] == bytes(end - at)
    SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
    assert left.after_power_cut().names[name].content == disk.names[name].content
    assert inspected(left)[0].walked.lost_seals == ()


def test_what_was_copied_with_one_sync_for_many_commits_is_truncated_at_the_first_bad_place() -> None:
    """A commit behind it says that everything before was synced: true of the master that wrote it, not of this disk."""
    source = MemoryDisk()
    log, records = filled(source, 40)
    ends = [0]
    inspect(source.after_kill(), "log", visit=lambda commit: ends.append(commit.end))
    for seed in range(60):
        rng, disk = random.Random(seed), source.after_kill()
        copied_from = rng.choice(ends[:-10])
        for _ in range(rng.randint(1, 3)):
            offset, _, payload = rng.choice([record for record in records if record[0] > copied_from + HEADER_BYTES])
            info = next(info for info in log.stored.segments() if info.base <= offset < info.end)
            place = offset - info.base + rng.randrange(len(payload))
            disk.names[f"log/{info.base:020d}"].content[place] ^= 0xFF
        assert inspected(disk.after_kill())[0].damaged, "as a log that is not copied, it is damaged"
        found, visited = inspected(disk, copied_from=copied_from)
        assert found.damaged == ()
        assert copied_from <= found.end < ends[-1]
        again = SegmentedLog.activate(found, segment_bytes=SEGMENT, is_only_member=False)
        again.begin_epoch(1)
        written(again)
        whole, more = inspected(disk)
        assert (whole.damaged, more[:-1], whole.end) == ((), visited, again.written_end)


def test_a_commit_that_does_not_follow_ends_what_was_copied() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    ends = [written(log) for _ in range(4)]
    bytes_ = disk.names[f"log/{0:020d}"].content
    head = decode_header(bytes(bytes_[ends[1] : ends[1] + HEADER_BYTES]), ends[1], 0)
    assert head is not None
    foreign = encode_header(
        segment_base=0, epoch=1, offset=ends[1], body_bytes=head.body_bytes, record_count=1, previous_crc=7, synced_to=0
    )
    crc = commit_crc(foreign, bytes(bytes_[ends[1] + HEADER_BYTES : ends[2]]))
    bytes_[ends[1] : ends[1] + HEADER_BYTES] = foreign + encode_crc(crc)
    assert inspected(disk)[0].damaged
    found, visited = inspected(disk, copied_from=ends[0])
    assert (found.damaged, found.end, visited) == ((), ends[1], ends[:2])


def test_damage_below_what_was_being_copied_is_damage() -> None:
    disk = MemoryDisk()
    log, records = filled(disk, 40)
    left = disk.after_kill()
    left.names[f"log/{0:020d}"].content[records[3][0]] ^= 1
    found, _ = inspected(left, copied_from=log.stored.segments()[1].base)
    assert found.damaged
    assert found.end == log.written_end


def test_a_lost_start_segment_is_damage_and_the_rest_is_visited() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 40)
    commit(log)
    first, second = log.stored.segments()[:2]
    del disk.names[f"log/{first.base:020d}"]
    found, visited = inspected(disk, start=Position(first.base + 200, 7), synced_to=log.synced_end)
    assert [damage.why for damage in found.damaged] == ["the first segment is missing"]
    assert visited[0] > second.base


def pages_of(log: SegmentedLog) -> list[tuple[str, int, int]]:
    """For each page of all segments: the file, and the log offsets at which the page begins and ends."""
    return [
        (f"log/{info.base:020d}", at, at + PAGE_BYTES)
        for info in log.stored.segments()
        for at in range(info.base, info.end, PAGE_BYTES)
    ]


def test_a_page_that_can_not_be_read_is_damage_of_a_member_unless_the_log_may_end_there() -> None:
    """Another member may have what is there. Without a later commit that proves it was synced, it may be acknowledged or torn."""
    disk = MemoryDisk()
    log, _ = filled(disk, 40)
    _, all_visited = inspected(disk)
    found_damage = found_end = 0
    for path, begin, end in pages_of(log):
        place = begin % SEGMENT
        disk.break_pages(path, place, place + 1)
        with pytest.raises(ReadFailed):
            inspected(disk)
        try:
            found, visited = inspected(disk, is_only_member=False)
        except ReadFailed:
            found_end += 1
            # What is behind is written with the last commits, or after them.
            assert end > log.written_end - 2 * PAGE_BYTES
        else:
            assert found.end == log.written_end
            lost = set(all_visited) - set(visited)
            assert bool(lost) == bool(found.damaged)
            for at in lost:
                assert any(damage.begin < at <= damage.end for damage in found.damaged)
            found_damage += bool(lost)
        disk.unreadable_pages.clear()
    assert found_damage > 10
    assert found_end > 0


def test_what_can_not_be_read_is_not_torn_because_a_commit_follows_that_was_synced_with_it() -> None:
    disk = MemoryDisk()
    log, _ = opened(disk)
    written(log)
    begin = log.written_end
    for size in (2 * PAGE_BYTES, 100):
        log.gather.append(1, bytes(size))
        taken = log.gather.take()
        assert taken is not None
        log.writer.write(taken, sync=False)
        log.complete(taken)
    disk.break_pages(f"log/{0:020d}", begin + PAGE_BYTES, begin + PAGE_BYTES + 1)
    with pytest.raises(ReadFailed):
        inspected(disk, is_only_member=False)
    disk.unreadable_pages.clear()
    found, _ = inspected(disk, is_only_member=False)
    assert found.end == log.written_end
