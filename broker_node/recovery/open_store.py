"""From files to a store that can serve: newest good checkpoint, then the log from there on.

Everything but the message log is derived. When a checkpoint or an index disagrees with what is on disk (lost, cut, from
another day), all derived files are set aside and made again from the whole log; the answers are the same, only the start
takes longer. What the log itself lost to damage shows as withheld sequences, never as a shorter log.
"""

import logging
from collections.abc import Generator, Iterator

from broker_node.recovery.checkpoint import CHECKPOINT_NAME
from broker_node.recovery.checkpoint_reading import DerivedStateWrong, restore_known, restore_state
from broker_node.recovery.replay import BrokerReplay
from broker_node.storage.message_log import MessageLog
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_table import StoreLimits, StorePaths
from qmq.clock import Clock
from qmq_node.log.checkpoint import Checkpoint, CheckpointStore
from qmq_node.log.disk import Disk
from qmq_node.log.handles import HandleCache
from qmq_node.log.index_files import firsts_in
from qmq_node.log.opening import clear_folders, remove_log
from qmq_node.log.replay import LogMemory, MemberOpening, RecoveryReport
from qmq_node.log.truncation import finish_truncation

logger = logging.getLogger("qmq.broker.recovery")

RENEWED_CONSUMERS = 2_000
"""Consumers whose leases are renewed in one slice."""


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
    bases = {segment.base for segment in store.log.stored.segments()}
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
    clear_folders(disk, paths.checkpoint)
    remove_log(disk, paths.log)


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
