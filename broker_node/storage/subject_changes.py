"""The order in which subjects changed, for readers that request only what changed since their last request."""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter

from broker_node.storage.rates import WINDOW_SECONDS
from broker_node.storage.subject import Subject
from qmq.clock import Clock

QUIET_SECONDS = (WINDOW_SECONDS + 1, 60.0, 300.0, 1_500.0)
"""A subject without changes counts as changed again after each of these, because its rates fall: to 0 over the window, later the
smoothed ones."""
QUIET_SUBJECTS_MAX = 2_000
"""Quiet subjects that count as changed in one call of `advance`; further ones in the next call."""
REMOVED_MAX = 10_000
"""Removed subjects that are reported; readers who have not read older ones read everything again."""
COMPACT_ENTRIES = 250
"""After this number of new entries, 4 times as many are checked and outdated ones removed, so that these are fewer than
half of all."""


@dataclass(frozen=True, slots=True)
class Changes:
    """One page of changes."""

    subjects: list[Subject]
    removed: list[str]
    """Names of subjects that no longer exist."""
    version: int
    """The version to continue from."""
    has_more: bool
    complete_to_ms: int
    """Wall time up to which the reader has all changes after this page."""


@dataclass(eq=False, repr=False)
class SubjectChanges:
    """Gives changes of subjects ascending versions. The event loop calls everything.

    A change that no reader has received yet keeps its version when the subject changes again: a reader that is slower than the
    changes still reads every subject in turn.
    """

    _subjects: Mapping[str, Subject]
    """By name."""
    _touched: dict[Subject, None]
    """Subjects that changed; emptied here."""
    _log_begin: Callable[[], int]
    """The oldest offset of the log. When it rises, any subject may have lost messages."""
    _clock: Clock
    _last_begin: int = field(init=False)
    _version: int = 0
    _oldest: int = 0
    """Changes above this version are known."""
    _received: int = 0
    """The highest version that a reader received."""
    _entries: list[tuple[int, int, Subject]] = field(default_factory=list)
    """Version, wall time and subject, ascending; outdated unless the subject has the same version."""
    _compacted: int = 0
    """Entries before this index were checked since the last time that all were."""
    _removed: deque[int] = field(default_factory=deque)
    """Versions with which subjects were removed, ascending."""
    _quiet: list[dict[Subject, float]] = field(default_factory=lambda: [{} for _ in QUIET_SECONDS])
    """By time of the last change, ascending: subjects that are due again after QUIET_SECONDS."""
    _unsampled: dict[Subject, None] = field(init=False)

    def __post_init__(self) -> None:
        self._last_begin = self._log_begin()
        self._unsampled = dict(self._touched)
        self._touched.clear()

    def advance(self) -> None:
        """Record the subjects that changed since the previous call."""
        now, now_ms = self._clock.monotonic(), self._clock.wall_ms()
        begin = self._log_begin()
        if begin != self._last_begin:
            self._last_begin = begin
            self.reset()
        first, *later = self._quiet
        for subject in self._touched:
            self._record(subject, now_ms)
            for stage in later:
                stage.pop(subject, None)
            first.pop(subject, None)
            if self._exists(subject):
                first[subject] = now
        self._unsampled.update(self._touched)
        self._touched.clear()
        left = QUIET_SUBJECTS_MAX
        for stage, following, seconds in zip(self._quiet, (*later, None), QUIET_SECONDS, strict=True):
            # Not one by one: each would walk over what was deleted before it.
            due = []
            for item in islice(stage.items(), left):
                if now - item[1] < seconds:
                    break
                due.append(item)
            left -= len(due)
            for subject, changed_at in due:
                del stage[subject]
                if not self._exists(subject):
                    continue
                self._record(subject, now_ms)
                if following is not None:
                    following[subject] = changed_at

    def take_unsampled(self) -> list[Subject]:
        """Subjects that changed since the previous call, whose counters may have increased."""
        subjects = list(self._unsampled)
        self._unsampled.clear()
        return subjects

    def reset(self) -> None:
        """Any subject may have changed: readers read everything again."""
        self._version += 1
        self._oldest = self._version
        self._entries.clear()
        self._removed.clear()
        self._compacted = 0

    def current(self) -> int:
        """The version of everything that is read from now on."""
        self.advance()
        self._received = self._version
        return self._version

    def since(self, version: int, limit: int) -> Changes | None:
        """Up to `limit` subjects that changed after a version, the oldest change first; None if these are no longer known."""
        self.advance()
        if not self._oldest <= version <= self._version:
            return None
        subjects: list[Subject] = []
        removed: list[str] = []
        reached, has_more, complete_to_ms = version, False, self._clock.wall_ms()
        for at in range(bisect_right(self._entries, version, key=itemgetter(0)), len(self._entries)):
            entry, at_ms, subject = self._entries[at]
            if subject.version != entry:
                continue
            if len(subjects) + len(removed) >= limit:
                has_more, complete_to_ms = True, at_ms
                break
            reached = entry
            current = self._subjects.get(subject.name)
            if current is subject:
                subjects.append(subject)
            elif current is None:
                removed.append(subject.name)
        else:
            reached = self._version
        self._received = max(self._received, reached)
        return Changes(subjects, removed, reached, has_more, complete_to_ms)

    def _record(self, subject: Subject, now_ms: int) -> None:
        if subject.version > self._received:
            return
        self._version += 1
        subject.version = self._version
        self._entries.append((self._version, now_ms, subject))
        if not self._exists(subject):
            self._removed.append(self._version)
            if len(self._removed) > REMOVED_MAX:
                self._oldest = self._removed.popleft()
        if self._version % COMPACT_ENTRIES == 0:
            self._compact()

    def _compact(self) -> None:
        begin, end = self._compacted, self._compacted + 4 * COMPACT_ENTRIES
        kept = [entry for entry in self._entries[begin:end] if entry[2].version == entry[0] > self._oldest]
        self._compacted = begin + len(kept) if end < len(self._entries) else 0
        self._entries[begin:end] = kept

    def _exists(self, subject: Subject) -> bool:
        return self._subjects.get(subject.name) is subject
