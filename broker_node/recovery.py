"""From files to a store that can serve: newest good checkpoint, then the log from there on.

Everything but the message log is derived. When a checkpoint or an index disagrees with what is on disk (lost, cut, from
another day), all derived files are set aside and made again from the whole log; the answers are the same, only the start
takes longer. What the log itself lost to damage shows as withheld sequences, never as a shorter log.
"""

import logging
from collections.abc import Generator, Iterator

from broker_node.actions import Action, DropSubject, Forget, MessagesHead, Pull, Start, decode_action
from broker_node.checkpoint import CHECKPOINT_NAME, write_large_indexes
from broker_node.checkpoint_reading import DerivedStateWrong, restore_known, restore_state
from broker_node.consume_log import encode_withheld
from broker_node.known_state import KnownState
from broker_node.message_log import MessageLog, visit_record
from broker_node.store import MessageStore
from broker_node.subject import Subject
from broker_node.subject_table import StoreLimits, StorePaths
from qmq.clock import Clock
from qmq.log.checkpoint import Checkpoint, CheckpointStore
from qmq.log.disk import Disk
from qmq.log.handles import HandleCache
from qmq.log.index_files import firsts_in
from qmq.log.record import HEADER_BYTES
from qmq.log.recovery import Commit
from qmq.log.replay import LogMemory, MemberOpening, RecoveryReport, Replay
from qmq.log.truncation import finish_truncation
from qmq.protocol.scan import Run

logger = logging.getLogger("qmq.broker.recovery")

UNWRITTEN_BYTES_MAX = 256 << 20
"""Log replayed before its index entries are written to files, so that memory does not follow the length of the log."""
RENEWED_CONSUMERS = 2_000
"""Consumers whose leases are renewed in one slice."""
LOG_FILES = ("log.begin", "log.truncation")
"""Files beside the log's folder that belong to the log."""
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

    def begin(self, commit: Commit) -> None:
        super().begin(commit)
        self._segment_base = commit.header.segment_base
        self._store.replayed_end = max(self._store.replayed_end, commit.end)
        if commit.after_damage:
            gap = commit.offset - (self._end or 0)
            # Without a gap, other commits took the place of the right ones: any number of bytes may be lost.
            self._hidden_bytes += gap if gap > HEADER_BYTES else commit.offset
        self._end = commit.end

    def apply_record(self, offset: int, kind: int, payload: memoryview) -> None:
        visit_record(offset, kind, payload, self._messages, self._action)

    def finish(self) -> None:
        self._store.write_histories()

    def visit(self, commit: Commit) -> None:
        super().visit(commit)
        self._unwritten_bytes += commit.end - commit.offset
        if self._unwritten_bytes >= UNWRITTEN_BYTES_MAX:
            self._unwritten_bytes = 0
            write_large_indexes(self._store)

    def finish_known(self) -> None:
        """What was known is complete: the log was replayed at least up to `KnownState.records_end`."""
        self._unread -= self._known.subjects
        self._known.finish(self._store)

    def _messages(self, offset: int, head: MessagesHead, entries_offset: int, run: Run) -> None:
        if self._known.hides(head.subject, head.first_sequence + head.count):
            return
        subject = self._subject(head.subject)
        if head.subject in self._unread:
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
        self._store.index_run(subject, run, entries_offset, head.stored_at_ms)
        self._store.note_age(self._segment_base, head.stored_at_ms)
        subject.next_sequence = subject.visible_end

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

    def _advance(self, subject: Subject, sequence: int) -> Subject:
        """Let a subject end at `sequence`, as it did when the record was written that is being replayed."""
        index, missing = subject.consume_log, sequence - subject.visible_end
        if subject.name in self._unread or subject.visible_end == 0:
            index.start_at(sequence)
        elif 0 < self._hidden_bytes < missing * MESSAGE_BYTES_MIN:
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


