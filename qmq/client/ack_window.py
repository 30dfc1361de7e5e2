"""Acks in any order to closed ranges in order. Pure.

The wire acks a closed range of pull sequences from the oldest unacked on, so a settled message behind an unsettled one
waits. Messages are counted in spans, one for each answer of the broker. There may be gaps between spans (the broker left something
out); a range covers them.
"""

from collections import deque
from dataclasses import InitVar, dataclass, field

OPEN, SETTLED, BUSY = 0, 1, 2
"""State of a message: not settled; settled; its next attempt is being stored."""

_SETTLED_MARK = bytes((SETTLED,))
_OPEN_MARK = bytes((OPEN,))


@dataclass(eq=False, repr=False, slots=True)
class Span:
    """Messages with neighbouring pull sequences, `first` to `last`, and their states; `count` of them, at least one."""

    first: int
    count: InitVar[int]
    last: int = field(init=False)
    marks: bytearray = field(init=False)
    """State of each message."""
    open: int = field(init=False)
    """Messages that are not settled."""

    def __post_init__(self, count: int) -> None:
        self.last, self.marks, self.open = self.first + count - 1, bytearray(count), count

    def settle(self, index: int) -> None:
        """Settle a message that is not settled yet."""
        self.marks[index] = SETTLED
        self.open -= 1

    def settle_range(self, begin: int, end: int) -> int:
        """Settle the messages with indexes [begin, end) that are OPEN, and return how many these are."""
        marks = self.marks
        count = marks.count(_OPEN_MARK, begin, end)
        if count:
            marks[begin:end] = marks[begin:end].replace(_OPEN_MARK, _SETTLED_MARK)
            self.open -= count
        return count

    def unsettled(self) -> list[int]:
        return [index for index, mark in enumerate(self.marks) if mark != SETTLED]

    @property
    def settled_first(self) -> int:
        """How many of the first messages are settled, up to the first that is not."""
        return len(self.marks) - len(self.marks.lstrip(_SETTLED_MARK)) if self.open else len(self.marks)


class AckWindow:
    """What was received from one broker group and is not acked yet."""

    def __init__(self) -> None:
        self.spans: deque[Span] = deque()
        """Those with messages that are not acked, the oldest first."""
        self.last = -1
        """Highest pull sequence received; -1: none."""
        self._acked = -1

    def __len__(self) -> int:
        """Messages received and not acked."""
        return sum(span.last - max(span.first, self._acked + 1) + 1 for span in self.spans)

    @property
    def begin(self) -> int:
        """Lowest pull sequence not acked; -1 before the first."""
        if self.last < 0:
            return -1
        return max(self.spans[0].first, self._acked + 1) if self.spans else self._acked + 1

    @property
    def is_first_settled(self) -> bool:
        """Whether the oldest span is settled as a whole."""
        return bool(self.spans) and not self.spans[0].open

    def seen(self, first: int, count: int) -> int:
        """How many of the messages with pull sequences from `first` on were received before (an answer that came twice)."""
        return max(0, min(count, self.last + 1 - first))

    def add(self, span: Span) -> None:
        """Add messages that were not seen before."""
        self.spans.append(span)
        self.last = span.last

    def rewind(self, last: int) -> None:
        """Forget the spans received after pull sequence `last`, so that the next pull requests their messages again."""
        while self.spans and self.spans[-1].last > last:
            self.spans.pop()
        self.last = last

    def closed_range(self) -> tuple[int, int] | None:
        """The longest run of settled messages from the oldest on, as a closed range; None when the oldest is not settled."""
        last = -1
        for span in self.spans:
            count = span.settled_first
            if count:
                last = span.first + count - 1
            if span.open:
                break
        begin = self.begin
        return (begin, last) if last >= begin >= 0 else None

    def acked(self, last: int) -> None:
        """The broker confirmed everything up to pull sequence `last`."""
        while self.spans and self.spans[0].last <= last:
            self.spans.popleft()
        self._acked = max(self._acked, last)
