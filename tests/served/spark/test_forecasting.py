"""The job of forecasts over simulated days: hour by hour what the pure functions say when they are given whole series."""

import math
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from console.analytics.rows import Window as Published
from console.analytics.steps import Step
from spark_analytics.forecasts import conformal, disk, drain
from spark_analytics.jobs.forecasting import forecasts
from spark_analytics.jobs.gold import keep
from spark_analytics.jobs.inputs import Inputs
from spark_analytics.jobs.states import States
from spark_analytics.lake import Lake
from spark_analytics.lake.tables import FORECAST_CASES, TABLES
from spark_analytics.local_rows import local_frame, local_table
from spark_analytics.schemas import PROGRESS
from spark_analytics.transforms import outputs
from spark_analytics.transforms.scores import forecast_scores
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, MINUTE_MS, Window
from tests.support.analytics.forecast_figures import DrainsMade, drains_made
from tests.support.analytics.frames import rows
from tests.support.analytics.simulated_series import SAMPLES_PER_DAY, LagSeries, disk_series, lag_series

T = 20_000 * DAY_MS
DAYS = 7
TOTAL = 10**13
NODES = [("broker-1", "n1"), ("broker-1", "n2")]
TIMES = ("drain_seconds_low", "drain_seconds_mid", "drain_seconds_high")
GROWTHS = ("growth_bytes_per_second_low", "growth_bytes_per_second_mid", "growth_bytes_per_second_high")


@pytest.fixture(scope="module")
def series() -> LagSeries:
    return lag_series(seed=11, groups=3, days=DAYS)


@pytest.fixture(scope="module")
def made(series: LagSeries) -> DrainsMade:
    return drains_made(series)


