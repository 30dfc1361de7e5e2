"""Which messages a consumer's pull sequences stand for, kept as runs. Pure.

Pulls are contiguous, so a consumer that holds a thousand messages needs a run or two, not a thousand entries. Only what
is not acked yet is kept; the history is in the message log.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from broker_node.storage.actions import SequenceRun
from broker_node.storage.sessions import Session


@dataclass(slots=True)
class PullRun:
    """Pull sequences [pull_begin, pull_begin + count) stand for consume sequences from `begin` on."""

    pull_begin: int
    begin: int
    count: int
    holder: Session | None = None
    """The session that its messages were delivered on; None: not known since the restart. Memory only."""

    @property
    def pull_end(self) -> int:
        return self.pull_begin + self.count

    @property
    def end(self) -> int:
        """The consume sequence behind the last."""
        return self.begin + self.count


class PullLog:
    """The runs from `acked` (first pull sequence not acked) up to `pulled` (next to be assigned).

    A consumer acks in order, so there are no gaps between the runs. Two processes with one consumer id each ack what they
    hold, which leaves gaps.
    """

    __slots__ = ("_runs", "acked", "in_flight", "pulled")

    def __init__(self) -> None:
        self.acked = self.pulled = 0
        self.in_flight = 0
        """Messages pulled and not acked: the sum over the runs."""
        self._runs: deque[PullRun] = deque()

    def __len__(self) -> int:
        """Runs kept: what the memory of a consumer depends on."""
        return len(self._runs)

    def assign(self, pull_begin: int, runs: tuple[SequenceRun, ...], holder: Session | None = None) -> None:
        """Record that pull sequences from `pull_begin` on stand for `runs`, in order."""
        self.pulled = max(self.pulled, pull_begin)
        if not self._runs:
            self.acked = max(self.acked, pull_begin)
        for run in runs:
            _add(self._runs, PullRun(self.pulled, run.begin, run.count, holder))
            self.pulled += run.count
            self.in_flight += run.count

    def begin_again(self, at: int) -> list[PullRun]:
        """Go back to pull sequence `at`, below `pulled`: remove and return what is held from there on."""
        held = list(self.between(at, self.pulled))
        self.ack(at, self.pulled)
        self.pulled = at
        self.acked = min(self.acked, at)
        return held

    def ack(self, begin: int, end: int) -> None:
        """Remove pull sequences [begin, end)."""
        end = min(end, self.pulled)
        runs = self._runs
        if runs and begin > runs[0].pull_begin:
            if begin < end:
                pieces = [piece for run in runs for piece in _pieces(run, begin, end)]
                self.restore([piece for piece in pieces if not begin <= piece.pull_begin < end])
                runs = self._runs
        else:
            while runs and runs[0].pull_end <= end:
                self.in_flight -= runs.popleft().count
            if runs and runs[0].pull_begin < end:
                first = runs[0]
                gone = end - first.pull_begin
                runs[0] = PullRun(end, first.begin + gone, first.count - gone, first.holder)
                self.in_flight -= gone
        self.acked = runs[0].pull_begin if runs else self.pulled

    def hold(self, begin: int, end: int, holder: Session | None) -> None:
        """Record that pull sequences [begin, end) are held by a session."""
        found: deque[PullRun] = deque()
        for run in self._runs:
            for piece in _pieces(run, begin, end):
                if begin <= piece.pull_begin < end:
                    piece.holder = holder
                _add(found, piece)
        self._runs = found

    def first(self) -> PullRun | None:
        """The oldest run."""
        return self._runs[0] if self._runs else None

    def held_end(self, session: Session) -> int:
        """The pull sequence behind the last message that a session holds; -1: it holds none."""
        return next((run.pull_end for run in reversed(self._runs) if run.holder is session), -1)

    def holder_of(self, pull_sequence: int) -> Session | None:
        """The session that holds a message; None when it is acked or not known."""
        return next((run.holder for run in self.between(pull_sequence, pull_sequence + 1)), None)

    def between(self, begin: int, end: int) -> Iterator[PullRun]:
        """The runs inside pull sequences [begin, end), clipped to it."""
        for run in self._runs:
            if run.pull_begin >= end:
                return
            low, high = max(run.pull_begin, begin), min(run.pull_end, end)
            if low < high:
                yield PullRun(low, run.begin + low - run.pull_begin, high - low, run.holder)

    def held(self, begin: int, end: int) -> list[tuple[int, int]]:
        """What of [begin, end) is not acked, in parts as long as possible."""
        parts: list[tuple[int, int]] = []
        for run in self.between(begin, end):
            if parts and parts[-1][1] == run.pull_begin:
                parts[-1] = (parts[-1][0], run.pull_end)
            else:
                parts.append((run.pull_begin, run.pull_end))
        return parts

    def holders(self, begin: int, end: int) -> list[tuple[int, int, Session | None]]:
        """[begin, end) in parts, each with the session that holds it; None for what is acked or held by an unknown one."""
        parts: list[tuple[int, int, Session | None]] = []
        for run in self.between(begin, end):
            if begin < run.pull_begin:
                parts.append((begin, run.pull_begin, None))
            parts.append((run.pull_begin, run.pull_end, run.holder))
            begin = run.pull_end
        return [*parts, (begin, end, None)] if begin < end else parts

    def oldest_sequence(self) -> int | None:
        """The lowest consume sequence not acked."""
        return min((run.begin for run in self._runs), default=None)

    def runs(self) -> list[PullRun]:
        """All runs, oldest first."""
        return list(self._runs)

    def runs_without_holders(self) -> list[PullRun]:
        """The runs, oldest first, those that differ in their holder only as one: what follows from the message log alone."""
        found: deque[PullRun] = deque()
        for run in self._runs:
            _add(found, PullRun(run.pull_begin, run.begin, run.count))
        return list(found)

    def restore(self, runs: list[PullRun]) -> None:
        """Set the runs as a checkpoint kept them."""
        self._runs = deque(runs)
        self.in_flight = sum(run.count for run in runs)


def _add(runs: deque[PullRun], run: PullRun) -> None:
    """Append a run, or extend the last one by it."""
    last = runs[-1] if runs else None
    if (
        last is not None
        and last.holder is run.holder
        and last.pull_end == run.pull_begin
        and last.begin + last.count == run.begin
    ):
        last.count += run.count
    else:
        runs.append(run)


def _pieces(run: PullRun, begin: int, end: int) -> Iterator[PullRun]:
    """A run, cut at pull sequences `begin` and `end`."""
    cuts = [run.pull_begin, *(at for at in (begin, end) if run.pull_begin < at < run.pull_end), run.pull_end]
    for low, high in pairwise(cuts):
        yield PullRun(low, run.begin + low - run.pull_begin, high - low, run.holder)
