"""Where groups were at the ends of hours: what a window's computation begins with, kept in the lake."""

from collections import Counter
from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from qmq.protocol.values import moment
from spark_analytics.jobs.planning import HOUR_MS, Idle, states_due
from spark_analytics.lake import Lake
from spark_analytics.lake.lake import hour_of
from spark_analytics.lake.log import Change
from spark_analytics.lake.tables import STREAMED
from spark_analytics.schemas import INDEX, PROGRESS, SEQUENCES_PER_LOG
from spark_analytics.transforms.frames import GROUP_STATE, STORED_SECONDS
from spark_analytics.transforms.runs import runs
from spark_analytics.transforms.state import group_state, set_below, stored_tail
from spark_analytics.transforms.stored import merged_seconds, stored_seconds
from spark_analytics.transforms.windows import DAY_MS, Window

_AT = StructField("at", TimestampType(), False)
STORED_HOURS = StructType([_AT, *(field for field in STORED_SECONDS.fields if field.name != "second")])
"""What was stored in a subject of a log of a broker group in an hour."""
STATE_SCHEMAS = {
    "group_state": StructType([_AT, *GROUP_STATE.fields]),
    "stored_tail": StructType([_AT, *STORED_SECONDS.fields]),
    "stored_hours": STORED_HOURS,
}
"""Derived tables of the lake: states with the moment they are of, and sums by the hour."""
SAMPLED_RANGES = StructType(
    [
        StructField("sampled_at", TimestampType(), False),
        StructField("broker_group", StringType(), False),
        StructField("subject", StringType(), False),
        StructField("begin", LongType(), False),
        StructField("end", LongType(), False),
    ]
)
"""What a subject kept on a broker group at a moment: consume sequences [begin, end)."""
RANGES_LOOKBACK_MS = 2 * HOUR_MS
"""How far before a window samples of what is kept are read; further, up to the last sampled hour, where none was taken in it."""
LATEST = "latest"
"""How the log of group_state names the last moment that a state is known of: also one at which there was no group yet."""


