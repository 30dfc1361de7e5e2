"""Members of a delay group that repair files of hours from each other, without a network."""

from collections.abc import Callable
from contextlib import closing
from functools import cache

from delay_node.checkpoint import DelayCheckpoints
from delay_node.damaged_file import DamagedFile
from delay_node.hour_checks import HourFile, files_of
from delay_node.hour_damage import HourDamage, damage_of
from delay_node.hour_ranges import HourRanges
from delay_node.recovery import open_store
from qmq.protocol.replication import ReadRangeRequest, ReadRangeResponse
from qmq_node.log.handles import HandleCache
from qmq_node.log.replay import MemberOpening
from qmq_node.repair.ranges import DamagedRange, WantedRange
from qmq_node.slices import run_to_end
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.delay_driver import ROOT, DelayDriver
from tests.support.drivers.hour_copies import SEGMENT_BYTES
from tests.support.manual_clock import ManualClock

PROMOTION_ID = "00000000-0000-4000-8000-000000000001"


def request_of(wanted: WantedRange) -> ReadRangeRequest:
    """The request of another member for a range."""
    return ReadRangeRequest(
        "d1", "d1-b", 1, PROMOTION_ID, wanted.file, wanted.since, wanted.begin, wanted.end, wanted.crc
    )


Answer = Callable[[WantedRange], ReadRangeResponse]


class RepairingMember:
    """A member that has applied its whole log, and what it repairs."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        handles, opening = HandleCache(disk), MemberOpening(1 << 60)
        self.store, _ = open_store(disk, ROOT, segment_bytes=SEGMENT_BYTES, handles=handles, member=opening)
        self.clock = ManualClock()
        self.damage = HourDamage(lambda: self.store, DamagedFile(disk, ROOT), self.clock, lambda: False)
        self.damage.watch()
        self.ranges = HourRanges(lambda: self.store.hours, self.damage)

    def answer(self, wanted: WantedRange) -> ReadRangeResponse:
        """What this member answers another one. Raises ReadRefused."""
        return self.ranges.read(request_of(wanted))

    def checkpoint(self) -> None:
        """Write what is in memory."""
        checkpoints = DelayCheckpoints(self.store)
        draft = run_to_end(checkpoints.draft())
        checkpoints.save(draft)
        checkpoints.saved(draft)

    def damaged(self) -> list[DamagedRange]:
        """Everything that is damaged of the files of all hours."""
        return [
            damaged
            for _, hour in sorted(self.store.hours.items())
            for file in files_of(hour)
            for damaged in run_to_end(damage_of(file, 0, file.end))
        ]

    def repair(self, damaged: DamagedRange, answer: Answer) -> None:
        """Repair a range from another member. Raises RepairRejected, ReadRefused, OSError."""
        steps = self.ranges.repair(damaged)
        with closing(steps):
            wanted = next(steps, None)
            while wanted is not None:
                try:
                    wanted = steps.send(answer(wanted))
                except StopIteration:
                    wanted = None
        self.damage.repaired(damaged)

    def repair_all(self, answer: Answer) -> int:
        """Repair until nothing is damaged; messages can be checked when the index is whole. Returns the number of ranges."""
        count = 0
        while found := self.damaged():
            for damaged in found:
                self.repair(damaged, answer)
            count += len(found)
        return count


def break_pages(member: RepairingMember, file: HourFile, begin: int, end: int) -> None:
    """Make pages of a file unreadable."""
    member.disk.break_pages(file.file.path(), begin, min(end, file.file.written_end))


def flip(member: RepairingMember, file: HourFile, at: int, bit: int = 3) -> None:
    """Flip a bit of a file on the disk."""
    for content in (member.disk.names[file.file.path()].content, member.disk.names[file.file.path()].synced):
        content[at] ^= 1 << bit


@cache
def _disk(steps: int) -> MemoryDisk:
    driver = DelayDriver(MemoryDisk(), 3, segment_bytes=SEGMENT_BYTES)
    driver.run(steps)
    driver.commit()
    driver.checkpoint()
    driver.run(60)
    driver.commit()
    return driver.disk


def members(count: int = 2, steps: int = 1_800) -> list[RepairingMember]:
    """Members with the same state, the end of it in memory only."""
    return [RepairingMember(_disk(steps).after_kill()) for _ in range(count)]


def largest(member: RepairingMember, kind: str) -> HourFile:
    """The file of this kind with most bytes on the disk."""
    files = (file for hour in member.store.hours.values() for file in files_of(hour) if kind in file.name)
    return max(files, key=lambda file: file.file.written_end)
