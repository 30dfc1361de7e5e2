"""Checkpoints of a message store: a head, a line of JSON for each subject, then what its indexes have beside their files.

The event loop takes the state in slices and serves in between, so subjects are of different moments. What makes that safe is in
docs/architecture/storage.md.

    line of JSON: the head · line of JSON for each subject · u64 for each of their indexes

The last entries of an index (consume log or history) are in the `TailsFile`, by that number, until they are worth a write to its
own file; `_HAS_FILES` is added for an index that has files. Format 1 had no numbers: all entries were in files. Format 2 had a u32
for each index, and the entries of those without files behind them.
"""

import json
import logging
from collections.abc import Generator
from dataclasses import asdict, dataclass, replace
from struct import calcsize, pack, unpack_from
from typing import Any

from broker_node.known_state import KnownState
from broker_node.store import MessageStore
from broker_node.subject import restore_groups
from qmq.daemon.checkpointing import CheckpointDraft
from qmq.errors import LogError
from qmq.log.checkpoint import Checkpoint, CheckpointStore, as_number, as_text, decode_checkpoint
from qmq.log.index import DenseIndex
from qmq.log.index_files import delete_files, firsts_in
from qmq.log.recovery import Damage
from qmq.log.replay import LogMemory
from qmq.log.tails_file import TailsDraft, TailsPosition, TailsWrong

logger = logging.getLogger("qmq.broker.recovery")

CHECKPOINT_NAME = "broker"
CHECKPOINT_FORMAT = 3
SLICE_INDEXES = 500
"""Consume logs and histories taken before the event loop serves again: some 5 ms."""
FREED_MAX = 5_000
"""Indexes whose written entries are freed in memory at a time: some 3 ms."""
TAIL_BYTES_MAX = 4096
"""Entries of an index that are worth a write to its own file: 40,000 subjects with 3 groups have 160,000 indexes."""
TAILS_BYTES_MAX = 256 << 20
"""Entries of all indexes that are in memory beside their files. What exceeds it is written to files."""
_HAS_FILES = 1 << 63


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
    tails: TailsDraft


class BrokerCheckpoints:
    """Takes a message store's state and writes it."""

    def __init__(
        self, store: MessageStore, slice_indexes: int = SLICE_INDEXES, tail_bytes_max: int = TAIL_BYTES_MAX
    ) -> None:
        self._store = store
        self._sizes = slice_indexes, tail_bytes_max
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
        position, synced_to, damaged = log.position, min(log.synced_end, log.high_watermark), log.damaged
        forgotten, removed = list(store.forgotten.items()), list(store.removed.items())
        hidden, tails = dict[DenseIndex, int](), store.tails.draft()
        state, indexes, records_end = yield from encode_state(store, tails, *self._sizes, hidden)
        # Now: an index that was made since the first slice may be in the state, and write to one of these folders.
        leftovers = dict(store.leftovers)
        return BrokerDraft(
            state, position, synced_to, records_end, indexes, forgotten, removed, hidden, leftovers, damaged, tails
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
        store.tails.write(draft.tails)
        self._files.save(draft.state, draft.position, draft.synced_to)
        store.tails.delete_others(draft.tails)
        for index, begin in self._hidden.items():
            index.delete_before(begin)
        for folder, end in draft.leftovers.items():
            delete_files(store.handles, folder, [first for first in firsts_in(store.disk, folder) if first < end])

    def saved(self, draft: BrokerDraft) -> None:
        """Free what was written, as far as it takes no time, the rest with the next draft; on the store's thread."""
        self._free_written()
        self._store.tails.saved(draft.tails)
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
    tails: TailsDraft,
    slice_indexes: int = SLICE_INDEXES,
    tail_bytes_max: int = TAIL_BYTES_MAX,
    hidden: dict[DenseIndex, int] | None = None,
) -> Generator[None, None, tuple[list[bytes], list[DenseIndex], int]]:
    """Take the store's derived state. Return it in parts, with the indexes whose entries have to be in files, and the end of a
    commit up to which it may hold records.

    Damage is in it because the next start reads the log from the checkpoint on and would not meet it again.

    Args:
        tails: gets the entries that are new and need not be in the files of their indexes.
        hidden: gets the indexes with files that the state does not count on, and the first entry that it counts on.
    """
    head: dict[str, Any] = {
        "format": CHECKPOINT_FORMAT,
        "sequence_floor": store.sequence_floor,
        "segment_newest_ms": list(store.segment_newest_ms.items()),
        **LogMemory.encode(store.log),
    }
    count, files = 0, []
    lines: list[bytes] = []
    numbers: list[int] = []
    slices: tuple[list[bytes], list[bytes]] = ([], [])

    def end_slice() -> None:
        slices[0].append(b"".join(lines))
        slices[1].append(pack(f">{len(numbers)}Q", *numbers))
        lines.clear()
        numbers.clear()
        tails.end_slice()

    for subject in list(store.subjects.values()):
        if store.subjects.get(subject.name) is not subject:
            continue
        count += 1
        lines.append(subject.checkpoint_line() + b"\n")
        for index in subject.indexes:
            number, has_files = 0, bool(index.firsts)
            if index.memory_bytes < min(tail_bytes_max, TAILS_BYTES_MAX - tails.live_bytes):
                number = tails.add(index)
            elif index.take():
                files.append(index)
                has_files = True
            numbers.append(number | _HAS_FILES if has_files else number)
            if index.has_hidden_files and hidden is not None:
                hidden[index] = index.begin
        if len(numbers) >= slice_indexes:
            end_slice()
            yield
    end_slice()
    records_end = store.end_records()
    head |= {"subjects": count, "tails": asdict(tails.position), "records_end": records_end}
    return [json.dumps(head).encode() + b"\n", *slices[0], *slices[1]], files, records_end


