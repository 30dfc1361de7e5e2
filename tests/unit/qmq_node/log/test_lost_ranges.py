"""What a log has lost: the file of the ranges, commits that leave one out, and reading across one."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from qmq.errors import LogError
from qmq_node.log.copied_log import CopiedCommits, CopiedLog, CopyCheck, CopyRejected
from qmq_node.log.log import SegmentedLog
from qmq_node.log.lost_ranges import LOST_RANGES_MAX, LostRanges
from qmq_node.log.opening import remove_log
from qmq_node.log.record import BEGINNING, Position
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.copies import FOLDER, SEGMENT, commits_of, header_of, master_log, opened_copy
from tests.support.drivers.logs import drop_before


def disk_with_folder() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_dir("data")
    return disk


def test_ranges_are_kept_in_order_and_without_those_below_the_log() -> None:
    disk = disk_with_folder()
    lost = LostRanges.load(disk, FOLDER)
    lost.add([(50, 60), (10, 20)], 0)
    lost.add([(12, 20), (70, 70)], 20)
    again = LostRanges.load(disk.after_power_cut(), FOLDER)
    assert again.ranges == ((50, 60), (70, 70))
    assert again.covers(52, 60)
    assert again.covers(70, 70)
    assert not again.covers(50, 61)


@pytest.mark.parametrize(
    ("offset", "kept"), [(60, ((10, 20), (50, 60))), (59, ((10, 20),)), (50, ((10, 20),)), (10, ()), (61, None)]
)
def test_what_will_be_written_is_not_lost_any_more(offset: int, kept: tuple[tuple[int, int], ...] | None) -> None:
    disk = disk_with_folder()
    lost = LostRanges.load(disk, FOLDER)
    lost.add([(10, 20), (50, 60), (60, 60)], 0)
    lost.forget_from(offset)
    expected = ((10, 20), (50, 60), (60, 60)) if kept is None else kept
    assert LostRanges.load(disk.after_power_cut(), FOLDER).ranges == lost.ranges == expected


def test_a_file_that_can_not_be_read_accepts_nothing() -> None:
    disk = disk_with_folder()
    LostRanges.load(disk, FOLDER).add([(10, 20)], 0)
    disk.names[f"{FOLDER}.lost"].content[3] ^= 1
    assert LostRanges.load(disk, FOLDER).ranges == ()


def test_the_number_of_ranges_has_a_limit_that_fits_the_file() -> None:
    disk = disk_with_folder()
    lost = LostRanges.load(disk, FOLDER)
    end = (1 << 63) - 1
    lost.add([(end - 2 * n - 1, end - 2 * n) for n in range(LOST_RANGES_MAX)], 0)
    assert len(LostRanges.load(disk, FOLDER).ranges) == LOST_RANGES_MAX
    with pytest.raises(LogError, match=f"{LOST_RANGES_MAX + 1} ranges, the maximum is {LOST_RANGES_MAX}"):
        lost.add([(5, 6)], 0)
    assert len(LostRanges.load(disk, FOLDER).ranges) == LOST_RANGES_MAX


# --- copies ---------------------------------------------------------------------------------------------------------


class Copy:
    """A slave that copies, and has the first four commits of its master's log."""

    def __init__(self) -> None:
        self.master, self.disk = master_log(), MemoryDisk()
        self.commits = list(commits_of(self.master))
        self.log, _ = opened_copy(self.disk)
        self.copied = CopiedLog(self.log, epoch=self.master.epoch, is_copying=True)
        for commit in self.commits[:4]:
            self.write(commit)

    def write(self, commit: CopiedCommits) -> None:
        self.copied.complete(self.copied.write(commit))

    @property
    def end(self) -> int:
        return self.log.written_end

    def of_segment(self, number: int) -> CopiedCommits:
        """The first commit of a segment."""
        base = self.master.stored.segments()[number].base
        return next(commit for commit in self.commits if commit.offset == base)

    def opened(self) -> SegmentedLog:
        self.copied.sync()
        return opened_copy(self.disk.after_power_cut(), 0)[0]


