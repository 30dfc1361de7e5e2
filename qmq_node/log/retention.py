"""Which segments may go. Pure: ages and sizes in, a log offset out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class SegmentAge:
    """A segment and the wall time, in milliseconds, of the newest record in it (None: unknown)."""

    base: int
    end: int
    newest_at_ms: int | None


def keep_from(segments: Sequence[SegmentAge], *, before_ms: int, keep_bytes: int, floor: int) -> int:
    """The log offset below which whole segments may be deleted.

    A log is in time order, so a segment of unknown age counts as old as the next newer segment whose age is known. With no
    such segment it stays.

    Args:
        segments: oldest first; the last is being written and stays.
        before_ms: records stored at this wall time or after it stay.
        keep_bytes: most bytes kept, 0 for no such limit.
        floor: nothing at or above it may go (what a checkpoint still needs to be replayed).
    """
    cut = segments[0].base if segments else 0
    total = sum(segment.end - segment.base for segment in segments)
    ages = list(accumulate((segment.newest_at_ms for segment in reversed(segments)), _own_or_newer))
    for segment, newest_at_ms in zip(segments[:-1], reversed(ages), strict=False):
        too_old = newest_at_ms is not None and newest_at_ms < before_ms
        too_much = keep_bytes > 0 and total > keep_bytes
        if segment.end > floor or not (too_old or too_much):
            break
        cut = segment.end
        total -= segment.end - segment.base
    return cut


def _own_or_newer(newer: int | None, own: int | None) -> int | None:
    return newer if own is None else own