def write_large_indexes(store: MessageStore) -> None:
    """Write entries that are worth it to files, before the node serves. What a full disk refuses stays in memory."""
    for subject in store.subjects.values():
        for index in subject.indexes:
            if index.memory_bytes >= TAIL_BYTES_MAX and index.take():
                try:
                    index.write()
                except OSError as error:
                    store.counters.flush_errors += 1
                    logger.warning("an index could not be written, its entries stay in memory: %s", error)
                    return
                index.written()


@dataclass(frozen=True, slots=True)
class _Index:
    """What a checkpoint counts on of an index, and where the entries behind its files are."""

    index: DenseIndex
    begin: int | None
    """Of a consume log; a history begins with its first entry."""
    end: int
    what: str
    number: int
    entries: bytes


class _Places:
    """Where the entries of indexes are, in the order of the subjects' lines."""

    def __init__(self, checkpoint_format: int, data: bytes, count: int) -> None:
        code = {1: "", 2: f">{count}I", 3: f">{count}Q"}[checkpoint_format]
        size = calcsize(code)
        if len(data) < size or (checkpoint_format != 2 and len(data) > size):
            raise DerivedStateWrong(f"the checkpoint has {len(data)} bytes behind its lines, not {size}")
        self._data, self._at, self._has_entries = data, size, checkpoint_format == 2
        self._values = iter(unpack_from(code, data))

    def next(self) -> tuple[int, bool, bytes]:
        """Of the next index: its number, whether it has files, and its entries if they are in here."""
        value = next(self._values, _HAS_FILES)
        if not self._has_entries:
            return value & ~_HAS_FILES, value >= _HAS_FILES, b""
        self._at += value
        return 0, not value, self._data[self._at - value : self._at]

    def check(self) -> None:
        """Raises DerivedStateWrong unless all were read."""
        if next(self._values, None) is not None or (self._has_entries and self._at != len(self._data)):
            raise DerivedStateWrong("the checkpoint has other indexes than its subjects'")


def _lines(state: bytes) -> tuple[dict[str, Any], list[Any], bytes]:
    """The head and lines of a checkpoint's state, decoded, and what is behind them. Raises ValueError, LookupError, TypeError."""
    head = json.loads(state.partition(b"\n")[0])
    if head["format"] not in (1, 2, CHECKPOINT_FORMAT):
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
        if head.get("is_copied"):
            raise DerivedStateWrong("the checkpoint is another member's")
        # Versions that removed no subjects wrote none.
        store.sequence_floor = as_number(head.get("sequence_floor", 0))
        store.segment_newest_ms = {as_number(base, -1): as_number(at_ms) for base, at_ms in head["segment_newest_ms"]}
        count = sum(1 + len(line["groups"]) for line in lines) if head["format"] > 1 else 0
        places = _Places(head["format"], rest, count)
        indexes = [index for line in lines for index in _restore_subject(store, line, places)]
        places.check()
        if head["format"] == CHECKPOINT_FORMAT:
            by_number = {index.number: index.index for index in indexes if index.number}
            store.tails.load(TailsPosition.decode(head["tails"]), by_number)
        for index in indexes:
            _fit(index)
        for subject in store.subjects.values():
            subject.next_sequence = subject.visible_end
        # Versions without replication recorded none.
        store.replayed_end = as_number(head.get("records_end", 0))
        return replace(LogMemory.decode(head), records_end=store.replayed_end)
    except TailsWrong as error:
        raise DerivedStateWrong(str(error)) from error
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DerivedStateWrong(f"the checkpoint's state can't be read: {error}") from error


