"""class KnownState: what a checkpoint knows when derived files are made again: the log holds only what retention left of it.

A rebuild replays the whole log that is there. Segments that retention removed had messages and actions that still count: the next
sequences of subjects without messages, and the positions of groups and their consumers. They are taken from the checkpoint before
the replay, which then changes nothing that the checkpoint holds already: each action at or below the log offset that a group
applied last is only added to its history.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from broker_node.storage.actions import Action, Pull, Start
from broker_node.storage.progress_log import PROGRESS_ENTRY_BYTES, encode_progress
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, restore_groups
from qmq_node.log.checkpoint import as_number, as_text
from qmq_node.log.index import DenseIndex

WAITING_MAX = 10_000
"""Actions of a group that wait until its position is known; beyond, the oldest are left out."""


@dataclass(eq=False, slots=True)
class _KnownGroup:
    """A group's history while it is made again."""

    history: DenseIndex
    history_end: int
    """Its end as the checkpoint counted."""
    entries: int = 0
    """Entries of actions that the checkpoint holds, as far as they are in the log."""
    position: int | None = None
    """The group's position after the last of them; None until one of them says it."""
    waiting: deque[Action] = field(default_factory=lambda: deque(maxlen=WAITING_MAX))
    """Those before that."""

    def add(self, actions: Iterable[Action], position: int) -> None:
        """Append actions to the history, after which the group is at this position."""
        entries = b"".join([encode_progress(action, position) for action in actions])
        self.history.append(entries)
        self.entries += len(entries) // PROGRESS_ENTRY_BYTES

    def add_waiting(self, position: int) -> None:
        """The group was at this position when the actions were done that wait."""
        self.add(self.waiting, position)
        self.waiting.clear()
        self.position = position


@dataclass(eq=False, slots=True)
class KnownState:
    """The subjects and groups of a checkpoint, in an empty store."""

    records_end: int
    """The log offset up to which the state may hold records. A replay has to reach it before the store is used."""
    _subjects: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Begin and end of each subject that the replay has not removed."""
    _groups: dict[Group, _KnownGroup] = field(default_factory=dict)

    @classmethod
    def restore(cls, store: MessageStore, head: Mapping[str, Any], lines: list[Any], offset: int) -> "KnownState":
        """Make the subjects and groups of a checkpoint, without messages and histories.

        Args:
            offset: where the checkpoint stands.

        Raises ValueError, LookupError, TypeError for a state that can't be read.
        """
        known = cls(max(offset, as_number(head["records_end"])))
        store.sequence_floor = as_number(head["sequence_floor"])
        for line in lines:
            name, begin, end = as_text(line["subject"]), as_number(line["begin"]), as_number(line["end"])
            if begin > end:
                raise ValueError(f"subject {name} begins at {begin} and ends at {end}")
            subject = store.add_subject(name, store.open_index(name, begin), as_number(line.get("origin", 0)))
            ends: dict[str, int] = {}

            def open_history(subject_name: str, group: str, end: int, ends: dict[str, int] = ends) -> DenseIndex:
                ends[group] = end
                return store.open_history(subject_name, group, 0)

            restore_groups(subject, line["groups"], open_history, store.clock.monotonic())
            subject.changed()
            known._subjects[name] = begin, end
            for group_name, group in subject.groups.items():
                known._groups[group] = _KnownGroup(group.history, ends[group_name])
        return known

    @property
    def subjects(self) -> set[str]:
        """The names of the subjects."""
        return set(self._subjects)

    def begin_of(self, subject: str) -> int | None:
        """The sequence at which a subject begins; None if it is not known."""
        found = self._subjects.get(subject)
        return None if found is None else found[0]

    @property
    def ends(self) -> dict[str, int]:
        """The sequence at which each subject ends."""
        return {name: end for name, (_, end) in self._subjects.items()}

    def hides(self, subject: str, end: int) -> bool:
        """Whether messages that end at this sequence are below the begin of the subject, or of an earlier subject of its name."""
        found = self._subjects.get(subject)
        return found is not None and end <= found[0]

    def removed(self, subject: str) -> None:
        """The replay removed a subject."""
        self._subjects.pop(subject, None)

    def note(self, group: Group, action: Action, offset: int) -> None:
        """Add an action to the history of its group if the checkpoint holds it; `MessageStore.apply` adds the others.

        An entry has the position of the group. Actions before the first one that says it are left out if nothing else does.
        """
        known = self._groups.get(group)
        if known is None:
            return
        if offset > group.progress.applied_at:
            if known.position is None:
                # All before it was done at the position that the checkpoint has.
                known.add_waiting(group.progress.next_sequence)
            return
        if known.position is None:
            if isinstance(action, Pull):
                known.add_waiting(action.from_sequence)
            elif isinstance(action, Start):
                # The record that says where the group was before has left the log.
                known.waiting.clear()
            else:
                known.waiting.append(action)
                return
        if isinstance(action, Pull | Start):
            known.position = action.next_sequence
        assert known.position is not None
        known.add([action], known.position)

    def finish(self, store: MessageStore) -> None:
        """After the replay: give subjects without messages their next sequences, hide what was hidden, and number the histories as
        they were."""
        for name, (begin, end) in self._subjects.items():
            subject = store.subjects.get(name)
            if subject is None:
                continue
            index = subject.consume_log
            if subject.begin == subject.visible_end < end:
                index.start_at(end)
            index.hide_before(begin)
            subject.next_sequence = subject.visible_end
            subject.changed()
        for group, known in self._groups.items():
            if known.position is None:
                known.add_waiting(group.progress.next_sequence)
            if known.entries < known.history_end:
                known.history.move(known.history_end - known.entries)
        self._groups.clear()
        self._subjects.clear()
