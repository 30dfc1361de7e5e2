"""Reading the segments of a log again, to find what has changed on the disk since it was written."""

from collections.abc import Generator
from dataclasses import dataclass

from qmq_node.log.record import UNKNOWN_CHAIN, Position
from qmq_node.log.recovery import Damage, Walker
from qmq_node.log.segment import SegmentInfo
from qmq_node.log.stored import StoredSegments
from qmq_node.log.uncached import UncachedSegments

PIECE_BYTES = 1 << 20
"""Read between two yields, unless a commit is larger."""


@dataclass(frozen=True, slots=True)
class FoundDamage:
    """Damage of a log, and whether the disk can read it: then the bytes have changed, otherwise a later read may succeed."""

    damage: Damage
    is_readable: bool


def segments_below(stored: StoredSegments, high_watermark: int) -> list[SegmentInfo]:
    """Return the segments below the high watermark, where nothing changes any more, oldest first; the last one is cut off there."""
    return [
        SegmentInfo(info.base, min(info.end, high_watermark) - info.base)
        for info in stored.segments()
        if info.base < high_watermark
    ]


def check_segment(
    stored: StoredSegments, info: SegmentInfo, high_watermark: int
) -> Generator[tuple[int, list[FoundDamage]], None, None]:
    """Read the commits of one of `segments_below` from the disk, and the first one behind it; in a thread that may wait.

    Yields after each PIECE_BYTES how many bytes were read, and the damage in them that is not known. What looks damaged is read
    twice: a repair may be writing it.

    Raises LogError for a commit of an unknown format, ReadFailed if the disk can't search a file.
    """
    walker, position = _walker(stored, high_watermark), Position(info.base, UNKNOWN_CHAIN)
    while position.offset < info.end:
        damaged, behind = _walk(walker, position, info)
        if damaged:
            walker = _walker(stored, high_watermark)
            damaged, behind = _walk(walker, position, info)
        new = [damage for damage in damaged if not _is_known(damage, stored.damaged, info)]
        if damaged:
            # One that has met nothing.
            walker = _walker(stored, high_watermark)
        read = min(behind.offset, info.end) - position.offset
        yield read, [FoundDamage(damage, stored.is_readable(damage.begin, damage.end)) for damage in new]
        position = behind


def _walker(stored: StoredSegments, high_watermark: int) -> Walker:
    # Nothing below the high watermark is a torn tail.
    segments = UncachedSegments(stored.files, high_watermark)
    return Walker(segments, lambda _: None, synced_to=high_watermark, skip_unreadable=True)


def _walk(walker: Walker, begin: Position, info: SegmentInfo) -> tuple[list[Damage], Position]:
    """Return the damage that a walk of PIECE_BYTES met, and where the next one begins.

    Args:
        walker: has met none before.
    """
    stop = min(begin.offset + PIECE_BYTES, info.end)
    walker.stop = lambda offset: offset >= stop
    walked = walker.walk(begin)
    if walked.position.offset > begin.offset:
        return list(walked.damaged), walked.position
    # No whole commit follows, up to the high watermark.
    rest = Damage(begin.offset, walker.synced_to, "commits can't be read")
    return [*walked.damaged, rest], Position(info.end, UNKNOWN_CHAIN)


def _is_known(found: Damage, known: tuple[Damage, ...], info: SegmentInfo) -> bool:
    """Whether damage is known. At the end of a segment the bytes behind the last commit, which hold nothing, look like a part of
    the damage behind them."""
    for damage in known:
        if damage.begin <= found.begin and found.end <= damage.end:
            return True
        if found.end >= info.end and damage.begin <= found.end and damage.end >= found.begin:
            return True
    return False
