"""What a broker's checkpoint holds, and which files must be synced before it counts on them."""

from dataclasses import dataclass

from broker_node.recovery import CHECKPOINT_NAME, encode_state
from broker_node.store import MessageStore
from qmq.daemon.checkpointing import CheckpointDraft
from qmq.log.checkpoint import CheckpointStore
from qmq.log.index import DenseIndex, sync_files
from qmq.log.recovery import Damage


@dataclass(frozen=True, slots=True)
class BrokerDraft(CheckpointDraft):
    index_files: list[str]
    changed_folders: list[str]
    forgotten: list[tuple[tuple[str, str], DenseIndex]]
    """Histories that this state does not count on any more."""
    removed: list[tuple[str, DenseIndex]]
    """Consume logs of removed subjects, by name, likewise."""
    damaged: tuple[Damage, ...]
    """Damage of the log that it holds."""


class BrokerCheckpoints:
    """Takes a message store's state and writes it."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store
        self._files = CheckpointStore(store.disk, store.paths.checkpoint, CHECKPOINT_NAME)
        self._fsync_pending: dict[str, None] = {}
        """Index files written and not synced: the next checkpoint counts on them, so it syncs them first."""
        self._folders_pending: dict[str, None] = {}
        """Folders that may have new folders in them, likewise."""

    @property
    def has_removals(self) -> bool:
        """Whether damage was found that no checkpoint holds. What a checkpoint lets a broker remove was written first."""
        return self._store.has_new_damage

    def draft(self) -> BrokerDraft:
        """The state at the end of the last commit; to be saved once everything appended so far is synced.

        Raises OSError when an index could not be written; nothing is lost, try again later.
        """
        store = self._store
        flushed = [store.flush_index(index) for index in store.dirty_indexes]
        if not all(flushed):
            raise OSError("an index could not be written")
        for index in store.dirty_indexes:
            files = index.unsynced_files()
            self._fsync_pending.update(dict.fromkeys(files))
            if files and index.take_parent_sync():
                self._folders_pending.update(dict.fromkeys(store.paths.above(files[0])))
        store.dirty_indexes.clear()
        log = store.log
        state = encode_state(store)
        forgotten = list(store.forgotten.items())
        removed = list(store.removed.items())
        pending = list(self._fsync_pending), list(self._folders_pending)
        return BrokerDraft(
            state, log.position, log.known_synced_to, log.appended_end, *pending, forgotten, removed, log.damaged
        )

    def save(self, draft: BrokerDraft) -> None:
        """Make a draft durable; from any one thread. Raises OSError."""
        sync_files(self._store.disk, draft.index_files, draft.changed_folders)
        self._files.save(draft.state, draft.position, draft.synced_to)

    def saved(self, draft: BrokerDraft) -> None:
        """Back on the store's thread: what the draft synced is not owed any more."""
        for path in draft.index_files:
            self._fsync_pending.pop(path, None)
        for folder in draft.changed_folders:
            self._folders_pending.pop(folder, None)
        if draft.damaged == self._store.log.damaged:
            self._store.has_new_damage = False
        for key, history in draft.forgotten:
            self._store.remove_history(key, history)
        for name, index in draft.removed:
            self._store.files_deletable(name, index)
