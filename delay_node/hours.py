"""class Hours: all hours of a node, and what of them the next checkpoint has to write."""

from bisect import bisect_left, insort

from delay_node.hour import Hour
from delay_node.records import HOUR_MS
from qmq.log.disk import Disk
from qmq.log.handles import HandleCache


class Hours(dict[int, Hour]):
    """Hours by number (hours since 1970, UTC)."""

    def __init__(self, disk: Disk, root: str, handles: HandleCache) -> None:
        super().__init__()
        self.disk = disk
        self.root = root
        self.handles = handles
        self.order: list[int] = []
        """Numbers of the hours, ascending: near and past hours are found without a look at years of hours."""
        self.dirty: dict[Hour, None] = {}
        """Hours with something that no checkpoint contains."""
        self.finished: set[int] = set()
        """Hours whose files may be removed: the next checkpoint leaves them out."""
        self.unwritten_bytes = 0
        """Bytes of schedule and dispatch logs in memory only."""

    def make(self, number: int, **counters: int) -> Hour:
        """Return the hour, created when it is new. A finished hour is in use again."""
        hour = self.get(number)
        if hour is None:
            hour = self[number] = Hour(self.handles, self.root, number, **counters)
            insort(self.order, number)
        self.finished.discard(number)
        return hour

    def forget(self, hour: Hour) -> None:
        """Remove a finished hour; its files are removed next."""
        del self[hour.number]
        del self.order[bisect_left(self.order, hour.number)]
        self.finished.discard(hour.number)
        self.dirty.pop(hour, None)
        hour.close()

    def between(self, from_ms: int, to_ms: int) -> list[int]:
        """Return the numbers of the hours with due times in [from_ms, to_ms), ascending."""
        begin, end = (bisect_left(self.order, number) for number in (from_ms // HOUR_MS, -(-to_ms // HOUR_MS)))
        return self.order[begin:end]

    def before(self, moment_ms: int) -> list[Hour]:
        """Return the hours that begin before a time, oldest first."""
        return [self[number] for number in self.order[: bisect_left(self.order, -(-moment_ms // HOUR_MS))]]

    @property
    def memory_bytes(self) -> int:
        """Memory of the open hours' states and ids."""
        return sum(hour.memory_bytes for hour in self.values() if hour.states is not None)
