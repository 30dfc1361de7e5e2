"""Messages waiting to be sent, by subject, bounded. Pure: times are handed in."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from qmq.client.config import Limits
from qmq.errors import QueueFull

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Waiting(Generic[T]):
    """One message on its way: its entry bytes, when to give up, and what its sender waits on."""

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


@dataclass(slots=True)
class Accumulator(Generic[T]):
    """A queue per subject, delayed messages apart; `take` hands out batches."""

    limits: Limits
    messages: int = 0
    bytes: int = 0
    _queues: "OrderedDict[tuple[str, bool], deque[Waiting[T]]]" = field(default_factory=OrderedDict)

    def has_room(self, size: int) -> bool:
        """Whether one more message of this size fits."""
        return self.messages < self.limits.queue_messages and self.bytes + size <= self.limits.queue_bytes

    def add(self, item: Waiting[T]) -> None:
        """Queue a message.

        Raises:
            QueueFull: the queue is at one of its limits.
        """
        if not self.has_room(len(item.entry)):
            raise QueueFull(
                f"{self.messages} messages of {self.bytes} bytes wait to be sent, the limits are"
                f" {self.limits.queue_messages} and {self.limits.queue_bytes}: await send(), or raise Limits.queue_messages"
            )
        self._put(item)

    def put_back(self, items: list[Waiting[T]]) -> None:
        """Queue messages again whose attempt failed, before newer ones."""
        for item in reversed(items):
            self._put(item, front=True)

    def _put(self, item: Waiting[T], *, front: bool = False) -> None:
        queue = self._queues.setdefault((item.subject, item.is_delayed), deque())
        if front:
            queue.appendleft(item)
        else:
            queue.append(item)
        self.messages += 1
        self.bytes += len(item.entry)

    def take(self, now: float) -> list[Waiting[T]]:
        """A batch of one subject, subjects in turn; empty when nothing may be sent now."""
        for key in list(self._queues):
            queue = self._queues[key]
            batch: list[Waiting[T]] = []
            size = 0
            while (
                queue
                and queue[0].not_before <= now
                and len(batch) < self.limits.batch_messages
                and (not batch or size + len(queue[0].entry) <= self.limits.batch_bytes)
            ):
                item = queue.popleft()
                batch.append(item)
                size += len(item.entry)
            if not queue:
                del self._queues[key]
            else:
                self._queues.move_to_end(key)
            if batch:
                self.messages -= len(batch)
                self.bytes -= size
                return batch
        return []

    def next_at(self) -> float | None:
        """When the earliest message may be sent; None when nothing waits."""
        return min((queue[0].not_before for queue in self._queues.values()), default=None)

    def is_alone(self, item: Waiting[T]) -> bool:
        """Whether a waiting message is the only one of its queue: nobody has been told of that queue yet."""
        return len(self._queues[item.subject, item.is_delayed]) == 1

    def is_full_batch(self) -> bool:
        """Whether some subject has a whole batch waiting."""
        return any(len(queue) >= self.limits.batch_messages for queue in self._queues.values())

    def drain(self) -> list[Waiting[T]]:
        """Everything, and the queue is empty."""
        items = [item for queue in self._queues.values() for item in queue]
        self._queues.clear()
        self.messages = self.bytes = 0
        return items
