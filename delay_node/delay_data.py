"""class DelayData: what a delay node derives from its log, and the clock that its messages are due by."""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import Metric

from delay_node.checkpoint import CHECKPOINT_NAME, DelayCheckpoints, state_of_copy
from delay_node.damaged_file import DamagedFile
from delay_node.group_clock import GroupClock
from delay_node.hour_damage import HourDamage
from delay_node.hour_ranges import HourRanges
from delay_node.hour_scrub import ScrubbedHours
from delay_node.options import DelayOptions
from delay_node.recovery import clear_store, open_store
from delay_node.state_files import DelayStateFiles
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.net.open_files import FileBudget
from qmq_node.commits.checkpointing import CheckpointWriter
from qmq_node.log.checkpoint import CheckpointStore, save_copied
from qmq_node.log.handles import HandleCache
from qmq_node.log.log import SegmentedLog
from qmq_node.log.recovery import Damage
from qmq_node.log.replay import MemberOpening, RecoveryReport, Replay
from qmq_node.node.storage import Storage
from qmq_node.process.counters import MetricFamilies
from qmq_node.process.machine import Machine

UNWRITTEN_FACTOR = 4
"""With more than this many times `checkpoint_bytes` of the schedule in memory only, a master answers sends busy, a slave applies
nothing more until a checkpoint was made."""


class DelayData:
    """The store of a delay node, and what other members copy of it."""

    store: DelayStore
    recovery: RecoveryReport

    def __init__(self, options: DelayOptions, machine: Machine) -> None:
        self._options = options
        self._machine = machine
        self.unwritten_bytes_max = UNWRITTEN_FACTOR * options.checkpoint_bytes
        self.group_time = GroupClock(machine.clock, machine.disk, options.data_dir)
        self.holds_files: Callable[[], bool] = lambda: False
        """Whether a slave copies files of hours."""
        self.state_files = DelayStateFiles(machine.disk, options.data_dir, lambda: self.store.hours)
        self.scrubbed_files = ScrubbedHours(lambda: self.store.hours)
        self.is_alone: Callable[[], bool] = lambda: True
        """Whether the group has no other member."""
        file = DamagedFile(machine.disk, options.data_dir)
        self.damage = HourDamage(lambda: self.store, file, machine.clock, lambda: self.is_alone())
        self.hour_ranges = HourRanges(lambda: self.store.hours, self.damage)

    @property
    def trusted(self) -> TrustedClock:
        """The clock that messages are due by."""
        return self.group_time.trusted

    def open(self, budget: FileBudget, opening: MemberOpening | None) -> SegmentedLog:
        options = self._options
        self.group_time.open()
        self.store, self.recovery = open_store(
            self._machine.disk,
            options.data_dir,
            segment_bytes=options.segment_bytes,
            handles=HandleCache(self._machine.disk, budget.index_files, self._machine.clock),
            member=opening,
            unwritten_bytes_max=self.unwritten_bytes_max,
        )
        if opening is None or not opening.is_log_only:
            self.damage.watch()
        return self.store.log

    @property
    def loaded_offset(self) -> int:
        return self.recovery.loaded_offset

    def checkpoint_writer(self) -> CheckpointWriter[Any]:
        return DelayCheckpoints(self.store, lambda: self.holds_files())

    @property
    def log_folder(self) -> str:
        return f"{self._options.data_dir}/log"

    @property
    def replay(self) -> Replay:
        return self.recovery.replay

    @property
    def checkpoint_store(self) -> CheckpointStore:
        return CheckpointStore(self._machine.disk, f"{self._options.data_dir}/checkpoint", CHECKPOINT_NAME)

    def slave_stats(self) -> dict[str, Any]:
        return {"clock": self.group_time.report()}

    def slave_metrics(self, families: MetricFamilies) -> Iterable[Metric]:
        return self.group_time.metrics(families)

    def watch_repairs(self, is_soon: Callable[[], bool]) -> None:
        """Readers of hours find no damage of the log."""

    def unreadable_places(self) -> Iterable[tuple[int, int]]:
        # Only a start reads the log.
        return ()

    def log_damaged(self, damage: Damage) -> None:
        self.store.found_damage(damage)

    async def log_repaired(self, begin: int, end: int) -> None:
        """Nothing was derived from what is repaired: hours are made from the log once, when it is applied."""

    def clear(self) -> None:
        clear_store(self._machine.disk, self._options.data_dir)

    def save_copied_state(self, data: bytes) -> tuple[int, int]:
        return save_copied(self.checkpoint_store, data, state_of_copy)

    def accept_damage(self) -> None:
        self.store.placer.fills_gaps = True

    async def prepare_to_lead(self) -> None:
        """Nothing is missing: near hours are loaded while the node serves already."""

    async def retain_as_slave(self, storage: Storage, master_begin: int) -> None:
        storage.segment_removal.drop_before(min(master_begin, storage.checkpoints.floor))
