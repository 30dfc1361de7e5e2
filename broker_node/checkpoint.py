"""Checkpoints of a message store: a head, a line of JSON for each subject, then the entries of small indexes.

The event loop takes the state in slices and serves in between, so subjects are of different moments. What makes that safe is in
docs/architecture/storage.md.

    line of JSON: the head · line of JSON for each subject · u32 for each of their indexes: bytes of its entries · those entries

An index (consume log or history) has its entries in here while it has no file (else 0 bytes). Format 1 had neither sizes nor
entries.
"""

import json
import logging
from collections.abc import Generator
from dataclasses import dataclass
from struct import Struct, iter_unpack
from typing import Any

from broker_node.store import MessageStore
from broker_node.subject import restore_groups
from qmq.daemon.checkpointing import CheckpointDraft
from qmq.errors import LogError
from qmq.log.checkpoint import CheckpointStore, as_number, as_text
from qmq.log.index import DenseIndex
from qmq.log.index_files import delete_files, firsts_in
from qmq.log.recovery import Damage
from qmq.log.replay import LogMemory

logger = logging.getLogger("qmq.broker.recovery")

CHECKPOINT_NAME = "broker"
CHECKPOINT_FORMAT = 2
SLICE_INDEXES = 500
"""Consume logs and histories taken before the event loop serves again: some 5 ms."""
FREED_MAX = 5_000
"""Indexes whose written entries are freed in memory at a time: some 3 ms."""
SMALL_INDEX_BYTES = 4096
"""An index gets a file when its entries take this much: 40,000 subjects with 3 groups would be 160,000 files."""
SMALL_BYTES_MAX = 128 << 20
"""Entries of small indexes in one checkpoint. What would exceed it gets a file."""
_SIZE = Struct(">I")


class DerivedStateWrong(LogError):
    """A derived file does not hold what the checkpoint says: rebuild."""

    code = "log.derived_wrong"


@dataclass(frozen=True, slots=True)
class BrokerDraft(CheckpointDraft):
    indexes: list[DenseIndex]
    """Their entries are taken, to be written to files."""
    forgotten: list[tuple[tuple[str, str], DenseIndex]]
    """Histories that this state does not count on any more."""
    removed: list[tuple[str, DenseIndex]]
    """Consume logs of removed subjects, by name, likewise."""
    hidden: dict[DenseIndex, int]
    """Indexes with files that this state does not count on, and the first entry that it does."""
    leftovers: dict[str, int]
    """Folders with files that neither this state nor the checkpoint before counts on: those that begin below a sequence."""
    damaged: tuple[Damage, ...]
    """Damage of the log that it holds."""


class BrokerCheckpoints:
    """Takes a message store's state and writes it."""

    def __init__(
        self, store: MessageStore, slice_indexes: int = SLICE_INDEXES, small_bytes: int = SMALL_INDEX_BYTES
    ) -> None:
        self._store = store
        self._sizes = slice_indexes, small_bytes
        self._files = CheckpointStore(store.disk, store.paths.checkpoint, CHECKPOINT_NAME)
        self._written: list[DenseIndex] = []
        """Indexes whose taken entries are in files."""
        self._hidden: dict[DenseIndex, int] = {}
        """Indexes with files that the newest checkpoint does not count on, and the first entry that it does."""

    @property
    def has_removals(self) -> bool:
        """Whether damage was found that no checkpoint holds, or files are to be deleted."""
        return self._store.has_new_damage or bool(self._hidden or self._store.leftovers)

    def draft(self) -> Generator[None, None, BrokerDraft]:
        """Take the state, in slices; to be saved once everything appended until its end is synced."""
        while self._written:
            self._free_written()
            yield
        store, log = self._store, self._store.log
        position, synced_to, damaged = log.position, log.known_synced_to, log.damaged
        forgotten, removed = list(store.forgotten.items()), list(store.removed.items())
        hidden: dict[DenseIndex, int] = {}
        state, indexes = yield from encode_state(store, *self._sizes, hidden)
        # Now: an index that was made since the first slice may be in the state, and write to one of these folders.
        leftovers = dict(store.leftovers)
        return BrokerDraft(
            state, position, synced_to, log.appended_end, indexes, forgotten, removed, hidden, leftovers, damaged
        )

    def save(self, draft: BrokerDraft) -> None:
        """Make a draft durable, and delete files that the checkpoint before does not count on; from any one thread.

        Raises:
            OSError: nothing is lost, try again later.
        """
        store, problem = self._store, None
        for index in draft.indexes:
            try:
                index.write()
                self._written.append(index)
            except OSError as error:
                store.counters.flush_errors += 1
                problem = problem or error
        if problem is not None:
            raise problem
        store.handles.sync(store.paths.root)
        self._files.save(draft.state, draft.position, draft.synced_to)
        for index, begin in self._hidden.items():
            index.delete_before(begin)
        for folder, end in draft.leftovers.items():
            delete_files(store.handles, folder, [first for first in firsts_in(store.disk, folder) if first < end])

    def saved(self, draft: BrokerDraft) -> None:
        """Free what was written, as far as it takes no time, the rest with the next draft; on the store's thread."""
        self._free_written()
        for index, begin in self._hidden.items():
            index.deleted_before(begin)
        self._hidden = {index: begin for index, begin in draft.hidden.items() if index.has_hidden_files}
        store = self._store
        for folder, end in draft.leftovers.items():
            if store.leftovers.get(folder, -1) <= end:
                store.leftovers.pop(folder, None)
        if draft.damaged == store.log.damaged:
            store.has_new_damage = False
        for name, index in draft.removed:
            if store.removed.get(name) is index:
                store.leave_files(store.removed.pop(name))
        for key, history in draft.forgotten:
            # Unless the group was created again: it continues its history.
            if store.forgotten.get(key) is history:
                store.leave_files(store.forgotten.pop(key))

    def _free_written(self) -> None:
        for _ in range(min(FREED_MAX, len(self._written))):
            self._written.pop().written()


