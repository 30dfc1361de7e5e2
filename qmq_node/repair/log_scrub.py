"""The log as data that is read again: its segments below the high watermark, by their bases."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from qmq.protocol.replication import LOG_FILE
from qmq_node.log.checking import FoundDamage, check_segment, segments_below
from qmq_node.log.log import SegmentedLog
from qmq_node.log.recovery import Damage
from qmq_node.log.segment import SegmentInfo
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.scrub import Found, Step


@dataclass(eq=False, slots=True)
class ScrubbedSegment:
    """As `qmq_node.repair.scrub.Unit`."""

    _log: SegmentedLog
    _info: SegmentInfo
    _unreadable: list[Damage] = field(default_factory=list, init=False)

    @property
    def key(self) -> int:
        return self._info.base

    def steps(self) -> Iterator[Step]:
        for size, found in check_segment(self._log.stored, self._info, self._log.high_watermark):
            self._unreadable += [one.damage for one in found if not one.is_readable]
            yield Step(size, [_of_log(one) for one in found])

    def is_current(self) -> bool:
        # Retention may have removed it.
        return self._log.stored.segment_at(self._info.base) is not None

    def ended(self) -> None:
        self._log.stored.read_again(self._info.base, self._info.end, self._unreadable)


@dataclass(frozen=True, slots=True)
class ScrubbedLog:
    """As `qmq_node.repair.scrub.Scrubbed`."""

    _log: SegmentedLog
    kind = LOG_FILE

    def next_unit(self, key: int) -> ScrubbedSegment | None:
        return next((ScrubbedSegment(self._log, info) for info in self._infos() if info.base >= key), None)

    def bytes_from(self, key: int) -> int:
        return sum(info.bytes for info in self._infos() if info.base >= key)

    def _infos(self) -> list[SegmentInfo]:
        return segments_below(self._log.stored, self._log.high_watermark)


def _of_log(found: FoundDamage) -> Found:
    damage = found.damage
    return Found(DamagedRange(LOG_FILE, 0, damage.begin, damage.end, damage.why), found.is_readable)
