"""Writes messages that a consumer took and did not finish to their group's retry subject.

The broker writes the raw bytes again, unchanged, under the retry subject's name (`reference` 6.5): the attempt number does
not rise, because it is not known that a consumer tried.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker_node.reads.message_reader import Wanted, read_messages
from broker_node.storage.actions import Origin, SequenceRun
from broker_node.storage.disk_work import DiskWork
from broker_node.storage.pull_log import PullRun
from broker_node.storage.store import MessageStore
from broker_node.storage.subject import Group, Subject
from qmq.checksum import crc32
from qmq.errors import NoSpace
from qmq.protocol.names import retry_subject, split_subject
from qmq.protocol.scan import CRC_BYTES, walk_stored
from qmq_node.log.commit import RECORD_HEAD_BYTES_MAX

BATCH_MESSAGES_MAX = 500
"""Most messages written to retry subjects in one turn of the event loop."""
BATCH_BYTES_MAX = 1 << 20
"""Most bytes of them; a single larger message is written all the same."""


@dataclass(slots=True)
class Budget:
    """What one turn of the event loop may still read and write."""

    messages: int = BATCH_MESSAGES_MAX
    bytes: int = BATCH_BYTES_MAX


@dataclass(slots=True)
class Moved:
    """How far a move came: `runs_done` whole runs and `part` sequences of the next, of which `messages` were written."""

    messages: int = 0
    runs_done: int = 0
    part: int = 0


def retry_target(store: MessageStore, subject: Subject, group: Group) -> Subject:
    """The subject for a group's unfinished messages, made when new. Raises LimitReached when one more subject does not fit."""
    if split_subject(subject.name).kind == "dead":
        # No consumer pulls the retry subject of a dead-letter subject: its messages return to the subject itself.
        return subject
    return store.subject(retry_subject(subject.name, group.progress.group))


def move_to_retry(
    store: MessageStore,
    subject: Subject,
    group: Group,
    runs: Sequence[PullRun | SequenceRun],
    budget: Budget,
    plan: DiskWork | None = None,
) -> Moved:
    """Append messages of these consume sequences, from the first on, to the retry subject until the budget is spent.

    A message that is withheld or past retention can't be written again and is passed over. All messages become one record. `plan`
    is what an earlier call raised, finished.

    Raises DiskWork when messages have to be read from the disk, LimitReached when the retry subject is new and does not fit, or
    NoSpace when only the space reserved for acks and pulls is left; nothing was written then.
    """
    if problem := store.lacks_space_for_copy(0):
        raise NoSpace(problem)
    target = retry_target(store, subject, group)
    moved, entries = Moved(), list[bytes]()
    budget.bytes = min(budget.bytes, store.log.gather.record_bytes_max - RECORD_HEAD_BYTES_MAX)
    # What retention deleted costs nothing.
    ranges = tuple((max(run.begin, subject.begin), run.end) for run in runs if run.end > subject.begin)
    wanted = Wanted(ranges, budget.messages, budget.bytes)
    raws = read_messages(store, subject, wanted, plan).raws if ranges else []
    taken = 0
    for raw in raws:
        size = CRC_BYTES + len(raw) if raw is not None else 0
        if entries and size > budget.bytes:
            # It begins the next slice; one message is moved whatever its size.
            break
        if raw is not None:
            entries.append(crc32(raw).to_bytes(CRC_BYTES, "big") + bytes(raw))
        budget.bytes -= size
        taken += 1
    budget.messages -= taken
    is_cut = taken < sum(end - begin for begin, end in ranges)
    if is_cut:
        budget.messages = 0
    for run in runs:
        left = run.end - max(run.begin, subject.begin)
        if left > taken:
            moved.part = max(run.begin, subject.begin) + taken - run.begin
            break
        taken -= max(0, left)
        moved.runs_done += 1
    if entries:
        body = memoryview(b"".join(entries))
        if problem := store.lacks_space_for_copy(RECORD_HEAD_BYTES_MAX + len(body)):
            raise NoSpace(problem)
        entry_run = walk_stored(body, target.name)
        store.append_run(target, entry_run, body, store.storing_ms(), Origin.BROKER_RETRY)
        moved.messages = entry_run.count
    return moved


def move_orphans(
    store: MessageStore, subject: Subject, group: Group, budget: Budget, plan: DiskWork | None = None
) -> int:
    """Move messages whose assignment was lost with a damaged commit; how many were written.

    `group.progress.orphans` holds the rest. Arguments and errors as those of `move_to_retry`.
    """
    orphans = group.progress.orphans
    moved = move_to_retry(store, subject, group, orphans, budget, plan)
    del orphans[: moved.runs_done]
    if moved.part:
        first = orphans[0]
        orphans[0] = SequenceRun(first.begin + moved.part, first.count - moved.part)
    return moved.messages
