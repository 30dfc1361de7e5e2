"""class Scrubbing: the part of a node that reads its stored data again, whatever its role is."""

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client.core import Metric

from qmq.net.open_files import FileBudget
from qmq_node.daemon.part import Part
from qmq_node.log.atomic_file import CheckedFile
from qmq_node.log.recovery import Damage
from qmq_node.member.member_store import MemberStore
from qmq_node.node.node import Node
from qmq_node.process.counters import MetricFamilies
from qmq_node.repair.log_scrub import ScrubbedLog
from qmq_node.repair.ranges import DamagedRange
from qmq_node.repair.scrub import DAY_SECONDS, SCRUB_SECONDS, Found, Scrub
from qmq_node.repair.scrub_progress import FILE_BYTES_MAX, FILE_NAME, ScrubProgressFile


class Scrubbing(Part):
    """Keeps how far it is when the node stops.

    Args:
        found: is called with each damaged range, to have it repaired.
    """

    def __init__(self, node: Node, store: MemberStore, found: Callable[[DamagedRange], None]) -> None:
        self._node, self._store, self._on_found = node, store, found
        self.scrub: Scrub | None = None
        """None: it is off."""

    async def open(self, budget: FileBudget) -> None:
        node, options = self._node, self._node.options
        if not options.scrub_bytes_per_second:
            return
        hours = self._store.scrubbed_files
        self.scrub = Scrub(
            [ScrubbedLog(node.log), *([hours] if hours is not None else [])],
            ScrubProgressFile(CheckedFile(node.disk, options.data_dir, FILE_NAME, FILE_BYTES_MAX)),
            self._found,
            node.clock,
            options.scrub_bytes_per_second,
            options.scrub_days * DAY_SECONDS,
        )

    def begin(self) -> None:
        """Read from now on; damage can be repaired."""
        if self.scrub is not None:
            self._node.supervisor.every(SCRUB_SECONDS, "scrub", self.scrub.run)

    async def stop(self) -> None:
        if self.scrub is not None:
            await self.scrub.close()

    def _found(self, found: Found) -> None:
        damaged = found.damaged
        if damaged.is_log and not found.is_readable:
            # Sends continue: what can't be read may come back.
            self._node.log.stored.add_unreadable(Damage(damaged.begin, damaged.end, damaged.why))
        else:
            self._on_found(damaged)

    def report(self) -> dict[str, Any] | None:
        """Return how far it is, for `/stats`; null while it is off, or has not begun."""
        report = self.scrub.report() if self.scrub is not None else None
        return report.as_json() if report is not None else None

    def metrics(self, families: MetricFamilies) -> Iterable[Metric]:
        """The metrics of reading; none while it is off."""
        if self.scrub is None:
            return
        yield from families.counters(self.scrub.counters)
        report = self.scrub.report()
        if report is None:
            return
        text = "For how long the present pass over all stored data has run: it began when the one before ended"
        yield families.gauge("scrub_pass_seconds", text, report.pass_seconds)
        yield families.gauge("scrub_pass_ratio", "Share of the data that the present pass has read", report.done_share)