def test_commits_behind_a_lost_range_are_written_at_their_place() -> None:
    copy = Copy()
    end, behind = copy.end, copy.of_segment(2)
    copy.write(replace(behind, lost_from=end))
    assert [(found.begin, found.end) for found in copy.log.stored.damaged] == [(end, behind.offset)]
    assert (copy.log.stored.own_damage, copy.log.stored.damaged_end) == ((), behind.offset)
    again = copy.opened()
    assert (again.written_end, again.stored.own_damage) == (behind.offset + len(behind.data), ())
    assert [info.base for info in again.stored.segments()] == [0, behind.segment_base]
    assert again.stored.read_crc_at(again.written_end) == header_of(behind).crc
    assert again.stored.read_crc_at(end) == header_of(copy.commits[3]).crc
    commits, position = again.stored.read_commits(BEGINNING, again.written_end, 1 << 20)
    assert [commit.offset for commit in commits if commit.after_damage] == [behind.offset]
    assert position == Position(again.written_end, header_of(behind).crc)


def test_damage_beside_a_lost_range_is_not_read_over() -> None:
    copy = Copy()
    copy.write(replace(copy.of_segment(2), lost_from=copy.end))
    again = copy.opened()
    again._disk.names[again.stored.files.path(0)].content[copy.commits[2].offset] ^= 1  # type: ignore[attr-defined]
    with pytest.raises(LogError, match=f"log offset {copy.commits[2].offset}: commits can't be read"):
        again.stored.read_commits(BEGINNING, again.written_end, 1 << 20)


def test_a_copy_may_begin_with_a_lost_range() -> None:
    master, disk = master_log(), MemoryDisk()
    second = list(commits_of(master))[1]
    log, _ = opened_copy(disk)
    copied = CopiedLog(log, epoch=master.epoch, is_copying=True)
    copied.complete(copied.write(replace(second, lost_from=0)))
    copied.sync()
    again, _ = opened_copy(disk.after_power_cut(), 0)
    assert (again.begin, again.written_end) == (0, second.offset + len(second.data))
    assert again.stored.lost.ranges == ((0, second.offset),)


def test_what_is_lost_before_the_first_segment_of_a_copy_is_not_a_part_of_its_log() -> None:
    copy, disk = Copy(), MemoryDisk()
    log, _ = opened_copy(disk)
    first = copy.of_segment(2)
    copied = CopiedLog(log, epoch=copy.master.epoch, is_copying=True)
    copied.complete(copied.write(replace(first, lost_from=0)))
    assert (log.begin, log.stored.lost.ranges, log.stored.damaged) == (first.offset, (), ())


def test_a_range_that_arrives_after_all_is_not_lost() -> None:
    """The slave crashed before it wrote what is behind the range, and the master's log was repaired meanwhile."""
    copy = Copy()
    copy.log.stored.lost.add([(copy.end, copy.commits[6].offset)], 0)
    copy.write(copy.commits[4])
    assert LostRanges.load(copy.disk.after_power_cut(), FOLDER).ranges == ()


def bigger(commit: CopiedCommits) -> CopiedCommits:
    return replace(commit, segment_bytes=commit.segment_bytes + 1)


