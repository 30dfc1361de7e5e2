"""Forecasts of drain times and full disks: what came due is learned from, hour by hour, then the next ones are made.

In the lake are kept `group_minutes`, what the points of drain times rest on; `forecast_cases`, each forecast that came due with
what happened; and `calibration`, what had been learned at the beginnings of days. A window begins with the calibration of its day,
or an earlier one if that is missing, and the cases since; so it gives the same forecasts whenever it is computed, alone or with its
day. All three are replaced for the window before anything is published, so a window that is computed again after a kill finds what
it had, or makes it again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from console.analytics.models import Scored
from console.analytics.steps import Step
from spark_analytics.forecasts import conformal, disk, drain
from spark_analytics.forecasts.conformal import INTERVAL_RATIO, UNKNOWN, Cases, Doubles, Key, Longs, Rule
from spark_analytics.jobs.inputs import Inputs
from spark_analytics.lake.tables import CALIBRATIONS, FORECAST_CASES, GOLD, TABLES
from spark_analytics.transforms.forecasts import (
    LOOKBACK_MS,
    NO_CLASS,
    at_days_too,
    drain_rows,
    group_minutes,
    points_and_truths,
)
from spark_analytics.transforms.frames import repeated, selected
from spark_analytics.transforms.outputs import DISK_FORECASTS, DRAIN_FORECASTS
from spark_analytics.transforms.scores import ALL_CLASS
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, LONG_STEPS, Window

IDLE_MS = 21 * DAY_MS
"""How much of a window of days without rows is forecast hour by hour. Behind it each hour is like the last one: nothing arrived and
nothing was consumed on any day that is replayed, and what that came to was learned."""
_CASES = to_arrow_schema(FORECAST_CASES, timezone="UTC")
_CALIBRATION = to_arrow_schema(CALIBRATIONS, timezone="UTC")
_TIMES = ("drain_seconds_low", "drain_seconds_mid", "drain_seconds_high")
_GROWTHS = tuple(f"growth_bytes_per_second_{name}" for name in ("low", "mid", "high"))
_DISK = ("broker_group", "node_id")


def forecasts(given: Inputs) -> Mapping[str, DataFrame]:
    """Rows of `drain_forecasts` and `disk_forecasts` of the window's hours and days."""
    window = given.window
    learned, came_due = _remembered(given)
    drains = _Learner(drain.RULE, Scored.DRAIN, learned, came_due)
    disks = _Learner(disk.RULE, Scored.DISK, learned, came_due)
    published = {"drain_forecasts": _drains(given, drains), "disk_forecasts": _disks(given, disks)}
    cases = pa.concat_tables([*drains.cases, *disks.cases])
    given.lake.replace("forecast_cases", cases, window.from_ms, window.to_ms)
    if window.to_ms % DAY_MS == 0:
        rows = pa.concat_tables([drains.state(window.to_ms), disks.state(window.to_ms)])
        given.lake.replace("calibration", rows, window.to_ms, window.to_ms + DAY_MS)
    return published


