"""Opens a data folder: restore the newest valid checkpoint, then replay the message log from there.

The checkpoint contains how much of each hour's files counts; the replay writes what follows again. Below the checkpoint the
schedule logs are the only copy of their messages, so they are never rebuilt or deleted: without any readable checkpoint each
hour of a group's only member is used as far as its entries pass their checks, and the log is replayed over it. One of several
members guesses nothing: its log takes nothing (`failed`), and it copies another member's, unless an operator accepts the loss.
"""

import logging
from collections.abc import Iterator

import numpy as np

from delay_node.checkpoint import CHECKPOINT_NAME, restore_state
from delay_node.hour import Hour
from delay_node.hour_reader import UNBOUNDED, read_states, slices
from delay_node.records import GONE, Action, Ended, Moved, Scheduled, State, decode_record
from delay_node.schedule_log import DISPATCH_BYTES, INDEX_BYTES, checks_of, hour_number
from delay_node.store import DelayStore, Subjects
from delay_node.whole_files import WholeFiles
from qmq.errors import LogError
from qmq.protocol.raw import RawView
from qmq.protocol.scan import CRC_BYTES, walk_stored
from qmq_node.commits.applying import SLICE_BYTES
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.disk import Disk
from qmq_node.log.handles import HandleCache
from qmq_node.log.opening import clear_folders, remove_log
from qmq_node.log.recovery import Commit
from qmq_node.log.replay import LogMemory, MemberOpening, RecoveryReport, Replay
from qmq_node.log.segment import Segments
from qmq_node.log.truncation import finish_truncation
from qmq_node.slices import run_to_end

logger = logging.getLogger("qmq.delay.recovery")


class DelayReplay(Replay):
    """Applies whole commits: what a record counts is counted once, so no checkpoint may stand between two of them."""

    def __init__(self, store: DelayStore, unwritten_bytes_max: int) -> None:
        super().__init__()
        self._store = store
        self._unwritten_bytes_max = unwritten_bytes_max

    @property
    def is_full(self) -> bool:
        return self._store.hours.unwritten_bytes > self._unwritten_bytes_max

    def steps(self, commit: Commit) -> Iterator[int]:
        hold = self._store.commit_hold
        if hold.checkpoint_waits:
            # It has its turn before the next commit begins.
            yield SLICE_BYTES
        hold.begin()
        try:
            yield from super().steps(commit)
        except BaseException:
            hold.fail()
            raise
        hold.end()

    def apply_record(self, offset: int, kind: int, payload: memoryview) -> None:
        record = decode_record(offset, kind, payload)
        if isinstance(record, Scheduled):
            run = walk_stored(record.entries, record.subject)
            if run.count != len(record.dues_ms):
                raise LogError(f"the record at offset {offset} holds {run.count} of {len(record.dues_ms)} messages")
            self.messages += self._store.replay_scheduled(offset, record, run)
        elif isinstance(record, Moved):
            self._store.replay_moved(offset, record, RawView(record.entry, CRC_BYTES).subject)
        elif isinstance(record, Ended):
            self._store.replay_ended(record)
        else:
            assert isinstance(record, Action)
            self._store.replay_action(record)

    def finish(self) -> None:
        """Nothing waits."""


def open_store(
    disk: Disk,
    root: str,
    *,
    segment_bytes: int,
    handles: HandleCache,
    member: MemberOpening | None = None,
    unwritten_bytes_max: int = 1 << 62,
) -> tuple[DelayStore, RecoveryReport]:
    """Open a delay node's data folder, new or used.

    Args:
        member: as `Replay.open_log` takes it.
        unwritten_bytes_max: with more bytes of schedules and dispatch logs in memory only, a slave applies nothing more.

    Raises LogError for a log or checkpoint that is unreadable or of a newer version, or OSError.
    """
    finish_truncation(disk, f"{root}/log")
    for folder in ("schedule", "dispatch"):
        disk.make_dir(f"{root}/{folder}")
    store, memory, checkpoint = DelayStore(disk, root, handles), LogMemory(), None
    if member is None or not member.is_log_only:
        # Its files change from now on.
        WholeFiles(disk, root).remove()
        checkpoint = CheckpointStore(disk, f"{root}/checkpoint", CHECKPOINT_NAME).load()
    problem = ""
    if checkpoint is not None:
        memory = restore_state(store, checkpoint)
    elif (member is None or not member.is_log_only) and _log_is_cut(disk, f"{root}/log"):
        if member is None:
            _salvage(store)
        else:
            problem = "no checkpoint can be read, and the log does not begin at offset 0"
    is_salvaged = checkpoint is None and bool(store.hours)
    replay = DelayReplay(store, unwritten_bytes_max)
    store.log = replay.open_log(disk, f"{root}/log", segment_bytes, checkpoint, memory, member=member)
    stored = store.log.stored
    # Only what the group has lost may be missing.
    has_lost = bool(stored.damaged) and not stored.own_damage
    if member is not None and (problem or (store.placer.gap and not has_lost)):
        code = "log.damaged" if stored.damaged and not problem else "log.incomplete"
        store.log.refuse(problem or store.placer.gap, code=code)
    store.placer.fills_gaps = member is not None and has_lost
    recount(store, all_hours=is_salvaged)
    if checkpoint is not None:
        _remove_strays(store)
    report = replay.report(store.log, checkpoint, "" if checkpoint is not None else "no checkpoint")
    logger.info(
        "%d commits with %d messages replayed from log offset %d on; %d messages pending in %d hours",
        report.replayed_commits,
        report.replayed_messages,
        report.from_offset,
        store.pending,
        len(store.hours),
    )
    return store, report


