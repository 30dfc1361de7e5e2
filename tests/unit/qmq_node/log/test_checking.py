"""Segments that are read again: all damage is found, with its exact range, and nothing else is taken for damage."""

import errno
from collections.abc import Callable

import pytest

from qmq_node.log.checking import FoundDamage, check_segment, segments_below
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import Position
from qmq_node.log.recovery import Commit, Walked, Walker
from tests.support.disks.memory_disk import PAGE_BYTES, MemoryDisk
from tests.unit.qmq_node.log import logs
from tests.unit.qmq_node.log.logs import filled


def found_in(log: SegmentedLog) -> list[FoundDamage]:
    """What is found below the high watermark, all of which is read; as in a node, it is known from then on."""
    found: list[FoundDamage] = []
    for info in segments_below(log.stored, log.high_watermark):
        size = 0
        for read, damaged in check_segment(log.stored, info, log.high_watermark):
            size += read
            found += damaged
            log.stored.add_damage(one.damage for one in damaged if one.is_readable)
        assert size == info.bytes
    return found


def commits_of(log: SegmentedLog) -> list[Commit]:
    """The commits below the high watermark, with records."""
    found: list[Commit] = []
    end = segments_below(log.stored, log.high_watermark)[-1].end
    log.stored.walk(0, found.append, stop=lambda offset: offset >= end)
    return [commit for commit in found if commit.end <= end]


def change(log: SegmentedLog, disk: MemoryDisk, offset: int, data: bytes) -> None:
    """Put other bytes at a log offset."""
    info = log.stored.segment_at(offset)
    assert info is not None
    disk.names[f"log/{info.base:020d}"].content[offset - info.base : offset - info.base + len(data)] = data


def break_page(log: SegmentedLog, disk: MemoryDisk, offset: int) -> None:
    """Make the page at a log offset unreadable."""
    info = log.stored.segment_at(offset)
    assert info is not None
    disk.break_pages(f"log/{info.base:020d}", offset - info.base, offset - info.base + 1)


def test_a_log_that_is_whole_has_no_damage() -> None:
    log, _ = filled(MemoryDisk(), 60)
    infos = segments_below(log.stored, log.high_watermark)
    assert len(infos) > 5
    assert infos[:-1] == [info for info in log.stored.segments() if info.end <= log.gather.base]
    assert (infos[-1].base, infos[-1].end) == (log.gather.base, log.high_watermark)
    assert found_in(log) == []


def test_what_is_above_the_high_watermark_is_not_read() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 10)
    end = log.high_watermark
    ends = [logs.written(log) for _ in range(20)]
    assert log.high_watermark == end < ends[0]
    # A commit that is being written is not whole.
    change(log, disk, ends[0] + 9, b"\xff")
    assert found_in(log) == []
    log.watermark.confirm(log.written_end)
    assert [one.damage.begin for one in found_in(log)] == [ends[0]]


def test_damage_at_the_end_is_not_named_again_when_more_is_written() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 10)
    last = commits_of(log)[-1]
    change(log, disk, last.end - 1, bytes([last.body[-1] ^ 1]))
    (found,) = found_in(log)
    assert (found.damage.begin, found.damage.end) == (last.offset, log.high_watermark)
    assert found_in(log) == []
    for _ in range(30):
        log.gather.append(1, bytes(500))
        logs.commit(log)
        assert found_in(log) == []


@pytest.mark.parametrize(
    "at", [lambda commit: commit.offset + 9, lambda commit: commit.end - 3], ids=["header", "body"]
)
def test_a_flipped_bit_is_found_with_the_range_of_its_commit(at: Callable[[Commit], int]) -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 40)
    for commit in commits_of(log):
        before = log.stored.read(at(commit), 1)
        change(log, disk, at(commit), bytes([before[0] ^ 4]))
        (found,) = found_in(log)
        assert found.is_readable
        # The rest of a segment that nothing stands in looks like a part of the damage.
        assert found.damage.begin <= commit.offset
        assert commit.end <= found.damage.end < commit.end + 3_000
        change(log, disk, at(commit), before)
        log.stored.damaged = ()
    assert found_in(log) == []


