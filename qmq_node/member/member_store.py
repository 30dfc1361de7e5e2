"""class MemberStore: what a kind of node does with its log and its store so that other members can have them, too."""

from abc import ABC, abstractmethod
from typing import Any

from qmq_node.commits.checkpointing import Checkpointing
from qmq_node.commits.committer import Committer
from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.replay import Replay


class MemberStore(ABC):
    """Implemented by the nodes that can be members of larger groups (`qmq_node.member.member_node.MemberNode`)."""

    @property
    @abstractmethod
    def log_folder(self) -> str:
        """Folder of the log's segments."""

    @property
    @abstractmethod
    def replay(self) -> Replay:
        """What has applied the log to the store since it was opened."""

    @property
    @abstractmethod
    def checkpoint_store(self) -> CheckpointStore:
        """The checkpoints of the store."""

    @abstractmethod
    def new_checkpoints(self, committer: Committer | None) -> Checkpointing[Any]:
        """Return what makes checkpoints of the store; None: on a slave."""

    @abstractmethod
    def clear_store(self) -> None:
        """Remove the log and all that is derived from it, durably; in a thread, before they are opened. Raises OSError."""

    @abstractmethod
    def save_copied_state(self, data: bytes) -> tuple[int, int]:
        """As `qmq_node.replication.slave.slave_copy.SaveState`."""

    @abstractmethod
    async def retain_as_slave(self, master_begin: int) -> None:
        """Remove what the master's retention has removed: it keeps its log from `master_begin` on. Called once a second."""

    @abstractmethod
    async def prepare_to_lead(self) -> None:
        """Bring what a slave does not keep in its store up to date, now that the whole log is applied."""