def clear_store(disk: Disk, root: str) -> None:
    """Remove the log and the checkpoints, durably; the files of hours stay. Raises OSError: the next call continues."""
    clear_folders(disk, f"{root}/checkpoint")
    remove_log(disk, f"{root}/log")


def recount(store: DelayStore, *, all_hours: bool = False) -> None:
    """Take the counters of hours with held messages, or of all, from their dispatch logs, then the totals from all hours."""
    for hour in list(store.hours.values()):
        if all_hours or hour.refused:
            _recount(hour, despite_damage=all_hours)
    store.recount()


def _recount(hour: Hour, *, despite_damage: bool) -> None:
    """Take the counters of an hour from its dispatch log. If some of that is damaged, those of the checkpoint are better."""
    try:
        states, damaged = run_to_end(read_states(hour, hour.schedule.count, hour.dispatch.count))
    except LogError as error:
        if despite_damage:
            raise
        logger.error("hour %d: its held messages are not counted again: %s", hour.number, error)
        return
    if damaged and not despite_damage:
        return
    hour.gone = int(np.isin(states, [int(state) for state in GONE]).sum())
    hour.refused = int((states == State.REFUSED).sum())


def _log_is_cut(disk: Disk, folder: str) -> bool:
    """Return whether the log's first segments were deleted, so that not everything can be replayed."""
    segments = Segments(disk, folder).infos()
    return bool(segments) and segments[0].base > 0


def _salvage(store: DelayStore) -> None:
    """Restore the hours from their files, without a checkpoint, as far as entries pass their checks."""
    names = [name.removesuffix(".index") for name in store.disk.list_dir(f"{store.root}/schedule") if ".index" in name]
    subjects: dict[int, str] = {}
    for name in names:
        number = hour_number(name)
        if number is None:
            continue
        index_bytes = _size(store.hours.handles, f"{store.root}/schedule/{name}.index")
        dispatch_bytes = _size(store.hours.handles, f"{store.root}/dispatch/{name}")
        counts = index_bytes // INDEX_BYTES, 0, dispatch_bytes // DISPATCH_BYTES
        hour = Hour.of_files(store.hours.handles, store.root, number, *counts)
        count, data_end = _good_length(hour)
        _, bad = hour.dispatch.read(0, hour.dispatch.count)
        hour = store.hours.make(number, count, data_end, hour.dispatch.count - bad)
        _learn_subjects(hour, subjects)
    store.subjects = Subjects([subjects.get(n, f"unknown-{n}") for n in range(max(subjects, default=-1) + 1)])
    if names:
        logger.error("no checkpoint can be read: %d hours are restored from their files", len(names))


def _learn_subjects(hour: Hour, subjects: dict[int, str]) -> None:
    """Add the names behind an hour's subject numbers, from a message of each."""
    for begin, end in slices(hour.schedule.count):
        index = hour.schedule.read_index(begin, end)
        numbers, firsts = np.unique(index["subject"], return_index=True)
        for number, first in zip(numbers.tolist(), firsts.tolist(), strict=True):
            entry = hour.schedule.read_entry(hour.number, begin + first, UNBOUNDED)
            if number not in subjects and entry.data is not None:
                subjects[number] = RawView(entry.data, CRC_BYTES).subject


def _good_length(hour: Hour) -> tuple[int, int]:
    """Return how many leading index entries pass their check, and where their data ends."""
    data_end = 0
    for begin, end in slices(hour.schedule.count):
        index = hour.schedule.read_index(begin, end)
        bad = np.flatnonzero(index["check"] != checks_of(index))
        good = index if not len(bad) else index[: bad[0]]
        if len(good):
            data_end = int((good["place"] + good["size"]).max())
        if len(bad):
            return begin + int(bad[0]), data_end
    return hour.schedule.count, data_end


def _size(handles: HandleCache, path: str) -> int:
    try:
        return handles.get(path).size()
    except FileNotFoundError:
        return 0


def _remove_strays(store: DelayStore) -> None:
    """Remove files of hours that are neither in the checkpoint nor in the replay: a checkpoint left them out as finished."""
    for folder in ("schedule", "dispatch"):
        names = store.disk.list_dir(f"{store.root}/{folder}")
        gone = [name for name in names if (number := hour_number(name[:10])) is not None and number not in store.hours]
        for name in gone:
            store.disk.remove(f"{store.root}/{folder}/{name}")
        if gone:
            store.disk.sync_dir(f"{store.root}/{folder}")
