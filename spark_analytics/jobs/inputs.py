"""What transforms are given: frames of the lake and of the metadata, for one window, each made once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from console.analytics.rows import Window as SummaryWindow
from spark_analytics.jobs import metadata
from spark_analytics.jobs.sampling import schema_of
from spark_analytics.jobs.scoring import score_rows
from spark_analytics.jobs.states import STORED_HOURS, States
from spark_analytics.lake import Lake
from spark_analytics.local_rows import local_frame
from spark_analytics.transforms.frames import RANGES, selected
from spark_analytics.transforms.lag import idle_lag, lag
from spark_analytics.transforms.latency import oldest_acked
from spark_analytics.transforms.outputs import FORECAST_SCORES
from spark_analytics.transforms.rates import group_rates, subject_rates
from spark_analytics.transforms.runs import runs
from spark_analytics.transforms.stored import merged_seconds, stored_seconds
from spark_analytics.transforms.windows import DAY_MS, MINUTE_MS, SECOND_MS, SHORT_STEPS, Window


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

    def table(self, name: str, from_ms: int | None = None) -> DataFrame:
        """A table of the lake: the window's rows, or those from an earlier time on."""
        begin = self.window.from_ms if from_ms is None else from_ms
        for item in self.lake.files_of(name, begin, self.window.to_ms):
            self.read_files[f"{name}/{item.path}"] = item.rows
        return self.lake.read(name, schema_of(name), begin, self.window.to_ms)

    def live(self, name: str) -> DataFrame:
        """A table as the nodes have it now."""
        return self.lake.spark.read.format("qmq").options(**self.source).option("table", name).load()

    @property
    def is_idle(self) -> bool:
        """Whether the window is days without rows, in which nothing happens."""
        return self.window.to_ms - self.window.from_ms > DAY_MS

    @cached_property
    def index(self) -> DataFrame:
        """What was stored."""
        return self.table("index")

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
        return self._keep(merged_seconds(before, stored_seconds(self.index)))

    @cached_property
    def runs(self) -> DataFrame:
        """RUNS of the window."""
        return self._keep(runs(self.progress, self.state, window=self.window))

    @cached_property
    def index_of_acked(self) -> DataFrame:
        """Index rows back to the oldest message that was acked in the window."""
        oldest = oldest_acked(self.stored, self.runs, window=self.window).first()
        second = oldest["second"] if oldest is not None else None
        return self.index if second is None else self.table("index", min(self.window.from_ms, second * SECOND_MS))

    @cached_property
    def lag(self) -> DataFrame:
        """Rows of `lag` at every step that the window is whole steps of. Days without rows follow from their first minute."""
        is_idle = self.is_idle
        window = Window(self.window.from_ms, self.window.from_ms + MINUTE_MS) if is_idle else self.window
        made = lag(
            self.stored,
            self.progress,
            self.state,
            self.runs,
            window=window,
            steps=(MINUTE_MS,) if is_idle else self.steps(SHORT_STEPS),
            ranges=self.states.begins(window.from_ms, window.to_ms),
        )
        kept = self._keep(made)
        return idle_lag(kept, window=self.window, steps=self.steps(SHORT_STEPS)) if is_idle else kept

    @cached_property
    def subject_rates(self) -> DataFrame:
        """Rows of `subject_rates`, likewise."""
        return self._keep(subject_rates(self.stored, window=self.window, steps=self.steps(SHORT_STEPS)))

    @cached_property
    def group_rates(self) -> DataFrame:
        """Rows of `group_rates`, likewise."""
        return self._keep(group_rates(self.runs, window=self.window, steps=self.steps(SHORT_STEPS)))

    @cached_property
    def ranges(self) -> DataFrame:
        """RANGES: the window's samples of what subjects keep. Bytes are those of the hours that are kept, an hour kept in part
        by its part; where the lake has not all of them, by the mean size of what it has."""
        self.states.advance(self.window.to_ms)  # so that all of the window's hours are counted
        samples = self.table("ranges")
        # Whatever is still kept was stored within the lake's own time.
        hours = self.lake.read("stored_hours", STORED_HOURS, 0, self.window.to_ms).drop("at", "messages").alias("hours")
        both = samples.alias("sample").join(
            hours.withColumnRenamed("bytes", "hour_bytes"),
            ["broker_group", "subject"],
            "left",
        )
        length = F.col("end_sequence") - F.col("first_sequence")
        inside = F.least("end", "end_sequence") - F.greatest("begin", "first_sequence")
        kept = F.greatest(F.lit(0), inside)
        found = both.groupBy("broker_group", "subject", "sampled_at", "begin", "end").agg(
            F.sum(kept).alias("counted"), F.sum(F.col("hour_bytes") * kept / length).alias("counted_bytes")
        )
        messages = F.col("end") - F.col("begin")
        stored = F.when(messages == 0, F.lit(0)).when(
            F.col("counted") > 0, F.round(F.col("counted_bytes") * messages / F.col("counted"))
        )
        made = found.select(
            "broker_group",
            "subject",
            F.unix_millis("sampled_at").alias("at_ms"),
            "begin",
            "end",
            stored.cast("long").alias("stored_bytes"),
        )
        return self._keep(selected(made, RANGES))

    def summary(self, table: str, from_ms: int, steps: Sequence[int]) -> DataFrame:
        """Rows of a summary table at some steps from an earlier time to the window's end; of each day only those that begin at the
        window's times of day, and each key's first."""
        length, begin = self.window.to_ms - self.window.from_ms, self.window.from_ms % DAY_MS
        times = SummaryWindow(begin, begin + length) if length < DAY_MS else None
        return metadata.summary(self.lake.spark, table, from_ms, self.window.to_ms, steps, times)

    def scores(self, steps: Sequence[int]) -> DataFrame:
        """Rows of `forecast_scores` for the window, from what earlier jobs published."""
        return local_frame(self.lake.spark, score_rows(self.window, steps), FORECAST_SCORES)

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

    def _keep(self, frame: DataFrame) -> DataFrame:
        self._kept.append(frame.persist())
        return self._kept[-1]