@pytest.fixture(scope="module")
def used() -> Any:
    """Bytes that two disks use at the ends of hours, (disks, hours)."""
    _, found = disk_series(seed=3, disks=1, days=DAYS)
    return found[: len(NODES), :: SAMPLES_PER_DAY // 24][:, : DAYS * 24]


def minutes_and_hours(values: Any, of: Any, window: Window) -> tuple[Any, Any]:
    """Values of the minutes of a window, (groups, minutes), and of its hours."""
    first, last = ((at - T) // MINUTE_MS for at in (window.from_ms, window.to_ms))
    minutes = values[:, first:last]
    return minutes, of(minutes.reshape(len(minutes), -1, 60), axis=2)


def table_of(schema: Any, window: Window, **columns: tuple[Any, Any]) -> pa.Table:
    """Rows of minutes and of hours; each column as from `minutes_and_hours`."""
    arrow = {field.name: pa.int64() for field in schema}
    parts = []
    for number, step_ms in enumerate((MINUTE_MS, HOUR_MS)):
        count, steps = next(iter(columns.values()))[number].shape
        found: dict[str, Any] = {
            "step_ms": np.full(count * steps, step_ms),
            "at_ms": np.tile(np.arange(window.from_ms, window.to_ms, step_ms), count),
            "subject": [f"s{group:02}" for group in range(count) for _ in range(steps)],
        }
        found |= {name: values[number].astype(np.int64).ravel() for name, values in columns.items()}
        if "group" in arrow:
            found["group"] = ["g"] * (count * steps)
        whole = {name: found.get(name, [None] * (count * steps)) for name in schema.names}
        types = {"StringType()": pa.string(), "LongType()": pa.int64(), "DoubleType()": pa.float64()}
        parts.append(pa.table({f.name: pa.array(whole[f.name], types[str(f.dataType)]) for f in schema}))
    return pa.concat_tables(parts)


def given(lake: Lake, series: LagSeries, used: Any, window: Window) -> Inputs:
    """Inputs with rows of the series; samples of disks are in the lake."""
    found = Inputs(lake, States(lake), window, {})
    ends = series.lag[:, 1:]
    last, last_of_hour = minutes_and_hours(ends, np.max, window)
    last_of_hour = last.reshape(len(last), -1, 60)[:, :, -1]
    sent, sent_of_hour = minutes_and_hours(np.diff(series.arrived, axis=1), np.sum, window)
    highest = np.maximum(*(minutes_and_hours(each, np.max, window)[1] for each in (ends, series.lag[:, :-1])))
    lag = table_of(outputs.LAG, window, lag_messages_last=(last, last_of_hour), lag_messages_max=(last, highest))
    rates = table_of(outputs.SUBJECT_RATES, window, sent_messages=(sent, sent_of_hour))
    rates = rates.filter(pa.compute.greater(rates.column("sent_messages"), 0))
    for name, table in (("lag", lag), ("subject_rates", rates)):
        found.__dict__[name] = found.keep(lake.spark.createDataFrame(table))
    found.__dict__["progress"] = local_frame(lake.spark, [], PROGRESS)
    return found


def sample(lake: Lake, used: Any) -> None:
    """Put two samples of each disk and hour into the lake, of which the second counts."""
    schema = TABLES["nodes"].schema
    found = []
    for node, (broker_group, node_id) in enumerate(NODES):
        for hour, value in enumerate(used[node].tolist()):
            for minute, used_bytes in ((10, 5), (50, int(value))):
                at = datetime.fromtimestamp((T + hour * HOUR_MS + minute * MINUTE_MS) / 1000, UTC)
                row: dict[str, Any] = {field.name: None if field.nullable else "" for field in schema.fields}
                row |= {"log_end_bytes": 0, "broker_group": broker_group, "node_id": node_id}
                row |= {"measured_at": at, "disk_used_bytes": used_bytes, "disk_total_bytes": TOTAL}
                found.append([row[name] for name in schema.names])
    lake.append("nodes", local_table(found, schema))


def compute(lake: Lake, series: LagSeries, used: Any, window: Window) -> dict[str, dict[Any, dict[str, Any]]]:
    """What is published of a window, by table, step, moment and series; gold has it too."""
    inputs = given(lake, series, used, window)
    published = {}
    try:
        for table, frame in forecasts(inputs).items():
            key = ("subject", "group") if table == "drain_forecasts" else ("broker_group", "node_id")
            steps = [step for step in (Step.HOUR, Step.DAY) if not (window.from_ms % step.ms or window.to_ms % step.ms)]
            keep(lake, table, frame, tuple((step, Published(window.from_ms, window.to_ms)) for step in steps))
            published[table] = rows(frame, "step_ms", "at_ms", *key)
    finally:
        inputs.close()
    return published


def day(number: int) -> Window:
    return Window(T + number * DAY_MS, T + (number + 1) * DAY_MS)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, series: LagSeries, used: Any, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """With all days but the last."""
    found = Lake(spark, str(tmp_path_factory.mktemp("forecasting") / "lake"))
    sample(found, used)
    found.replace("forecast_cases", earlier_cases(), T - 12 * DAY_MS, T)
    return found


@pytest.fixture(scope="module")
def published(lake: Lake, series: LagSeries, used: Any) -> dict[str, dict[Any, dict[str, Any]]]:
    """What is published of all days, computed day by day."""
    found: dict[str, dict[Any, dict[str, Any]]] = {"drain_forecasts": {}, "disk_forecasts": {}}
    for number in range(DAYS):
        for table, more in compute(lake, series, used, day(number)).items():
            found[table] |= more
    return found


def earlier_cases() -> pa.Table:
    """Of two disks 48 cases before the first day, by which intervals are known."""
    errors = np.random.default_rng(5).normal(0, 2e9, (len(NODES), 48))
    found = []
    for node, key in enumerate(NODES):
        for number, error in enumerate(errors[node].tolist()):
            at = datetime.fromtimestamp((T - (47 - number) * disk.CASE_MS - HOUR_MS) / 1000, UTC)
            found.append([at, "disk_forecasts", list(key), "all", None, 0.0, None, error, error, None, None, None])
    return local_table(found, FORECAST_CASES)


def values_of(row: dict[str, Any], names: tuple[str, ...]) -> list[float]:
    """Columns of a row; null is NaN."""
    return [math.nan if row[name] is None else row[name] for name in names]


def nearly(values: list[float], relative: float = 1e-9) -> Any:
    """These values; infinite ones are null."""
    return pytest.approx([value if math.isfinite(value) else math.nan for value in values], rel=relative, nan_ok=True)


def test_each_hour_has_the_forecasts_that_the_whole_series_have(
    published: dict[str, Any], series: LagSeries, made: DrainsMade
) -> None:
    drains = published["drain_forecasts"]
    count, known = len(series.kinds), 0
    assert len([key for key in drains if key[0] == HOUR_MS]) == count * DAYS * 24, "a row for each group and hour"
    for at, (points, found, _) in made.items():
        at_ms = T + at * MINUTE_MS - HOUR_MS
        places = {int(group): place for place, group in enumerate(points.groups)}
        for group in range(count):
            row = drains[HOUR_MS, at_ms, f"s{group:02}", "g"]
            assert row["lag_messages_last"] == series.lag[group, at]
            if group not in places:
                assert (row["outlook"], row["case_class"], row["drain_seconds_high"]) == ("expected", "none", 0.0)
                continue
            place = places[group]
            ends = [values[place] for values in (found.low_seconds, found.mid_seconds, found.high_seconds)]
            if math.isnan(ends[1]):
                assert (row["outlook"], row["case_class"]) == ("unknown", "none")
                continue
            assert values_of(row, TIMES) == nearly(ends)
            assert row["case_class"] == drain.CLASSES[points.classes[place]]
            assert row["outlook"] == conformal.outlooks(np.array(ends[:1]), np.array(ends[2:]))[0]
            known += row["outlook"] != "unknown"
    assert known > 50


def test_the_row_of_a_day_is_that_of_its_last_hour(published: dict[str, Any]) -> None:
    for found in published.values():
        days = {key: row for key, row in found.items() if key[0] == DAY_MS}
        assert len(days) * 24 == len(found) - len(days)
        assert all(row == found[HOUR_MS, key[1] + 23 * HOUR_MS, *key[2:]] for key, row in days.items())


def test_a_disk_has_the_forecasts_that_its_whole_series_has(published: dict[str, Any], used: Any) -> None:
    calibration = conformal.extended(conformal.empty(disk.RULE), NODES)
    cases = earlier_cases().to_pylist()
    before = conformal.Cases(
        calibration.places([tuple(row["key"]) for row in cases]),
        np.zeros(len(cases), dtype=np.int64),
        np.array([row["score"] for row in cases]),
        np.full((len(cases), 2), np.nan),
        np.array([round(row["at"].timestamp() * 1000) + HOUR_MS for row in cases]),
    )
    calibration = conformal.learned(disk.RULE, calibration, before)
    made: dict[int, disk.Forecasts] = {}
    missed = 0
    for hour in range(DAYS * 24):
        made_ms = T + (hour + 1) * HOUR_MS
        if hour - 24 in made:
            grown = used[:, hour] - used[:, hour - 24]
            found = disk.cases(np.arange(2), made[hour - 24], grown, np.full(2, made_ms - DAY_MS))
            missed += int(np.nansum(found.missed))
            calibration = conformal.learned(disk.RULE, calibration, found)
        before_now = [hour - back_ms // HOUR_MS for back_ms in disk.LOOKBACK_MS]
        samples = [used[:, at] if at >= 0 else np.full(len(NODES), np.nan) for at in before_now]
        made[hour] = disk.forecasts(calibration, np.arange(2), disk.growth(np.floor(np.stack(samples, axis=1))))
        for node, key in enumerate(NODES):
            row = published["disk_forecasts"][HOUR_MS, made_ms - HOUR_MS, *key]
            ends = [values[node] for values in (made[hour].low_bytes, made[hour].mid_bytes, made[hour].high_bytes)]
            assert values_of(row, GROWTHS) == nearly([value / 86_400 for value in ends], 1e-6), hour
            assert row["disk_used_bytes_last"] == int(used[node, hour])
            assert row["disk_total_bytes_last"] == TOTAL
            if hour < 24:
                assert row["outlook"] == "unknown"
            elif ends[1] > 0:
                assert row["full_seconds_mid"] == pytest.approx((TOTAL - int(used[node, hour])) / ends[1] * 86_400)
    assert missed, "no case has moved a level"


def test_hours_one_by_one_and_the_day_again_are_as_the_day_at_once(
    lake: Lake, published: dict[str, Any], series: LagSeries, used: Any
) -> None:
    last = day(DAYS - 1)
    cases = lake.arrow("forecast_cases", last.from_ms, last.to_ms).sort_by([("at", "ascending"), ("mid", "ascending")])
    assert cases.num_rows
    forget(lake, last)
    for hour in range(3):
        window = Window(last.from_ms + hour * HOUR_MS, last.from_ms + (hour + 1) * HOUR_MS)
        for table, found in compute(lake, series, used, window).items():
            assert found
            assert_same(found, {key: published[table][key] for key in found})
    for table, found in compute(lake, series, used, last).items():
        assert_same(found, {key: row for key, row in published[table].items() if last.from_ms <= key[1]})
    again = lake.arrow("forecast_cases", last.from_ms, last.to_ms).sort_by([("at", "ascending"), ("mid", "ascending")])
    assert again.equals(cases)


class Killed(Exception):
    """What ends a run."""


def test_a_run_that_ends_between_the_tables_that_it_replaces_is_made_good_by_the_next(
    lake: Lake, published: dict[str, Any], series: LagSeries, used: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = day(DAYS - 1)
    tables = ("group_minutes", "forecast_cases", "calibration")
    kept = {table: lake.arrow(table, last.from_ms, last.to_ms + DAY_MS).num_rows for table in tables}
    assert all(kept.values())
    forget(lake, last)
    replace = Lake.replace
    for ends_behind in tables:

        def and_end(self: Lake, table: str, *args: Any, ends_behind: str = ends_behind) -> int:
            count = replace(self, table, *args)
            if table == ends_behind:
                raise Killed
            return count

        with monkeypatch.context() as patched:
            patched.setattr(Lake, "replace", and_end)
            with pytest.raises(Killed):
                compute(lake, series, used, last)
    for table, found in compute(lake, series, used, last).items():
        assert_same(found, {key: row for key, row in published[table].items() if last.from_ms <= key[1]})
    assert {table: lake.arrow(table, last.from_ms, last.to_ms + DAY_MS).num_rows for table in tables} == kept


def forget(lake: Lake, window: Window) -> None:
    """Make the lake as if a day had never been computed."""
    for table in ("forecast_cases", "group_minutes", "gold_drain_forecasts", "gold_disk_forecasts"):
        lake.replace(table, local_table([], TABLES[table].schema), window.from_ms, window.to_ms)
    nothing = local_table([], TABLES["calibration"].schema)
    lake.replace("calibration", nothing, window.to_ms, window.to_ms + DAY_MS)


def assert_same(found: dict[Any, dict[str, Any]], expected: dict[Any, dict[str, Any]]) -> None:
    assert found.keys() == expected.keys()
    for key, row in found.items():
        for name, value in row.items():
            assert value == expected[key][name] or value == pytest.approx(expected[key][name]), (key, name)


def test_scores_count_what_came_due_by_class(lake: Lake, published: dict[str, Any], made: DrainsMade) -> None:
    window = day(DAYS - 1)
    judged = local_frame(lake.spark, [], outputs.ANOMALIES)
    found = rows(
        forecast_scores(lake.read("forecast_cases", window.from_ms, window.to_ms), judged, window=window),
        "step_ms", "at_ms", "scored", "case_class",
    )  # fmt: skip
    expected: dict[str, list[tuple[float, float, float]]] = {}
    for at, (points, forecast, truths) in made.items():
        due_ms = T + at * MINUTE_MS + DAY_MS
        if not window.from_ms < due_ms <= window.to_ms:
            continue
        for place, number in enumerate(points.classes):
            ends = forecast.low_seconds[place], forecast.high_seconds[place]
            if not math.isnan(ends[0]):
                name = drain.CLASSES[number]
                expected.setdefault(name, []).append((*ends, truths[place] * 60))
    assert expected
    for name, cases in expected.items():
        row = found[DAY_MS, window.from_ms, "drain_forecasts", name]
        missed = conformal.missed(*np.array(cases).T)
        widths = [high / low for low, high, _ in cases if math.isfinite(high)]
        assert row["cases_count"] == len(cases)
        assert (row["below_count"], row["above_count"]) == tuple(missed.sum(axis=0))
        assert row["held_count"] == len(cases) - missed.sum()
        assert row["width_ratio_median"] == (pytest.approx(np.median(widths)) if widths else None)
        assert row["target_ratio"] == 0.8
    disks = found[DAY_MS, window.from_ms, "disk_forecasts", "all"]
    assert disks["cases_count"] == 4 * len(NODES), "a case every six hours"
    hours = [row for key, row in found.items() if key[0] == HOUR_MS and key[2] == "drain_forecasts"]
    assert sum(row["cases_count"] for row in hours) == sum(map(len, expected.values()))
