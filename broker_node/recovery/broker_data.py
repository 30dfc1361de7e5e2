"""class BrokerData: what a broker derives from its log."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from prometheus_client.core import Metric

from broker_node.options import BrokerOptions
from broker_node.recovery.checkpoint import CHECKPOINT_NAME, BrokerCheckpoints
from broker_node.recovery.checkpoint_reading import state_of_copy
from broker_node.recovery.open_store import clear_store, open_store, renew_leases
from broker_node.recovery.repaired_log import serve_repaired
from broker_node.retention.retention_clock import Gap, GapFile, RetentionClock
from broker_node.retention.subject_retention import HistoryRetention
from broker_node.storage.store import MessageStore
from broker_node.storage.subject_changes import SubjectChanges
from broker_node.storage.subject_table import StoreLimits, StorePaths
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
from qmq_node.slices import run_in_slices

logger = logging.getLogger("qmq.broker")


class BrokerData:
    """What a broker derives from its log, and its files: the store of messages, ages, and what other members copy of it."""

    store: MessageStore
    recovery: RecoveryReport
    gap_file: GapFile
    retention_clock: RetentionClock
    history_retention: HistoryRetention
    changes: SubjectChanges
    group_time = None

    def __init__(self, options: BrokerOptions, machine: Machine) -> None:
        self._options = options
        self._machine = machine
        self._paths = StorePaths(options.data_dir)
        self.keep_ms = round(options.retention_hours * 3_600_000)

    def open(self, budget: FileBudget, opening: MemberOpening | None) -> SegmentedLog:
        options = self._options
        self.store, self.recovery = open_store(
            self._machine.disk,
            options.data_dir,
            self._machine.clock,
            limits=StoreLimits(
                options.subjects_max,
                options.groups_per_subject_max,
                options.consumers_per_group_max,
                options.consumer_in_flight_max,
            ),
            segment_bytes=options.segment_bytes,
            handles=HandleCache(self._machine.disk, budget.index_files, self._machine.clock),
            member=opening,
        )
        self.gap_file = GapFile(self._machine.disk, options.data_dir)
        self.retention_clock = self._retention_clock()
        self.history_retention = HistoryRetention(self.store, options.retention_hours, self.retention_clock)
        self.changes = SubjectChanges(
            self.store.subjects, self.store.touched, lambda: self.store.log.begin, self._machine.clock
        )
        return self.store.log

    @property
    def loaded_offset(self) -> int:
        return self.recovery.loaded_offset

    def checkpoint_writer(self) -> CheckpointWriter[Any]:
        return BrokerCheckpoints(self.store)

    @property
    def log_folder(self) -> str:
        return self._paths.log

    @property
    def replay(self) -> Replay:
        return self.recovery.replay

    @property
    def checkpoint_store(self) -> CheckpointStore:
        return CheckpointStore(self._machine.disk, self._paths.checkpoint, CHECKPOINT_NAME)

    def slave_stats(self) -> dict[str, Any]:
        return {}

    def slave_metrics(self, families: MetricFamilies) -> Iterable[Metric]:
        return ()

    @property
    def state_files(self) -> None:
        return None

    @property
    def scrubbed_files(self) -> None:
        return None

    @property
    def hour_ranges(self) -> None:
        return None

    def watch_repairs(self, is_soon: Callable[[], bool]) -> None:
        self.store.repairs_soon = is_soon

    def unreadable_places(self) -> Iterable[tuple[int, int]]:
        return self.store.message_log.unreadable

    def log_damaged(self, damage: Damage) -> None:
        self.store.found_damage([damage])

    async def log_repaired(self, begin: int, end: int) -> None:
        await serve_repaired(self.store, begin, end)

    def clear(self) -> None:
        clear_store(self._machine.disk, self._paths)

    def save_copied_state(self, data: bytes) -> tuple[int, int]:
        return save_copied(self.checkpoint_store, data, state_of_copy)

    def accept_damage(self) -> None:
        """The replay withholds what damage took, wherever it meets some."""

    async def prepare_to_lead(self) -> None:
        self.store.continue_times()
        await run_in_slices(renew_leases(self.store))

    async def retain_as_slave(self, storage: Storage, master_begin: int) -> None:
        self.drop_before(storage, min(master_begin, storage.checkpoints.floor))
        # Those of the master leave by time, which no record says.
        await self.history_retention.tick()

    def drop_before(self, storage: Storage, cut: int) -> None:
        """Remove whole segments below a log offset."""
        log = self.store.log
        gone = storage.segment_removal.drop_before(cut)
        self.store.message_log.unreadable.forget_before(log.begin)
        for base in gone:
            self.store.segment_newest_ms.pop(base, None)
        if gone:
            logger.info("retention: %d segments dropped, the log begins at offset %d", len(gone), log.begin)

    def _retention_clock(self) -> RetentionClock:
        gaps: Sequence[Gap] = ()
        ran_ms = self.store.newest_ms
        try:
            gaps, kept_ms = self.gap_file.load()
        except OSError as error:
            logger.error("steps of the wall clock before this start count towards the age of messages: %s", error)
        else:
            ran_ms = max((at_ms for at_ms in (ran_ms, kept_ms) if at_ms is not None), default=None)
        return RetentionClock(self._machine.clock, self.keep_ms, gaps, ran_ms)
