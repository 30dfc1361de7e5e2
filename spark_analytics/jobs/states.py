"""Where groups were at the ends of hours: what a window's computation begins with, kept in the lake."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from qmq.protocol.values import moment
from spark_analytics.jobs.planning import HOUR_MS, Idle, states_due
from spark_analytics.lake import Lake
from spark_analytics.lake.delta import Change
from spark_analytics.lake.tables import STREAMED
from spark_analytics.local_rows import local_frame
from spark_analytics.transforms.frames import GROUP_STATE, STORED_SECONDS, bucket_count
from spark_analytics.transforms.runs import runs
from spark_analytics.transforms.state import group_state, set_below, stored_tail
from spark_analytics.transforms.stored import merged_seconds, seconds_of
from spark_analytics.transforms.windows import DAY_MS, Window

STATE_TABLES = ("group_state", "stored_tail")
"""Tables of the lake with states and the moment they are of."""
_PLACES = StructType([StructField(name, StringType(), False) for name in ("broker_group", "subject")])
_SECOND = ["broker_group", "subject", "second"]
RANGES_LOOKBACK_MS = 2 * HOUR_MS
"""How far before a window samples of what is kept are read; further, up to the last sampled hour, where none was taken in it."""
CLOCKS_APART_MS = HOUR_MS
"""How far the clock that samples are taken by may be ahead of a node's. Of what is stored earlier the mean size is taken."""
LATEST = "latest"
"""How the log of group_state names the last moment that a state is known of: also one at which there was no group yet."""


def buckets_of(lake: Lake, to_ms: int, others: int = 0, **begins_ms: int) -> int:
    """How many parts to split work in numpy into that is made from these tables of the lake up to a time.

    Args:
        others: rows that come from elsewhere.
        begins_ms: table -> when what is read of it begins.
    """
    rows = others + sum(item.rows for name, at_ms in begins_ms.items() for item in lake.files_of(name, at_ms, to_ms))
    return bucket_count(rows, lake.spark.sparkContext.defaultParallelism)


