"""Acks in any order to closed ranges in order. Pure.

The wire acks a closed range of pull sequences from the oldest unacked on, so a finished message behind an unfinished one
waits. Sequences received may have gaps (the broker left something out); a range simply spans them.
"""

from collections import deque


class AckWindow:
    """Pull sequences received from one broker group, and which of them are done."""

    def __init__(self) -> None:
        self._received: deque[int] = deque()
        self._done: set[int] = set()
        self.last = -1
        """Highest pull sequence received; -1: none."""
        self._acked = -1

    def __len__(self) -> int:
        """Received and not yet acked to the broker."""
        return len(self._received)

    @property
    def begin(self) -> int:
        """Lowest pull sequence not acked; -1 before the first."""
        return self._received[0] if self._received else (self._acked + 1 if self.last >= 0 else -1)

    def receive(self, sequence: int) -> bool:
        """A message came; False when it was seen before (an answer that came twice) and is not to be handled again."""
        if sequence <= self.last:
            return False
        self._received.append(sequence)
        self.last = sequence
        return True

    def done(self, sequence: int) -> None:
        """A message is settled."""
        self._done.add(sequence)

    def rewind(self, last: int) -> None:
        """Forget what was received after pull sequence `last`, so that the next pull requests it again."""
        while self._received and self._received[-1] > last:
            self._done.discard(self._received.pop())
        self.last = last

    def closed_range(self) -> tuple[int, int] | None:
        """The longest run from the oldest on that is done, as a closed range; None when the oldest is not."""
        last = None
        for sequence in self._received:
            if sequence not in self._done:
                break
            last = sequence
        return None if last is None else (self._received[0], last)

    def acked(self, last: int) -> None:
        """The broker confirmed everything up to `last`."""
        while self._received and self._received[0] <= last:
            self._done.discard(self._received.popleft())
        self._acked = max(self._acked, last)
