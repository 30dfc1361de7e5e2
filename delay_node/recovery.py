"""From files to a store that can serve: newest good checkpoint, then the message log from there on.

The checkpoint says how much of each hour's files counts; what stands behind that is written anew by the replay. Below the
checkpoint the schedule logs are the only home of their messages, so they are never rebuilt or thrown away: without any
readable checkpoint each hour is taken for as long as its entries pass their checks, and the log is replayed over it.
"""

import json
import logging
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

import numpy as np

from delay_node.append_file import AppendFile
from delay_node.dispatch_log import DISPATCH_BYTES
from delay_node.hour import LOAD_ENTRIES, Hour
from delay_node.records import GONE, Action, Moved, Scheduled, State, decode_record
from delay_node.schedule_log import INDEX_BYTES, checks_of, hour_number
from delay_node.store import UNBOUNDED, DelayStore
from qmq.daemon.checkpointing import CheckpointDraft
from qmq.errors import LogError
from qmq.log.checkpoint import Checkpoint, CheckpointStore, as_number, as_text
from qmq.log.disk import Disk
from qmq.log.index import HandleCache, sync_files
from qmq.log.log import SegmentedLog
from qmq.log.record import Position, iter_records
from qmq.log.recovery import Commit, Damage
from qmq.log.segment import Segments
from qmq.protocol.raw import RawView
from qmq.protocol.scan import CRC_BYTES, walk_stored

logger = logging.getLogger("qmq.delay.recovery")

CHECKPOINT_NAME = "delay"
CHECKPOINT_FORMAT = 1
_HOUR = Struct(">IIQIIII")
"""hour, count, data bytes, dispatch entries, gone, refused, lost."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening found, for the log line."""

    from_offset: int
    salvaged: bool
    replayed_commits: int
    replayed_messages: int


class Replay:
    """Applies commits of the log to a store."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        self.commits = 0
        self.messages = 0

    def commit(self, commit: Commit) -> None:
        """One valid commit, in order."""
        self.commits += 1
        for offset, kind, payload in iter_records(commit.body, commit.body_offset):
            record = decode_record(offset, kind, payload)
            if isinstance(record, Scheduled):
                run = walk_stored(record.entries, record.subject)
                if run.count != len(record.dues_ms):
                    raise LogError(f"the record at offset {offset} holds {run.count} of {len(record.dues_ms)} messages")
                self.messages += self._store.replay_scheduled(record, run.raw_begins, run.raw_sizes())
            elif isinstance(record, Moved):
                self._store.replay_moved(record, RawView(record.entry, CRC_BYTES).subject)
            else:
                assert isinstance(record, Action)
                self._store.replay_action(record)


def open_store(disk: Disk, root: str, *, segment_bytes: int, handles: HandleCache) -> tuple[DelayStore, RecoveryReport]:
    """Open a delay node's data folder, new or used.

    Raises:
        LogError: the log or the checkpoint was written by a newer version, or can't be read at all.
        OSError: the disk refused.
    """
    for folder in ("schedule", "dispatch"):
        disk.make_dir(f"{root}/{folder}")
    checkpoints = CheckpointStore(disk, f"{root}/checkpoint", CHECKPOINT_NAME)
    checkpoint = checkpoints.load()
    for skipped in checkpoints.skipped:
        logger.error("a checkpoint is damaged and was passed over: %s", skipped)
    store = DelayStore(disk, root, handles)
    start: Position | None = None
    synced_to = 0
    if checkpoint is not None:
        restore_state(store, checkpoint)
        start, synced_to = checkpoint.log_position, checkpoint.synced_to
    elif _log_is_cut(disk, f"{root}/log"):
        _salvage(store)
    is_salvaged = checkpoint is None and bool(store.hours)
    replay = Replay(store)
    store.log = SegmentedLog.open(
        disk,
        f"{root}/log",
        segment_bytes=segment_bytes,
        start=start,
        synced_to=synced_to,
        tails=store.known_tails,
        visit=replay.commit,
    )
    known = {damage.begin for damage in store.log.damaged}
    store.log.damaged += tuple(
        damage for damage in store.known_damage if damage.begin not in known and damage.end > store.log.begin
    )
    for hour in list(store.hours.values()):
        if is_salvaged or hour.refused:
            _recount(hour)
    store.recount()
    if checkpoint is not None:
        _remove_strays(store)
    offset = start.offset if start is not None else store.log.begin
    return store, RecoveryReport(offset, is_salvaged, replay.commits, replay.messages)


def _recount(hour: Hour) -> None:
    """Counters of an hour from its dispatch log."""
    states = np.zeros(hour.schedule.count, dtype=np.uint8)
    entries, _ = hour.dispatch.read(0, hour.dispatch.count)
    entries = entries[entries["number"] < hour.schedule.count]
    states[entries["number"]] = entries["what"]
    hour.gone = int(np.isin(states, [int(state) for state in GONE]).sum())
    hour.refused = int((states == State.REFUSED).sum())


def _log_is_cut(disk: Disk, folder: str) -> bool:
    """Whether the log's beginning is gone, so that not everything can be replayed."""
    segments = Segments(disk, folder).infos()
    return bool(segments) and segments[0].base > 0


