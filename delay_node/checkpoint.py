"""Checkpoints of a delay store: a line of JSON, then a fixed row for each hour."""

import json
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from struct import Struct
from struct import error as StructError
from typing import Any, NamedTuple

from delay_node.hour import Hour, Hours
from delay_node.store import DelayStore, Subjects
from qmq.errors import LogError
from qmq_node.commits.checkpointing import CheckpointDraft
from qmq_node.log.append_file import AppendFile
from qmq_node.log.checkpoint import Checkpoint, CheckpointStore, as_number, as_text
from qmq_node.log.recovery import Damage
from qmq_node.log.replay import LogMemory
from qmq_node.slices import run_in_slices, run_to_end

CHECKPOINT_NAME = "delay"
CHECKPOINT_FORMAT = 2
SLICE_HOURS = 500
"""Hours whose files are set aside before other work of the event loop has its turn."""
SLICE_NAMES = 2_000
"""New names of subjects that are encoded before other work has its turn: some 5 ms."""
_HOUR = Struct(">IIQIIIIQ")
"""hour, count, data bytes, dispatch entries, gone, refused, lost, log offset of its first record."""
_HOUR_1 = Struct(">IIQIIII")
"""In format 1, which had no log offset."""


class StateEncoder:
    """Encodes the state of a store. It keeps what it encoded, so that the cost follows the hours and subjects that changed."""

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        self._rows = {hour.number: self._row(hour) for hour in store.hours.values()}
        self._names = bytearray()
        self._names_count = 0

    @staticmethod
    def _row(hour: Hour) -> bytes:
        schedule = hour.schedule
        return _HOUR.pack(
            hour.number, schedule.count, schedule.data.end, hour.dispatch.count, hour.gone, hour.refused, hour.lost,
            hour.begins_at,
        )  # fmt: skip

    def holds(self, hour: Hour) -> bool:
        """Whether the state encoded last has the hour as it is now."""
        return self._rows.get(hour.number) == self._row(hour)

    def encode_names(self) -> bool:
        """Encode up to SLICE_NAMES new names, and return whether there are more. Names are never removed or changed."""
        subjects = self._store.subjects
        for name in subjects.names[self._names_count : min(subjects.placed, self._names_count + SLICE_NAMES)]:
            self._names += b"," * bool(self._names) + json.dumps(name).encode()
            self._names_count += 1
        return self._names_count < subjects.placed

    def encode(self) -> list[bytes]:
        """Return the state, in parts; ended hours are left out."""
        store, rows = self._store, self._rows
        for hour in store.hours.ended:
            rows.pop(hour.number, None)
        # The hours of some of them may be in use again.
        for hour in store.hours.dirty:
            rows[hour.number] = self._row(hour)
        while self.encode_names():
            pass
        head = {
            "format": CHECKPOINT_FORMAT,
            "hours": len(rows),
            "records_end": store.log.watermark.position.offset,
            **LogMemory.encode(store.log),
        }
        return [
            json.dumps(head)[:-1].encode(),
            b', "subjects": [',
            bytes(self._names),
            b"]}\n",
            b"".join(rows.values()),
        ]


class HourRow(NamedTuple):
    """What a checkpoint counts of an hour."""

    hour: int
    messages: int
    data_bytes: int
    dispatch_count: int
    gone: int
    refused: int
    lost: int
    begins_at: int = 0

    def encode(self) -> bytes:
        """Return the row as a checkpoint of the present format has it."""
        return _HOUR.pack(*self)


class DelayState(NamedTuple):
    """The state of a checkpoint, decoded."""

    head: dict[str, Any]
    subjects: list[str]
    hours: list[HourRow]
    memory: LogMemory


def decode_state(checkpoint: Checkpoint) -> DelayState:
    """Return the state of a checkpoint. Raises LogError for one of another version."""
    line, _, rows = checkpoint.state.partition(b"\n")
    try:
        head = json.loads(line)
        found = head["format"]
        if found not in (1, CHECKPOINT_FORMAT):
            raise LogError(
                f"the checkpoint has format {found}, this version reads 1 and {CHECKPOINT_FORMAT}",
                code="log.format_unknown",
            )
        row = _HOUR_1 if found == 1 else _HOUR
        if head["hours"] * row.size != len(rows):
            raise ValueError(f"{len(rows)} bytes for {head['hours']} hours")
        memory = LogMemory.decode(head)
        if found != 1:
            memory = replace(memory, records_end=as_number(head["records_end"]))
        hours = [HourRow(*counters) for counters in row.iter_unpack(rows)]
        return DelayState(head, list(map(as_text, head["subjects"])), hours, memory)
    except (ValueError, LookupError, TypeError, RecursionError, StructError) as error:
        # Its CRC matched: another program wrote it.
        raise LogError(f"the checkpoint's state can't be read: {error}", code="log.format_unknown") from error


def restore_state(store: DelayStore, checkpoint: Checkpoint) -> LogMemory:
    """Fill an empty store from a checkpoint; what it remembers of the log. Raises LogError for one of another version."""
    state = decode_state(checkpoint)
    store.subjects = Subjects(state.subjects)
    for row in state.hours:
        store.hours.make(*row)
    return state.memory


