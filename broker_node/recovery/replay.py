"""class BrokerReplay: applies the records of the log to a broker's store, at a start and on a slave."""

import logging

from broker_node.recovery.checkpoint import write_large_indexes
from broker_node.recovery.checkpoint_reading import DerivedStateWrong
from broker_node.recovery.known_state import KnownState
from broker_node.recovery.received_entries import ReceivedEntries
from broker_node.storage.actions import (
    Action,
    DropSubject,
    Forget,
    MessagesHead,
    Pull,
    RecordKind,
    Start,
    decode_action,
    decode_messages_head,
)
from broker_node.storage.consume_log import encode_run, encode_withheld
from broker_node.storage.message_log import stored_run
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Subject
from qmq_node.log.disk import Buffer
from qmq_node.log.record import HEADER_BYTES
from qmq_node.log.recovery import Commit
from qmq_node.log.replay import Replay

logger = logging.getLogger("qmq.broker.recovery")

UNWRITTEN_BYTES_MAX = 256 << 20
"""Log replayed before its index entries are written to files, so that memory does not follow the length of the log."""
MESSAGE_BYTES_MIN = 24
"""Fewer bytes than any message takes in the log."""


class BrokerReplay(Replay):
    """Applies commits of the log to a store.

    Args:
        start: the log offset of the checkpoint; None: there is none, and the log is read from its beginning.
        known: what is in the store already, of which the log may have no records any more.
    """

    def __init__(self, store: MessageStore, start: int | None, known: KnownState | None = None) -> None:
        super().__init__()
        self._known = known or KnownState(0)
        self._store = store
        self._seen_at = store.clock.monotonic()
        self._segment_base = -1
        self._start = start
        self._end = start
        """End of the last commit."""
        self._hidden_bytes = 0
        """Bytes of damaged commits so far."""
        self._unread = self._known.subjects
        """Subjects of which the store has no messages, and this replay met none."""
        self._unwritten_bytes = 0
        self._received: ReceivedEntries | None = None
        """Index entries of the present commit."""

    def begin(self, commit: Commit) -> None:
        super().begin(commit)
        self._received = ReceivedEntries(memoryview(commit.index_entries)) if commit.index_entries else None
        self._segment_base = commit.header.segment_base
        self._store.replayed_end = max(self._store.replayed_end, commit.end)
        if commit.after_damage:
            gap = commit.offset - (self._end or 0)
            # Without a gap, other commits took the place of the right ones: any number of bytes may be lost.
            self._hidden_bytes += gap if gap > HEADER_BYTES else commit.offset
        self._end = commit.end

    def apply_record(self, offset: int, kind: int, payload: memoryview) -> None:
        if kind != RecordKind.MESSAGES:
            self._action(offset, kind, payload)
            return
        head, at = decode_messages_head(payload)
        self._messages(offset, head, offset + at, payload[at:])

    def finish(self) -> None:
        # The entries keep what was received in memory.
        self._received = None
        self._store.write_histories()

    def visit(self, commit: Commit) -> None:
        super().visit(commit)
        self._unwritten_bytes += commit.end - commit.offset
        if self._unwritten_bytes >= UNWRITTEN_BYTES_MAX:
            self._unwritten_bytes = 0
            write_large_indexes(self._store)

    def finish_known(self) -> None:
        """What was known is complete: the log was replayed at least up to `KnownState.records_end`."""
        if self._hidden_bytes:
            # The last messages of these are lost: their sequences belong to them.
            for name, end in self._known.ends.items():
                subject = self._store.subjects.get(name)
                if subject is not None and subject.visible_end < end:
                    self._advance(subject, end)
        self._unread -= self._known.subjects
        self._known.finish(self._store)

    def _messages(self, offset: int, head: MessagesHead, begin: int, messages: memoryview) -> None:
        """Apply a record of messages, the first of which is at log offset `begin`."""
        entries: Buffer | None = self._received_entries(head, begin, begin + len(messages))
        if self._known.hides(head.subject, head.first_sequence + head.count):
            return
        subject = self._subject(head.subject)
        if head.subject in self._unread and not self._is_lost_before(subject, head.first_sequence):
            # What came before left with its segments.
            self._unread.discard(head.subject)
            subject.consume_log.start_at(head.first_sequence)
            subject.origin = min(subject.origin, head.first_sequence)
        have = subject.visible_end
        if head.first_sequence + head.count <= have:
            return
        if head.first_sequence < have:
            raise DerivedStateWrong(f"the consume log of {head.subject} ends inside a record, at {have}")
        if head.first_sequence > have:
            subject = self._advance(subject, head.first_sequence)
            self._unread.discard(head.subject)
        self.messages += head.count
        if entries is None:
            entries = encode_run(stored_run(messages, head, offset), begin, head.stored_at_ms)
        self._store.index(subject, entries, len(messages))
        self._store.note_age(self._segment_base, head.stored_at_ms)
        subject.next_sequence = subject.visible_end

    def _received_entries(self, head: MessagesHead, begin: int, end: int) -> memoryview | None:
        """Return the index entries that the master sent for a record, whose messages are at log offsets [begin, end).

        None: it sent none, or wrong ones.
        """
        if self._received is None:
            return None
        entries, counters = self._received.take(head.count, begin, end), self._store.counters
        if entries is None:
            if not counters.wrong_index_entries:
                logger.error(
                    "the index entries that the master sent for the record at log offset %d are wrong, not used", begin
                )
            counters.wrong_index_entries += 1
        return entries

    def _action(self, offset: int, kind: int, payload: memoryview) -> None:
        action = decode_action(kind, payload)
        store = self._store
        store.note_age(self._segment_base, action.at_ms)
        if isinstance(action, DropSubject):
            store.apply_drop(action, offset)
            if action.subject not in store.subjects:
                self._unread.discard(action.subject)
                self._known.removed(action.subject)
            return
        if isinstance(action, Forget) and not self._has_group(action):
            return
        subject = self._subject(action.subject)
        end = action.next_sequence if isinstance(action, Start | Pull) else 0
        if end > subject.visible_end and (self._hidden_bytes or action.subject in self._unread):
            subject = self._advance(subject, end)
        group = subject.groups.get(action.group)
        if group is None:
            begin = action.next_sequence if isinstance(action, Start) else subject.visible_end
            begin = action.from_sequence if isinstance(action, Pull) else begin
            group = store.new_group(subject, action.group, begin, action.broadcast)
        self._known.note(group, action, offset)
        store.apply(subject, group, action, offset, self._seen_at)

    def _has_group(self, action: Action) -> bool:
        subject = self._store.subjects.get(action.subject)
        return subject is not None and action.group in subject.groups

    def _subject(self, name: str) -> Subject:
        """The subject of a record, made when the log before it has none."""
        subject = self._store.subjects.get(name)
        if subject is None:
            subject = self._store.stored_subject(name)
            self._unread.add(name)
            if self._start is None and name not in self._store.removed:
                # Its first messages may have left with their segments: their sequences belong to it.
                subject.origin = 0
        return subject

    def _is_lost_before(self, subject: Subject, sequence: int) -> bool:
        """Whether all messages of a subject below a sequence are lost to damage, not removed with their segments: the checkpoint
        knows them, and the log has none of them."""
        begin = self._known.begin_of(subject.name) if self._hidden_bytes and subject.name in self._unread else None
        return begin is not None and begin < sequence

    def _advance(self, subject: Subject, sequence: int) -> Subject:
        """Let a subject end at `sequence`, as it did when the record was written that is being replayed."""
        index = subject.consume_log
        if is_lost := self._is_lost_before(subject, sequence):
            index.start_at(self._known.begin_of(subject.name) or 0)
            self._unread.discard(subject.name)
        missing = sequence - subject.visible_end
        if not is_lost and (subject.name in self._unread or subject.visible_end == 0):
            index.start_at(sequence)
        elif subject.name not in self._known.subjects and 0 < self._hidden_bytes < missing * MESSAGE_BYTES_MIN:
            # More messages than the damaged commits had room for: one of them removed the subject, and it returned.
            logger.error(
                "subject %s: a commit that removed it is lost to damage; it begins again at sequence %d",
                subject.name,
                sequence,
            )
            self._store.remove_subject(subject)
            self._store.sequence_floor = max(self._store.sequence_floor, sequence)
            subject = self._subject(subject.name)
            subject.consume_log.start_at(sequence)
            subject.origin = sequence
        else:
            logger.error(
                "subject %s: %d messages from sequence %d on are lost to damage",
                subject.name,
                missing,
                subject.visible_end,
            )
            self._store.counters.withheld_messages += missing
            subject.withhold([(subject.visible_end, sequence)])
            index.append(encode_withheld(missing))
        subject.changed()
        subject.next_sequence = subject.visible_end
        return subject