def _salvage(store: DelayStore) -> None:
    """No checkpoint can be read: take what the hours' files hold for as long as it passes its checks."""
    names = [name.removesuffix(".index") for name in store.disk.list_dir(f"{store.root}/schedule") if ".index" in name]
    subjects: dict[int, str] = {}
    for name in names:
        number = hour_number(name)
        if number is None:
            continue
        index_bytes = _size(store.disk, f"{store.root}/schedule/{name}.index")
        dispatch_bytes = _size(store.disk, f"{store.root}/dispatch/{name}")
        hour = Hour(
            store.handles,
            store.root,
            number,
            count=index_bytes // INDEX_BYTES,
            dispatch_count=dispatch_bytes // DISPATCH_BYTES,
        )
        count, data_end = _good_length(hour)
        _, bad = hour.dispatch.read(0, hour.dispatch.count)
        hour = store.hours[number] = Hour(
            store.handles,
            store.root,
            number,
            count=count,
            data_end=data_end,
            dispatch_count=hour.dispatch.count - bad,
        )
        _learn_subjects(hour, subjects)
    store.subject_names = [subjects.get(number, f"unknown-{number}") for number in range(max(subjects, default=-1) + 1)]
    store.subject_numbers = {name: number for number, name in enumerate(store.subject_names)}
    if names:
        logger.error("no checkpoint can be read: %d hours are taken as their files are", len(names))


def _learn_subjects(hour: Hour, subjects: dict[int, str]) -> None:
    """The names behind an hour's subject numbers, from a message of each."""
    for begin in range(0, hour.schedule.count, LOAD_ENTRIES):
        index = hour.schedule.read_index(begin, min(begin + LOAD_ENTRIES, hour.schedule.count))
        numbers, firsts = np.unique(index["subject"], return_index=True)
        for number, first in zip(numbers.tolist(), firsts.tolist(), strict=True):
            entry = hour.schedule.read_entry(hour.number, begin + first, UNBOUNDED)
            if number not in subjects and entry.data is not None:
                subjects[number] = RawView(entry.data, CRC_BYTES).subject


def _good_length(hour: Hour) -> tuple[int, int]:
    """How many leading index entries pass their check, and where their data ends."""
    data_end = 0
    for begin in range(0, hour.schedule.count, LOAD_ENTRIES):
        index = hour.schedule.read_index(begin, min(begin + LOAD_ENTRIES, hour.schedule.count))
        bad = np.flatnonzero(index["check"] != checks_of(index))
        good = index if not len(bad) else index[: bad[0]]
        if len(good):
            data_end = int((good["place"] + good["size"]).max())
        if len(bad):
            return begin + int(bad[0]), data_end
    return hour.schedule.count, data_end


def _size(disk: Disk, path: str) -> int:
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return 0
    try:
        return file.size()
    finally:
        file.close()


def _remove_strays(store: DelayStore) -> None:
    """Files of hours that neither the checkpoint nor the replay knows: a checkpoint left them out as finished."""
    for folder in ("schedule", "dispatch"):
        names = store.disk.list_dir(f"{store.root}/{folder}")
        gone = [name for name in names if (number := hour_number(name[:10])) is not None and number not in store.hours]
        for name in gone:
            store.disk.remove(f"{store.root}/{folder}/{name}")
        if gone:
            store.disk.sync_dir(f"{store.root}/{folder}")


# --- checkpoint state -----------------------------------------------------------------------------------------------


