"""Truncations interrupted at every disk operation, once and twice: the log is as before, or truncated exactly."""

import contextlib
import random

import pytest

from qmq_node.log.log import SegmentedLog
from qmq_node.log.opening import inspect
from qmq_node.log.record import BEGINNING, HEADER_BYTES, Position
from qmq_node.log.truncation import Truncation, TruncationFile, finish_truncation
from tests.support.disks.memory_disk import MemoryDisk, SimulatedCrash
from tests.support.drivers.logs import open_log
from tests.support.promises import Check, judging
from tests.unit.qmq_node.log.logs import SEGMENT, seal, written

FOLDER = "data/log"


class Truncating:
    """A log of several segments, and where its commits end."""

    def __init__(self) -> None:
        rng = random.Random(6)
        self.disk = MemoryDisk()
        self.log = open_log(self.disk, FOLDER, segment_bytes=SEGMENT)
        self.commits = [BEGINNING]
        for number in range(40):
            self.log.gather.append(1, rng.randbytes(rng.randint(1, 4000)))
            self._add(written(self.log))
            room = self.log.gather.base + self.log.gather.current_segment_bytes - self.log.written_end
            if number < 39 and (rng.random() < 0.3 or HEADER_BYTES <= room < 4000):
                self._add(seal(self.log))
        self.log.prepare_next()

    def _add(self, end: int) -> None:
        crc = self.log.crc_at(end)
        assert crc is not None
        self.commits.append(Position(end, crc))

    @property
    def targets(self) -> list[Position]:
        """Nothing, the middle of the first and the last segment, the last commit of a segment, and all but one commit."""
        bases = [info.base for info in self.log.stored.segments()]
        boundary = max((commit for commit in self.commits if commit.offset <= bases[2]), key=lambda c: c.offset)
        return [self.commits[0], self.commits[3], boundary, self.commits[-4], self.commits[-2]]

    def truncate(self, to: Position, crash_at: int | None = None) -> None:
        """Truncate, up to a crash at a disk operation from here on."""
        self.disk.crash_at = None if crash_at is None else self.disk.steps + crash_at
        with contextlib.suppress(SimulatedCrash):
            self.log.truncate(Truncation(to.offset, to.chain, 3, "p-3"), high_watermark=0, checkpoint_offset=0)
        self.disk.crash_at = None

    def check(self, left: MemoryDisk, to: Position) -> bool:
        """Hold what the next process finds to what it must be; return whether it was truncated."""
        finish_truncation(left, FOLDER)
        ends: list[int] = []
        found = inspect(left, FOLDER, visit=lambda commit: ends.append(commit.end))
        whole = self.commits[-1].offset
        with judging(Check.TRUNCATED):
            assert found.end in (to.offset, whole), f"{found.end} instead of {to.offset} or {whole}"
            assert found.damaged == ()
            assert TruncationFile(left, FOLDER).load() is None
        if found.end == whole:
            return False
        last = max((info.base for info in found.segments.infos()), default=0)
        with judging(Check.TRUNCATED):
            assert last <= max(0, to.offset - 1), "later segments are gone"
            assert not any(left.names[found.segments.path(last)].content[to.offset - last :]), "the rest is zeros"
            assert found.walked.position == to
        log = SegmentedLog.activate(found, segment_bytes=SEGMENT)
        end = written(log)
        again = inspect(left.after_power_cut(), FOLDER, visit=lambda _: None)
        with judging(Check.TRUNCATED):
            assert (again.end, again.damaged) == (end, ())
        return True


def states_of(disk: MemoryDisk, seed: int) -> list[MemoryDisk]:
    """What a kill leaves, and what a power cut may leave."""
    return [
        disk.after_kill(),
        disk.after_power_cut(),
        *(disk.after_power_cut(random.Random(seed + n)) for n in range(3)),
    ]


def crashes(target: int) -> None:
    """A crash at every disk operation of a truncation, then one at every operation of its completion."""
    complete = Truncating()
    to, before = complete.targets[target], complete.disk.steps
    complete.truncate(to)
    steps = complete.disk.steps - before
    assert complete.check(complete.disk.after_power_cut(), to), "the truncation is durable when it returns"
    seen = set()
    for crash_at in range(steps):
        first = Truncating()
        first.truncate(to, crash_at)
        for number in range(len(states_of(first.disk, crash_at))):
            left = states_of(first.disk, crash_at)[number]
            seen.add(first.check(left, to))
            rest = left.steps
            for again_at in range(rest):
                second = states_of(first.disk, crash_at)[number]
                second.crash_at = again_at
                with contextlib.suppress(SimulatedCrash):
                    finish_truncation(second, FOLDER)
                second.crash_at = None
                for third in states_of(second, again_at):
                    first.check(third, to)
    assert seen == {False, True}


@pytest.mark.parametrize("target", range(5))
def test_an_interrupted_truncation_is_completed_or_did_not_begin(target: int) -> None:
    crashes(target)
