"""From files to a store that can serve: newest good checkpoint, then the log from there on.

Everything but the message log is derived. When a checkpoint or an index disagrees with what is on disk (lost, cut, from
another day), all derived files are set aside and made again from the whole log; the answers are the same, only the start
takes longer. What the log itself lost to damage shows as withheld sequences, never as a shorter log.
"""

import json
import logging
from dataclasses import dataclass
from typing import Any

from broker_node.actions import Forget, MessagesHead, Pull, Start, decode_action
from broker_node.consume_log import encode_withheld
from broker_node.message_log import MessageLog, visit_records
from broker_node.store import MessageStore, StoreLimits, StorePaths
from broker_node.subject import Group, Subject, restore_groups
from qmq.clock import Clock
from qmq.errors import LogError
from qmq.log.checkpoint import Checkpoint, CheckpointStore, as_number, as_text
from qmq.log.disk import Disk
from qmq.log.index import DenseIndex, HandleCache
from qmq.log.log import SegmentedLog
from qmq.log.record import Position
from qmq.log.recovery import Commit, Damage
from qmq.protocol.scan import Run

logger = logging.getLogger("qmq.broker.recovery")

CHECKPOINT_NAME = "broker"
CHECKPOINT_FORMAT = 1


class DerivedStateWrong(LogError):
    """A derived file does not hold what the checkpoint says: rebuild."""

    code = "log.derived_wrong"


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening found, for the log line and `/stats`."""

    rebuilt: bool
    why_rebuilt: str
    from_offset: int
    replayed_commits: int
    replayed_messages: int
    torn_bytes: int
    withheld_messages: int


class Replay:
    """Applies commits of the log to a store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._seen_at = store.clock.monotonic()
        self._segment_base = -1
        self.commits = 0
        self.messages = 0

    def commit(self, commit: Commit) -> None:
        """One valid commit, in order."""
        self.commits += 1
        self._segment_base = commit.header.segment_base
        visit_records(commit.body, commit.body_offset, self._messages, self._action)

    def _messages(self, offset: int, head: MessagesHead, entries_offset: int, run: Run) -> None:
        subject = self._store.stored_subject(head.subject)
        index = subject.consume_log.index
        have = index.end
        if head.first_sequence + head.count <= have:
            return
        if head.first_sequence < have:
            raise DerivedStateWrong(f"the consume log of {head.subject} ends inside a record, at {have}")
        if head.first_sequence > have:
            if have == 0 and index.begin == 0:
                # The first we see of this subject: what came before left with its segments.
                index.start_at(head.first_sequence)
            else:
                missing = head.first_sequence - have
                logger.error(
                    "subject %s: %d messages from sequence %d on are lost to damage", head.subject, missing, have
                )
                self._store.counters.withheld_messages += missing
                index.append(encode_withheld(missing))
        self.messages += head.count
        self._store.index_run(subject, run, entries_offset, head.stored_at_ms)
        self._store.note_age(self._segment_base, head.stored_at_ms)
        subject.next_sequence = subject.visible_end

    def _action(self, offset: int, kind: int, payload: memoryview) -> None:
        action = decode_action(kind, payload)
        self._store.note_age(self._segment_base, action.at_ms)
        subject = self._store.stored_subject(action.subject)
        group = subject.groups.get(action.group)
        if group is None:
            if isinstance(action, Forget):
                return
            begin = action.next_sequence if isinstance(action, Start) else subject.visible_end
            begin = action.from_sequence if isinstance(action, Pull) else begin
            group = self._store.new_group(subject, action.group, begin, action.broadcast)
        self._store.apply(subject, group, action, offset, self._seen_at)


def open_store(
    disk: Disk, root: str, clock: Clock, *, limits: StoreLimits, segment_bytes: int, handles: HandleCache
) -> tuple[MessageStore, RecoveryReport]:
    """Open a broker's data folder, new or used.

    Raises:
        LogError: the log was written by a newer version, or can't be read at all.
        OSError: the disk refused.
    """
    paths = StorePaths(root)
    checkpoints = CheckpointStore(disk, paths.checkpoint, CHECKPOINT_NAME)
    checkpoint = checkpoints.load()
    why = "" if checkpoint is not None else "no checkpoint"
    for skipped in checkpoints.skipped:
        logger.error("a checkpoint is damaged and was passed over: %s", skipped)
    if checkpoint is not None:
        try:
            return _open_from(disk, paths, clock, limits, segment_bytes, handles, checkpoint, "")
        except DerivedStateWrong as error:
            why = str(error)
            logger.warning("derived files are made again from the log: %s", error)
    synced_to = checkpoint.synced_to if checkpoint is not None else 0
    return _open_from(disk, paths, clock, limits, segment_bytes, handles, None, why, synced_to)


