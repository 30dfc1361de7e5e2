"""Lanes of due messages, and which lane a broker group's next frame takes messages from. Pure: no I/O, no clock.

Each subject has a lane. For each broker group a `FairQueue` forms frames by deficit round robin over the lanes that have
messages for the group: a lane takes at most its quantum, then the next lane follows. A frame of `FRAME_COST` is divided by the
number of lanes, so a lone lane fills frames alone, and with N lanes each is served at least once in N turns.
"""

from array import array
from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from qmq.protocol.commands import BrokerGroupRoute

MOVED_REFS_MAX = 4096
"""A larger run has refs added before its first one only where others were taken: else all would be moved."""
MERGED_REFS_MAX = 250_000
"""Larger runs are not merged: it would hold up the event loop."""


@dataclass(eq=False, slots=True)
class _Run:
    """(due times, refs), ascending by due time; those before `begin` were taken."""

    dues: "array[int]"
    refs: "array[int]"
    begin: int = 0

    def __len__(self) -> int:
        return len(self.dues) - self.begin

    @property
    def first_due(self) -> int:
        return self.dues[self.begin]

    def extend(self, dues: "array[int]", refs: "array[int]") -> bool:
        """Add refs behind the last one or before the first one; False when they fit at neither end."""
        if dues[0] >= self.dues[-1]:
            self.dues.extend(dues)
            self.refs.extend(refs)
            return True
        if dues[-1] > self.first_due:
            return False
        begin = self.begin - len(dues)
        if begin < 0 and len(self) > MOVED_REFS_MAX:
            return False
        self.dues[max(0, begin) : self.begin] = dues
        self.refs[max(0, begin) : self.begin] = refs
        self.begin = max(0, begin)
        return True

    def take(self, limit: int, until_due: int | None) -> list[tuple[int, int]]:
        """Remove at most `limit` from the front, none due after `until_due`. Amortised O(taken)."""
        begin, end = self.begin, min(self.begin + limit, len(self.dues))
        if until_due is not None:
            end = bisect_right(self.dues, until_due, begin, end)
        taken = list(zip(self.dues[begin:end], self.refs[begin:end], strict=True))
        self.begin = end
        if 2 * end > len(self.dues):
            del self.dues[:end], self.refs[:end]
            self.begin = 0
        return taken


class LateQueue:
    """(due time, ref) of messages; taken from the front in due order, added in any order.

    It keeps ascending runs, and takes from the one that begins with the oldest ref. Refs that fit at no end of a run begin a new
    one; then runs of up to MERGED_REFS_MAX are merged until each is more than twice as long as the next. Refs in due order, or from
    two such sequences in turn, are never merged.
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def __len__(self) -> int:
        return sum(map(len, self._runs))

    def add(self, items: Sequence[tuple[int, int]]) -> None:
        """Add messages, in any order."""
        if not items:
            return
        items = sorted(items)
        dues, refs = array("q", [due for due, _ in items]), array("Q", [ref for _, ref in items])
        if not any(run.extend(dues, refs) for run in self._runs):
            self._runs.append(_Run(dues, refs))
            self._merge_alike()

    def _merge_alike(self) -> None:
        """Merge runs until each is more than twice as long as the next one."""
        runs = self._runs
        at = len(runs) - 1
        while at > 0:
            runs.sort(key=len, reverse=True)
            is_large = len(runs[at]) + len(runs[at - 1]) > MERGED_REFS_MAX
            if is_large or len(runs[at]) * 2 < len(runs[at - 1]):
                at -= 1
            else:
                runs[at - 1 : at + 1] = [self._merge(runs[at - 1], runs[at])]
                at = len(runs) - 1

    @staticmethod
    def _merge(one: _Run, other: _Run) -> _Run:
        dues = np.concatenate([run.dues[run.begin :] for run in (one, other)])
        refs = np.concatenate([run.refs[run.begin :] for run in (one, other)])
        order = np.argsort(dues, kind="stable")
        return _Run(array("q", dues[order].tobytes()), array("Q", refs[order].tobytes()))

    def take(self, limit: int) -> list[tuple[int, int]]:
        """Remove items from the front, at most this number."""
        taken: list[tuple[int, int]] = []
        while self._runs and len(taken) < limit:
            first = min(self._runs, key=lambda run: run.first_due)
            others = [run.first_due for run in self._runs if run is not first]
            taken += first.take(limit - len(taken), min(others, default=None))
            if not len(first):
                self._runs.remove(first)
        return taken


FRAME_MESSAGES = 500
FRAME_BYTES = 1 << 20
"""One SEND to a broker group holds at most this much, or one larger message."""
MESSAGE_COST_MIN = FRAME_BYTES // FRAME_MESSAGES
"""What a small message costs, so that one budget bounds a frame's messages and its bytes."""
FRAME_COST = MESSAGE_COST_MIN * FRAME_MESSAGES
QUANTUM_MIN = 10 * MESSAGE_COST_MIN
"""The smallest turn of a lane; with more than FRAME_MESSAGES / 10 lanes a round takes several frames."""
LATE_SHARE = 0.75
"""Overdue messages get at most this part of a frame while fresh ones are waiting, in the same lane or in another."""
VISITS_MAX = 2_000
"""Lanes visited while one frame is formed; the next frame continues behind them."""


@dataclass(eq=False, slots=True)
class Item:
    """A due message with its bytes."""

    ref: int
    due_ms: int
    subject: int
    data: bytes
    refusals: int = 0


