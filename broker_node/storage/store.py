"""What a broker keeps: the message log, and per subject the consume log and the groups' progress derived from it.

One thread (the event loop) calls everything here except where a docstring says otherwise. Nothing is visible to a pull
before `completed` was called, when its bytes are synced.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from broker_node.storage.actions import Action, DropSubject, Forget, Offline, Origin, Start, StartReason
from broker_node.storage.consume_log import ENTRY_BYTES, encode_run
from broker_node.storage.message_log import MessageLog
from broker_node.storage.subject import Group, Subject
from broker_node.storage.subject_table import LimitReached, SubjectTable
from qmq.protocol.names import check_new_group
from qmq.protocol.scan import Run
from qmq_node.log.commit import RECORD_HEAD_BYTES_MAX
from qmq_node.log.disk import Buffer
from qmq_node.log.log import SegmentedLog
from qmq_node.log.recovery import Damage
from qmq_node.log.retention import SegmentAge

logger = logging.getLogger("qmq.broker.store")

RUN_BYTES_MAX = 8 << 20
"""Messages of one send that become one record of the log, unless a single one is larger."""
CLOCK_DIFFERENCE_MS_MAX = 10_000
"""A new master whose wall clock is behind the newest stored message by at most this continues from the time of that message. If it
is behind by more, one of the two clocks is wrong, and the new master's own time is used."""
WITHHELD_MAX = 100_000
"""Damaged messages remembered, so that they are looked for in the log once. Beyond it damaged messages are withheld and not looked
for."""


@dataclass(slots=True)
class _Unsynced:
    record_offset: int
    subject: Subject
    entries: bytes
    """Of the consume log. They are encoded when the messages are appended: the lists of a run would take several times the memory
    until the high watermark passes the messages."""
    message_bytes: int


