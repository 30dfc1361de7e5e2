"""Messages waiting to be sent, by subject, bounded. Pure: times are handed in.

No call visits all subjects: the cost of each follows the messages it moves.
"""

import heapq
import itertools
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from qmq.client.config import Limits
from qmq.errors import QueueFull

T = TypeVar("T")
Key = tuple[str, bool]
"""Subject, and whether its messages are delayed."""


@dataclass(eq=False, slots=True)
class Waiting(Generic[T]):
    """One message to send: its encoded bytes, its deadline, and the future that its sender awaits."""

    subject: str
    message_id: str
    entry: bytes
    give_up_at: float
    token: T
    is_delayed: bool = False
    """To a delay group, not to a broker group."""
    not_before: float = 0.0
    attempts: int = 0
    last_group: str = ""
    last_problem: str = ""
    may_be_stored: bool = False
    """The outcome of an attempt is unknown."""


@dataclass(eq=False, slots=True)
class _Queue(Generic[T]):
    """One subject's messages; `resting_until` is set while the first of them must not be sent yet."""

    key: Key
    items: "deque[Waiting[T]]" = field(default_factory=deque)
    resting_until: float | None = None


@dataclass(slots=True)
class Accumulator(Generic[T]):
    """A queue per subject, delayed messages apart; `take` hands out batches."""

    limits: Limits
    messages: int = 0
    bytes: int = 0
    _queues: "dict[Key, _Queue[T]]" = field(default_factory=dict)
    _ready: "OrderedDict[Key, _Queue[T]]" = field(default_factory=OrderedDict)
    """Queues that may be sent from now, in turn."""
    _resting: "list[tuple[float, int, _Queue[T]]]" = field(default_factory=list)
    """A heap of the other queues; entries whose time is not the queue's any more are stale."""
    _full_queues: int = 0
    """Queues with a whole batch."""
    _counter: "itertools.count[int]" = field(default_factory=itertools.count)

    def has_room(self, size: int) -> bool:
        """Whether one more message of this size fits. An empty queue takes a message of any size."""
        limits = self.limits
        return not self.messages or (self.messages < limits.queue_messages and self.bytes + size <= limits.queue_bytes)

    def add(self, item: Waiting[T]) -> None:
        """Queue a message.

        Raises:
            QueueFull: the queue is at one of its limits.
        """
        if not self.has_room(len(item.entry)):
            raise self.full()
        queue = self._queues.get((item.subject, item.is_delayed))
        if queue is None:
            queue = self._make_queue(item)
            queue.items.append(item)
            self._place(queue)
        else:
            queue.items.append(item)
        self._count(queue, item)

    def full(self) -> QueueFull:
        """The error of a message that does not fit."""
        return QueueFull(
            f"{self.messages} messages of {self.bytes} bytes are waiting to be sent, the limits are"
            f" {self.limits.queue_messages} and {self.limits.queue_bytes}: await send(), or raise Limits.queue_messages"
        )

    def put_back(self, items: list[Waiting[T]]) -> None:
        """Queue messages of one subject again whose attempt failed, before newer ones."""
        if not items:
            return
        queue = self._queues.get((items[0].subject, items[0].is_delayed)) or self._make_queue(items[0])
        for item in reversed(items):
            queue.items.appendleft(item)
            self._count(queue, item)
        self._place(queue)

    def _make_queue(self, item: Waiting[T]) -> "_Queue[T]":
        key = (item.subject, item.is_delayed)
        queue = self._queues[key] = _Queue(key)
        return queue

    def _count(self, queue: "_Queue[T]", item: Waiting[T]) -> None:
        self.messages += 1
        self.bytes += len(item.entry)
        if len(queue.items) == self.limits.batch_messages:
            self._full_queues += 1

    def _place(self, queue: "_Queue[T]", now: float = 0.0) -> None:
        """Put a queue behind the ready ones, or to rest, by its first message."""
        not_before = queue.items[0].not_before
        if not_before <= now:
            queue.resting_until = None
            self._ready[queue.key] = queue
            self._ready.move_to_end(queue.key)
            return
        self._ready.pop(queue.key, None)
        if queue.resting_until != not_before:
            queue.resting_until = not_before
            heapq.heappush(self._resting, (not_before, next(self._counter), queue))

    def take(self, now: float) -> list[Waiting[T]]:
        """A batch of one subject, subjects in turn; empty when nothing may be sent now."""
        while (soonest := self.next_rest_ends()) is not None and soonest <= now:
            self._place(heapq.heappop(self._resting)[2], now)
        if not self._ready:
            return []
        _, queue = self._ready.popitem(last=False)
        items, limits = queue.items, self.limits
        batch: list[Waiting[T]] = []
        size = 0
        was_full = len(items) >= limits.batch_messages
        while (
            items
            and items[0].not_before <= now
            and len(batch) < limits.batch_messages
            and (not batch or size + len(items[0].entry) <= limits.batch_bytes)
        ):
            item = items.popleft()
            batch.append(item)
            size += len(item.entry)
        if was_full and len(items) < limits.batch_messages:
            self._full_queues -= 1
        if items:
            self._place(queue, now)
        else:
            del self._queues[queue.key]
        self.messages -= len(batch)
        self.bytes -= size
        return batch

    def next_rest_ends(self) -> float | None:
        """When the first of the resting queues may be sent; None when none rests."""
        while self._resting and self._resting[0][2].resting_until != self._resting[0][0]:
            heapq.heappop(self._resting)
        return self._resting[0][0] if self._resting else None

    def next_at(self) -> float | None:
        """When the earliest message may be sent, 0 for at once; None when nothing waits."""
        return 0.0 if self._ready else self.next_rest_ends()

    def is_alone(self, item: Waiting[T]) -> bool:
        """Whether a waiting message is the only one of its queue: the sender has not been woken for that queue."""
        return len(self._queues[item.subject, item.is_delayed].items) == 1

    def is_full_batch(self) -> bool:
        """Whether some subject has a whole batch waiting."""
        return self._full_queues > 0

    def drain(self) -> list[Waiting[T]]:
        """Everything, and the queue is empty."""
        items = [item for queue in self._queues.values() for item in queue.items]
        self._queues.clear()
        self._ready.clear()
        self._resting.clear()
        self.messages = self.bytes = self._full_queues = 0
        return items
