"""class MemberStore: what a kind of node does with its log and its store so that other members can have them, too."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from prometheus_client.core import Metric

from qmq_node.log.checkpoint import CheckpointStore
from qmq_node.log.recovery import Damage
from qmq_node.log.replay import Replay
from qmq_node.node.storage import NodeStore, Storage
from qmq_node.process.counters import MetricFamilies
from qmq_node.repair.ranges import RepairableFiles
from qmq_node.repair.scrub import Scrubbed
from qmq_node.replication.group_time import GroupTime
from qmq_node.replication.state_files import StateFiles


class MemberStore(NodeStore, Protocol):
    """The store of a node that can be a member of a larger group."""

    @property
    def log_folder(self) -> str:
        """Folder of the log's segments."""

    @property
    def replay(self) -> Replay:
        """What has applied the log to the store since it was opened."""

    @property
    def checkpoint_store(self) -> CheckpointStore:
        """The checkpoints of the store."""

    @property
    def group_time(self) -> GroupTime | None:
        """The time that the members of the group agree on; None: this kind of node has none. Used from `open` on."""

    def slave_stats(self) -> dict[str, Any]:
        """Return the fields of the page /stats of a slave that only this kind of node has."""

    def slave_metrics(self, families: MetricFamilies) -> Iterable[Metric]:
        """The metrics of a slave that only this kind of node has."""

    @property
    def state_files(self) -> StateFiles | None:
        """Files that are a part of the state and are copied with a checkpoint; None: all files are made from the log."""

    @property
    def scrubbed_files(self) -> Scrubbed | None:
        """Files beside the log that can't be made from it, and are read again with it; None: there are none."""

    def clear(self) -> None:
        """Remove the log and all that is derived from it, durably; in a thread, before they are opened. Raises OSError.

        Files of the state stay.
        """

    def save_copied_state(self, data: bytes) -> tuple[int, int]:
        """As `qmq_node.replication.slave.slave_copy.SaveState`."""

    async def retain_as_slave(self, storage: Storage, master_begin: int) -> None:
        """Remove what the master's retention has removed: it keeps its log from `master_begin` on. Called once a second."""

    def accept_damage(self) -> None:
        """The broker group has lost what is damaged in the log: apply what is behind it without that."""

    @property
    def hour_ranges(self) -> RepairableFiles | None:
        """The hour files, as other members repair them and this one its own; None: this kind of node has none."""

    def watch_repairs(self, is_soon: Callable[[], bool]) -> None:
        """Have readers ask whether damage that they find is about to be repaired. Called when the store is open."""

    def unreadable_places(self) -> Iterable[tuple[int, int]]:
        """Return log offset and size, in bytes, of what readers could not read from the disk."""

    def log_damaged(self, damage: Damage) -> None:
        """Damage of the log was found: add it to what is known, and withhold what it holds."""

    async def log_repaired(self, begin: int, end: int) -> None:
        """Log offsets [begin, end) were repaired: serve again what was withheld because of them."""

    async def prepare_to_lead(self) -> None:
        """Bring what a slave does not keep in its store up to date, now that the whole log is applied."""
