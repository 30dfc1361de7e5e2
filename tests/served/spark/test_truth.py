"""Each transform over a simulated day says what a naive computation from the simulator's own record says."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from spark_analytics import schemas
from spark_analytics.transforms import frames
from spark_analytics.transforms.capacity import team_capacity
from spark_analytics.transforms.delayed_load import delayed_load
from spark_analytics.transforms.failures import failures
from spark_analytics.transforms.forecasts import group_minutes
from spark_analytics.transforms.lag import lag
from spark_analytics.transforms.latency import latencies, oldest_acked
from spark_analytics.transforms.rates import group_rates, subject_rates
from spark_analytics.transforms.runs import runs
from spark_analytics.transforms.skew import consumer_shares, group_skew
from spark_analytics.transforms.state import group_state, set_below, stored_tail
from spark_analytics.transforms.stored import stored_seconds
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, LONG_STEPS, MINUTE_MS, SHORT_STEPS, Window
from tests.support.analytics import naive
from tests.support.analytics.frames import frame, rows
from tests.support.analytics.simulated_day import FIRST_MS, Day, consumer_key, gone_consumers, rows_of, simulate
from tests.support.analytics.truth import assert_true, assert_true_latencies

SERIES = ("step_ms", "at_ms", "subject", "group")
BUCKETS = 7
DAY = Window(FIRST_MS, FIRST_MS + DAY_MS)
IS_WHOLE = os.environ.get("QMQ_SPARK") == "full"
SEED, SCALE = (1, 1.0) if IS_WHOLE else (4, 0.25)
"""`make spark` has the day with all its 123,000 messages; elsewhere a quarter of them, of a day in which everything happens too."""


@dataclass(frozen=True)
class Inputs:
    """The day, its input tables, and what several transforms start from."""

    day: Day
    index: DataFrame
    progress: DataFrame
    retries: DataFrame
    dead_letters: DataFrame
    delayed: DataFrame
    ranges: DataFrame
    no_state: DataFrame
    stored: DataFrame
    runs: DataFrame


@pytest.fixture(scope="module")
def inputs(spark: SparkSession) -> Inputs:
    day = simulate(SEED, SCALE)
    columns = rows_of(day)
    made = {
        name: frame(spark, columns[name], schemas.SCHEMAS[name])
        for name in columns
        if name in schemas.SCHEMAS and name != "nodes"
    }
    made["ranges"] = frame(spark, columns["ranges"], frames.RANGES)
    for name in ("index", "progress"):
        made[name] = made[name].cache()  # read again and again
    no_state = spark.createDataFrame([], frames.GROUP_STATE)
    stored = stored_seconds(made["index"]).cache()
    followed = runs(made["progress"], no_state, window=DAY, buckets=BUCKETS).cache()
    return Inputs(day, **made, no_state=no_state, stored=stored, runs=followed)


@pytest.fixture(scope="module")
def lag_rows(inputs: Inputs) -> DataFrame:
    i = inputs
    found = lag(
        i.stored, i.progress, i.no_state, i.runs, window=DAY, buckets=BUCKETS, steps=SHORT_STEPS, ranges=i.ranges
    )
    return found.cache()


@pytest.fixture(scope="module")
def true_lag(inputs: Inputs) -> naive.Rows:
    return naive.lag(inputs.day, SHORT_STEPS)


def test_the_day_has_what_the_jobs_are_about(inputs: Inputs) -> None:
    record = inputs.day.record
    assert len(record.messages) > 100_000 * SCALE
    assert {d.how for d in record.deliveries} >= {"ack", "settle", "dropped", None}
    assert {m.cause for m in record.messages} >= {"", "consumer_left", "TimeoutError"}
    assert {e.kind for e in inputs.day.events} == set(schemas.PROGRESS_KINDS)
    assert gone_consumers(inputs.day)


def test_lag(lag_rows: DataFrame, true_lag: naive.Rows) -> None:
    assert_true(true_lag, rows(lag_rows, *SERIES))


def test_subject_rates(inputs: Inputs) -> None:
    found = subject_rates(inputs.stored, window=DAY)
    assert_true(naive.subject_rates(inputs.day, SHORT_STEPS), rows(found, "step_ms", "at_ms", "subject"))


def test_group_rates(inputs: Inputs) -> None:
    assert_true(naive.group_rates(inputs.day, SHORT_STEPS), rows(group_rates(inputs.runs, window=DAY), *SERIES))


def test_latencies(inputs: Inputs) -> None:
    found = rows(latencies(inputs.index, inputs.runs, window=DAY, buckets=BUCKETS), *SERIES, "kind")
    assert_true_latencies(naive.latencies(inputs.day, SHORT_STEPS), found)


def name_in(day: Day) -> Callable[[str], str]:
    gone = gone_consumers(day)
    return lambda name: f"{consumer_key(name) % (1 << 64):016x}" if name in gone else name


def test_group_skew(inputs: Inputs) -> None:
    found = rows(group_skew(inputs.runs, window=DAY), *SERIES)
    assert_true(naive.group_skew(inputs.day, LONG_STEPS, name_in(inputs.day)), found)


def test_consumer_shares(inputs: Inputs) -> None:
    found = rows(consumer_shares(inputs.runs, window=DAY), *SERIES, "consumer_id")
    assert_true(naive.consumer_shares(inputs.day, LONG_STEPS, name_in(inputs.day)), found)


def test_failures(inputs: Inputs) -> None:
    found = rows(failures(inputs.retries, inputs.dead_letters, window=DAY), *SERIES, "kind", "cause")
    assert_true(naive.failures(inputs.day, LONG_STEPS), found)
    assert {key[4] for key in found} == {"retry", "dead_letter"}


def test_delayed_load(inputs: Inputs) -> None:
    found = rows(delayed_load(inputs.delayed), "step_ms", "at_ms", "subject")
    assert_true(naive.delayed_load(inputs.day, LONG_STEPS), found)


def test_team_capacity(spark: SparkSession, inputs: Inputs) -> None:
    owners = {"orders": "shop", "payments": "money", "idle": "idlers"}
    columns = {"subject": list(owners), "team": list(owners.values())}
    found = team_capacity(inputs.stored, frame(spark, columns, frames.OWNERS), inputs.ranges, window=DAY)
    assert_true(naive.team_capacity(inputs.day, owners, LONG_STEPS), rows(found, "step_ms", "at_ms", "team"))


def test_group_minutes(inputs: Inputs, lag_rows: DataFrame, true_lag: naive.Rows) -> None:
    sent = subject_rates(inputs.stored, window=DAY)
    found = rows(group_minutes(lag_rows, sent, inputs.progress, window=DAY), "hour_ms", "subject", "group")
    was_set = {
        (naive.original(row["subject"]), row["group"], int(row["at_ms"]) // MINUTE_MS * MINUTE_MS)
        for row in inputs.progress.where("kind = 'start'")
        .selectExpr("subject", "`group`", "unix_millis(at) AS at_ms")
        .collect()
    }
    arrived = {key: row["sent_messages"] for key, row in naive.subject_rates(inputs.day, (MINUTE_MS, HOUR_MS)).items()}
    expected: naive.Rows = {}
    for (step_ms, at_ms, subject, group), row in true_lag.items():
        if step_ms != HOUR_MS or (row["lag_messages_max"] == 0 and (HOUR_MS, at_ms, subject) not in arrived):
            continue
        hour = range(at_ms, at_ms + HOUR_MS, MINUTE_MS)
        there = [at for at in hour if (MINUTE_MS, at, subject, group) in true_lag]
        expected[at_ms, subject, group] = {
            "minutes": [(at - at_ms) // MINUTE_MS for at in there],
            "arrived_messages": [arrived.get((MINUTE_MS, at, subject), 0) for at in there],
            "lag_messages": [true_lag[MINUTE_MS, at, subject, group]["lag_messages_last"] for at in there],
            "was_reset": [(subject, group, at) in was_set for at in there],
        }
    assert found == expected
    assert any(len(row["minutes"]) < 60 for row in expected.values()), "no group begins or ends within an hour"
    assert any(any(row["was_reset"]) for row in expected.values())


def test_windows_in_a_row_say_the_same_as_one(spark: SparkSession, inputs: Inputs, true_lag: naive.Rows) -> None:
    """State carried from window to window loses nothing: position, what is held, and when what is held was stored."""
    state, tail = inputs.no_state, spark.createDataFrame([], frames.STORED_SECONDS)
    steps = (HOUR_MS,)
    found: dict[str, naive.Rows] = {"lag": {}, "group_rates": {}, "latencies": {}}
    looked_back = 0
    cuts = [FIRST_MS, FIRST_MS + 17 * HOUR_MS, FIRST_MS + DAY_MS]
    for begin, end in pairwise(cuts):
        window = Window(begin, end)
        second_ms = inputs.stored["second"] * 1000
        own = inputs.stored.where((second_ms >= begin) & (second_ms < end))
        # Some groups begin, or are set, where nobody was behind any more: their subjects' earlier seconds are looked up.
        below = set_below(inputs.progress, tail, window=window).localCheckpoint()
        looked_back += below.count()
        older = inputs.stored.where(second_ms < begin).join(below, ["broker_group", "subject"], "left_semi")
        kept = tail.join(below, ["broker_group", "subject"], "left_anti")
        stored = kept.unionByName(older).unionByName(own).localCheckpoint()
        followed = runs(inputs.progress, state, window=window, buckets=BUCKETS).localCheckpoint()
        found["lag"] |= rows(
            lag(
                stored,
                inputs.progress,
                state,
                followed,
                window=window,
                buckets=BUCKETS,
                steps=steps,
                ranges=inputs.ranges,
            ),
            *SERIES,
        )
        found["group_rates"] |= rows(group_rates(followed, window=window, steps=steps), *SERIES)
        since = min(row["second"] for row in oldest_acked(stored, followed, window=window).collect())
        index = inputs.index.where(
            (inputs.index["stored_at"] >= timestamp(since)) & (inputs.index["stored_at"] < timestamp(end // 1000))
        )
        found["latencies"] |= rows(
            latencies(index, followed, window=window, buckets=BUCKETS, steps=steps), *SERIES, "kind"
        )
        state = group_state(inputs.progress, state, followed, window=window).localCheckpoint()
        tail = stored_tail(stored, state, window=window, ranges=inputs.ranges).localCheckpoint()
    assert_true({key: row for key, row in true_lag.items() if key[0] == HOUR_MS}, found["lag"])
    assert_true(naive.group_rates(inputs.day, steps), found["group_rates"])
    assert_true_latencies(naive.latencies(inputs.day, steps), found["latencies"])
    assert looked_back
    assert tail.count() < 0.7 * inputs.stored.count(), "the tail keeps what nobody needs"


def timestamp(second: int) -> Column:
    return F.timestamp_seconds(F.lit(second))