def encode_state(
    store: MessageStore,
    slice_indexes: int = SLICE_INDEXES,
    small_bytes: int = SMALL_INDEX_BYTES,
    hidden: dict[DenseIndex, int] | None = None,
) -> Generator[None, None, tuple[list[bytes], list[DenseIndex]]]:
    """Take the store's derived state, in parts, and the indexes whose entries have to be in files.

    Damage is in it because the next start reads the log from the checkpoint on and would not meet it again.

    Args:
        hidden: gets the indexes with files that the state does not count on, and the first entry that it counts on.
    """
    head: dict[str, Any] = {
        "format": CHECKPOINT_FORMAT,
        "sequence_floor": store.sequence_floor,
        "segment_newest_ms": list(store.segment_newest_ms.items()),
        **LogMemory.encode(store.log),
    }
    count, room, files = 0, SMALL_BYTES_MAX, []
    lines: list[bytes] = []
    sizes: list[bytes] = []
    entries: list[bytes] = []
    slices: tuple[list[bytes], ...] = ([], [], [])
    for subject in list(store.subjects.values()):
        if store.subjects.get(subject.name) is not subject:
            continue
        count += 1
        lines.append(subject.checkpoint_line() + b"\n")
        for index in subject.indexes:
            small = index.small_entries(min(room, small_bytes))
            if small is None and index.take():
                files.append(index)
            entries.append(small or b"")
            sizes.append(_SIZE.pack(len(entries[-1])))
            room -= len(entries[-1])
            if index.has_hidden_files and hidden is not None:
                hidden[index] = index.begin
        if len(sizes) >= slice_indexes:
            for done, parts in zip(slices, (lines, sizes, entries), strict=True):
                done.append(b"".join(parts))
                parts.clear()
            yield
    state = [json.dumps(head | {"subjects": count}).encode() + b"\n"]
    for done, parts in zip(slices, (lines, sizes, entries), strict=True):
        state += [*done, *parts]
    return state, files


def write_large_indexes(store: MessageStore) -> None:
    """Write the entries of all but small indexes, before the node serves. What a full disk refuses stays in memory."""
    for subject in store.subjects.values():
        for index in subject.indexes:
            if index.small_entries(SMALL_INDEX_BYTES) is None and index.take():
                try:
                    index.write()
                except OSError as error:
                    store.counters.flush_errors += 1
                    logger.warning("an index could not be written, its entries stay in memory: %s", error)
                    return
                index.written()


class _SmallIndexes:
    """The entries of small indexes, in the order of the subjects' lines; none in format 1."""

    def __init__(self, data: bytes, count: int) -> None:
        at = count * _SIZE.size
        if len(data) < at:
            raise DerivedStateWrong(f"the checkpoint has {len(data)} bytes behind its lines")
        self._sizes = iter_unpack(_SIZE.format, data[:at])
        self._data, self._at = data, at

    def next(self) -> bytes:
        """The entries of the next index; none when they are in files."""
        (size,) = next(self._sizes, (0,))
        self._at += size
        return self._data[self._at - size : self._at]

    def check(self) -> None:
        """Raises DerivedStateWrong unless all entries were read."""
        if self._at != len(self._data) or next(self._sizes, None) is not None:
            raise DerivedStateWrong("the checkpoint has entries of other indexes than its subjects'")