BAD: dict[str, tuple[CopyCheck, Callable[[Copy], CopiedCommits], str]] = {
    "a range before the end": (
        CopyCheck.LOST,
        lambda copy: replace(copy.commits[5], lost_from=copy.end - 1),
        "the log ends at",
    ),
    "a range behind the end": (
        CopyCheck.LOST,
        lambda copy: replace(copy.commits[5], lost_from=copy.end + 1),
        "the log ends at",
    ),
    "another size of the segment": (
        CopyCheck.SEGMENT,
        lambda copy: replace(bigger(copy.commits[5]), lost_from=copy.end),
        f"of {SEGMENT + 1} bytes, which has {SEGMENT}",
    ),
    "a segment without an end": (
        CopyCheck.SEGMENT,
        lambda copy: replace(copy.of_segment(1), segment_bytes=1 << 40, lost_from=copy.end),
        "the limit is",
    ),
    "a segment within another one": (
        CopyCheck.SEGMENT,
        lambda copy: replace(copy.of_segment(1), segment_base=SEGMENT - 64, offset=SEGMENT - 64, lost_from=copy.end),
        f"after the one from 0 to {SEGMENT}",
    ),
    "a commit that is damaged, too": (
        CopyCheck.CRC,
        lambda copy: replace(copy.commits[5], data=memoryview(bytes(copy.commits[5].data[:-1]) + b"?"), lost_from=copy.end),
        "its bytes do not match it",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_range_that_does_not_fit_is_rejected_and_changes_nothing(name: str) -> None:
    check, change, why = BAD[name]
    copy = Copy()
    bad, steps = change(copy), copy.disk.steps
    with pytest.raises(CopyRejected, match=why) as rejected:
        copy.copied.write(bad)
    assert (rejected.value.check, copy.disk.steps, copy.log.failed) == (check, steps, None)
    copy.write(copy.commits[4])


def test_more_ranges_than_the_limit_are_rejected() -> None:
    copy = Copy()
    while copy.end <= LOST_RANGES_MAX + 1:
        copy.write(copy.commits.pop(4))
    copy.log.stored.lost.add([(n + 1, n + 1) for n in range(LOST_RANGES_MAX)], 0)
    with pytest.raises(CopyRejected, match=f"the maximum is {LOST_RANGES_MAX}"):
        copy.copied.write(replace(copy.commits[5], lost_from=copy.end))
    assert copy.log.failed is None


# --- afterwards -----------------------------------------------------------------------------------------------------


def test_a_range_that_retention_removes_disappears() -> None:
    copy = Copy()
    behind = copy.of_segment(2)
    copy.write(replace(behind, lost_from=copy.end))
    for commit in copy.commits[copy.commits.index(behind) + 1 :]:
        copy.write(commit)
    log = copy.opened()
    assert log.stored.damaged
    drop_before(log, behind.offset)
    assert (log.stored.damaged, log.stored.damaged_end) == ((), 0)
    log.stored.lost.add([(log.written_end, log.written_end)], log.begin)
    assert log.stored.lost.ranges == ((log.written_end, log.written_end),)


def test_a_log_that_is_removed_has_lost_nothing() -> None:
    copy = Copy()
    copy.write(replace(copy.commits[5], lost_from=copy.end))
    remove_log(copy.disk, FOLDER)
    assert LostRanges.load(copy.disk, FOLDER).ranges == ()


def test_a_walk_that_begins_behind_a_lost_range_knows_it() -> None:
    copy = Copy()
    end, behind = copy.end, copy.commits[5]
    copy.write(replace(behind, lost_from=end))
    start = Position(behind.offset + len(behind.data), header_of(behind).crc)
    copy.copied.sync()
    log, found = opened_copy(copy.disk, start=start)
    assert [(one.begin, one.end) for one in found.damaged] == [(end, behind.offset)]
    # A range that was repaired is not damaged, although the file has it.
    log._disk.open(log.stored.files.path(0), writable=True).pwritev([copy.commits[4].data], end)
    assert opened_copy(copy.disk, start=start)[1].damaged == ()


@pytest.mark.parametrize(
    ("damaged", "expected"), [([(0, 1 << 20)], True), ([], False), ([(0, 10), (1 << 20, 1 << 21)], False)]
)
def test_damage_that_the_master_has_too_is_lost(damaged: list[tuple[int, int]], expected: bool) -> None:
    copy = Copy()
    copy.copied.sync()
    inode = copy.disk.names[copy.log.stored.files.path(0)]
    inode.content[copy.commits[2].offset] ^= 1
    inode.synced[copy.commits[2].offset] ^= 1
    log, _ = opened_copy(copy.disk)
    assert log.stored.own_damage
    log.stored.note_lost(damaged)
    assert bool(log.stored.own_damage) is not expected
    assert opened_copy(copy.disk.after_power_cut())[0].stored.own_damage == log.stored.own_damage
