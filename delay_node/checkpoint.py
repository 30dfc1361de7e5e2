"""Checkpoints of a delay store: a line of JSON, then a fixed row for each hour."""

import json
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from delay_node.hour import Hour, Hours
from delay_node.store import DelayStore, Subjects
from qmq.errors import LogError
from qmq_node.commits.checkpointing import CheckpointDraft
from qmq_node.log.checkpoint import Checkpoint, CheckpointStore, as_text
from qmq_node.log.replay import LogMemory

CHECKPOINT_NAME = "delay"
CHECKPOINT_FORMAT = 1
SLICE_HOURS = 500
"""Hours whose files are set aside before other work of the event loop has its turn."""
SLICE_NAMES = 2_000
"""New names of subjects that are encoded before other work has its turn: some 5 ms."""
_HOUR = Struct(">IIQIIII")
"""hour, count, data bytes, dispatch entries, gone, refused, lost."""


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
            hour.number, schedule.count, schedule.data.end, hour.dispatch.count, hour.gone, hour.refused, hour.lost
        )

    def holds(self, hour: Hour) -> bool:
        """Whether the state encoded last has the hour as it is now."""
        return self._rows.get(hour.number) == self._row(hour)

    def forget(self, hour: int) -> None:
        self._rows.pop(hour, None)

    def encode_names(self) -> bool:
        """Encode up to SLICE_NAMES new names, and return whether there are more. Names are never removed or changed."""
        names = self._store.subjects.names
        for name in names[self._names_count : self._names_count + SLICE_NAMES]:
            self._names += b"," * bool(self._names) + json.dumps(name).encode()
            self._names_count += 1
        return self._names_count < len(names)

    def encode(self) -> list[bytes]:
        """Return the state, in parts; finished hours are left out."""
        store, rows = self._store, self._rows
        for hour in store.hours.dirty:
            rows[hour.number] = self._row(hour)
        while self.encode_names():
            pass
        finished = store.hours.finished
        counted = [row for number, row in rows.items() if number not in finished] if finished else list(rows.values())
        head = {"format": CHECKPOINT_FORMAT, "hours": len(counted), **LogMemory.encode(store.log)}
        return [json.dumps(head)[:-1].encode(), b', "subjects": [', bytes(self._names), b"]}\n", b"".join(counted)]


def restore_state(store: DelayStore, checkpoint: Checkpoint) -> LogMemory:
    """Fill an empty store from a checkpoint; what it remembers of the log. Raises LogError for one of another version."""
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
        store.subjects = Subjects(list(map(as_text, head["subjects"])))
        for hour, *counters in _HOUR.iter_unpack(rows):
            store.hours.make(hour, *counters)
        return LogMemory.decode(head)
    except (ValueError, LookupError, TypeError, RecursionError, StructError) as error:
        # Its CRC matched: another program wrote it.
        raise LogError(f"the checkpoint's state can't be read: {error}", code="log.format_unknown") from error


@dataclass(frozen=True, slots=True)
class DelayDraft(CheckpointDraft):
    hours: list[Hour]
    finished: list[Hour]
    removed: list[Hour]
    """Hours that an earlier checkpoint left out: their files are removed."""


class DelayCheckpoints:
    """Takes a delay store's state and writes it, the hours' files first."""

    def __init__(self, store: DelayStore) -> None:
        self._hours: Hours = store.hours
        self._store = store
        self._files = CheckpointStore(store.disk, f"{store.root}/checkpoint", CHECKPOINT_NAME)
        self._encoder = StateEncoder(store)
        self._removed: list[Hour] = []
        self._taken_bytes = 0

    @property
    def has_removals(self) -> bool:
        """Whether files of finished hours have to be removed."""
        return bool(self._hours.finished or self._removed)

    def draft(self) -> Generator[None, None, DelayDraft]:
        """Encode new names in slices, take the state at the end of the last commit, then set aside what is in memory of the hours.

        What an hour got after the state was taken may be written with it: a start counts only what the checkpoint counts.
        """
        while self._encoder.encode_names():
            yield
        hours, log = self._hours, self._store.log
        finished = [hours[number] for number in hours.finished if number in hours]
        # After a step back of the clock an hour may be in use again.
        self._removed = [hour for hour in self._removed if hour.number not in hours]
        draft = DelayDraft(
            self._encoder.encode(), log.watermark.position, min(log.synced_end, log.high_watermark),
            log.gather.records_end,
            list(hours.dirty), finished, list(self._removed),
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
                file.write()
        self._hours.handles.sync(self._store.root)
        self._files.save(draft.state, draft.position, draft.synced_to)
        for hour in draft.removed:
            for file in hour.files:
                file.forget()
                # One may never have been written.
                with suppress(FileNotFoundError):
                    self._store.disk.remove(file.path())

    def saved(self, draft: DelayDraft) -> None:
        """Free what was written, and forget finished hours; on the event loop."""
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
        for hour in draft.finished:
            # One that a query uses is removed later.
            if hour.number in hours.finished and not hour.users:
                hours.forget(hour)
                self._store.bodies.forget(hour.number)
                self._encoder.forget(hour.number)
                self._removed.append(hour)