def _lines(state: bytes) -> tuple[dict[str, Any], list[Any], bytes]:
    """The head and lines of a checkpoint's state, decoded, and what is behind them. Raises ValueError, LookupError, TypeError."""
    head = json.loads(state.partition(b"\n")[0])
    if head["format"] not in (1, CHECKPOINT_FORMAT):
        raise DerivedStateWrong(f"checkpoint of format {head['format']}")
    count = min(as_number(head["subjects"]), len(state))
    _, *lines = (state if head["format"] > 1 else state + b"\n").split(b"\n", count + 1)
    if len(lines) != count + 1:
        raise DerivedStateWrong(f"checkpoint of {count} subjects with {len(lines) - 1} lines")
    rest = lines.pop()
    return head, list(map(json.loads, lines)), rest


def restore_state(store: MessageStore, state: bytes) -> LogMemory:
    """Fill an empty store from a checkpoint; what it remembers of the log.

    Raises:
        DerivedStateWrong: the state can't be read, or an index lacks entries that it counts on.
    """
    try:
        head, lines, rest = _lines(state)
        # Versions that removed no subjects wrote none.
        store.sequence_floor = as_number(head.get("sequence_floor", 0))
        store.segment_newest_ms = {as_number(base, -1): as_number(at_ms) for base, at_ms in head["segment_newest_ms"]}
        count = sum(1 + len(line["groups"]) for line in lines) if head["format"] > 1 else 0
        small = _SmallIndexes(rest, count)
        for line in lines:
            _restore_subject(store, line, small)
        small.check()
        return LogMemory.decode(head)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DerivedStateWrong(f"the checkpoint's state can't be read: {error}") from error


def restore_ends(store: MessageStore, state: bytes) -> None:
    """Keep the sequences of subjects of which the log has no message any more, after derived files were made again.

    A checkpoint that can't be read adds nothing.
    """
    try:
        head, lines, _ = _lines(state)
        store.sequence_floor = max(store.sequence_floor, as_number(head.get("sequence_floor", 0)))
        for line in lines:
            name, end = as_text(line["subject"]), as_number(line["end"])
            subject = store.subjects.get(name)
            if subject is None:
                store.sequence_floor = max(store.sequence_floor, end)
            elif subject.begin == subject.visible_end < end:
                subject.consume_log.start_at(end)
                subject.next_sequence = end
                subject.changed()
    except (DerivedStateWrong, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        logger.error("the checkpoint's sequences can't be read: %s", error)


def _restore_subject(store: MessageStore, state: dict[str, Any], small: _SmallIndexes) -> None:
    name, begin, end = as_text(state["subject"]), as_number(state["begin"]), as_number(state["end"])
    if begin > end:
        raise ValueError(f"subject {name} begins at {begin} and ends at {end}")

    def open_history(subject_name: str, group: str, history_end: int) -> DenseIndex:
        entries, what = small.next(), f"progress log of {group} on {subject_name}"
        history = store.open_history(subject_name, group, 0 if entries or not history_end else None)
        return _fit(history, history.begin, history_end, entries, what)

    entries = small.next()
    index = _fit(store.open_index(name, 0 if entries else None), begin, end, entries, f"consume log of {name}")
    subject = store.add_subject(name, index, as_number(state.get("origin", 0)))
    subject.withheld = [(as_number(low), as_number(high)) for low, high in state.get("withheld", [])]
    restore_groups(subject, state["groups"], open_history, store.clock.monotonic())


def _fit(index: DenseIndex, begin: int, end: int, entries: bytes, what: str) -> DenseIndex:
    """Let an index hold what the checkpoint counted; entries written after it are replayed. `entries` are those of a small one."""
    if entries:
        index.hold(entries, end)
    elif begin == end:
        # It counts on no entry. There may be files of entries that are gone, or of a subject of that name that was removed.
        index.start_at(begin)
    if index.begin > begin or index.end < end:
        raise DerivedStateWrong(
            f"the {what} holds [{index.begin}, {index.end}), the checkpoint counts on [{begin}, {end})"
        )
    index.truncate(end)
    index.hide_before(begin)
    return index