class States:
    """States by moment. Tails are kept at the beginnings of days (UTC): what was stored from there to an hour is in the silver. A
    moment's tail is written before its state, so a reader that finds a state has both."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def moments(self) -> list[int]:
        """Moments in ms since the epoch that states are kept of, in order."""
        snapshot = self._lake.snapshot("group_state")
        found = {item.begin_ms for item in snapshot.files.values()}
        return sorted(found | {at_ms for name, at_ms in snapshot.watermarks.items() if name == LATEST})

    def state_at(self, at_ms: int) -> DataFrame:
        """GROUP_STATE at an hour's beginning. It has to be among the moments, or before everything the lake has."""
        return self._read("group_state", at_ms).select(*GROUP_STATE.names)

    def tail_at(self, at_ms: int) -> DataFrame:
        """STORED_SECONDS that lag still needs at an hour's beginning. It has to be among the moments, or before everything the lake
        has."""
        day_ms = at_ms - at_ms % DAY_MS
        if at_ms == day_ms:
            return self._read("stored_tail", at_ms).select(*STORED_SECONDS.names)
        return self._tail(Window(day_ms, at_ms), self.state_at(at_ms))

    def begin_ms(self) -> int | None:
        """The first hour that the lake has anything of; None: it has nothing."""
        return min(
            (at for name in ("index", "progress") if (at := self._lake.first_ms(name)) is not None), default=None
        )

    def idle_days(self, to_ms: int) -> set[int]:
        """The UTC days up to a moment of which the lake has no rows, neither events nor samples; their beginnings, in ms since the
        epoch. Days before the first with rows are none of them."""
        read = (*STREAMED, "nodes", "ranges")
        hours = {item.begin_ms for name in read for item in self._lake.snapshot(name).files.values()}
        with_rows = {hour - hour % DAY_MS for hour in hours}
        return set(range(min(with_rows, default=to_ms), to_ms, DAY_MS)) - with_rows

    def groups_count(self) -> int:
        """About how many consumer groups there are: rows of the largest state."""
        rows: Counter[int] = Counter()
        for item in self._lake.snapshot("group_state").files.values():
            rows[item.begin_ms] += item.rows
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
        for table in STATE_TABLES:
            base = self._lake.snapshot(table)
            removed = tuple(path for path, item in base.files.items() if item.begin_ms > at_ms)
            latest = base.watermarks
            if latest.get(LATEST, at_ms) > at_ms:
                # Not the moment itself: there may be no state of it, and it would count as one without groups.
                kept = [item.begin_ms for item in base.files.values() if item.begin_ms <= at_ms]
                latest = {LATEST: max(kept)} if kept else {}
            if removed or latest != base.watermarks:
                self._lake.commit(table, base, Change(removed=removed, watermarks=latest))

    def redo(self, late: Sequence[int], known: Collection[str]) -> list[tuple[int, int | None]]:
        """Make the states behind hours with late rows again, each up to one that comes out as it was; what is to be computed again:
        spans [from, to) in ms since the epoch, `to` None: up to now.

        A window's rows follow from its own rows, the state and the tail at its beginning, and, if it sets a group back, from all
        that was stored in the subject before. So what is behind a moment stays as it is if its state does, its tail has none of
        the seconds that got late rows, and no group is set back behind it where these are: hours in which one is count as late.

        A run that is killed in it leaves states of both kinds: then all of them have to go (`forget_after`).

        Args:
            late: the hours' beginnings, in order.
            known: files of `stored_seconds` that were there before the late rows came.
        """
        touched = self._touched(late[0], known).persist()
        try:
            spans: list[tuple[int, int | None]] = []
            for hour in sorted({*late, *self._set_back(late[0], touched)}):
                if not spans or (spans[-1][1] is not None and hour >= spans[-1][1]):
                    behind = (at_ms for at_ms in self.moments() if at_ms > hour)
                    spans.append((hour, next((at_ms for at_ms in behind if self._stays(at_ms, touched)), None)))
            return spans
        finally:
            touched.unpersist()

    def _touched(self, from_ms: int, known: Collection[str]) -> DataFrame:
        """The seconds from a moment on that came with new files: broker_group, subject, second."""
        files = self._lake.snapshot("stored_seconds").files
        folders = {path.partition("/")[0] for path in files.keys() - set(known)}
        end_ms = max((item.begin_ms for item in files.values()), default=from_ms) + HOUR_MS
        silver = self._lake.read("stored_seconds", from_ms, max(end_ms, from_ms))
        # Each write has a folder of its own.
        folder = F.regexp_extract(F.input_file_name(), r"/stored_seconds/([^/]+)/", 1)
        return (
            silver.where(folder.isin(sorted(folders)))
            .select(*_SECOND[:2], F.unix_seconds("at").alias("second"))
            .distinct()
        )

    def _set_back(self, from_ms: int, touched: DataFrame) -> list[int]:
        """The hours from a moment on in which a group of these subjects is set to another position."""
        end_ms = (
            max((item.begin_ms for item in self._lake.snapshot("progress").files.values()), default=from_ms) + HOUR_MS
        )
        starts = self._lake.read("progress", from_ms, max(end_ms, from_ms)).where(F.col("kind") == "start")
        hour = F.unix_millis(F.date_trunc("hour", "at")).alias("hour")
        found = starts.join(touched.select(*_SECOND[:2]).distinct(), _SECOND[:2], "left_semi").select(hour).distinct()
        return [row["hour"] for row in found.collect()]

    def _stays(self, at_ms: int, touched: DataFrame) -> bool:
        """Make the state of a moment again; whether nothing behind it changes."""
        before = max((known for known in self.moments() if known < at_ms), default=self.begin_ms())
        assert before is not None, "late rows are in the lake"
        return self._make(Window(before, at_ms), touched)

    def stored_before(self, window: Window, progress: DataFrame) -> DataFrame:
        """STORED_SECONDS before a window that its groups need: the tail, and all that is known of subjects where the window's
        progress sets a group further back than the tail goes."""
        tail = self.tail_at(window.from_ms)
        below = set_below(progress, tail, window=window).select(*_PLACES.names).distinct().collect()
        first = self._lake.first_ms("stored_seconds")
        if not below or first is None or first >= window.from_ms:
            return tail
        places = F.broadcast(local_frame(self._lake.spark, below, _PLACES))
        earlier = self._lake.read("stored_seconds", first, window.from_ms).join(places, _PLACES.names, "left_semi")
        return tail.join(places, _PLACES.names, "left_anti").unionByName(seconds_of(earlier))

    def begins(self, from_ms: int, to_ms: int) -> DataFrame:
        """RANGES without bytes: the samples taken in [from, to), and the last ones before it."""
        hours = (item.begin_ms for item in self._lake.snapshot("ranges").files.values())
        last_ms = max((hour for hour in hours if hour <= from_ms), default=from_ms)
        found = self._lake.read("ranges", min(last_ms, from_ms - RANGES_LOOKBACK_MS), to_ms)
        at_ms, no_bytes = F.unix_millis("sampled_at").alias("at_ms"), F.lit(None).cast("long").alias("stored_bytes")
        return found.select("broker_group", "subject", at_ms, "begin", "end", no_bytes)

    def kept_from(self, begins: Mapping[tuple[str, str], int]) -> int:
        """An hour's beginning, in ms since the epoch, before which nothing was stored of what subjects keep; 0: not known.

        Samples tell it: what a subject had stored by one of them lies before its `end`. So it is searched for the last hour whose
        samples are of all these broker groups and end behind none of these sequences.

        Args:
            begins: (broker group, subject) -> the first consume sequence that it keeps.
        """
        groups = {group for group, _ in begins}
        hours = sorted({item.begin_ms for item in self._lake.snapshot("ranges").files.values()})

        def is_needed(hour: int) -> bool:
            columns = ("broker_group", "subject", "end")
            rows = self._lake.arrow("ranges", hour, hour + 1, columns)
            sampled = list(zip(*(rows.column(name).to_pylist() for name in columns), strict=True))
            is_partial = not groups <= {group for group, _, _ in sampled}
            return is_partial or any(end > begins.get((group, subject), end) for group, subject, end in sampled)

        first = bisect_left(hours, True, key=is_needed)
        return hours[first - 1] - CLOCKS_APART_MS if first else 0

    def _make(self, window: Window, touched: DataFrame | None = None) -> bool:
        """Make the state at a window's end. With `touched` seconds it is written only if it, or what is behind it, changes;
        whether neither does."""
        lake = self._lake
        progress = lake.read("progress", window.from_ms, window.to_ms)
        before = self.state_at(window.from_ms)
        buckets = buckets_of(lake, window.to_ms, progress=window.from_ms)
        followed = runs(progress, before, window=window, buckets=buckets)
        state = group_state(progress, before, followed, window=window).persist()
        try:
            of_days = Window(window.from_ms - window.from_ms % DAY_MS, window.to_ms)
            if (
                touched is not None
                and _is_same(state, self.state_at(window.to_ms))
                and self._tail(of_days, state).join(touched, _SECOND, "left_semi").isEmpty()
            ):
                return True
            if not window.to_ms % DAY_MS:
                self._write("stored_tail", self._tail(of_days, state), window.to_ms)
            self._write("group_state", state, window.to_ms)
        finally:
            state.unpersist()
        base = lake.snapshot("group_state")
        if base.watermarks.get(LATEST, 0) < window.to_ms:
            lake.commit("group_state", base, Change(watermarks={LATEST: window.to_ms}))
        return False

    def _tail(self, window: Window, state: DataFrame) -> DataFrame:
        """STORED_SECONDS that lag needs after a window that begins with a day, whose end has a state."""
        progress = self._lake.read("progress", window.from_ms, window.to_ms)
        silver = self._lake.read("stored_seconds", window.from_ms, window.to_ms)
        stored = merged_seconds(self.stored_before(window, progress), seconds_of(silver))
        return stored_tail(stored, state, window=window, ranges=self.begins(window.to_ms, window.to_ms))

    def _write(self, table: str, rows: DataFrame, at_ms: int) -> None:
        moment = F.timestamp_millis(F.lit(at_ms)).alias("at")
        # One file: states are small against what they are made from.
        self._lake.replace(table, rows.select(moment, "*").coalesce(1), at_ms, at_ms + HOUR_MS)

    def _read(self, table: str, at_ms: int) -> DataFrame:
        return self._lake.read(table, at_ms, at_ms + HOUR_MS)


def _is_same(one: DataFrame, other: DataFrame) -> bool:
    """Whether two frames have the same rows."""
    return one.exceptAll(other).isEmpty() and other.exceptAll(one).isEmpty()
