"""Which messages a consumer's pull sequences stand for, kept as runs. Pure.

Pulls are contiguous, so a consumer that holds a thousand messages needs a run or two, not a thousand entries. Only what
is not acked yet is kept; the history is in the message log.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from broker_node.actions import SequenceRun


@dataclass(slots=True)
class PullRun:
    """Pull sequences [pull_begin, pull_begin + count) stand for consume sequences from `begin` on."""

    pull_begin: int
    begin: int
    count: int

    @property
    def pull_end(self) -> int:
        return self.pull_begin + self.count


class PullLog:
    """The runs from `acked` (first pull sequence not acked) up to `pulled` (next to be assigned)."""

    __slots__ = ("_runs", "acked", "pulled")

    def __init__(self, acked: int = 0, pulled: int = 0) -> None:
        self.acked = acked
        self.pulled = pulled
        self._runs: deque[PullRun] = deque()

    def __len__(self) -> int:
        """Runs kept: what the memory of a consumer depends on."""
        return len(self._runs)

    @property
    def in_flight(self) -> int:
        """Messages pulled and not acked."""
        return sum(run.count for run in self._runs)

    def assign(self, pull_begin: int, runs: tuple[SequenceRun, ...]) -> None:
        """Note that pull sequences from `pull_begin` on stand for `runs`, in order."""
        self.pulled = max(self.pulled, pull_begin)
        if not self._runs:
            self.acked = max(self.acked, pull_begin)
        for run in runs:
            last = self._runs[-1] if self._runs else None
            if last is not None and last.pull_end == self.pulled and last.begin + last.count == run.begin:
                last.count += run.count
            else:
                self._runs.append(PullRun(self.pulled, run.begin, run.count))
            self.pulled += run.count

    def ack(self, end: int) -> None:
        """Drop everything below pull sequence `end`."""
        end = min(end, self.pulled)
        while self._runs and self._runs[0].pull_end <= end:
            self._runs.popleft()
        if self._runs and self._runs[0].pull_begin < end:
            first = self._runs[0]
            gone = end - first.pull_begin
            self._runs[0] = PullRun(end, first.begin + gone, first.count - gone)
        self.acked = max(self.acked, end)

    def between(self, begin: int, end: int) -> Iterator[PullRun]:
        """The runs inside pull sequences [begin, end), clipped to it."""
        for run in self._runs:
            low, high = max(run.pull_begin, begin), min(run.pull_end, end)
            if low < high:
                yield PullRun(low, run.begin + low - run.pull_begin, high - low)

    def oldest_sequence(self) -> int | None:
        """The lowest consume sequence not acked."""
        return min((run.begin for run in self._runs), default=None)

    def runs(self) -> list[PullRun]:
        """All runs, oldest first."""
        return list(self._runs)

    def restore(self, runs: list[PullRun]) -> None:
        """Set the runs as a checkpoint kept them."""
        self._runs = deque(runs)