def encode_state(store: DelayStore) -> bytes:
    """The hours' counters: a line of JSON, then a fixed row an hour. Hours that are finished are left out."""
    hours = [hour for hour in store.hours.values() if hour.number not in store.finished]
    head = json.dumps(
        {
            "format": CHECKPOINT_FORMAT,
            "hours": len(hours),
            "subjects": store.subject_names,
            "damaged": [[damage.begin, damage.end, damage.why] for damage in store.log.damaged],
            "segment_tails": [[base, tail.offset, tail.chain] for base, tail in store.log.tails.items()],
        }
    ).encode()
    rows = [
        _HOUR.pack(h.number, h.schedule.count, h.schedule.data.end, h.dispatch.count, h.gone, h.refused, h.lost)
        for h in hours
    ]
    return b"".join([head, b"\n", *rows])


def restore_state(store: DelayStore, checkpoint: Checkpoint) -> None:
    """Fill an empty store from a checkpoint.

    Raises:
        LogError: another version wrote it.
    """
    line, _, rows = checkpoint.state.partition(b"\n")
    try:
        head = json.loads(line)
        if head["format"] != CHECKPOINT_FORMAT:
            raise LogError(
                f"the checkpoint has format {head['format']}, this version reads {CHECKPOINT_FORMAT}",
                code="log.format_unknown",
            )
        if head["hours"] * _HOUR.size != len(rows):
            raise ValueError(f"{len(rows)} bytes for {head['hours']} hours")
        store.known_damage = [Damage(as_number(begin), as_number(end), str(why)) for begin, end, why in head["damaged"]]
        store.known_tails = {
            as_number(base): Position(as_number(offset), as_number(crc)) for base, offset, crc in head["segment_tails"]
        }
        store.subject_names = list(map(as_text, head["subjects"]))
        store.subject_numbers = {name: number for number, name in enumerate(store.subject_names)}
        for hour, count, data_end, dispatch_count, gone, refused, lost in _HOUR.iter_unpack(rows):
            store.hours[hour] = Hour(
                store.handles, store.root, hour, count=count, data_end=data_end, dispatch_count=dispatch_count,
                gone=gone, refused=refused, lost=lost,
            )  # fmt: skip
    except (ValueError, LookupError, TypeError, RecursionError, StructError) as error:
        # Its CRC matched: whoever wrote it meant something else by it.
        raise LogError(f"the checkpoint's state can't be read: {error}", code="log.format_unknown") from error


@dataclass(frozen=True, slots=True)
class DelayDraft(CheckpointDraft):
    hours: list[Hour]
    finished: list[Hour]


class DelayCheckpoints:
    """Takes a delay store's state and writes it, the hours' files first."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        self._files = CheckpointStore(store.disk, f"{store.root}/checkpoint", CHECKPOINT_NAME)

    @property
    def has_removals(self) -> bool:
        """Whether finished hours wait for their removal."""
        return bool(self._store.finished)

    def draft(self) -> DelayDraft:
        """The state at the end of the last commit. What is in memory of each hour is set aside to be written."""
        store = self._store
        hours = list(store.dirty)
        for hour in hours:
            for file in hour.files:
                file.take()
        finished = [store.hours[number] for number in store.finished if number in store.hours]
        log = store.log
        return DelayDraft(encode_state(store), log.position, log.known_synced_to, log.appended_end, hours, finished)

    def save(self, draft: DelayDraft) -> None:
        """Make a draft durable; from any one thread. Raises OSError."""
        store = self._store
        written = [file.write(store.disk) for hour in draft.hours for file in hour.files]
        sync_files(store.disk, [path for path in written if path is not None])
        self._files.save(draft.state, draft.position, draft.synced_to)

    def saved(self, draft: DelayDraft) -> None:
        """Back on the store's thread: what was written is in the files, finished hours go."""
        store = self._store
        for hour in draft.hours:
            for file in hour.files:
                file.written()
            if not any(file.memory_bytes for file in hour.files):
                store.dirty.pop(hour, None)
        store.unwritten_bytes = sum(file.memory_bytes for hour in store.dirty for file in hour.files)
        for hour in draft.finished:
            # One that a query uses goes with the next checkpoint.
            if hour.number in store.finished and not hour.holders:
                self._remove(hour)

    def _remove(self, hour: Hour) -> None:
        store = self._store
        store.forget(hour)
        for file in hour.files:
            file.forget()
            remove_if_there(store.disk, file)


def remove_if_there(disk: Disk, file: AppendFile) -> None:
    """Remove a file that may never have been written."""
    try:
        disk.remove(file.path())
    except FileNotFoundError:
        return
