"""What nodes hold of a simulated day, for runs of the jobs at moments of it, in the place of real nodes.

Only what talks to nodes is replaced. Streams are tested in test_lake.py, test_streaming.py and test_live.py.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from spark_analytics.jobs import runner
from spark_analytics.jobs.inputs import Inputs
from spark_analytics.jobs.runner import Report, Request, Runner
from spark_analytics.jobs.sampling import Brokers
from spark_analytics.lake import Lake
from spark_analytics.lake.ingestion import Ingested, _complete
from spark_analytics.lake.tables import STREAMED, TABLES
from spark_analytics.schemas import SCHEMAS
from tests.served.spark.lake_of_day import FILLED, picked
from tests.support.analytics.frames import arrow, frame
from tests.support.analytics.simulated_day import BROKER_GROUPS, Day, rows_of


@dataclass(frozen=True, slots=True)
class Late:
    """Rows of a broker group of [from, to) that can't be read before `until_ms`; all in ms since the epoch."""

    broker_group: str
    from_ms: int
    to_ms: int
    until_ms: int


class NodesOfDay:
    """The nodes at `at_ms`, but for broker groups that are `missing`."""

    def __init__(self, day: Day, late: Iterable[Late] = ()) -> None:
        self.at_ms = day.first_ms
        self.missing: Set[str] = frozenset()
        self._rows = rows_of(day)
        self._rows["ranges"]["sampled_at"] = self._rows["ranges"].pop("at_ms")
        self._left = {table: set(range(len(self._rows[table]["broker_group"]))) for table in FILLED}
        self._late = tuple(late)
        self._read_to: dict[str, int] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Let runners of this test talk to these nodes."""
        patch.setattr(runner, "find_nodes", lambda *_, **__: type("Page", (), {"nodes": ()}))
        patch.setattr(runner, "look", lambda *_: self._look())
        patch.setattr(runner, "nodes_batch", lambda *_: self._nodes())
        patch.setattr(runner, "ingest", self._ingest)
        patch.setattr(Inputs, "live", lambda given, table: self._live(given.lake, table))

    def run(self, lake: Lake, names: Iterable[str], at_ms: int, missing: Set[str] = frozenset()) -> Report:
        """A run of jobs at a moment."""
        self.at_ms, self.missing = at_ms, missing
        report = Runner(lake, Request({"metaserver": "nodes"}), say=print, now_ms=lambda: at_ms).run(names)
        assert not report.failed, report.failed
        return report

    def _look(self) -> Brokers:
        return Brokers(frozenset(BROKER_GROUPS), missing=dict.fromkeys(self.missing, "it is unreachable"))

    def _nodes(self) -> pa.RecordBatch:
        found = self._next("nodes")
        return pa.RecordBatch.from_arrays([column.combine_chunks() for column in found.columns], schema=found.schema)

    def _next(self, table: str) -> pa.Table:
        """What was not read yet of a table, and can be read now."""
        rows = self._rows[table]
        groups, times = rows["broker_group"], rows[TABLES[table].moment]

        def is_there(number: int) -> bool:
            group, at_ms = groups[number], times[number]
            late = [one for one in self._late if one.broker_group == group and one.from_ms <= at_ms < one.to_ms]
            is_late = table in STREAMED and any(self.at_ms < one.until_ms for one in late)
            return group not in self.missing and at_ms < self.at_ms and not is_late

        chosen = {number for number in self._left[table] if is_there(number)}
        self._left[table] -= chosen
        return arrow(picked(rows, chosen.__contains__), TABLES[table].schema)

    def _ingest(
        self,
        lake: Lake,
        source: Mapping[str, str],
        groups: Iterable[str],
        *,
        missing: Mapping[str, str],
        without_news: Callable[..., Any],
        say: Callable[[str], None],
    ) -> Ingested:
        """As `spark_analytics.lake.ingestion.ingest`, without streams; and samples of what subjects keep."""
        found = Ingested(missing=dict(missing))
        lake.append("ranges", self._next("ranges"))
        for table in STREAMED:
            found.rows[table] = lake.append(table, self._next(table), late_before_ms=lake.watermark_ms((table,)))
        self._read_to |= dict.fromkeys(set(groups) - missing.keys(), self.at_ms)
        for table in STREAMED:
            _complete(lake, table, sorted(groups), missing, self._read_to)
        return found

    def _live(self, lake: Lake, table: str) -> DataFrame:
        return frame(lake.spark, self._rows[table], SCHEMAS[table])

    @property
    def unread(self) -> Counter[str]:
        """Table -> rows that no run has read."""
        return Counter({table: len(left) for table, left in self._left.items() if left})
