"""LateQueue: very many refs in the order of their due times, sixteen bytes each."""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence

import numpy as np

CHUNK_REFS = 4096
MERGED_REFS_MAX = 250_000
"""Larger runs are not merged: it would hold up the event loop."""


class _Run:
    """(due times, refs) in chunks; each chunk and the row of them ascend by due time."""

    __slots__ = ("_chunks", "length")

    def __init__(self) -> None:
        self._chunks: deque[tuple[array[int], array[int]]] = deque()
        self.length = 0

    @property
    def first_due(self) -> int:
        return self._chunks[0][0][0]

    @property
    def last_due(self) -> int:
        return self._chunks[-1][0][-1]

    def extend(self, dues: "array[int]", refs: "array[int]") -> None:
        """Add behind the last one."""
        self.length += len(dues)
        if self._chunks and len(self._chunks[-1][0]) + len(dues) <= CHUNK_REFS:
            self._chunks[-1][0].extend(dues)
            self._chunks[-1][1].extend(refs)
        else:
            self._chunks.append((dues, refs))

    def extend_left(self, dues: "array[int]", refs: "array[int]") -> None:
        """Add before the first one."""
        self.length += len(dues)
        self._chunks.appendleft((dues, refs))

    def take(self, limit: int, until_due: int | None) -> list[tuple[int, int]]:
        """Remove at most `limit` from the front, none due after `until_due`."""
        taken: list[tuple[int, int]] = []
        while self._chunks and len(taken) < limit:
            dues, refs = self._chunks[0]
            end = limit - len(taken)
            if until_due is not None and dues[-1] > until_due:
                end = min(end, bisect_right(dues, until_due))
                if not end:
                    break
            taken.extend(zip(dues[:end], refs[:end], strict=True))
            if len(dues) <= end:
                self._chunks.popleft()
            else:
                del dues[:end], refs[:end]
        self.length -= len(taken)
        return taken

    def columns(self) -> "tuple[list[array[int]], list[array[int]]]":
        """Due times and refs, chunk by chunk."""
        return [dues for dues, _ in self._chunks], [refs for _, refs in self._chunks]


class LateQueue:
    """Taken from the front in due order; refs are added in any order.

    It keeps ascending runs, and takes from the one that begins with the oldest ref. Refs that fit at no end of a run begin a new
    one; then runs of up to MERGED_REFS_MAX are merged until each is more than twice as long as the next. So there are few runs, and
    a ref's run grows by half at least each time it is merged. Refs in due order, or from two such sequences in turn, are never
    merged.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(run.length for run in self._runs)

    def add(self, items: Sequence[tuple[int, int]]) -> None:
        """Add (due time, ref) pairs, ascending by due time."""
        if not items:
            return
        dues, refs = array("q", [due for due, _ in items]), array("Q", [ref for _, ref in items])
        for run in self._runs:
            if dues[0] >= run.last_due:
                run.extend(dues, refs)
                return
            if dues[-1] <= run.first_due:
                run.extend_left(dues, refs)
                return
        run = _Run()
        run.extend(dues, refs)
        self._runs.append(run)
        self._merge_alike()

    def _merge_alike(self) -> None:
        """Merge runs until each is more than twice as long as the next one."""
        runs = self._runs
        at = len(runs) - 1
        while at > 0:
            runs.sort(key=lambda run: run.length, reverse=True)
            is_large = runs[at].length + runs[at - 1].length > MERGED_REFS_MAX
            if is_large or runs[at].length * 2 < runs[at - 1].length:
                at -= 1
            else:
                runs[at - 1 : at + 1] = [self._merge(runs[at - 1], runs[at])]
                at = len(runs) - 1

    @staticmethod
    def _merge(one: _Run, other: _Run) -> _Run:
        dues = np.concatenate(
            [np.frombuffer(dues, dtype=np.int64) for run in (one, other) for dues in run.columns()[0]]
        )
        refs = np.concatenate(
            [np.frombuffer(refs, dtype=np.uint64) for run in (one, other) for refs in run.columns()[1]]
        )
        order = np.argsort(dues, kind="stable")
        dues, refs = dues[order], refs[order]
        merged = _Run()
        for begin in range(0, len(dues), CHUNK_REFS):
            chunk = array("q"), array("Q")
            chunk[0].frombytes(dues[begin : begin + CHUNK_REFS].tobytes())
            chunk[1].frombytes(refs[begin : begin + CHUNK_REFS].tobytes())
            merged.extend(*chunk)
        return merged

    def take(self, limit: int) -> list[tuple[int, int]]:
        """Remove at most so many from the front."""
        taken: list[tuple[int, int]] = []
        while self._runs and len(taken) < limit:
            first = min(self._runs, key=lambda run: run.first_due)
            others = [run.first_due for run in self._runs if run is not first]
            taken += first.take(limit - len(taken), min(others, default=None))
            if not first.length:
                self._runs.remove(first)
        return taken
