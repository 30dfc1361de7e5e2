"""Where a subject begins after retention removed segments of the log: the first message that the log still holds."""

import asyncio

from broker_node.storage.consume_log import KNOWN_LOOK, find_offset, first_known
from broker_node.storage.disk_work import DiskWork, InThread, completed
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq.errors import LogError
from qmq_node.log.index import IndexView


class SubjectBegin(DiskWork):
    """Searches the index of a subject for its first message at or above a log offset."""

    def __init__(self, store: MessageStore, subject: Subject, log_begin: int) -> None:
        super().__init__()
        self._store = store
        self._subject = subject
        self._log_begin = log_begin
        index = subject.consume_log
        self._view: IndexView = index.view(index.begin, index.end)
        self._first: int | None = None
        self._error: LogError | None = None

    def read(self) -> None:
        try:
            self._first = find_offset(self._view, self._log_begin)
        except LogError as error:
            self._error = error

    def finish(self) -> DiskWork | None:
        if self._first is not None:
            _begin_at(self._subject, self._log_begin, self._first)
        elif self._subject.begin <= self._view.begin and self._error is not None:
            raise self._error
        # Else retention took a file meanwhile: the request searches again.
        return None


def adjust_begin(store: MessageStore, subject: Subject) -> None:
    """Forget the entries of messages that left with their log segment, without waiting for the disk.

    Raises:
        DiskWork: they have to be searched on the disk.
    """
    log_begin = store.log.begin
    if subject.checked_begin == log_begin:
        return
    begin, end = subject.begin, subject.visible_end
    if log_begin <= 0 or begin >= end:
        _begin_at(subject, log_begin, begin)
        return
    index = subject.consume_log
    entries = index.read_cached(begin, begin + KNOWN_LOOK)
    first = None if entries is None else first_known(entries)
    if first is None or first.log_offset < log_begin:
        if index.firsts:
            raise SubjectBegin(store, subject, log_begin)
        begin = find_offset(index, log_begin)
    _begin_at(subject, log_begin, begin)


async def begin_adjusted(store: MessageStore, subject: Subject, in_thread: InThread = asyncio.to_thread) -> None:
    """As `adjust_begin`, with searches in a thread. Raises LogError."""
    await completed(lambda: adjust_begin(store, subject), in_thread)


def _begin_at(subject: Subject, log_begin: int, first: int) -> None:
    subject.checked_begin = log_begin
    if first > subject.begin:
        subject.consume_log.hide_before(first)
        subject.changed()
