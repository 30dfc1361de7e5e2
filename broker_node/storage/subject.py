"""A subject of this node, and its groups, in memory."""

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from broker_node.storage.actions import Action, SequenceRun
from broker_node.storage.consume_log import find_time
from broker_node.storage.progress import GroupProgress
from broker_node.storage.progress_log import encode_progress
from broker_node.storage.pull_log import PullRun
from broker_node.storage.rates import Meter
from qmq.errors import LogError
from qmq.protocol.names import split_subject
from qmq_node.log.checkpoint import as_number, as_text
from qmq_node.log.index import DenseIndex

NOTED_MAX = 1_000
"""Most actions that a group's history does not contain yet; at this number they are appended."""
DEPARTED_MAX = 32
"""Consumers of a group on a subject whose ids are known after they left: a rolling deployment of this number, between two reads of
histories."""


@dataclass(eq=False, repr=False, slots=True)
class Group:
    """A consumer group's progress on a subject, and the history that is written of it."""

    progress: GroupProgress
    _history: DenseIndex
    _noted: list[tuple[Action, int]] = field(default_factory=list)
    """Actions that the history does not contain yet, each with the group's position after it."""
    departed: dict[str, None] = field(default_factory=dict)
    """Consumers that left last, the latest at the end: histories name them by their keys only."""
    pulled_total: int = 0
    acked_total: int = 0
    meter: Meter = field(default_factory=Meter)
    """Of `pulled_total` and `acked_total`."""
    redelivered_total: int = 0
    retried_total: int = 0
    skipped_total: int = 0
    """Messages that retention removed before the group read them."""

    @property
    def history(self) -> DenseIndex:
        """The group's progress log, with all actions so far."""
        if self._noted:
            self._history.append(b"".join([encode_progress(action, position) for action, position in self._noted]))
            self._noted.clear()
        return self._history

    def note(self, action: Action) -> None:
        """Note an action that was just applied. It is appended to the history later, at the latest when the history is read."""
        self._noted.append((action, self.progress.next_sequence))
        if len(self._noted) >= NOTED_MAX:
            self.write_history()

    def write_history(self) -> None:
        """Append the noted actions to the history."""
        _ = self.history

    def left(self, consumer_id: str) -> None:
        """A consumer left: its id is known on, until DEPARTED_MAX others left."""
        self.departed.pop(consumer_id, None)
        self.departed[consumer_id] = None
        if len(self.departed) > DEPARTED_MAX:
            del self.departed[next(iter(self.departed))]