def _open_from(
    disk: Disk,
    paths: StorePaths,
    clock: Clock,
    limits: StoreLimits,
    segment_bytes: int,
    handles: HandleCache,
    checkpoint: Checkpoint | None,
    why: str,
    synced_to: int = 0,
) -> tuple[MessageStore, RecoveryReport]:
    store = MessageStore(disk, paths, clock, limits, handles)
    start: Position | None = None
    if checkpoint is not None:
        restore_state(store, checkpoint.state)
        start, synced_to = checkpoint.log_position, checkpoint.synced_to
    else:
        clear_derived(disk, paths)
    replay = Replay(store)
    log = SegmentedLog.open(
        disk,
        paths.log,
        segment_bytes=segment_bytes,
        start=start,
        synced_to=synced_to,
        tails=store.known_tails,
        visit=replay.commit,
    )
    known = {damage.begin for damage in log.damaged}
    log.damaged += tuple(
        damage for damage in store.known_damage if damage.begin not in known and damage.end > log.begin
    )
    store.message_log = MessageLog(log, clock)
    bases = {segment.base for segment in log.segments()}
    store.segment_newest_ms = {base: at_ms for base, at_ms in store.segment_newest_ms.items() if base in bases}
    for subject in store.subjects.values():
        subject.next_sequence = subject.visible_end
    if len(store.subjects) > limits.subjects_max:
        logger.warning(
            "%d subjects are stored, more than subjects_max (%d): they stay, new ones are refused",
            len(store.subjects), limits.subjects_max,
        )  # fmt: skip
    report = RecoveryReport(
        rebuilt=checkpoint is None,
        why_rebuilt=why,
        from_offset=start.offset if start is not None else log.begin,
        replayed_commits=replay.commits,
        replayed_messages=replay.messages,
        torn_bytes=log.torn_bytes,
        withheld_messages=store.counters.withheld_messages,
    )
    return store, report


def clear_derived(disk: Disk, paths: StorePaths) -> None:
    """Remove consume and progress logs; they are made again."""
    for folder in (paths.consume, paths.progress):
        for upper in disk.list_dir(folder):
            for lower in disk.list_dir(f"{folder}/{upper}"):
                for name in disk.list_dir(f"{folder}/{upper}/{lower}"):
                    disk.remove(f"{folder}/{upper}/{lower}/{name}")


# --- checkpoint state -----------------------------------------------------------------------------------------------


def encode_state(store: MessageStore) -> bytes:
    """The store's derived state as lines of JSON: a head, then a line a subject.

    Damage is in it because the next start reads the log from the checkpoint on and would not meet it again.
    """
    subjects, log = list(store.subjects.values()), store.log
    head = json.dumps(
        {
            "format": CHECKPOINT_FORMAT,
            "subjects": len(subjects),
            "damaged": [[damage.begin, damage.end, damage.why] for damage in log.damaged],
            "segment_tails": [[base, tail.offset, tail.chain] for base, tail in log.tails.items()],
            "segment_newest_ms": list(store.segment_newest_ms.items()),
        }
    ).encode()
    return b"\n".join([head, *(subject.checkpoint_line() for subject in subjects)])


def restore_state(store: MessageStore, state: bytes) -> None:
    """Fill an empty store from a checkpoint.

    Raises:
        DerivedStateWrong: the state can't be read, or an index lacks entries that it counts on.
    """
    lines = state.split(b"\n")
    try:
        head = json.loads(lines[0])
        if head["format"] != CHECKPOINT_FORMAT or head["subjects"] != len(lines) - 1:
            raise DerivedStateWrong(f"checkpoint of format {head['format']} with {len(lines) - 1} subjects")
        store.known_damage = [Damage(as_number(begin), as_number(end), str(why)) for begin, end, why in head["damaged"]]
        store.segment_newest_ms = {as_number(base, -1): as_number(at_ms) for base, at_ms in head["segment_newest_ms"]}
        store.known_tails = {
            as_number(base): Position(as_number(offset), as_number(crc)) for base, offset, crc in head["segment_tails"]
        }
        for line in lines[1:]:
            _restore_subject(store, json.loads(line))
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DerivedStateWrong(f"the checkpoint's state can't be read: {error}") from error


def _restore_subject(store: MessageStore, state: dict[str, Any]) -> None:
    name, begin, end = as_text(state["subject"]), as_number(state["begin"]), as_number(state["end"])
    if begin > end:
        raise ValueError(f"subject {name} begins at {begin} and ends at {end}")
    index = store.open_index(name)
    _fit(index, begin, end, f"consume log of {name}")
    subject = store.add_subject(name, index)

    def open_history(subject_name: str, group: str, history_end: int) -> DenseIndex:
        history = store.open_history(subject_name, group)
        _fit(history, history.begin, history_end, f"progress log of {group} on {subject_name}")
        return history

    restore_groups(subject, state["groups"], open_history, store.clock.monotonic())


def _fit(index: DenseIndex, begin: int, end: int, what: str) -> None:
    """Cut an index to what the checkpoint counted; entries written after it are replayed."""
    if index.begin == index.end and begin == end:
        index.start_at(begin)
        return
    if index.begin > begin or index.end < end:
        raise DerivedStateWrong(
            f"the {what} holds [{index.begin}, {index.end}), the checkpoint counts on [{begin}, {end})"
        )
    index.truncate(end)
    if begin > index.begin:
        index.drop_before(begin)


def groups_with_orphans(store: MessageStore) -> list[tuple[Subject, Group]]:
    """Groups with sequences whose assignment was lost with a damaged commit."""
    return [(s, g) for s in store.subjects.values() for g in s.groups.values() if g.progress.orphans]
