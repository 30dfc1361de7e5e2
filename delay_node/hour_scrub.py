"""The files of hours as data that is read again: what is in the files of each hour, by its number."""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import closing

from delay_node.hour import Hour, Hours
from delay_node.hour_checks import HourFile, files_of
from delay_node.hour_damage import damage_of
from qmq_node.log.uncached import from_disk
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.scrub import Found, Step
from qmq_node.slices import run_to_end

PIECE_BYTES = 12_288 * 85
"""Read of a file at a time: about 1 MiB of whole pages and whole entries."""


class ScrubbedHour:
    """As `qmq_node.repair.scrub.Unit`. What is in the files when it is made is read: they may grow."""

    def __init__(self, hours: Hours, hour: Hour) -> None:
        self._hours, self._hour = hours, hour
        self._ends = [(file, min(file.file.written_end, file.end)) for file in files_of(hour)]

    @property
    def key(self) -> int:
        return self._hour.number

    def is_current(self) -> bool:
        # It may have ended, and begun again with other files of the same names.
        return self._hours.get(self._hour.number) is self._hour

    def ended(self) -> None:
        """Nothing is noted."""

    def steps(self) -> Iterator[Step]:
        for file, end in self._ends:
            for begin in range(0, end, PIECE_BYTES):
                stop = min(begin + PIECE_BYTES, end)
                yield Step(
                    stop - begin, [Found(damaged, is_readable=True) for damaged in self._damaged(file, begin, stop)]
                )

    def _damaged(self, file: HourFile, begin: int, end: int) -> list[DamagedRange]:
        try:
            opened = self._hours.handles.disk.open(file.file.path(), writable=False)
        except FileNotFoundError:
            # All that is read of it is zeros.
            return run_to_end(damage_of(file, begin, end))
        with closing(opened):
            for _ in range(2):
                with from_disk(opened, begin, end - begin):
                    found = run_to_end(damage_of(file, begin, end))
                if not found:
                    # At the first time a repair may have been writing it.
                    break
        return found


class ScrubbedHours:
    """As `qmq_node.repair.scrub.Scrubbed`.

    Args:
        hours: returns the hours of the open store.
    """

    kind = "hours"

    def __init__(self, hours: Callable[[], Hours]) -> None:
        self._hours = hours

    def next_unit(self, key: int) -> ScrubbedHour | None:
        hours = self._hours()
        # One without a file may get some before the pass ends.
        found = (hour for hour in self._from(key) if any(file.written_end for file in hour.files))
        return next((ScrubbedHour(hours, hour) for hour in found), None)

    def bytes_from(self, key: int) -> int:
        return sum(file.written_end for hour in self._from(key) for file in hour.files)

    def _from(self, key: int) -> Iterator[Hour]:
        hours = self._hours()
        return (hours[number] for number in hours.order[bisect_left(hours.order, key) :])