@dataclass(eq=False, repr=False, slots=True)
class Subject:
    """What the node knows of one subject.

    `next_sequence` counts what was appended; entries of the consume log exist, and are visible, only for what is synced.
    """

    name: str
    consume_log: DenseIndex
    touched: dict["Subject", None]
    """Takes the subject when something of it changes."""
    origin: int = 0
    """No sequence below this one belongs to the subject: an earlier subject of the name, since removed, may have used them."""
    version: int = 0
    """Of its last change, see `SubjectChanges`."""
    next_sequence: int = field(init=False)
    groups: dict[str, Group] = field(default_factory=dict)
    is_retry: bool = field(init=False)
    real: str = field(init=False)
    """The subject that this one is, or is the retry or dead-letter subject of."""
    check_at: float = 0.0
    """Monotonic time, in seconds, before which no consumer's lease can expire."""
    checked_begin: int = -1
    """The log's oldest offset that this subject's begin was last adjusted to."""
    sent_total: int = 0
    bytes_total: int = 0
    meter: Meter = field(default_factory=Meter)
    """Of `sent_total` and `bytes_total`."""
    withheld: list[tuple[int, int]] = field(default_factory=list)
    """Ranges [begin, end) of sequences whose messages are lost to damage, in order."""
    _line: bytes | None = None

    def __post_init__(self) -> None:
        self.next_sequence = self.consume_log.end
        parts = split_subject(self.name)
        self.is_retry, self.real = parts.kind == "retry", parts.subject

    @property
    def begin(self) -> int:
        """The oldest sequence still stored."""
        return self.consume_log.begin

    @property
    def visible_end(self) -> int:
        """The first sequence that may not be handed out yet."""
        return self.consume_log.end

    async def find_time(self, at_ms: int) -> int:
        """As `consume_log.find_time`, with reads in a thread. Raises LogError."""
        index = self.consume_log
        while True:
            view = index.view(index.begin, index.end)
            try:
                return await asyncio.to_thread(find_time, view, at_ms)
            except LogError:
                if index.begin == view.begin:
                    raise
                # Retention removed a file during the search.

    @property
    def indexes(self) -> list[DenseIndex]:
        """Its consume log and its groups' histories, in the order of its checkpoint line."""
        return [self.consume_log, *(group.history for group in self.groups.values())]

    @property
    def is_empty(self) -> bool:
        """Whether it has no group and no message, stored or on its way to the disk."""
        return not self.groups and self.begin == self.next_sequence

    def withhold(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Record that messages in these ranges [begin, end) of sequences are lost to damage."""
        together = sorted([*self.withheld, *ranges])
        self.withheld = []
        for begin, end in together:
            if self.withheld and begin <= self.withheld[-1][1]:
                self.withheld[-1] = self.withheld[-1][0], max(end, self.withheld[-1][1])
            else:
                self.withheld.append((begin, end))
        self.changed()

    def replace_withheld(self, withheld: tuple[int, int], left: Iterable[tuple[int, int]]) -> None:
        """Record that of a range of `withheld` only some ranges are lost. One that has changed meanwhile stays."""
        if withheld in self.withheld:
            self.withheld.remove(withheld)
            self.withhold(left)

    @property
    def withheld_count(self) -> int:
        """Messages that are stored and lost to damage: no group can consume them."""
        begin = self.begin
        if self.withheld and self.withheld[0][1] <= begin:
            self.withheld = [(low, high) for low, high in self.withheld if high > begin]
        return sum(high - max(low, begin) for low, high in self.withheld)

    def changed(self) -> None:
        """Record that something of it changed: its checkpoint line is built again, and readers of changes get it."""
        self._line = None
        self.touched[self] = None

    def checkpoint_line(self) -> bytes:
        """Everything a restart needs of this subject, as one line of JSON; kept until something changes."""
        if self._line is None:
            groups = [_group_state(group) for group in self.groups.values()]
            state = {"subject": self.name, "begin": self.begin, "end": self.visible_end, "groups": groups}
            if self.origin:
                state["origin"] = self.origin
            if self.withheld:
                state["withheld"] = self.withheld
            self._line = json.dumps(state, ensure_ascii=False, separators=(",", ":")).encode()
        return self._line


def _group_state(group: Group) -> list[Any]:
    progress = group.progress
    consumers = [
        [
            c.consumer_id,
            c.log.acked,
            c.log.pulled,
            c.touched_at,
            [[r.pull_begin, r.begin, r.count] for r in c.log.runs_without_holders()],
        ]
        for c in progress.consumers.values()
    ]
    # Retried at start; what is left of them must survive a checkpoint made meanwhile.
    orphans = [[run.begin, run.count] for run in progress.orphans]
    return [
        progress.group,
        int(progress.broadcast),
        progress.next_sequence,
        progress.applied_at,
        group.history.end,
        consumers,
        *([orphans] if orphans else []),
    ]


def restore_groups(
    subject: Subject, states: list[list[Any]], open_history: Callable[[str, str, int], DenseIndex], seen_at: float
) -> None:
    """Rebuild a subject's groups from its checkpoint line; `open_history(subject, group, end)` opens their history.

    Raises ValueError or TypeError for a line that `checkpoint_line` does not make.
    """
    for name, broadcast, next_sequence, applied_at, history_end, consumers, *orphans in states:
        progress = GroupProgress(subject.name, as_text(name), as_number(next_sequence), bool(broadcast))
        progress.applied_at = as_number(applied_at, -1)
        progress.orphans = [SequenceRun(*map(as_number, run)) for runs in orphans for run in runs]
        for consumer_id, acked, pulled, touched_at, runs in consumers:
            consumer = progress.consumer(as_text(consumer_id), seen_at)
            consumer.touched_at = as_number(touched_at, -1)
            consumer.log.acked, consumer.log.pulled = as_number(acked), as_number(pulled)
            consumer.log.restore(
                [PullRun(as_number(first), as_number(begin), as_number(count)) for first, begin, count in runs]
            )
        subject.groups[name] = Group(progress, open_history(subject.name, name, as_number(history_end)))