class _Learner:
    """What forecasts of a kind have learned up to an hour of the window, and the cases of the window."""

    def __init__(self, rule: Rule, scored: Scored, learned: pa.Table, came_due: pa.Table) -> None:
        """`learned` and `came_due` are as from `_remembered`."""
        self._rule, self._scored = rule, scored
        self.cases: list[pa.Table] = [_CASES.empty_table()]
        self.calibration = conformal.from_table(rule, learned)
        self._learn(came_due.filter(pc.equal(came_due.column("scored"), scored)))

    def learn(self, came_due: pa.Table) -> None:
        """Learn from cases of an hour: rows of FORECAST_CASES."""
        self.cases.append(came_due)
        self._learn(came_due)

    def places(self, keys: Sequence[Key]) -> Longs:
        """The row of each series in the calibration; -1: it has no case yet."""
        return self.calibration.places(keys)

    def state(self, at_ms: int) -> pa.Table:
        """What was learned, as rows of the table `calibration`."""
        rows = conformal.to_table(self._rule, conformal.current(self._rule, self.calibration, at_ms))
        return (
            rows.append_column("at", _times(np.full(rows.num_rows, at_ms)))
            .select(_CALIBRATION.names)
            .cast(_CALIBRATION)
        )

    def came_due(self, keys: Sequence[Key], classes: Sequence[str], found: Cases, values: "_Values") -> pa.Table:
        """Rows of FORECAST_CASES.

        Args:
            keys: the series of all forecasts of an hour; those that are cases are `found.series`.
            classes: their classes.
            found: `series` are rows of the other arguments.
            values: of all forecasts.
        """
        rows = found.series
        known = ~np.isnan(found.missed[:, 0])
        columns = {
            "at": _times(found.due_ms - HOUR_MS),
            "scored": pa.array([self._scored] * len(rows), pa.string()),
            "key": pa.array([list(keys[row]) for row in rows], pa.list_(pa.string())),
            "case_class": pa.array([classes[row] for row in rows], pa.string()),
            "low": pa.array(values.low[rows], from_pandas=True),
            "mid": pa.array(values.mid[rows]),
            "high": pa.array(values.high[rows], from_pandas=True),
            "truth": pa.array(values.truth[rows]),
            "score": pa.array(found.scores),
            "is_below": pa.array(found.missed[:, 0] == 1, mask=~known),
            "is_above": pa.array(found.missed[:, 1] == 1, mask=~known),
            "width_ratio": pa.array(values.width_ratio[rows], from_pandas=True),
        }
        return pa.table(columns, schema=_CASES)

    def _learn(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        keys: list[Key] = [(first, second) for first, second in table.column("key").to_pylist()]
        self.calibration = conformal.extended(self.calibration, keys)
        names = list(drain.CLASSES) if self._scored == Scored.DRAIN else [ALL_CLASS]
        missed = [table.column(name).cast(pa.float64()).to_numpy() for name in ("is_below", "is_above")]
        cases = Cases(
            self.calibration.places(keys),
            pc.index_in(table.column("case_class"), pa.array(names)).to_numpy().astype(np.int64),
            table.column("score").to_numpy(),
            np.stack(missed, axis=1),
            _ms(table.column("at")) + HOUR_MS,
        )
        self.calibration = conformal.learned(self._rule, self.calibration, cases)


@dataclass(frozen=True, slots=True)
class _Values:
    """Of forecasts of an hour, as in FORECAST_CASES; NaN: null."""

    low: Doubles
    mid: Doubles
    high: Doubles
    truth: Doubles
    width_ratio: Doubles


def _remembered(given: Inputs) -> tuple[pa.Table, pa.Table]:
    """The calibration of the window's day, or the newest before it, and the cases between it and the window; without one all."""
    day_ms = given.window.from_ms - given.window.from_ms % DAY_MS
    files = given.lake.snapshot("calibration").files.values()
    at_ms = max((item.begin_ms for item in files if item.begin_ms <= day_ms), default=0)
    learned = given.lake.arrow("calibration", at_ms, at_ms + DAY_MS)
    return learned, given.lake.arrow("forecast_cases", at_ms, given.window.from_ms)


# --- drain times ---


@dataclass(frozen=True, slots=True)
class _Drains:
    """Forecasts that were made at the end of an hour of groups with lag and a point."""

    keys: list[Key] = field(default_factory=list)
    classes: Longs = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    made: drain.Forecasts = field(default_factory=lambda: drain.Forecasts(np.empty(0), np.empty(0), np.empty(0)))


def _drains(given: Inputs, learner: _Learner) -> DataFrame:
    window = given.window
    exact = Window(window.from_ms, min(window.to_ms, window.from_ms + IDLE_MS))
    published = _published_drains(given)
    points, truths = _points_and_truths(given, exact, published)
    made = dict(_earlier(published))
    rows = []
    for end_ms in range(exact.from_ms + HOUR_MS, exact.to_ms + 1, HOUR_MS):
        learner.learn(_drained(learner, made.get(end_ms - DAY_MS, _Drains()), truths.get(end_ms - DAY_MS, {}), end_ms))
        keys, minutes, classes = points.get(end_ms, ([], np.empty(0), np.empty(0, dtype=np.int64)))
        found = drain.Points(np.arange(len(keys)), minutes, classes)
        made[end_ms] = _Drains(keys, classes, drain.forecasts(learner.calibration, learner.places(keys), found))
        rows.append(_drain_rows(end_ms, made[end_ms]))
    hours = drain_rows(given.lag, given.lake.spark.createDataFrame(pa.concat_tables(rows)), window=exact)
    if exact != window:
        last = hours.where(F.col("at_ms") == exact.to_ms - HOUR_MS).drop("step_ms", "at_ms")
        rest = repeated(last, window=Window(exact.to_ms, window.to_ms), steps=(HOUR_MS,))
        hours = hours.unionByName(selected(rest, DRAIN_FORECASTS))
    return at_days_too(hours, window=window, steps=given.steps(LONG_STEPS))


def _points_and_truths(
    given: Inputs, window: Window, published: pa.Table
) -> tuple[dict[int, tuple[list[Key], Doubles, Longs]], dict[int, dict[Key, float]]]:
    """By when forecasts are made: the series with points (minutes; NaN: not known) and classes; and by when they were made a day
    before: the minutes after which the lag of a series was drained."""
    lake, begin_ms = given.lake, window.from_ms + HOUR_MS - LOOKBACK_MS
    minutes = _minutes(given, window)
    has_lag = (F.col("step_ms") == HOUR_MS) & (F.col("lag_messages_last") > 0) & (F.col("at_ms") < window.to_ms)
    names = ["subject", "group"]
    wanted = given.lag.where(has_lag).select(*names)
    wanted = wanted.union(lake.spark.createDataFrame(published.select(names))).distinct()
    earlier = given.table("group_minutes", begin_ms, window.from_ms).withColumn("hour_ms", F.unix_millis("at"))
    history = earlier.select(*minutes.columns).unionByName(minutes).join(F.broadcast(wanted), names, "left_semi")
    count = sum(item.rows for item in lake.files_of("group_minutes", begin_ms, window.to_ms))
    cores = lake.spark.sparkContext.defaultParallelism
    found = (
        points_and_truths(history, window=window, rows=count, cores=cores)
        .toArrow()
        .sort_by([("made_ms", "ascending"), ("subject", "ascending"), ("group", "ascending")])
    )
    points, truths = {}, {}
    for made_ms, rows in _by(found.filter(found.column("is_new")), "made_ms"):
        values = rows.column("minutes").to_numpy()
        points[made_ms] = (_keys(rows, names), values, rows.column("class_number").to_numpy().astype(np.int64))
    for made_ms, rows in _by(found.filter(pc.invert(found.column("is_new"))), "made_ms"):
        truths[made_ms] = dict(zip(_keys(rows, names), rows.column("minutes").to_numpy().tolist(), strict=True))
    return points, truths


def _minutes(given: Inputs, window: Window) -> DataFrame:
    """GROUP_MINUTES of a part of the window. Those that later forecasts rest on are kept in the lake."""
    lag, rates, progress, whole = given.lag, given.subject_rates, given.progress, given.window
    minutes = given.keep(group_minutes(lag, rates, progress, window=window))
    kept = Window(max(whole.from_ms, whole.to_ms - LOOKBACK_MS - DAY_MS), whole.to_ms)
    rows = minutes if kept == window else group_minutes(lag, rates, progress, window=kept)
    names = TABLES["group_minutes"].schema.names
    rows = rows.withColumn("at", F.timestamp_millis("hour_ms")).select(*names)
    given.lake.replace("group_minutes", rows, kept.from_ms, kept.to_ms)
    return minutes


def _published_drains(given: Inputs) -> pa.Table:
    """What was published of hours of the day before the window, with a point."""
    begin_ms, end_ms = given.window.from_ms - DAY_MS, given.window.from_ms
    rows = given.gold("drain_forecasts", Step.HOUR, begin_ms)
    rows = rows.where((F.col("at_ms") < end_ms) & (F.col("case_class") != NO_CLASS))
    return rows.select("at_ms", "subject", "group", "outlook", "case_class", *_TIMES).toArrow()


def _earlier(published: pa.Table) -> Iterator[tuple[int, _Drains]]:
    """What was published of hours of the day before the window, by when it was made."""
    for at_ms, rows in _by(published, "at_ms"):
        never = np.where(pc.equal(rows.column("outlook"), UNKNOWN), np.nan, np.inf)
        low, mid, high = (rows.column(name).to_numpy().copy() for name in _TIMES)
        mid[np.isnan(mid)] = np.inf
        low, high = (np.where(np.isnan(end), never, end) for end in (low, high))
        classes = pc.index_in(rows.column("case_class"), pa.array(drain.CLASSES)).to_numpy().astype(np.int64)
        yield at_ms + HOUR_MS, _Drains(_keys(rows, ["subject", "group"]), classes, drain.Forecasts(low, mid, high))


def _drained(learner: _Learner, before: _Drains, drained: Mapping[Key, float], due_ms: int) -> pa.Table:
    """The cases of an hour."""
    minutes = np.array([drained.get(key, np.nan) for key in before.keys])
    made, count = before.made, len(before.keys)
    found = drain.cases(np.arange(count), before.classes, made, minutes, np.full(count, due_ms - DAY_MS))
    is_bounded = np.isfinite(made.high_seconds) & (made.low_seconds > 0)
    width = np.divide(made.high_seconds, made.low_seconds, out=np.full(count, np.nan), where=is_bounded)
    values = _Values(made.low_seconds, made.mid_seconds, made.high_seconds, minutes * drain.MINUTE_SECONDS, width)
    return learner.came_due(before.keys, [drain.CLASSES[number] for number in before.classes], found, values)


def _drain_rows(end_ms: int, found: _Drains) -> pa.Table:
    """What is published of an hour's forecasts."""
    made, count = found.made, len(found.keys)
    is_known = ~np.isnan(made.mid_seconds)
    classes = np.where(is_known, np.array(drain.CLASSES)[found.classes], NO_CLASS)
    return pa.table(
        {
            "at_ms": pa.array(np.full(count, end_ms - HOUR_MS)),
            "subject": pa.array([key[0] for key in found.keys], pa.string()),
            "group": pa.array([key[1] for key in found.keys], pa.string()),
            "outlook": pa.array(conformal.outlooks(made.low_seconds, made.high_seconds).tolist(), pa.string()),
            "case_class": pa.array(classes.tolist(), pa.string()),
            **dict(zip(_TIMES, map(_finite, (made.low_seconds, made.mid_seconds, made.high_seconds)), strict=True)),
        }
    )


# --- disks ---


def _disks(given: Inputs, learner: _Learner) -> DataFrame:
    window, begin_ms = given.window, given.window.from_ms - max(disk.LOOKBACK_MS)
    schema = to_arrow_schema(DISK_FORECASTS)
    found = [schema.empty_table()]
    nodes, used, total = _samples(given, begin_ms)
    made = _published_disks(given, nodes)
    for end_ms in range(window.from_ms + HOUR_MS, window.to_ms + 1, HOUR_MS) if nodes else ():
        at = (end_ms - begin_ms) // HOUR_MS - 1
        grown = used[:, at] - used[:, at - 24]
        before = made.get(end_ms - DAY_MS)
        if before is not None:
            cases = disk.cases(np.arange(len(nodes)), before, grown, np.full(len(nodes), end_ms - DAY_MS))
            width = (before.high_bytes - before.low_bytes) / total[:, at]
            width[~np.isfinite(width)] = np.nan
            values = _Values(before.low_bytes, before.mid_bytes, before.high_bytes, grown, width)
            learner.learn(learner.came_due(nodes, [ALL_CLASS] * len(nodes), cases, values))
        growth = disk.growth(np.stack([used[:, at - back // HOUR_MS] for back in disk.LOOKBACK_MS], axis=1))
        made[end_ms] = disk.forecasts(learner.calibration, learner.places(nodes), growth)
        found.append(_disk_rows(end_ms, nodes, made[end_ms], used[:, at], total[:, at]))
    hours = given.lake.spark.createDataFrame(pa.concat_tables(found))
    return at_days_too(hours, window=window, steps=given.steps(LONG_STEPS))


def _samples(given: Inputs, begin_ms: int) -> tuple[list[Key], Doubles, Doubles]:
    """The nodes that were measured in the window, and of each hour from `begin_ms` to the window's end how many bytes were used at
    its last sample, and how many there are; NaN: not measured."""
    window = given.window
    columns = [*_DISK, "measured_at", "disk_used_bytes", "disk_total_bytes"]
    samples = given.lake.arrow("nodes", window.from_ms, window.to_ms, columns).sort_by("measured_at").drop_null()
    keys = _keys(samples, _DISK)
    nodes = sorted(set(keys))
    places = {key: place for place, key in enumerate(nodes)}
    used, total = np.full((2, len(nodes), (window.to_ms - begin_ms) // HOUR_MS), np.nan)
    earlier = _published_hours(given, begin_ms, *_DISK, "disk_used_bytes_last")
    before = earlier.column("disk_used_bytes_last").to_pylist()
    for key, at_ms, value in zip(_keys(earlier, _DISK), _ms(earlier.column("at")).tolist(), before, strict=True):
        if key in places:
            used[places[key], (at_ms - begin_ms) // HOUR_MS] = value
    hours = (_ms(samples.column("measured_at")) - begin_ms) // HOUR_MS
    rows = np.array([places[key] for key in keys], dtype=np.int64)
    # Of several values for one place the last one stays.
    used[rows, hours] = samples.column("disk_used_bytes").to_numpy()
    total[rows, hours] = samples.column("disk_total_bytes").to_numpy()
    return nodes, used, total


def _published_disks(given: Inputs, nodes: Sequence[Key]) -> dict[int, disk.Forecasts]:
    """What was published of hours of the day before the window, by when it was made; NaN where a node had no forecast."""
    places = {key: place for place, key in enumerate(nodes)}
    rows = _published_hours(given, given.window.from_ms - DAY_MS, *_DISK, "outlook", *_GROWTHS)
    made: dict[int, disk.Forecasts] = {}
    for row in rows.to_pylist():
        place = places.get(tuple(row[name] for name in _DISK))
        if place is None:
            continue
        end_ms = int(row["at"].timestamp() * 1000) + HOUR_MS
        if end_ms not in made:
            made[end_ms] = disk.Forecasts(*np.full((3, len(nodes)), np.nan))
        no_end = np.nan if row["outlook"] == UNKNOWN else np.inf
        ends = zip((made[end_ms].low_bytes, made[end_ms].mid_bytes, made[end_ms].high_bytes), _GROWTHS, strict=True)
        for (values, name), none in zip(ends, (-no_end, np.nan, no_end), strict=True):
            values[place] = none if row[name] is None else row[name] * disk.DAY_SECONDS
    return made


def _published_hours(given: Inputs, begin_ms: int, *columns: str) -> pa.Table:
    """Columns of the hours of `disk_forecasts` from a time to the window's beginning, with `at`."""
    end_ms = given.window.from_ms
    rows = given.lake.arrow(GOLD + "disk_forecasts", begin_ms, end_ms, ["at", "step_ms", *columns])
    at = pa.array(_ms(rows.column("at")))
    is_wanted = pc.and_(pc.greater_equal(at, begin_ms), pc.less(at, end_ms))
    return rows.filter(pc.and_(is_wanted, pc.equal(rows.column("step_ms"), HOUR_MS)))


def _disk_rows(end_ms: int, nodes: Sequence[Key], made: disk.Forecasts, used: Doubles, total: Doubles) -> pa.Table:
    """What is published of an hour's forecasts, of the nodes that were measured in it."""
    there = np.flatnonzero(~np.isnan(used)).tolist()
    used, total, free = used[there], total[there], np.maximum(0, total - used)[there]
    growths = [values[there] for values in (made.low_bytes, made.mid_bytes, made.high_bytes)]
    # The fastest growth fills a disk first.
    times = [disk.full_seconds(free, growth) for growth in reversed(growths)]
    outlooks = np.where(np.isnan(growths[0]), UNKNOWN, conformal.outlooks(times[0], times[2]))
    columns = {
        "step_ms": pa.array(np.full(len(there), HOUR_MS)),
        "at_ms": pa.array(np.full(len(there), end_ms - HOUR_MS)),
        "broker_group": pa.array([nodes[row][0] for row in there], pa.string()),
        "node_id": pa.array([nodes[row][1] for row in there], pa.string()),
        "outlook": pa.array(outlooks.tolist(), pa.string()),
        "method": pa.array([disk.METHOD] * len(there), pa.string()),
        "interval_ratio": pa.array(np.full(len(there), INTERVAL_RATIO)),
        "disk_used_bytes_last": pa.array(used.astype(np.int64)),
        "disk_total_bytes_last": pa.array(total.astype(np.int64)),
        **{name: _finite(growth / disk.DAY_SECONDS) for name, growth in zip(_GROWTHS, growths, strict=True)},
        **{f"full_seconds_{name}": _finite(times[at]) for at, name in enumerate(("low", "mid", "high"))},
    }
    return pa.table(columns, schema=to_arrow_schema(DISK_FORECASTS))


# --- tables ---


def _by(table: pa.Table, name: str) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each value of a column of numbers."""
    for value in pc.unique(table.column(name)).to_pylist():
        yield value, table.filter(pc.equal(table.column(name), value))


def _keys(table: pa.Table, names: Sequence[str]) -> list[Key]:
    first, second = (table.column(name).to_pylist() for name in names)
    return list(zip(first, second, strict=True))


def _times(ms: Longs) -> pa.Array:
    return pa.array(ms, pa.timestamp("ms", "UTC")).cast(_CASES.field("at").type)


def _ms(column: pa.ChunkedArray) -> Longs:
    found: Longs = column.cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()).to_numpy()
    return found


def _finite(values: Doubles) -> pa.Array:
    """Infinite and NaN are null."""
    return pa.array(np.where(np.isfinite(values), values, np.nan), pa.float64(), from_pandas=True)