def state_of_copy(checkpoint: Checkpoint) -> tuple[list[bytes], int]:
    """Return the state of another member's checkpoint as this node saves it, and the log offset up to which it may hold records.
    What that member has lost is not lost here. Raises LogError."""
    state = decode_state(checkpoint)
    # Those of format 1 are of a commit's end.
    records_end = state.memory.records_end or checkpoint.log_position.offset
    head = {**state.head, "format": CHECKPOINT_FORMAT, "records_end": records_end}
    rows = b"".join(row._replace(lost=0).encode() for row in state.hours)
    return [json.dumps(head).encode(), b"\n", rows], records_end


@dataclass(frozen=True, slots=True)
class DelayDraft(CheckpointDraft):
    hours: list[Hour]
    ended: list[Hour]
    """Hours that this checkpoint leaves out for the first time."""
    removed: list[Hour]
    """Hours that an earlier checkpoint left out: their files are removed."""
    damaged: tuple[Damage, ...]
    """Of the log."""


class DelayCheckpoints:
    """Takes a delay store's state and writes it, the hours' files first.

    Args:
        holds_files: returns whether a slave copies files that an earlier checkpoint counts: then none are removed.
    """

    def __init__(self, store: DelayStore, holds_files: Callable[[], bool] = lambda: False) -> None:
        self._hours: Hours = store.hours
        self._holds_files = holds_files
        self._store = store
        self._files = CheckpointStore(store.disk, f"{store.root}/checkpoint", CHECKPOINT_NAME)
        self._encoder = StateEncoder(store)
        self._removed: list[Hour] = []
        self._taken_bytes = 0

    @property
    def has_removals(self) -> bool:
        """Whether damage was found that no checkpoint holds, or files of ended hours have to be removed."""
        return self._store.has_new_damage or bool(self._hours.ended or (self._removed and not self._holds_files()))

    async def ready(self) -> None:
        """Encode new names in slices, and wait for the end of the commit that a slave applies.

        In the middle of it the state fits no log position: it would be counted twice in part.
        """
        await run_in_slices(self._encode_names())
        await self._store.commit_hold.between()

    def _encode_names(self) -> Generator[None, None, None]:
        while self._encoder.encode_names():
            yield

    def draft(self) -> Generator[None, None, DelayDraft]:
        """Take the state at once, then set aside what is in memory of the hours, in slices.

        What an hour got after the state was taken may be written with it: a start counts only what the checkpoint counts.
        """
        # Those that came while it waited.
        run_to_end(self._encode_names())
        hours, log = self._hours, self._store.log
        for hour in hours.ended:
            if hour in hours.dirty:
                # Nothing of it is worth a write.
                del hours.dirty[hour]
                hours.unwritten_bytes -= sum(file.memory_bytes for file in hour.files)
        # An hour may be in use again.
        self._removed = [hour for hour in self._removed if hour.number not in hours]
        draft = DelayDraft(
            self._encoder.encode(), log.watermark.position, min(log.synced_end, log.high_watermark),
            log.watermark.position.offset,
            list(hours.dirty), list(hours.ended), [] if self._holds_files() else list(self._removed),
            log.stored.damaged,
        )  # fmt: skip
        self._taken_bytes = 0
        yield
        for number, hour in enumerate(draft.hours):
            for file in hour.files:
                if size := file.memory_bytes:
                    self._taken_bytes += size
                    file.take()
            if number % SLICE_HOURS == SLICE_HOURS - 1:
                yield
        return draft

    def save(self, draft: DelayDraft) -> None:
        """Make a draft durable; from any one thread. Raises OSError."""
        for hour in draft.hours:
            for file in hour.files:
                with self._hours.writing:
                    if not file.written_end:
                        # What an earlier use of the hour, or a crash, has left would look valid behind the end of this one.
                        self._remove(file)
                    file.write()
        self._hours.handles.sync(self._store.root)
        self._files.save(draft.state, draft.position, draft.synced_to)
        for hour in draft.removed:
            for file in hour.files:
                with self._hours.writing:
                    self._remove(file)

    def _remove(self, file: AppendFile) -> None:
        """Remove a file, which may never have been written."""
        file.forget()
        with suppress(FileNotFoundError):
            self._store.disk.remove(file.path())

    def saved(self, draft: DelayDraft) -> None:
        """Free what was written; on the event loop."""
        hours = self._hours
        for hour in draft.hours:
            memory_bytes = 0
            for file in hour.files:
                file.written()
                memory_bytes += file.memory_bytes
            # Messages may have come after the draft and before the hour was set aside: they are written, and not yet counted.
            if not memory_bytes and self._encoder.holds(hour):
                hours.dirty.pop(hour, None)
        hours.unwritten_bytes -= self._taken_bytes
        self._removed = [hour for hour in self._removed if hour not in draft.removed]
        del hours.ended[: len(draft.ended)]
        if draft.damaged == self._store.log.stored.damaged:
            self._store.has_new_damage = False
        self._removed += draft.ended
