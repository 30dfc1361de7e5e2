"""RefQueue: many refs waiting in order, eight bytes each."""

from array import array
from collections import deque
from collections.abc import Sequence

CHUNK_REFS = 4096


class RefQueue:
    """First in, first out; what could not be done goes back to the front."""

    def __init__(self) -> None:
        self._chunks: deque[array[int]] = deque()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def extend(self, refs: Sequence[int]) -> None:
        """Add refs at the end."""
        self._length += len(refs)
        if self._chunks and len(self._chunks[-1]) + len(refs) <= CHUNK_REFS:
            self._chunks[-1].extend(refs)
        elif refs:
            self._chunks.append(array("Q", refs))

    def put_back(self, refs: Sequence[int]) -> None:
        """Add refs at the front, in their order."""
        if refs:
            self._length += len(refs)
            self._chunks.appendleft(array("Q", refs))

    def take(self, limit: int) -> list[int]:
        """Take at most so many from the front."""
        taken: list[int] = []
        while self._chunks and len(taken) < limit:
            chunk = self._chunks[0]
            room = limit - len(taken)
            taken.extend(chunk[:room])
            if len(chunk) <= room:
                self._chunks.popleft()
            else:
                del chunk[:room]
        self._length -= len(taken)
        return taken

    @property
    def memory_bytes(self) -> int:
        """About how much memory it takes."""
        return sum(chunk.buffer_info()[1] * 8 + 64 for chunk in self._chunks)
