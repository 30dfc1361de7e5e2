"""Removal of empty subjects, so that typos and short-lived subjects do not fill `subjects_max` for ever.

A subject is empty when it has no group and no message. That can change when the log's begin moves, when its last group is
removed, or when its own retention takes its last message: only then subjects are checked. Entries of the index that are not in
memory are read in a thread.
"""

import asyncio
from collections import deque
from itertools import islice

from broker_node.consume_log import ENTRY
from broker_node.pacer import Pacer
from broker_node.store import MessageStore
from broker_node.subject import Subject
from qmq.errors import LogError
from qmq.log.index import IndexView

BATCH_SUBJECTS_MAX = 500
"""Subjects checked in one tick."""
SLICE_SUBJECTS = 100
"""Subjects removed in one turn of the event loop."""


class SubjectRemoval:
    """Removes empty subjects of one store; on the event loop."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._queue: deque[str] = deque()
        self._checked_begin = -1
        """The log's begin when all subjects were last queued."""

    async def tick(self) -> None:
        """Check some subjects, and remove those that are empty with the next commit.

        Nothing is removed from a damaged log: what seems to be missing may be hidden. Raises LogError when an index could not be
        read; its subject stays, the others were checked.
        """
        store = self._store
        if store.log.damaged:
            return
        if not self._queue and self._checked_begin != store.log.begin:
            self._checked_begin = store.log.begin
            self._queue.extend(store.subjects)
        subjects = self._next()
        await self._remove(subjects)
        aged = [(s, s.consume_log.index.view(s.visible_end - 1, s.visible_end)) for s in subjects if self._may_age(s)]
        if not aged:
            return
        offsets, problem = await asyncio.get_running_loop().run_in_executor(None, _last_offsets, [v for _, v in aged])
        for (subject, view), offset in zip(aged, offsets, strict=True):
            if offset is not None and offset < store.log.begin and subject.visible_end == view.end:
                subject.consume_log.index.hide_before(view.end)
                subject.changed()
        await self._remove([subject for subject, _ in aged])
        if problem:
            raise LogError(problem, code="log.index_unreadable")

    def _next(self) -> list[Subject]:
        """The subjects of this batch that might be empty."""
        store, found = self._store, []
        names = list(islice(store.maybe_empty, BATCH_SUBJECTS_MAX))
        for name in names:
            del store.maybe_empty[name]
        names += [self._queue.popleft() for _ in range(min(BATCH_SUBJECTS_MAX - len(names), len(self._queue)))]
        for name in names:
            subject = store.subjects.get(name)
            if subject is None or subject.groups or subject.next_sequence != subject.visible_end:
                continue
            if name in store.removed:
                # Files of an earlier subject of this name are not deleted yet: this one is checked again.
                store.maybe_empty[name] = None
            else:
                found.append(subject)
        return found

    def _may_age(self, subject: Subject) -> bool:
        """Whether the subject has messages, and the log may no longer hold them."""
        return subject.begin < subject.visible_end and 0 < self._store.log.begin != subject.checked_begin

    async def _remove(self, subjects: list[Subject]) -> None:
        pacer = Pacer(SLICE_SUBJECTS)
        for subject in subjects:
            await pacer.spend()
            # Clients may have used it since, or made another of its name.
            if not self._store.log.damaged and subject.is_empty and self._store.subjects.get(subject.name) is subject:
                self._store.drop_subject(subject)


def _last_offsets(views: list[IndexView]) -> tuple[list[int | None], str]:
    """For each view of a last entry its log offset, None when it is not known; and the first problem. From any thread."""
    offsets: list[int | None] = []
    problem = ""
    for view in views:
        offset = None
        try:
            for log_offset, size, *_ in ENTRY.iter_unpack(view.read(view.begin, view.end)):
                offset = log_offset if size else None
        except LogError as error:
            problem = problem or str(error)
        offsets.append(offset)
    return offsets, problem
