"""Removal of empty subjects, so that typos and short-lived subjects do not fill `subjects_max` permanently.

A subject is empty when it has no group and no message. That can change when the log's begin moves, when its last group is
removed, or when its own retention takes its last message: only then subjects are checked. Entries of the index that are not in
memory are read in a thread.
"""

from collections import deque
from itertools import islice

from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq.errors import LogError
from qmq_node.slices import Pacer

BATCH_SUBJECTS_MAX = 500
"""Subjects checked, and at most as many removed, in one tick."""
PACE_UNITS = 100
"""Subjects checked in one iteration of the event loop."""


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
        if store.log.stored.damaged:
            return
        if not self._queue and self._checked_begin != store.log.begin:
            self._checked_begin = store.log.begin
            self._queue.extend(store.subjects)
        pacer, problem = Pacer(PACE_UNITS), ""
        for subject in self._next():
            await pacer.spend()
            try:
                await begin_adjusted(store, subject)
            except LogError as error:
                problem = problem or str(error)
            is_stored = store.subjects.get(subject.name) is subject
            if is_stored and subject.is_empty and subject.name not in store.removed:
                store.drop_subject(subject)
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
