"""Delayed messages without `await`."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

from qmq.client import delayed
from qmq.client.delayed import DelayedMessage
from qmq.sync.loop import Client, blocking, iterate


class DelayedReceipt:
    """`qmq.DelayedReceipt` without `await`."""

    message_id: str
    subject: str
    broker_group: str
    attempts: int
    due_ms: int
    due_at: datetime

    def __init__(self, inner: delayed.DelayedReceipt) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    cancel = blocking(delayed.DelayedReceipt.cancel)
    reschedule = blocking(delayed.DelayedReceipt.reschedule)
    deliver = blocking(delayed.DelayedReceipt.deliver)


class DelayedMessages(Client[delayed.DelayedMessages]):
    """`qmq.DelayedMessages` without `await`, with the same arguments."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(partial(delayed.DelayedMessages, url, **options))

    close = blocking(delayed.DelayedMessages.close)
    find = blocking(delayed.DelayedMessages.find)
    calendar = blocking(delayed.DelayedMessages.calendar)
    cancel = blocking(delayed.DelayedMessages.cancel)
    reschedule = blocking(delayed.DelayedMessages.reschedule)
    deliver = blocking(delayed.DelayedMessages.deliver)
    cancel_matching = blocking(delayed.DelayedMessages.cancel_matching)

    def list(self, subject: str, **options: Any) -> Iterator[DelayedMessage]:
        """Yield a subject's delayed messages by due time; the options are those of `qmq.DelayedMessages.list`."""
        return iterate(self._inner.list(subject, **options))