def save_copied(files: CheckpointStore, data: bytes) -> tuple[int, int]:
    """Save the checkpoint of another member as the one of this node, which has to make the derived files from the log.

    Returns the log offset where it stands, and the one up to which it may hold records.

    Raises:
        LogError: it can't be read.
        OSError: nothing is lost, try again.
    """
    found = decode_checkpoint(data)
    if not isinstance(found, Checkpoint):
        raise DerivedStateWrong(f"the checkpoint of the master: {found}")
    head_bytes, _, rest = found.state.partition(b"\n")
    try:
        head = json.loads(head_bytes)
        records_end = as_number(head["records_end"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise DerivedStateWrong(f"the checkpoint of the master can't be read: {error}") from error
    files.save([json.dumps({**head, "is_copied": True}).encode() + b"\n", rest], found.log_position, found.synced_to)
    return found.log_position.offset, records_end


def restore_known(store: MessageStore, state: bytes, offset: int) -> KnownState | None:
    """Fill an empty store with what the log does not hold any more, before all derived files are made again.

    Args:
        offset: where the checkpoint stands.

    Returns:
        What the replay has to respect; None if the state can't be read, which is logged: the log alone counts then.
    """
    try:
        head, lines, _ = _lines(state)
        return KnownState.restore(store, head, lines, offset)
    except (DerivedStateWrong, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        logger.error("the checkpoint can't be read, so positions whose records have left the log are lost: %s", error)
        return None


def _restore_subject(store: MessageStore, state: dict[str, Any], places: _Places) -> list[_Index]:
    """Make a subject, of which the entries behind the files of its indexes are still to be added."""
    name, begin, end = as_text(state["subject"]), as_number(state["begin"]), as_number(state["end"])
    if begin > end:
        raise ValueError(f"subject {name} begins at {begin} and ends at {end}")
    found: list[_Index] = []

    def opened(index: DenseIndex, place: tuple[int, bool, bytes], begin: int | None, end: int, what: str) -> DenseIndex:
        number, has_files, entries = place
        if number and has_files and not index.firsts:
            raise DerivedStateWrong(f"the {what} has no files")
        found.append(_Index(index, begin, end, what, number, entries))
        return index

    def open_history(subject_name: str, group: str, end: int) -> DenseIndex:
        place = places.next()
        history = store.open_history(subject_name, group, None if end and place[1] else 0)
        return opened(history, place, None, end, f"progress log of {group} on {subject_name}")

    number, has_files, entries = place = places.next()
    consume_log = store.open_index(name, 0 if (number or entries) and not has_files else None)
    opened(consume_log, place, begin, end, f"consume log of {name}")
    subject = store.add_subject(name, consume_log, as_number(state.get("origin", 0)))
    subject.withheld = [(as_number(low), as_number(high)) for low, high in state.get("withheld", [])]
    restore_groups(subject, state["groups"], open_history, store.clock.monotonic())
    return found


def _fit(found: _Index) -> None:
    """Let an index hold what the checkpoint counted; entries written after it are replayed."""
    index, end, what = found.index, found.end, found.what
    if found.entries:
        index.restore(end * index.entry_bytes - len(found.entries), found.entries, 0)
    begin = index.begin if found.begin is None else found.begin
    if begin == end and not found.number and not found.entries:
        # It counts on no entry. There may be files of entries that are gone, or of a subject of that name that was removed.
        index.start_at(begin)
    if index.begin > begin or index.end < end:
        raise DerivedStateWrong(
            f"the {what} holds [{index.begin}, {index.end}), the checkpoint counts on [{begin}, {end})"
        )
    index.truncate(end)
    index.hide_before(begin)
