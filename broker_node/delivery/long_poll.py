"""Pulls that found nothing wait here until an append wakes them or their patience ends.

The only timers are the end of a pull's patience, and the moment a retried message becomes due. Both share one heap. Memory
follows the pulls that wait: an answered pull leaves its number in the heap at most, and those are cleared out as they add up.
"""

import asyncio
import heapq
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from qmq.clock import Clock
from qmq.protocol.commands import PullRequest
from qmq.protocol.frames import Frame
from qmq.supervisor import Supervisor
from qmq_node.server.connection import Connection

HELD_PULLS_MAX = 50_000
"""Most pulls parked on one node; beyond it a pull is answered at once with nothing, as if its time were up."""
ENDED_MAX = 200
"""Waits ended in one iteration of the event loop, however many end at the same moment."""
STALE_DEADLINES_MAX = 1_000
"""Deadlines of answered pulls that stay in the heap, beside as many as there are pulls waiting."""


Sender = tuple[Connection, str, str, str]
"""Connection, subject, group and consumer ID of a pull."""


@dataclass(eq=False, slots=True)
class ParkedPull:
    """A pull that waits for messages until `deadline` (monotonic seconds)."""

    connection: Connection
    frame: Frame
    request: PullRequest
    deadline: float
    ticket: int = -1
    is_done: bool = False
    has_left: bool = False
    """Its sender left the group while it waited for the disk."""

    @property
    def sender(self) -> Sender:
        """Who waits."""
        request = self.request
        return self.connection, request.subject, request.group, request.consumer_id


_Queue = OrderedDict[int, ParkedPull]


@dataclass(slots=True)
class LongPolls:
    """Parked pulls by subject and group, the one that waits longest first."""

    clock: Clock
    supervisor: Supervisor
    on_expired: Callable[[ParkedPull], None]
    on_due: Callable[[str], None]
    """A subject's retried messages became due."""
    held: int = 0
    _parked: dict[str, dict[str, _Queue]] = field(default_factory=dict)
    _by_sender: dict[Sender, dict[int, ParkedPull]] = field(default_factory=dict)
    """By ticket."""
    _deadlines: list[tuple[float, int]] = field(default_factory=list)
    """(when, ticket); a ticket that is not in `_by_ticket` was answered meanwhile."""
    _by_ticket: dict[int, ParkedPull | str] = field(default_factory=dict)
    """Parked pulls, and subjects whose retried messages become due."""
    _due: dict[str, tuple[float, int]] = field(default_factory=dict)
    _ticket: int = 0
    _timer: asyncio.TimerHandle | None = None
    _timer_at: float = float("inf")

    def park(self, pull: ParkedPull) -> bool:
        """Keep a pull waiting; False when too many wait already."""
        if self.held >= HELD_PULLS_MAX:
            return False
        pull.ticket = self._at(pull.deadline, pull)
        request = pull.request
        self._parked.setdefault(request.subject, {}).setdefault(request.group, OrderedDict())[pull.ticket] = pull
        self._by_sender.setdefault(pull.sender, {})[pull.ticket] = pull
        self.held += 1
        return True

    def wake_at(self, subject: str, when: float) -> None:
        """Wake a subject's pulls at a monotonic time."""
        known = self._due.get(subject)
        if known is None or when < known[0]:
            if known is not None:
                del self._by_ticket[known[1]]
            self._due[subject] = (when, self._at(when, subject))

    def groups(self, subject: str) -> list[str]:
        """Groups that have pulls waiting for the subject."""
        return list(self._parked.get(subject, ()))

    def oldest(self, subject: str, group: str) -> ParkedPull | None:
        """The pull of a group that waits longest; it stays parked until it is `done`."""
        waiting = self._parked.get(subject, {}).get(group)
        return next(iter(waiting.values())) if waiting else None

    def of(self, sender: Sender) -> list[ParkedPull]:
        """The pulls of a consumer that wait."""
        return list(self._by_sender.get(sender, {}).values())

    def newer(self, pull: ParkedPull) -> list[ParkedPull]:
        """The pulls of a parked pull's subject and group that wait less long."""
        waiting = self._parked[pull.request.subject][pull.request.group]
        return [other for ticket, other in waiting.items() if ticket > pull.ticket]

    def done(self, pull: ParkedPull) -> None:
        """Remove a pull that is answered."""
        if pull.is_done:
            return
        pull.is_done = True
        self.held -= 1
        del self._by_ticket[pull.ticket]
        request = pull.request
        groups = self._parked[request.subject]
        waiting = groups[request.group]
        del waiting[pull.ticket]
        own = self._by_sender[pull.sender]
        del own[pull.ticket]
        if not own:
            del self._by_sender[pull.sender]
        if not waiting:
            del groups[request.group]
            if not groups:
                del self._parked[request.subject]
        if len(self._deadlines) > 2 * len(self._by_ticket) + STALE_DEADLINES_MAX:
            self._deadlines = [item for item in self._deadlines if item[1] in self._by_ticket]
            heapq.heapify(self._deadlines)

    def end_all(self) -> None:
        """Answer every pull as if its time were up."""
        for item in list(self._by_ticket.values()):
            if isinstance(item, ParkedPull):
                self.on_expired(item)

    def give_up_all(self) -> None:
        """The node stops: answer every pull."""
        self.end_all()
        if self._timer is not None:
            self._timer.cancel()

    def _at(self, when: float, what: ParkedPull | str) -> int:
        self._ticket += 1
        self._by_ticket[self._ticket] = what
        heapq.heappush(self._deadlines, (when, self._ticket))
        self._arm()
        return self._ticket

    def _arm(self) -> None:
        if not self._deadlines or self._deadlines[0][0] >= self._timer_at:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._deadlines[0][0]
        delay = max(0.0, self._timer_at - self.clock.monotonic())
        self._timer = self.supervisor.later(delay, "long_poll_timer", self.check)

    def check(self) -> None:
        """Answer up to ENDED_MAX that are due; the timer, set to now, calls it for further ones.

        A job calls it once a second as well, so that no deadline rests on one timer.
        """
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timer_at = None, float("inf")
        now, left = self.clock.monotonic(), ENDED_MAX
        while left and self._deadlines and self._deadlines[0][0] <= now:
            left -= 1
            _, ticket = heapq.heappop(self._deadlines)
            what = self._by_ticket.get(ticket)
            if what is not None:
                self.supervisor.call("long_poll", partial(self._end_wait, ticket, what))
        self._arm()

    def _end_wait(self, ticket: int, what: ParkedPull | str) -> None:
        if isinstance(what, str):
            del self._by_ticket[ticket], self._due[what]
            self.on_due(what)
        else:
            self.on_expired(what)