def open_store(
    disk: Disk,
    root: str,
    clock: Clock,
    *,
    limits: StoreLimits,
    segment_bytes: int,
    handles: HandleCache,
    member: MemberOpening | None = None,
) -> tuple[MessageStore, RecoveryReport]:
    """Open a broker's data folder, new or used.

    Args:
        member: as `Replay.open_log` takes it.

    Raises:
        LogError: the log was written by a newer version, or can't be read at all.
        OSError: the disk refused.
    """
    paths = StorePaths(root)
    finish_truncation(disk, paths.log)
    checkpoint = CheckpointStore(disk, paths.checkpoint, CHECKPOINT_NAME).load()

    def new_store() -> MessageStore:
        return MessageStore(disk, paths, clock, limits, handles)

    def opened(store: MessageStore, checkpoint: Checkpoint) -> tuple[MessageStore, RecoveryReport]:
        memory = restore_state(store, checkpoint.state)
        replay = BrokerReplay(store, checkpoint.log_position.offset)
        log = replay.open_log(disk, paths.log, segment_bytes, checkpoint, memory, 0, member)
        store.message_log = MessageLog(log, clock)
        return store, replay.report(log, checkpoint, "")

    def rebuilt(why: str, broken: Checkpoint | None) -> tuple[MessageStore, RecoveryReport]:
        clear_derived(disk, paths)
        store, known = new_store(), None
        if broken is not None:
            known = restore_known(store, broken.state, broken.log_position.offset)
            store = store if known is not None else new_store()
        memory = LogMemory(records_end=known.records_end) if known is not None else LogMemory()
        replay = BrokerReplay(store, None, known)
        synced_to = broken.synced_to if broken is not None else 0
        log = replay.open_log(disk, paths.log, segment_bytes, None, memory, synced_to, member)
        store.message_log = MessageLog(log, clock)
        replay.finish_known()
        return store, replay.report(log, None, why)

    if member is not None and member.is_log_only:
        # The checkpoint belongs to more of the log than is here.
        store, report = rebuilt("the log is being copied", None)
    elif checkpoint is None:
        store, report = rebuilt("no checkpoint", None)
    else:
        try:
            store, report = opened(new_store(), checkpoint)
        except DerivedStateWrong as error:
            logger.warning("derived files are made again from the log: %s", error)
            store, report = rebuilt(str(error), checkpoint)
    if not report.rebuilt:
        store.leftovers = _leftovers(store)
    bases = {segment.base for segment in store.log.segments()}
    report.replay.finish()
    store.segment_newest_ms = {base: at_ms for base, at_ms in store.segment_newest_ms.items() if base in bases}
    for subject in store.subjects.values():
        subject.next_sequence = subject.visible_end
    if len(store.subjects) > limits.subjects_max:
        logger.warning(
            "%d subjects are stored, more than subjects_max (%d): they stay, new ones are refused",
            len(store.subjects), limits.subjects_max,
        )  # fmt: skip
    logger.info(
        "%d commits with %d messages replayed from log offset %d on%s",
        report.replayed_commits,
        report.replayed_messages,
        report.from_offset,
        f"; all derived files made again: {report.why_rebuilt}" if report.rebuilt else "",
    )
    return store, report


def renew_leases(store: MessageStore) -> Generator[None, None, None]:
    """Give all consumers a whole lease from now on, as a start does; in slices.

    For a slave that is promoted: it has replayed for any length of time what consumers did, and received none of their requests.
    """
    now, count = store.clock.monotonic(), 0
    for subject in list(store.subjects.values()):
        for group in list(subject.groups.values()):
            for consumer in list(group.progress.consumers.values()):
                consumer.seen_at = now
                count += 1
                if count % RENEWED_CONSUMERS == 0:
                    yield


def clear_store(disk: Disk, paths: StorePaths) -> None:
    """Remove the log and all that is derived from it. Raises OSError: the next call continues."""
    clear_derived(disk, paths)
    folders = [paths.checkpoint, paths.log]
    for folder in folders:
        disk.make_dir(folder)
        for name in disk.list_dir(folder):
            disk.remove(f"{folder}/{name}")
        disk.sync_dir(folder)
    for name in disk.list_dir(paths.root):
        if name in LOG_FILES:
            disk.remove(f"{paths.root}/{name}")
    disk.sync_dir(paths.root)


def clear_derived(disk: Disk, paths: StorePaths) -> None:
    """Remove consume and progress logs; they are made again."""
    for folder in _folders(disk, paths):
        for name in disk.list_dir(folder):
            disk.remove(f"{folder}/{name}")


def _folders(disk: Disk, paths: StorePaths) -> Iterator[str]:
    """The folders of indexes on disk."""
    for parent in (paths.consume, paths.progress):
        for upper in disk.list_dir(parent):
            yield from (f"{parent}/{upper}/{lower}" for lower in disk.list_dir(f"{parent}/{upper}"))


def _leftovers(store: MessageStore) -> dict[str, int]:
    """The folders with files, none of which belongs to an index of a store just opened from a checkpoint."""
    known = {index.folder for subject in store.subjects.values() for index in subject.indexes}
    known.update(index.folder for index in (*store.forgotten.values(), *store.removed.values()))
    unknown = [folder for folder in _folders(store.disk, store.paths) if folder not in known]
    return {folder: firsts[-1] + 1 for folder in unknown if (firsts := firsts_in(store.disk, folder))}
