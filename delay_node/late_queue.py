"""LateQueue: very many refs in the order of their due times, sixteen bytes each."""

from array import array
from collections import deque
from collections.abc import Sequence

import numpy as np

CHUNK_REFS = 4096


class LateQueue:
    """Taken from the front in due order. Adding at either end is cheap; in between, everything is sorted anew."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[array[int], array[int]]] = deque()
        """(due times, refs), each chunk and the row of them ascending by due time."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, items: Sequence[tuple[int, int]]) -> None:
        """Add (due time, ref) pairs, ascending by due time."""
        if not items:
            return
        dues, refs = array("q", [due for due, _ in items]), array("Q", [ref for _, ref in items])
        self._length += len(items)
        chunks = self._chunks
        if not chunks or dues[0] >= chunks[-1][0][-1]:
            if chunks and len(chunks[-1][0]) + len(dues) <= CHUNK_REFS:
                chunks[-1][0].extend(dues)
                chunks[-1][1].extend(refs)
            else:
                chunks.append((dues, refs))
        elif dues[-1] <= chunks[0][0][0]:
            chunks.appendleft((dues, refs))
        else:
            chunks.append((dues, refs))
            self._sort()

    def _sort(self) -> None:
        dues = np.concatenate([np.frombuffer(dues, dtype=np.int64) for dues, _ in self._chunks])
        refs = np.concatenate([np.frombuffer(refs, dtype=np.uint64) for _, refs in self._chunks])
        order = np.argsort(dues, kind="stable")
        dues, refs = dues[order], refs[order]
        self._chunks.clear()
        for begin in range(0, len(dues), CHUNK_REFS):
            chunk = array("q"), array("Q")
            chunk[0].frombytes(dues[begin : begin + CHUNK_REFS].tobytes())
            chunk[1].frombytes(refs[begin : begin + CHUNK_REFS].tobytes())
            self._chunks.append(chunk)

    def take(self, limit: int) -> list[tuple[int, int]]:
        """Take at most so many from the front."""
        taken: list[tuple[int, int]] = []
        while self._chunks and len(taken) < limit:
            dues, refs = self._chunks[0]
            room = limit - len(taken)
            taken.extend(zip(dues[:room], refs[:room], strict=True))
            if len(dues) <= room:
                self._chunks.popleft()
            else:
                del dues[:room], refs[:room]
        self._length -= len(taken)
        return taken

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        return sum(16 * dues.buffer_info()[1] + 200 for dues, _ in self._chunks)
