"""What transforms are given: frames of the lake and of the metadata, for one window, each made once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from console.analytics.steps import Step
from spark_analytics.jobs import metadata
from spark_analytics.jobs.states import States, buckets_of
from spark_analytics.lake import Lake
from spark_analytics.lake.tables import GOLD
from spark_analytics.local_rows import local_frame
from spark_analytics.transforms.capacity import kept_ranges
from spark_analytics.transforms.lag import lag
from spark_analytics.transforms.latency import oldest_acked
from spark_analytics.transforms.rates import group_rates, subject_rates
from spark_analytics.transforms.runs import runs
from spark_analytics.transforms.stored import hours_of, merged_seconds, seconds_of
from spark_analytics.transforms.windows import SECOND_MS, SHORT_STEPS, Window

RECENT_MS = 3_600_000
"""How far before a window the index is read of all subjects: most messages are acked soon."""
NAMES_MAX = 1_000
"""Subjects that a filter names; more are joined."""
_SUBJECT = StructType([StructField("subject", StringType(), False)])


@dataclass
class Inputs:
    """Frames for a window. Those that several jobs need and that are small against what they are made from are kept in memory or on
    disk until `close`."""

    lake: Lake
    states: States
    window: Window
    source: Mapping[str, str]
    """Options of the data source, without `table`."""
    read_files: dict[str, int] = field(default_factory=dict)
    """Files of the lake that were opened: path -> rows."""
    _kept: list[DataFrame] = field(default_factory=list)

    def table(self, name: str, from_ms: int | None = None, to_ms: int | None = None) -> DataFrame:
        """A table of the lake: the window's rows, or those from an earlier time on, or up to an earlier one."""
        begin = self.window.from_ms if from_ms is None else from_ms
        end = self.window.to_ms if to_ms is None else to_ms
        for item in self.lake.files_of(name, begin, end):
            self.read_files[f"{name}/{item.path}"] = item.rows
        return self.lake.read(name, begin, end)

    def live(self, name: str) -> DataFrame:
        """A table as the nodes have it now."""
        return self.lake.spark.read.format("qmq").options(**self.source).option("table", name).load()

    @cached_property
    def progress(self) -> DataFrame:
        """What groups did."""
        return self.table("progress")

    @cached_property
    def state(self) -> DataFrame:
        """GROUP_STATE at the window's beginning."""
        return self.states.state_at(self.window.from_ms)

    @cached_property
    def stored(self) -> DataFrame:
        """STORED_SECONDS of the window and of what groups had not done before it."""
        before = self.states.stored_before(self.window, self.progress)
        return self.keep(merged_seconds(before, seconds_of(self.table("stored_seconds"))))

    @cached_property
    def runs(self) -> DataFrame:
        """RUNS of the window."""
        return self.keep(runs(self.progress, self.state, window=self.window, buckets=self.buckets))

    @cached_property
    def index_of_acked(self) -> DataFrame:
        """Index rows back to the oldest message that was acked in the window: of recent hours all, of older ones those of the
        subjects that need them."""
        recent_ms = self.acked_from_ms
        rows = self.table("index", recent_ms)
        older = {subject: ms for subject, ms in self._oldest_acked.items() if ms < recent_ms}
        if not older:
            return rows
        begin = min(older.values())
        earlier = self.table("index", begin, recent_ms)
        if len(older) <= NAMES_MAX:
            # Pushed down: files are sorted by subject.
            return rows.unionByName(earlier.where(F.col("subject").isin(sorted(older))))
        names = local_frame(self.lake.spark, [(name,) for name in sorted(older)], _SUBJECT)
        return rows.unionByName(earlier.join(F.broadcast(names), ["subject"], "left_semi"))

    @cached_property
    def acked_from_ms(self) -> int:
        """From when on all index rows are read: when the oldest message was stored that was acked in the window, at the earliest
        RECENT_MS before it."""
        oldest = min(self._oldest_acked.values(), default=self.window.from_ms)
        return max(min(oldest, self.window.from_ms), self.window.from_ms - RECENT_MS)

    @cached_property
    def _oldest_acked(self) -> dict[str, int]:
        """Subject -> when its oldest message was stored that was acked in the window, in ms since the epoch."""
        found: dict[str, int] = {}
        for row in oldest_acked(self.stored, self.runs, window=self.window).collect():
            at_ms = row["second"] * SECOND_MS
            found[row["subject"]] = min(at_ms, found.get(row["subject"], at_ms))
        return found

    @cached_property
    def buckets(self) -> int:
        """Parts that work in numpy on the window's rows is split into."""
        return buckets_of(
            self.lake, self.window.to_ms, stored_seconds=self.window.from_ms, progress=self.window.from_ms
        )

    @cached_property
    def buckets_of_acked(self) -> int:
        """The same for `index_of_acked`."""
        return buckets_of(self.lake, self.window.to_ms, index=self.acked_from_ms, progress=self.window.from_ms)

    @cached_property
    def lag(self) -> DataFrame:
        """Rows of `lag` at every step that the window is whole steps of."""
        return lag(
            self.stored,
            self.progress,
            self.state,
            self.runs,
            window=self.window,
            buckets=self.buckets,
            steps=self.steps(SHORT_STEPS),
            ranges=self.states.begins(self.window.from_ms, self.window.to_ms),
            keep=self.keep,
        )

    @cached_property
    def subject_rates(self) -> DataFrame:
        """Rows of `subject_rates`, likewise."""
        return self.keep(subject_rates(self.stored, window=self.window, steps=self.steps(SHORT_STEPS)))

    @cached_property
    def group_rates(self) -> DataFrame:
        """Rows of `group_rates`, likewise."""
        return self.keep(group_rates(self.runs, window=self.window, steps=self.steps(SHORT_STEPS)))

    @cached_property
    def ranges(self) -> DataFrame:
        """RANGES: the window's samples of what subjects keep."""
        samples = self.table("ranges")
        begins = samples.groupBy("broker_group", "subject").agg(F.min("begin").alias("begin")).collect()
        kept_from_ms = self.states.kept_from({(row["broker_group"], row["subject"]): row["begin"] for row in begins})
        return self.keep(kept_ranges(samples, hours_of(self.table("stored_seconds", kept_from_ms))))

    def gold(self, table: str, step: Step, from_ms: int) -> DataFrame:
        """Rows of a summary table at the step of an hour or a day, from an earlier time to the window's end, all that were
        published, with `at_ms`."""
        rows = self.table(GOLD + table, from_ms).where(F.col("step_ms") == step.ms)
        return rows.withColumn("at_ms", F.unix_millis("at"))

    @cached_property
    def owners(self) -> DataFrame:
        """OWNERS as they are now."""
        return metadata.owners(self.lake.spark)

    def steps(self, steps: Sequence[int]) -> tuple[int, ...]:
        """Those of some steps, in ms, that the window is whole steps of."""
        return tuple(step for step in steps if not self.window.from_ms % step and not self.window.to_ms % step)

    def close(self) -> None:
        """Let go of what was kept."""
        for frame in self._kept:
            frame.unpersist()

    def keep(self, frame: DataFrame) -> DataFrame:
        """A frame whose rows stay in memory or on disk, once they were made."""
        self._kept.append(frame.persist())
        return self._kept[-1]