@dataclass(eq=False, slots=True)
class Lane:
    """Due messages of one subject, in due order: `old` and `fresh` with their bytes, `late` without."""

    subject: int
    name: str
    old: deque[Item] = field(default_factory=deque)
    fresh: deque[Item] = field(default_factory=deque)
    late: LateQueue = field(default_factory=LateQueue)
    frames: Counter[str] = field(default_factory=Counter)
    """Unanswered frames with messages of this lane, by broker group."""
    parked_until: float = 0.0
    is_parked: bool = False
    is_refilling: bool = False
    """Waits for the bytes of its overdue messages, or they are being read."""
    routes: list[BrokerGroupRoute] = field(default_factory=list)
    """Writable broker groups of the subject, as last read from the metaserver session."""
    rejections: int = 0
    """Frames in a row whose messages of this lane were rejected because of their subject."""
    rotation: int = 0
    avoid: str = ""
    problem: str = ""

    @property
    def ready(self) -> int:
        """Messages with their bytes in memory."""
        return len(self.old) + len(self.fresh)

    @property
    def is_probing(self) -> bool:
        """Whether one message is sent at a time, until a broker stores one."""
        return self.rejections > 0

    @property
    def waiting(self) -> int:
        """All messages of the lane, except those in unanswered frames."""
        return self.ready + len(self.late)

    @property
    def is_idle(self) -> bool:
        """Whether the lane has nothing waiting, nothing being read and nothing in unanswered frames."""
        return not (self.waiting or self.is_refilling or self.frames.total())


class Verdict(Enum):
    """Whether a lane may be served by a broker group now."""

    SERVE = "serve"
    PROBE = "probe"
    """With one message, then the lane leaves the queue."""
    SKIP = "skip"
    """Not this time: another broker group is to serve it."""
    LEAVE = "leave"
    """The lane leaves the queue until it is added again."""


Judge = Callable[[Lane], Verdict]


class Rotation:
    """Deficit round robin over one kind of waiting messages. `messages` selects them from a lane."""

    def __init__(self, messages: Callable[[Lane], deque[Item]]) -> None:
        self._messages = messages
        self._ring: deque[Lane] = deque()
        self._credits: dict[Lane, int] = {}
        """Budget left of the current turn; negative after a message larger than the quantum."""

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, lane: Lane) -> bool:
        """Add a lane at the end unless it is in the rotation or has no messages of this kind; whether it was added."""
        if lane in self._credits or not self._messages(lane):
            return False
        self._ring.append(lane)
        self._credits[lane] = 0
        return True

    def take(self, room: int, judge: Judge, taken: list[Item], probe: int = 0) -> int:
        """Move messages of a total cost of at most `room`, or a single large one, to `taken`; the total.

        `probe` varies which lane comes first, and which message of a probed lane is taken: one that brokers never store must not
        be the only one that they are probed with.
        """
        ring, credits = self._ring, self._credits
        used = skipped = visits = 0
        ring.rotate(-probe)
        while ring and used < room and skipped < len(ring) and visits < VISITS_MAX:
            lane = ring[0]
            visits += 1
            messages = self._messages(lane)
            verdict = judge(lane) if messages else Verdict.LEAVE
            if verdict is Verdict.SKIP:
                ring.rotate(-1)
                skipped += 1
                continue
            if verdict is not Verdict.LEAVE:
                skipped = 0
                credit = credits[lane]
                if verdict is Verdict.PROBE:
                    credit = 1
                    index = (probe + lane.rejections) % len(messages)
                    messages.appendleft(messages[index])
                    del messages[index + 1]
                elif credit <= 0:
                    credit += max(QUANTUM_MIN, FRAME_COST // len(ring))
                while messages and credit > 0:
                    size = len(messages[0].data)
                    cost = MESSAGE_COST_MIN if size < MESSAGE_COST_MIN else min(size, FRAME_COST)
                    if used + cost > room and taken:
                        credits[lane] = credit
                        return used
                    taken.append(messages.popleft())
                    used += cost
                    credit -= cost
                credits[lane] = credit
            if verdict is not Verdict.SERVE or not messages:
                ring.popleft()
                del credits[lane]
            elif credits[lane] <= 0:
                ring.rotate(-1)
        return used


class FairQueue:
    """The lanes that have messages for one broker group."""

    def __init__(self) -> None:
        self._old = Rotation(lambda lane: lane.old)
        self._fresh = Rotation(lambda lane: lane.fresh)
        self._old_debt = 0
        """What large overdue messages took beyond LATE_SHARE of their frames; taken off the share of the next ones."""

    def __len__(self) -> int:
        """Places in the rotations; a lane may have two."""
        return len(self._old) + len(self._fresh)

    def add(self, lane: Lane) -> bool:
        """Have a lane served for as long as it has messages with their bytes in memory; whether it was not before."""
        is_new = self._old.add(lane)
        return self._fresh.add(lane) or is_new

    def take(self, judge: Judge) -> list[Item]:
        """The messages of the next frame."""
        taken: list[Item] = []
        share = int(FRAME_COST * LATE_SHARE) if self._fresh else FRAME_COST
        for_old = max(0, share - self._old_debt)
        used = self._old.take(for_old, judge, taken)
        self._old_debt = max(0, self._old_debt - share) + max(0, used - for_old) if self._fresh else 0
        used += self._fresh.take(FRAME_COST - used, judge, taken)
        self._old.take(FRAME_COST - used, judge, taken)
        return taken

    def take_probe(self, judge: Judge, number: int) -> list[Item]:
        """One message, another one for each number."""
        taken: list[Item] = []
        # A room of 1 is room for a single message, whatever it costs.
        if not self._old.take(1, judge, taken, number):
            self._fresh.take(1, judge, taken, number)
        return taken