@dataclass(slots=True)
class MessageStore(SubjectTable):
    """Subjects and groups over one log. Made by `broker_node.recovery.open_store.open_store`."""

    message_log: MessageLog = field(init=False)
    withheld: set[tuple[str, int]] = field(default_factory=set)
    """(subject, sequence) of messages that failed their checks since start; no more are looked for from WITHHELD_MAX on."""
    segment_newest_ms: dict[int, int] = field(default_factory=dict)
    """Segment base -> wall time of the newest record in it, message or action; the age that retention uses."""
    replayed_end: int = 0
    """The end of the newest commit that was replayed, at least in part, here or before the checkpoint was made."""
    repairs_soon: Callable[[], bool] = lambda: False
    """Whether damage of the log is about to be read from another member: readers then wait, and don't pass over messages."""
    has_new_damage: bool = False
    """Damage was found that no checkpoint holds: one is due."""
    lacks_space_for_copy: Callable[[int], str] = field(default=lambda record_bytes: "")
    """Why a record of this size that repeats stored messages must wait for space; "" when it can be written."""
    _stored_from_ms: int = 0
    """No message is stored with an earlier time."""
    _unsynced: deque[_Unsynced] = field(default_factory=deque)
    _noted: dict[Group, None] = field(default_factory=dict)
    """Groups with actions that their histories do not contain yet."""

    @property
    def log(self) -> SegmentedLog:
        return self.message_log.log

    def end_records(self) -> int:
        """Return the end of a commit up to which the store may hold records.

        This ends the commit that is being gathered, because its actions are applied already. A slave's log has commits behind the
        returned offset that the store does not hold.
        """
        self.log.gather.end_commit()
        return self.replayed_end if self.log.is_slave else self.log.gather.records_end

    # --- subjects and groups ---------------------------------------------------------------------------------------

    def drop_subject(self, subject: Subject) -> int:
        """Remove an empty subject, durably with the next commit; returns the record's log offset.

        Raises ValueError unless it is empty and no files of an earlier subject of its name exist.
        """
        if not subject.is_empty or subject.name in self.removed:
            raise ValueError(f"subject {subject.name} can't be removed: it is not empty, or was removed a moment ago")
        end, at_ms = subject.next_sequence, self.clock.wall_ms()
        action = DropSubject(subject.name, "", "", at_ms, False, end, max(self.sequence_floor, end))
        offset = self.message_log.append_action(action)
        self.note_age(self.log.gather.base, at_ms)
        self.apply_drop(action, offset)
        return offset

    def start_group(
        self, subject: Subject, name: str, consumer_id: str, next_sequence: int, broadcast: bool, reason: StartReason
    ) -> Group:
        """Make a group, or set an existing one's position, durably with the next commit.

        Raises:
            IllegalName: no group may be created with this name.
            LimitReached: the subject has `groups_per_subject_max` groups.
        """
        group = subject.groups.get(name)
        if group is None:
            if not self._is_known_group(subject, name):
                check_new_group(name)
            if len(subject.groups) >= self.limits.groups_per_subject_max:
                raise LimitReached(
                    f"subject {subject.name} has {self.limits.groups_per_subject_max} groups, the limit"
                    " (groups_per_subject_max)"
                )
            group = self.new_group(subject, name, next_sequence, broadcast)
        at_ms = self.clock.wall_ms()
        self.act(subject, group, Start(subject.name, name, consumer_id, at_ms, broadcast, next_sequence, int(reason)))
        return group

    # --- time ------------------------------------------------------------------------------------------------------

    def continue_times(self) -> None:
        """Let no message be stored with an earlier time than those of another master, whose clock may be ahead of this one.

        A position is searched by time (`find_time`), and finds only one of several places if times step back. Until this clock has
        caught up, messages get the time of the newest one; retries wait that much longer, CLOCK_DIFFERENCE_MS_MAX at most.
        """
        newest, now_ms = self.newest_ms, self.clock.wall_ms()
        if newest is None or newest <= now_ms:
            return
        if newest - now_ms > CLOCK_DIFFERENCE_MS_MAX:
            logger.error(
                "the newest record was stored %.1f s after the present time: set the clocks of all members of the broker group."
                " Messages are stored with the time of this node",
                (newest - now_ms) / 1000,
            )
            return
        self._stored_from_ms = newest

    def storing_ms(self) -> int:
        """Return the time with which a message is stored now: wall time, see `continue_times`."""
        return max(self.clock.wall_ms(), self._stored_from_ms)

    # --- writing ---------------------------------------------------------------------------------------------------

    def append_run(
        self, subject: Subject, run: Run, body: memoryview, stored_at_ms: int, origin: Origin = Origin.CLIENT
    ) -> int:
        """Add a run's messages to the log; they get their sequences now and become visible when synced.

        A long run becomes several records of about RUN_BYTES_MAX. Returns the last one's log offset: answers wait until
        `synced_end` is above it.
        """
        message_log = self.message_log
        log = message_log.log
        for part in run.split(min(RUN_BYTES_MAX, log.gather.record_bytes_max - RECORD_HEAD_BYTES_MAX)):
            record, entries = message_log.append_run(
                part, body, subject.next_sequence, stored_at_ms, origin, subject.name
            )
            self.note_age(log.gather.base, stored_at_ms)
            subject.next_sequence += part.count
            index_entries = encode_run(part, entries, stored_at_ms)
            log.gather.add_index_entries(index_entries)
            self._unsynced.append(_Unsynced(record, subject, index_entries, part.end - part.begin))
        return record

    def act(self, subject: Subject, group: Group, action: Action, names: bytes = b"") -> int:
        """Add an action to the log, `names` as in `encode_action`, and apply it; returns the record's log offset."""
        offset = self.message_log.append_action(action, names)
        self.note_age(self.log.gather.base, action.at_ms)
        self.apply(subject, group, action, offset, self.clock.monotonic())
        return offset

    def apply(self, subject: Subject, group: Group, action: Action, offset: int, seen_at: float) -> None:
        """Change the group's state by an action of the log; used live and in recovery."""
        if isinstance(action, Forget):
            self._forget(subject, group, action, offset)
            return
        if group.progress.apply(action, offset, seen_at):
            self._note(group, action)
            if isinstance(action, Offline):
                group.left(action.consumer_id)
            subject.changed()

    def forget_group(self, subject: Subject, group: Group) -> int:
        """Remove a group with all its state, durably with the next commit; returns the record's log offset."""
        progress = group.progress
        return self.act(
            subject, group, Forget(subject.name, progress.group, "", self.clock.wall_ms(), progress.broadcast)
        )

    def _forget(self, subject: Subject, group: Group, action: Forget, offset: int) -> None:
        progress = group.progress
        if offset <= progress.applied_at:
            return
        progress.applied_at = offset
        # Read only if the group is made again before its files are removed.
        self._note(group, action)
        self._remove_group(subject, group)

    def _note(self, group: Group, action: Action) -> None:
        group.note(action)
        self._noted[group] = None

    def write_histories(self) -> None:
        """Append the noted actions to the histories of their groups."""
        while self._noted:
            self._noted.popitem()[0].write_history()

    @property
    def unsynced_offset(self) -> int:
        """Log offset of the last message record that is not synced yet; -1: all are."""
        return self._unsynced[-1].record_offset if self._unsynced else -1

    def completed(self, synced_end: int) -> list[Subject]:
        """Make everything below `synced_end` visible; the subjects that got messages."""
        touched: dict[str, Subject] = {}
        unsynced = self._unsynced
        while unsynced and unsynced[0].record_offset < synced_end:
            item = unsynced.popleft()
            self.index(item.subject, item.entries, item.message_bytes)
            touched[item.subject.name] = item.subject
        return list(touched.values())

    def index(self, subject: Subject, entries: Buffer, message_bytes: int) -> None:
        """Add the entries of synced messages to their subject's consume log.

        Args:
            message_bytes: of the messages in the log.
        """
        subject.consume_log.append(entries)
        subject.sent_total += len(entries) // ENTRY_BYTES
        subject.bytes_total += message_bytes
        self.counters.message_bytes += message_bytes
        subject.changed()

    def note_age(self, segment_base: int, at_ms: int) -> None:
        """Record that a segment holds a record of this wall time, message or action."""
        if at_ms > self.segment_newest_ms.get(segment_base, -1):
            self.segment_newest_ms[segment_base] = at_ms

    def withhold(self, subject: str, sequences: Sequence[int]) -> None:
        """Messages fail their checks and can't be repaired: count and log them once, never serve them."""
        sequences = [sequence for sequence in sequences if (subject, sequence) not in self.withheld]
        if not sequences:
            return
        self.counters.withheld_messages += len(sequences)
        self.withheld.update((subject, sequence) for sequence in sequences)
        if subject in self.subjects:
            self.subjects[subject].withhold((sequence, sequence + 1) for sequence in sequences)
        logger.error(
            "subject %s: %d messages between %d and %d fail their checks and are withheld",
            subject, len(sequences), min(sequences), max(sequences),
        )  # fmt: skip

    def found_damage(self, damage: Sequence[Damage]) -> None:
        """A reader met damage of the log: sends are refused, and the next checkpoint keeps it."""
        if self.log.stored.add_damage(damage):
            for found in damage:
                logger.error(
                    "the log is damaged between offsets %d and %d (%s): messages there are withheld, sends are refused",
                    found.begin, found.end, found.why,
                )  # fmt: skip
            self.has_new_damage = True

    def repaired_log(self, begin: int, end: int) -> None:
        """Log offsets [begin, end) were repaired: messages there can be read, and entries of the index be made again from them."""
        self.message_log.unreadable.forget(begin, end)
        self.withheld.clear()
        self.has_new_damage = True

    # --- retention -------------------------------------------------------------------------------------------------

    def segment_ages(self) -> list[SegmentAge]:
        """The log's segments up to the one being written, oldest first, with the wall time of their newest records."""
        newest, end = self.segment_newest_ms, self.log.written_end
        return [
            SegmentAge(info.base, info.end, newest.get(info.base))
            for info in self.log.stored.segments()
            if info.base <= end
        ]

    @property
    def newest_ms(self) -> int | None:
        """Wall time of the newest record; None when the log has none."""
        return max(self.segment_newest_ms.values(), default=None)
