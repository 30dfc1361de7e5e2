"""Pulls that found nothing wait here; the append that brings them something wakes them, not a timer.

The only timers are the end of a pull's patience, and the moment a retried message becomes due. Both share one heap.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from qmq.clock import Clock
from qmq.net.server import Connection
from qmq.protocol.commands import PullRequest
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor

HELD_PULLS_MAX = 50_000
"""Most pulls parked on one node; beyond it a pull is answered at once with nothing, as if its time were up."""


@dataclass(eq=False, slots=True)
class ParkedPull:
    """A pull that waits for messages until `deadline` (monotonic seconds)."""

    connection: Connection
    frame: Frame
    request: PullRequest
    deadline: float
    is_done: bool = False


@dataclass(slots=True)
class LongPolls:
    """Parked pulls by subject, oldest first."""

    clock: Clock
    supervisor: Supervisor
    on_expired: Callable[[ParkedPull], None]
    on_due: Callable[[str], None]
    """A subject's retried messages became due."""
    held: int = 0
    _parked: dict[str, deque[ParkedPull]] = field(default_factory=dict)
    _deadlines: list[tuple[float, int, ParkedPull | str]] = field(default_factory=list)
    _due: dict[str, float] = field(default_factory=dict)
    _ticket: int = 0
    _timer: asyncio.TimerHandle | None = None
    _timer_at: float = float("inf")

    def park(self, pull: ParkedPull) -> bool:
        """Keep a pull waiting; False when too many wait already."""
        if self.held >= HELD_PULLS_MAX:
            return False
        self._parked.setdefault(pull.request.subject, deque()).append(pull)
        self.held += 1
        self._at(pull.deadline, pull)
        return True

    def wake_at(self, subject: str, when: float) -> None:
        """Wake a subject's pulls at a monotonic time."""
        if when < self._due.get(subject, float("inf")):
            self._due[subject] = when
            self._at(when, subject)

    def take(self, subject: str) -> Iterator[ParkedPull]:
        """The subject's waiting pulls, oldest first; each is given back with `put_back` if it still has to wait."""
        waiting = self._parked.pop(subject, None)
        if waiting is None:
            return
        for pull in waiting:
            if not pull.is_done:
                yield pull

    def put_back(self, pull: ParkedPull) -> None:
        """A pull taken found nothing again: it keeps its place and its deadline."""
        self._parked.setdefault(pull.request.subject, deque()).append(pull)

    def done(self, pull: ParkedPull) -> None:
        """A pull was answered or given up."""
        if not pull.is_done:
            pull.is_done = True
            self.held -= 1

    def has(self, subject: str) -> bool:
        """Whether any pull waits for the subject."""
        return subject in self._parked

    def give_up_all(self) -> None:
        """The node stops: answer everybody."""
        for subject in list(self._parked):
            for pull in self.take(subject):
                self.on_expired(pull)
        if self._timer is not None:
            self._timer.cancel()

    def _at(self, when: float, what: ParkedPull | str) -> None:
        self._ticket += 1
        heapq.heappush(self._deadlines, (when, self._ticket, what))
        self._arm()

    def _arm(self) -> None:
        if not self._deadlines or self._deadlines[0][0] >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._deadlines[0][0]
        delay = max(0.0, self._timer_at - self.clock.monotonic())
        self._timer = self.supervisor.later(delay, "long_poll_timer", self.check)

    def check(self) -> None:
        """Answer what is due. The timer calls it, and once a second a job, so that no deadline rests on one timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")
        now = self.clock.monotonic()
        while self._deadlines and self._deadlines[0][0] <= now:
            when, _, what = heapq.heappop(self._deadlines)
            self.supervisor.call("long_poll", partial(self._end_wait, when, what))
        self._arm()

    def _end_wait(self, when: float, what: ParkedPull | str) -> None:
        if isinstance(what, str):
            if self._due.get(what) == when:
                del self._due[what]
                self.on_due(what)
        elif not what.is_done:
            self._forget(what)
            self.on_expired(what)

    def _forget(self, pull: ParkedPull) -> None:
        waiting = self._parked.get(pull.request.subject)
        if waiting is not None and pull in waiting:
            waiting.remove(pull)
            if not waiting:
                del self._parked[pull.request.subject]
