"""Checkpoints of a message store: a head, a line of JSON for each subject, then what its indexes have beside their files.

The event loop takes the state in slices and serves in between, so subjects are of different moments. What makes that safe is in
docs/architecture/storage.md.

    line of JSON: the head · line of JSON for each subject · u64 for each of their indexes

The last entries of an index (consume log or history) are in the `TailsFile`, by that number, until they are worth a write to its
own file; `HAS_FILES` is added for an index that has files.
"""

import json
import logging
from collections.abc import Generator
from dataclasses import asdict, dataclass
from struct import pack
from typing import Any

from broker_node.storage.store import MessageStore
from qmq_node.commits.checkpointing import CheckpointDraft
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.index import DenseIndex
from qmq_node.log.index_files import delete_files, firsts_in
from qmq_node.log.recovery import Damage
from qmq_node.log.replay import LogMemory
from qmq_node.log.tails_file import TailsDraft

logger = logging.getLogger("qmq.broker.recovery")

CHECKPOINT_NAME = "broker"
CHECKPOINT_FORMAT = 1
SLICE_INDEXES = 500
"""Consume logs and histories taken before the event loop serves again: some 5 ms."""
FREED_MAX = 5_000
"""Indexes whose written entries are freed in memory at a time: some 3 ms."""
TAIL_BYTES_MAX = 4096
"""Entries of an index that are worth a write to its own file: 40,000 subjects with 3 groups have 160,000 indexes."""
TAILS_BYTES_MAX = 256 << 20
"""Entries of all indexes that are in memory beside their files. What exceeds it is written to files."""
HAS_FILES = 1 << 63
"""Added to the number of an index that has files."""


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

    async def ready(self) -> None:
        """The state may be taken at any time: records are applied again without effect."""

    def draft(self) -> Generator[None, None, BrokerDraft]:
        """Take the state, in slices; to be saved once everything appended until its end is synced."""
        while self._written:
            self._free_written()
            yield
        store, log = self._store, self._store.log
        position, synced_to, damaged = (
            log.watermark.position,
            min(log.synced_end, log.high_watermark),
            log.stored.damaged,
        )
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
        if draft.damaged == store.log.stored.damaged:
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
            numbers.append(number | HAS_FILES if has_files else number)
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
