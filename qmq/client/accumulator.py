"""Batches waiting to be sent, by subject, bounded. Pure: times are arguments.

A queue per subject holds batches in the order of their messages; the newest may be open for more. By its first batch a queue is

- ready: the batch is full, closed or has waited long enough,
- lingering: the batch is open and waits for more messages,
- resting: the batch failed and waits for its next attempt.

No call but `take_expired` visits all subjects: the cost of each follows the messages it moves.
"""

import heapq
import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from qmq.client.config import Limits
from qmq.client.outgoing import Batch, Key, Token
from qmq.errors import QueueFull

SPREAD_SECONDS_MAX = 1.0
"""A message joins no batch whose deadline is earlier than its own by more than this: all messages of a batch fail together."""


@dataclass(eq=False, slots=True)
class _Queue:
    """One subject's batches; `resting_until` is set while the first of them must not be sent yet."""

    key: Key
    batches: "deque[Batch]" = field(default_factory=deque)
    resting_until: float | None = None


class Accumulator:
    """A queue per subject, delayed messages apart; `take` returns batches."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.messages = 0
        self.bytes = 0
        self._queues: dict[Key, _Queue] = {}
        self._ready: OrderedDict[Key, _Queue] = OrderedDict()
        """Queues that may be sent from now, in turn."""
        self._lingering: OrderedDict[Key, _Queue] = OrderedDict()
        """Queues whose only batch is open, oldest first."""
        self._resting: list[tuple[float, int, _Queue]] = []
        """A heap; entries whose time is not the queue's any more are stale."""
        self._counter = itertools.count()

    def has_room(self, messages: int, size: int) -> bool:
        """Whether this number of further messages fits. An empty queue takes anything."""
        limits = self._limits
        return not self.messages or (
            self.messages + messages <= limits.queue_messages and self.bytes + size <= limits.queue_bytes
        )

    def full(self) -> QueueFull:
        return QueueFull(
            f"{self.messages} messages of {self.bytes} bytes are waiting to be sent, the limits are"
            f" {self._limits.queue_messages} and {self._limits.queue_bytes}: await send(), or raise Limits.queue_messages"
        )

    def add(self, key: Key, message_id: str, entry: bytes, token: Token, now: float, give_up_at: float) -> Batch | None:
        """Queue a message that fits. Returns its batch if that was opened or filled by it: there is something to do then."""
        queue = self._queues.get(key)
        size = len(entry)
        self.messages += 1
        self.bytes += size
        limits = self._limits
        batch = queue.batches[-1] if queue is not None else None
        is_new = (
            batch is None
            or not batch.is_open
            or batch.size + size > limits.batch_bytes
            or give_up_at - batch.give_up_at > SPREAD_SECONDS_MAX
        )
        if is_new:
            batch = Batch(key, now, give_up_at, is_open=True)
            self._append(batch)
        assert batch is not None
        batch.add(message_id, entry)
        batch.tokens.append(token)
        if len(batch.entries) >= limits.batch_messages or batch.size >= limits.batch_bytes:
            self._close(self._queues[key])
            return batch
        return batch if is_new else None

    def add_batch(self, batch: Batch) -> None:
        """Queue a batch of its own, which no other messages join."""
        self.messages += len(batch)
        self.bytes += batch.size
        self._append(batch)

    def put_back(self, batch: Batch, now: float) -> None:
        """Queue a batch again whose attempt failed, before newer ones of its subject."""
        queue = self._queues.setdefault(batch.key, _Queue(batch.key))
        queue.batches.appendleft(batch)
        self.messages += len(batch)
        self.bytes += batch.size
        self._place(queue, now)

    def end_rest(self, key: Key, now: float) -> None:
        """Let the failed batches of a subject be sent now. Visits its batches."""
        queue = self._queues.get(key)
        if queue is None:
            return
        for batch in queue.batches:
            batch.end_rest()
        if queue.resting_until is not None:
            self._place(queue, now)

    def _append(self, batch: Batch) -> None:
        queue = self._queues.setdefault(batch.key, _Queue(batch.key))
        if queue.batches and queue.batches[-1].is_open:
            self._close(queue)
        queue.batches.append(batch)
        if len(queue.batches) == 1:
            self._place(queue, batch.opened_at)

    def _close(self, queue: _Queue) -> None:
        """No more messages join the queue's last batch."""
        queue.batches[-1].is_open = False
        if len(queue.batches) == 1 and self._lingering.pop(queue.key, None) is not None:
            self._ready[queue.key] = queue

    def _place(self, queue: _Queue, now: float) -> None:
        """Make a queue ready, behind the others, or lingering or resting, by its first batch."""
        first = queue.batches[0]
        self._ready.pop(queue.key, None)
        self._lingering.pop(queue.key, None)
        if first.not_before > now:
            if queue.resting_until != first.not_before:
                queue.resting_until = first.not_before
                heapq.heappush(self._resting, (first.not_before, next(self._counter), queue))
            return
        queue.resting_until = None
        if first.is_open:
            self._lingering[queue.key] = queue
        else:
            self._ready[queue.key] = queue

    def take(self, now: float, linger: float) -> Batch | None:
        """The next batch, subjects in turn; None when nothing may be sent now. An open batch waits `linger` seconds."""
        while (soonest := self._next_rest_ends()) is not None and soonest <= now:
            self._place(heapq.heappop(self._resting)[2], now)
        while self._lingering:
            queue = next(iter(self._lingering.values()))
            if queue.batches[0].opened_at + linger > now:
                break
            self._close(queue)
        if not self._ready:
            return None
        _, queue = self._ready.popitem(last=False)
        batch = queue.batches.popleft()
        if queue.batches:
            self._place(queue, now)
        else:
            del self._queues[queue.key]
        self.messages -= len(batch)
        self.bytes -= batch.size
        return batch

    def _next_rest_ends(self) -> float | None:
        while self._resting and self._resting[0][2].resting_until != self._resting[0][0]:
            heapq.heappop(self._resting)
        return self._resting[0][0] if self._resting else None

    def next_at(self, linger: float) -> float | None:
        """When the earliest batch may be sent, 0 for at once; None when nothing waits."""
        if self._ready:
            return 0.0
        soonest = self._next_rest_ends()
        if self._lingering:
            opened_at = next(iter(self._lingering.values())).batches[0].opened_at
            return opened_at + linger if soonest is None else min(soonest, opened_at + linger)
        return soonest

    def take_expired(self, now: float) -> list[Batch]:
        """Remove the batches whose time is over; with infinity, all. Visits all queues: at most `Limits.queue_messages`."""
        expired = []
        for queue in list(self._queues.values()):
            late = [batch for batch in queue.batches if batch.give_up_at <= now]
            if not late:
                continue
            expired += late
            queue.batches = deque(batch for batch in queue.batches if batch.give_up_at > now)
            if queue.batches:
                self._place(queue, now)
            else:
                del self._queues[queue.key]
                self._ready.pop(queue.key, None)
                self._lingering.pop(queue.key, None)
                queue.resting_until = None
        self.messages -= sum(map(len, expired))
        self.bytes -= sum(batch.size for batch in expired)
        return expired