def test_damage_in_several_pieces_of_a_segment_is_found_and_known_damage_is_not_named_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qmq_node.log.checking.PIECE_BYTES", 2_000)
    disk = MemoryDisk()
    log, _ = filled(disk, 60)
    chosen = commits_of(log)[::5]
    for commit in chosen:
        change(log, disk, commit.end - 1, bytes([commit.body[-1] ^ 1]))
    found = [one.damage for one in found_in(log)]
    assert len(found) == len(chosen)
    assert all(damage.begin <= commit.offset < damage.end for damage, commit in zip(found, chosen, strict=True))
    assert found_in(log) == []


def test_an_unreadable_page_is_told_from_changed_bytes() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 40)
    commit = commits_of(log)[5]
    break_page(log, disk, commit.offset + 100)
    found = found_in(log)
    assert found
    assert not any(one.is_readable for one in found)
    assert any(one.damage.begin <= commit.offset < one.damage.end for one in found)


def test_what_the_page_cache_has_does_not_hide_a_page_that_the_disk_has_lost() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 40)
    disk.is_worn_out = True
    break_page(log, disk, 0)
    with_page = disk.open(f"log/{0:020d}", writable=True)
    with_page.pwritev([bytes(disk.names[f"log/{0:020d}"].content[:PAGE_BYTES])], 0)
    assert log.stored.is_readable(0, PAGE_BYTES), "in memory"
    assert not any(one.is_readable for one in found_in(log))
    assert found_in(log)


def test_an_old_copy_of_a_segment_is_found() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 10)
    last = log.gather.base
    path = f"log/{last:020d}"
    old = bytes(disk.names[path].content)
    while log.gather.base == last:
        log.gather.append(1, bytes(500))
        logs.commit(log)
    disk.names[path].content[:] = old
    (found,) = found_in(log)
    assert last < found.damage.begin < found.damage.end == last + logs.SEGMENT


def test_what_is_repaired_while_it_is_read_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 20)
    commit = commits_of(log)[3]
    change(log, disk, commit.end - 1, b"\0" if commit.body[-1] else b"\1")
    walk, has_met = Walker.walk, []

    def walk_and_repair(walker: Walker, start: Position | None) -> Walked:
        walked = walk(walker, start)
        if walked.damaged:
            has_met.append(walked.damaged)
            change(log, disk, commit.end - 1, bytes(commit.body[-1:]))
        return walked

    monkeypatch.setattr(Walker, "walk", walk_and_repair)
    assert found_in(log) == []
    assert len(has_met) == 1


def test_a_segment_that_can_not_be_opened_is_unreadable_as_a_whole() -> None:
    disk = MemoryDisk()
    log, _ = filled(disk, 40)
    info = segments_below(log.stored, log.high_watermark)[1]
    log.stored.files.close()
    open_file = disk.open

    def fail(path: str, *, writable: bool) -> object:
        if path.endswith(str(info.base)):
            raise OSError(errno.EIO, "Input/output error", path)
        return open_file(path, writable=writable)

    disk.open = fail  # type: ignore[assignment,method-assign]
    found = found_in(log)
    assert {one.is_readable for one in found} == {False}
    assert (info.base, info.end) in {(one.damage.begin, one.damage.end) for one in found}
    # The rest of the segment before it, which has no commit, can't be told from it.
    last = max(commit.end for commit in commits_of(log) if commit.end <= info.base)
    assert min(one.damage.begin for one in found) >= last


def test_a_gap_that_is_known_is_not_named_again() -> None:
    disk = MemoryDisk()
    filled(disk, 40)
    disk.remove(f"log/{2 * logs.SEGMENT:020d}")
    log, _ = logs.opened(disk)
    assert [(damage.begin, damage.end) for damage in log.stored.damaged] != []
    assert found_in(log) == []