class States:
    """States by moment. A moment's tail is written before its state, so a reader that finds a state has both."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def moments(self) -> list[int]:
        """Moments in ms since the epoch that states are kept of, in order."""
        snapshot = self._lake.snapshot("group_state")
        found = {hour_of(item.partition) for item in snapshot.files.values()}
        return sorted(found | {at_ms for name, at_ms in snapshot.watermarks.items() if name == LATEST})

    def state_at(self, at_ms: int) -> DataFrame:
        """GROUP_STATE at an hour's beginning. It has to be among the moments, or before everything the lake has."""
        return self._read("group_state", at_ms).select(*GROUP_STATE.names)

    def tail_at(self, at_ms: int) -> DataFrame:
        """STORED_SECONDS that lag still needs at an hour's beginning."""
        return self._read("stored_tail", at_ms).select(*STORED_SECONDS.names)

    def begin_ms(self) -> int | None:
        """The first hour that the lake has anything of; None: it has nothing."""
        return min(
            (at for name in ("index", "progress") if (at := self._lake.first_ms(name)) is not None), default=None
        )

    def idle_days(self, to_ms: int) -> set[int]:
        """The UTC days up to a moment of which the lake has no rows, neither events nor samples; their beginnings, in ms since the
        epoch. Days before the first with rows are none of them."""
        read = (*STREAMED, "nodes", "ranges")
        hours = {hour_of(item.partition) for name in read for item in self._lake.snapshot(name).files.values()}
        with_rows = {hour - hour % DAY_MS for hour in hours}
        return set(range(min(with_rows, default=to_ms), to_ms, DAY_MS)) - with_rows

    def groups_count(self) -> int:
        """About how many consumer groups there are: rows of the largest state."""
        rows: Counter[str] = Counter()
        for item in self._lake.snapshot("group_state").files.values():
            rows[item.partition] += item.rows
        return max(rows.values(), default=0)

    def advance(self, to_ms: int, say: Callable[[str], None] = lambda text: None) -> int:
        """Make the states that are missing up to an hour's beginning, from the nearest one before it; how many were made."""
        begin = self.begin_ms()
        if begin is None:
            return 0
        last = max((at for at in self.moments() if at <= to_ms), default=begin)
        made = 0
        for window in states_due(last, to_ms, Idle(self.idle_days(to_ms))):
            self._make(Window(window.from_ms, window.to_ms))
            say(f"state at {moment(window.to_ms):%Y-%m-%d %H:%M}")
            made += 1
        return made

    def forget_after(self, at_ms: int) -> None:
        """Take out the states behind a moment: what was read late is to be counted in them."""
        for table in STATE_SCHEMAS:
            base = self._lake.snapshot(table)
            if table == "stored_hours":
                continue  # replaced by the hour with the states
            removed = tuple(path for path, item in base.files.items() if hour_of(item.partition) > at_ms)
            latest = {name: min(at, at_ms) for name, at in base.watermarks.items()}
            if removed or latest != base.watermarks:
                self._lake.commit(table, base, Change(removed=removed, watermarks=latest))

    def stored_before(self, window: Window, progress: DataFrame) -> DataFrame:
        """STORED_SECONDS before a window that its groups need: the tail, and all that is known of subjects where the window's
        progress sets a group further back than the tail goes."""
        tail = self.tail_at(window.from_ms)
        below = [(row["broker_group"], row["subject"]) for row in set_below(progress, tail, window=window).collect()]
        first = self._lake.first_ms("index")
        if not below or first is None or first >= window.from_ms:
            return tail
        places = [
            (F.col("broker_group") == group) & (F.col("subject") == subject) for group, subject in sorted(set(below))
        ]
        is_meant = reduce(Column.__or__, places)
        earlier = self._lake.read("index", INDEX, first, window.from_ms).where(is_meant)
        return tail.where(~is_meant).unionByName(stored_seconds(earlier))

    def begins(self, from_ms: int, to_ms: int) -> DataFrame:
        """RANGES without bytes: the samples taken in [from, to), and the last ones before it."""
        hours = (hour_of(item.partition) for item in self._lake.snapshot("ranges").files.values())
        last_ms = max((hour for hour in hours if hour <= from_ms), default=from_ms)
        found = self._lake.read("ranges", SAMPLED_RANGES, min(last_ms, from_ms - RANGES_LOOKBACK_MS), to_ms)
        at_ms, no_bytes = F.unix_millis("sampled_at").alias("at_ms"), F.lit(None).cast("long").alias("stored_bytes")
        return found.select("broker_group", "subject", at_ms, "begin", "end", no_bytes)

    def _make(self, window: Window) -> None:
        lake = self._lake
        progress = lake.read("progress", PROGRESS, window.from_ms, window.to_ms)
        index = lake.read("index", INDEX, window.from_ms, window.to_ms)
        before = self.state_at(window.from_ms)
        followed = runs(progress, before, window=window)
        state = group_state(progress, before, followed, window=window).persist()
        try:
            seconds = stored_seconds(index).persist()
            try:
                stored = merged_seconds(self.stored_before(window, progress), seconds)
                tail = stored_tail(stored, state, window=window, ranges=self.begins(window.to_ms, window.to_ms))
                self._write("stored_tail", tail, window.to_ms)
                lake.replace("stored_hours", _by_hour(seconds), window.from_ms, window.to_ms)
                self._write("group_state", state, window.to_ms)
            finally:
                seconds.unpersist()
        finally:
            state.unpersist()
        base = lake.snapshot("group_state")
        if base.watermarks.get(LATEST, 0) < window.to_ms:
            lake.commit("group_state", base, Change(watermarks={LATEST: window.to_ms}))

    def _write(self, table: str, rows: DataFrame, at_ms: int) -> None:
        moment = F.timestamp_millis(F.lit(at_ms)).alias("at")
        # One file: states are small against what they are made from.
        self._lake.replace(table, rows.select(moment, "*").coalesce(1), at_ms, at_ms + HOUR_MS)

    def _read(self, table: str, at_ms: int) -> DataFrame:
        return self._lake.read(table, STATE_SCHEMAS[table], at_ms, at_ms + HOUR_MS)


def _by_hour(seconds: DataFrame) -> DataFrame:
    """STORED_SECONDS summed by hour: STORED_HOURS."""
    hour = F.timestamp_seconds(F.col("second") - F.pmod(F.col("second"), F.lit(3600))).alias("at")
    # Between two logs of a broker group lie sequences that never were.
    log = F.floor(F.col("first_sequence") / SEQUENCES_PER_LOG)
    found = seconds.groupBy(hour, "broker_group", "subject", log.alias("log")).agg(
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.min("first_sequence").alias("first_sequence"),
        F.max("end_sequence").alias("end_sequence"),
    )
    return found.select(*STORED_HOURS.names).coalesce(1)
