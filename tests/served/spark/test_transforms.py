"""Corners of the transforms, in small tables; what a whole day says is in test_truth."""

from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from qmq.protocol.names import split_subject
from spark_analytics.forecasts.anomalies import LOOKBACK_HOURS, local_hours
from spark_analytics.lake.tables import FORECAST_CASES, SAMPLED_RANGES
from spark_analytics.local_rows import local_frame, local_table
from spark_analytics.schemas import DEAD_LETTERS, DELAYED, INDEX, PROGRESS, RETRIES, SEQUENCES_PER_LOG
from spark_analytics.transforms import frames, outputs
from spark_analytics.transforms.anomalies import (
    FAILURES,
    LAG,
    P99,
    SENT,
    TIME_LAG,
    VALUES,
    anomalies,
    groups_with_lag,
    hours_of_lag,
    metric_values,
)
from spark_analytics.transforms.capacity import kept_ranges, team_capacity
from spark_analytics.transforms.delayed_load import delayed_load
from spark_analytics.transforms.failures import CAUSE_CHARS_MAX, failures
from spark_analytics.transforms.forecasts import GROUP_MINUTES, at_days_too, drain_rows, group_minutes, history_of
from spark_analytics.transforms.lag import lag
from spark_analytics.transforms.latency import latencies, oldest_acked
from spark_analytics.transforms.runs import runs
from spark_analytics.transforms.scores import forecast_scores
from spark_analytics.transforms.skew import consumer_shares, group_skew
from spark_analytics.transforms.state import group_state, set_below, stored_tail
from spark_analytics.transforms.stored import merged_seconds, stored_seconds
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS, MINUTE_MS, SHORT_STEPS, Window
from tests.support.analytics.frames import frame, rows, table

SERIES = ("step_ms", "at_ms", "subject", "group")
MINUTE = Window(0, MINUTE_MS)
BUCKETS = 3
NOBODY = "broker_group subject group next_sequence"


def lag_row(
    spark: SparkSession,
    stored: str,
    progress: str,
    state: str = NOBODY,
    ranges: str | None = None,
    window: Window = MINUTE,
) -> dict[tuple[Any, ...], dict[str, Any]]:
    stored_frame = table(spark, stored, frames.STORED_SECONDS)
    progress_frame, state_frame = table(spark, progress, PROGRESS), table(spark, state, frames.GROUP_STATE)
    followed = runs(progress_frame, state_frame, window=window, buckets=BUCKETS)
    sampled = None if ranges is None else table(spark, ranges, frames.RANGES)
    steps = (window.to_ms - window.from_ms,)
    found = lag(
        stored_frame, progress_frame, state_frame, followed, window=window, buckets=BUCKETS, steps=steps, ranges=sampled
    )
    return {key[2:]: row for key, row in rows(found, *SERIES).items()}


STORED = """
    broker_group subject second first_sequence end_sequence
    b            s       0      0              4
    b            s       30     4              10
"""
STARTED = """
    broker_group subject group position at    kind  begin end next_sequence consumer_key
"""


def test_a_group_counts_from_the_second_it_began_in(spark: SparkSession) -> None:
    row = lag_row(spark, STORED, STARTED + "b s g 0 20500 start 0 0 2 0")["s", "g"]
    assert row["backlog_messages_mean"] == (10 * 2 + 30 * 8) / 40
    assert (row["lag_messages_min"], row["lag_messages_max"], row["lag_messages_last"]) == (2, 8, 8)
    assert row["time_lag_seconds_last"] == 60


def test_what_an_emptied_broker_group_held_is_no_backlog(spark: SparkSession) -> None:
    """Its sequences begin again, shifted; a group that has not come back yet waits for the new messages only."""
    first = SEQUENCES_PER_LOG
    stored = STORED + f"b s 40 {first} {first + 3}\n"
    stored += f"b %RETRY%s%g 5 0 7\nb %RETRY%s%g 45 {first} {first + 1}\n"
    row = lag_row(spark, stored, STARTED + "b s g 0 20500 start 0 0 2 0")["s", "g"]
    assert row["backlog_messages_max"] == 8 + 7
    assert (row["backlog_messages_last"], row["lag_messages_last"]) == (3 + 1, 4)
    assert row["time_lag_seconds_last"] == 20


def test_an_empty_history_has_no_rows(spark: SparkSession) -> None:
    assert lag_row(spark, STORED, STARTED.strip()) == {}


def test_what_waits_in_a_retry_subject_that_nobody_pulled_is_lag(spark: SparkSession) -> None:
    stored = STORED + "b %RETRY%s%g 40 0 3"
    row = lag_row(spark, stored, STARTED + "b s g 0 35000 start 0 0 10 0")["s", "g"]
    assert (row["backlog_messages_last"], row["backlog_messages_max"], row["lag_messages_min"]) == (3, 3, 0)
    assert row["time_lag_seconds_last"] == 20


def test_the_broker_groups_are_summed_and_the_longest_time_counts(spark: SparkSession) -> None:
    stored = STORED + "c s 50 0 5"
    row = lag_row(spark, stored, STARTED + "b s g 0 0 start 0 0 9 0\n c s g 0 0 start 0 0 0 0")["s", "g"]
    assert (row["backlog_messages_last"], row["time_lag_seconds_last"]) == (1 + 5, 30)


def test_what_retention_removed_is_no_backlog(spark: SparkSession) -> None:
    ranges = """
        broker_group subject at_ms begin end
        b            s       45000 7     10
    """
    row = lag_row(spark, STORED, STARTED + "b s g 0 0 start 0 0 0 0", ranges=ranges)["s", "g"]
    assert (row["backlog_messages_max"], row["backlog_messages_last"], row["time_lag_seconds_last"]) == (10, 3, 30)


def test_a_position_beyond_the_end_is_no_backlog(spark: SparkSession) -> None:
    row = lag_row(spark, STORED, STARTED + "b s g 0 0 start 0 0 7 0")["s", "g"]
    assert (row["backlog_messages_max"], row["lag_messages_min"], row["backlog_messages_last"]) == (3, 0, 3)


def test_a_store_time_that_is_not_known_is_null_and_not_zero(spark: SparkSession) -> None:
    stored = """
        broker_group subject second first_sequence end_sequence
        b            s       30     4              10
    """
    state = NOBODY + "\n b s g 2"
    row = lag_row(spark, stored, STARTED + "b s g 5 45000 start 0 0 8 0", state)["s", "g"]
    assert (row["time_lag_seconds_max"], row["time_lag_seconds_mean"], row["time_lag_seconds_last"]) == (None, None, 30)


def test_state_is_what_a_window_begins_with(spark: SparkSession) -> None:
    state = """
        broker_group subject group next_sequence consumer_key pull_begin begin messages pulled_ms
        b            s       g     4             -            -          -     -        -
        b            s       g     -             7            20         1     3        -5000
    """
    progress = STARTED + "b s g 9 30000 ack 20 22 4 7"
    stored = STORED.replace("0      0              4", "-9     0              4")
    row = lag_row(spark, stored, progress, state)["s", "g"]
    assert (row["in_flight_messages_max"], row["in_flight_messages_last"]) == (3, 1)
    assert row["in_flight_messages_mean"] == (30 * 3 + 30 * 1) / 60
    # Second 29 ends 39 s after second -9 began; then sequence 3 of the same second is the oldest.
    assert (row["time_lag_seconds_max"], row["time_lag_seconds_last"]) == (69, 69)


FORGOTTEN = """
    broker_group subject    group position at    kind   begin end next_sequence consumer_key
    b            s          g     0        0     start  0     0   0             0
    b            s          g     1        5000  pull   0     2   2             7
    b            s          g     2        6000  pull   0     1   3             8
    b            s          g     3        20500 forget 0     0   -1            0
"""


def test_a_forgotten_group_exists_until_then_and_holds_nothing(spark: SparkSession) -> None:
    row = lag_row(spark, STORED, FORGOTTEN)["s", "g"]
    assert (row["lag_messages_last"], row["in_flight_messages_last"]) == (4, 3), "of second 19"
    assert row["backlog_messages_mean"] == (5 * 4 + 1 * 2 + 14 * 1) / 20
    assert row["time_lag_seconds_last"] == 20
    before, entries = table(spark, NOBODY, frames.GROUP_STATE), table(spark, FORGOTTEN, PROGRESS)
    followed = runs(entries, before, window=MINUTE, buckets=BUCKETS)
    assert sorted((r["consumer_key"], r["messages"], r["ended_ms"], r["ended_by"]) for r in followed.collect()) == [
        (7, 2, 20500, "forget"),
        (8, 1, 20500, "forget"),
    ]
    after = group_state(entries, before, followed, window=MINUTE)
    assert [(r["group"], r["next_sequence"], r["consumer_key"]) for r in after.collect()] == [("g", -1, None)]
    second = Window(MINUTE_MS, 2 * MINUTE_MS)
    assert lag_row(spark, STORED, STARTED, NOBODY + "\n b s g -1", window=second) == {}
    tail = stored_tail(table(spark, STORED, frames.STORED_SECONDS), after, window=MINUTE)
    assert [r["second"] for r in tail.collect()] == [30], "nothing is kept for it"


def test_results_do_not_depend_on_the_number_of_parts_that_work_is_split_into(spark: SparkSession) -> None:
    """With a group that is forgotten, which ends the runs of its consumers in all of them."""
    lines = FORGOTTEN.strip().splitlines()
    of_others = [line.replace(" s  ", f" s{number} ") for number in range(5) for line in lines[1:]]
    acks = [
        f"b s{number} g2 {at} {1000 * at + number} {kind} 0 2 2 9"
        for number in range(5)
        for at, kind in ((1, "pull"), (2, "ack"))
    ]
    progress = table(spark, "\n".join([lines[0], *of_others, *acks]), PROGRESS).persist()
    before = table(spark, NOBODY, frames.GROUP_STATE)
    stored_lines = STORED.strip().splitlines()
    stored = "\n".join(
        [stored_lines[0], *(line.replace(" s  ", f" s{n} ") for n in range(5) for line in stored_lines[1:])]
    )
    stored_frame = table(spark, stored, frames.STORED_SECONDS)
    index = "broker_group subject sequence stored_at size is_withheld\n" + "\n".join(
        f"b s{number} {sequence} {10 * sequence} 1 false" for number in range(5) for sequence in range(10)
    )
    index_frame = table(spark, index, INDEX)
    found = []
    for count in (1, 7, 64):
        followed = runs(progress, before, window=MINUTE, buckets=count).persist()
        of_lag = lag(stored_frame, progress, before, followed, window=MINUTE, buckets=count, steps=(MINUTE_MS,))
        of_latencies = latencies(index_frame, followed, window=MINUTE, buckets=count, steps=(MINUTE_MS,))
        found.append([sorted(map(repr, frame.collect())) for frame in (followed, of_lag, of_latencies)])
    assert [len(rows) for rows in found[0]] == [15, 10, 10]
    assert found[1:] == found[:1] * 2


def test_a_forgotten_group_of_the_name_made_again_is_another(spark: SparkSession) -> None:
    again = FORGOTTEN + "b s g 4 40000 start 0 0 8 0\n b s g 5 41000 pull 0 1 9 7\n b s g 6 42000 ack 0 1 9 7"
    row = lag_row(spark, STORED, again)["s", "g"]
    assert row["backlog_messages_mean"] == (5 * 4 + 1 * 2 + 14 * 1 + 1 * 2 + 19 * 1) / 40
    assert (row["backlog_messages_last"], row["in_flight_messages_last"]) == (1, 0)
    before, entries = table(spark, NOBODY, frames.GROUP_STATE), table(spark, again, PROGRESS)
    followed = runs(entries, before, window=MINUTE, buckets=BUCKETS)
    assert sorted((r["begin"], r["messages"], r["ended_by"]) for r in followed.collect()) == [
        (0, 2, "forget"),
        (2, 1, "forget"),
        (8, 1, "ack"),
    ]
    (state,) = group_state(entries, before, followed, window=MINUTE).collect()
    assert state["next_sequence"] == 9


def test_what_a_forgotten_group_had_to_retry_is_nobodys(spark: SparkSession) -> None:
    stored = STORED + "b %RETRY%s%g 4 0 3\n c %RETRY%s%g 4 0 5"
    pulled = "b %RETRY%s%g g 0 7000 pull 0 1 1 7\n"
    row = lag_row(spark, stored, FORGOTTEN + pulled)["s", "g"]
    assert (row["backlog_messages_last"], row["in_flight_messages_last"]) == (5, 0), (
        "on the other broker group it goes on"
    )
    row = lag_row(spark, stored.replace("c %RETRY%s%g 4 0 5", ""), FORGOTTEN + pulled)["s", "g"]
    assert (row["backlog_messages_last"], row["in_flight_messages_last"]) == (1 + 2, 2 + 1 + 1), "of second 19"
    state = NOBODY + "\n b s g -1\n b %RETRY%s%g g 1"
    assert lag_row(spark, stored.replace("c %RETRY%s%g 4 0 5", ""), STARTED, state) == {}


TAIL = """
    broker_group subject      second first_sequence end_sequence
    b            s            1      0              4
    b            s            2      4              8
    b            s            3      8              9
    b            done         1      0              5
    b            done         2      5              6
    b            %RETRY%s%g   1      0              3
    b            %RETRY%s%g   2      3              4
    b            %RETRY%s%old 1      0              3
    b            %RETRY%s%old 2      3              4
    b            s            70     9              11
"""
HELD = """
    broker_group subject      group next_sequence consumer_key begin messages
    b            s            g     9             -            -     -
    b            s            g     -             7            5     2
    b            s            h     9             -            -     -
    b            done         g     6             -            -     -
    b            %RETRY%s%old old   4             -            -     -
"""


def test_the_tail_is_what_groups_have_not_done_and_the_last_second(spark: SparkSession) -> None:
    stored, state = table(spark, TAIL, frames.STORED_SECONDS), table(spark, HELD, frames.GROUP_STATE)
    found = stored_tail(stored, state, window=MINUTE)
    assert sorted((row["subject"], row["second"]) for row in found.collect()) == [
        ("%RETRY%s%g", 1),
        ("%RETRY%s%g", 2),
        ("%RETRY%s%old", 2),
        ("done", 2),
        ("s", 2),
        ("s", 3),
    ]
    ranges = """
        broker_group subject    at_ms begin end
        b            s          1000  0     9
        b            s          59999 7     9
        b            s          60000 9     11
        b            %RETRY%s%g 1000  3     4
    """
    found = stored_tail(stored, state, window=MINUTE, ranges=table(spark, ranges, frames.RANGES))
    assert sorted((row["subject"], row["second"]) for row in found.collect() if row["subject"] not in ("done",)) == [
        ("%RETRY%s%g", 2),
        ("%RETRY%s%old", 2),
        ("s", 2),
        ("s", 3),
    ]


def test_a_group_that_is_set_behind_what_is_known_is_told(spark: SparkSession) -> None:
    progress = """
        broker_group subject group position at    kind  next_sequence
        b            s       g     0        1000  start 7
        b            s       h     0        2000  start 4
        b            s       h     1        2500  pull  3
        b            t       g     0        1000  start 8
        b            s       i     0        60000 start 1
    """
    known = """
        broker_group subject second first_sequence end_sequence
        b            s       -9     6              9
        b            s       -5     9              10
        b            t       -9     8              10
    """
    found = set_below(table(spark, progress, PROGRESS), table(spark, known, frames.STORED_SECONDS), window=MINUTE)
    assert [tuple(row) for row in found.collect()] == [("b", "s", 4)]


def test_state_holds_positions_and_what_is_held(spark: SparkSession) -> None:
    state = """
        broker_group subject group next_sequence consumer_key pull_begin begin messages pulled_ms
        b            s       g     4             -            -          -     -        -
        b            s       g     -             7            20         1     3        -5000
        b            s       idle  2             -            -          -     -        -
    """
    progress = """
        broker_group subject group position at    kind  begin end next_sequence consumer_key
        b            s       g     9        30000 ack   20    22  4             7
        b            s       g     10       31000 pull  0     2   6             8
        b            s       g     11       60000 ack   22    23  9             7
        b            s       back  3        40000 start 0     0   5             0
        b            s       back  4        41000 start 0     0   3             0
    """
    before, entries = table(spark, state, frames.GROUP_STATE), table(spark, progress, PROGRESS)
    found = group_state(entries, before, runs(entries, before, window=MINUTE, buckets=BUCKETS), window=MINUTE).collect()
    assert sorted((row["group"], row["next_sequence"]) for row in found if row["consumer_key"] is None) == [
        ("back", 3),
        ("g", 6),
        ("idle", 2),
    ]
    held = ("consumer_key", "pull_begin", "begin", "messages", "pulled_ms")
    assert sorted(tuple(row[name] for name in held) for row in found if row["consumer_key"] is not None) == [
        (7, 22, 3, 1, -5000),
        (8, 0, 4, 2, 31000),
    ]


def test_a_broadcasts_pull_sequences_are_the_messages_own(spark: SparkSession) -> None:
    progress = """
        broker_group subject group position at   kind begin end next_sequence consumer_key is_broadcast
        b            s       g     0        1000 pull 3     5   9             7            true
        b            s       h     0        1000 pull 3     5   9             7            false
    """
    before = table(spark, NOBODY, frames.GROUP_STATE)
    found = runs(table(spark, progress, PROGRESS), before, window=MINUTE, buckets=BUCKETS).collect()
    # Histories of older nodes have pulls whose filter left out what lies behind the messages.
    assert sorted((row["group"], row["pull_begin"], row["begin"]) for row in found) == [("g", 3, 3), ("h", 3, 7)]


def test_withheld_messages_are_in_no_second(spark: SparkSession) -> None:
    index = """
        broker_group subject sequence stored_at size is_withheld
        b            s       0        1500      10   false
        b            s       1        -         0    true
        b            s       2        1999      30   false
    """
    found = stored_seconds(table(spark, index, INDEX)).collect()
    assert [tuple(row) for row in found] == [("b", "s", 1, 2, 40, 0, 3)]
    assert [
        tuple(row) for row in merged_seconds(spark.createDataFrame(found, frames.STORED_SECONDS)).collect()
    ] == found


def test_a_second_that_a_tail_and_a_window_have_is_both(spark: SparkSession) -> None:
    head = "broker_group subject second messages bytes first_sequence end_sequence"
    tail = table(spark, f"{head}\n b s 7 2 20 3 5\n b s 6 1 9 2 3", frames.STORED_SECONDS)
    own = table(spark, f"{head}\n b s 7 3 30 5 8", frames.STORED_SECONDS)
    assert sorted(map(tuple, merged_seconds(own, tail).collect())) == [
        ("b", "s", 6, 1, 9, 2, 3),
        ("b", "s", 7, 5, 50, 3, 8),
    ]


def test_latency_of_messages_whose_store_time_is_gone_is_handling_only(spark: SparkSession) -> None:
    index = """
        broker_group subject sequence stored_at size is_withheld
        b            s       5        1000      10   false
    """
    progress = STARTED + "b s g 0 2000 pull 0 2 6 7\n b s g 1 5000 ack 0 2 6 7"
    followed = runs(
        table(spark, progress, PROGRESS), table(spark, NOBODY, frames.GROUP_STATE), window=MINUTE, buckets=BUCKETS
    )
    found = rows(
        latencies(table(spark, index, INDEX), followed, window=MINUTE, buckets=BUCKETS, steps=(MINUTE_MS,)), "kind"
    )
    assert {key[0]: (row["messages"], row["mean_ms"], row["p50_ms"]) for key, row in found.items()} == {
        "handling": (2, 3000.0, pytest.approx(3000, rel=0.01)),
        "end_to_end": (1, 4000.0, pytest.approx(4000, rel=0.01)),
    }


def test_a_store_time_behind_the_ack_is_no_time_and_the_oldest_lies_anywhere_in_its_second(spark: SparkSession) -> None:
    index = """
        broker_group subject sequence stored_at size is_withheld
        b            s       5        9000      10   false
    """
    progress = STARTED + "b s g 0 2000 pull 0 1 6 7\n b s g 1 5000 ack 0 1 6 7"
    followed = runs(
        table(spark, progress, PROGRESS), table(spark, NOBODY, frames.GROUP_STATE), window=MINUTE, buckets=BUCKETS
    )
    found = rows(
        latencies(table(spark, index, INDEX), followed, window=MINUTE, buckets=BUCKETS, steps=(MINUTE_MS,)), "kind"
    )
    assert {key[0]: row["mean_ms"] for key, row in found.items()} == {"handling": 3000.0, "end_to_end": 0.0}
    oldest = oldest_acked(table(spark, STORED, frames.STORED_SECONDS), followed, window=MINUTE)
    assert [row["second"] for row in oldest.collect()] == [30]


def test_who_was_handed_nothing_is_not_among_those_compared_but_has_its_share(spark: SparkSession) -> None:
    followed = table(
        spark,
        """
        subject group consumer_key consumer_id messages pulled_ms ended_ms ended_by
        s       g     7            early       3        -1        1000     ack
        s       g     8            -           2        500       1000     ack
        s       g     9            lazy        1        500       -        -
        s       g     9            lazy        4        500       2000     settle
        s       idle  5            idler       4        500       -        -
        """,
        frames.RUNS,
    )
    hour = Window(0, HOUR_MS)
    skew = rows(group_skew(followed, window=hour, steps=(HOUR_MS,)), "group")
    assert {
        key[0]: (row["consumers_count"], row["acked_messages"], row["gini_ratio"]) for key, row in skew.items()
    } == {
        "g": (2, 2, 0.5),
        "idle": (1, 0, None),
    }
    shares = rows(consumer_shares(followed, window=hour, steps=(HOUR_MS,)), "consumer_id")
    assert {key[0]: (row["acked_messages"], row["share_ratio"]) for key, row in shares.items()} == {
        "early": (3, 0.6),
        "0000000000000008": (2, 0.4),
        "lazy": (0, 0.0),
        "idler": (0, None),
    }


def test_a_consumer_whose_id_is_known_of_one_run_is_one_consumer(spark: SparkSession) -> None:
    followed = table(
        spark,
        f"""
        subject group consumer_key consumer_id messages pulled_ms         ended_ms          ended_by
        s       g     7            -           3        {HOUR_MS - 1}     {HOUR_MS}         ack
        s       g     7            named       1        {HOUR_MS + 1_000} {HOUR_MS + 2_000} ack
        """,
        frames.RUNS,
    )
    found = rows(consumer_shares(followed, window=Window(0, 2 * HOUR_MS), steps=(HOUR_MS,)), "at_ms", "consumer_id")
    assert {key: row["acked_messages"] for key, row in found.items()} == {(0, "named"): 0, (HOUR_MS, "named"): 4}


def test_failures_without_an_attempt_or_a_time_or_with_a_long_cause(spark: SparkSession) -> None:
    retries = f"""
        broker_group subject group stored_at attempt cause
        b            s       g     1000      -       unknown
        b            s       g     2000      3       unknown
        b            s       g     -         9       unknown
        b            s       g     3000      2       {"x" * CAUSE_CHARS_MAX}yz
    """
    empty = table(spark, "subject", RETRIES)
    found = rows(failures(table(spark, retries, RETRIES), empty, window=Window(0, HOUR_MS), steps=(HOUR_MS,)), "cause")
    assert {cause: (row["messages"], row["attempts_mean"], row["attempts_max"]) for (cause,), row in found.items()} == {
        "unknown": (2, 1.0, 2),
        "x" * CAUSE_CHARS_MAX: (1, 1.0, 1),
    }


def test_failed_attempts_of_a_dead_letter_are_all_of_its_attempts(spark: SparkSession) -> None:
    dead = """
        broker_group subject group stored_at attempt cause
        b            s       g     1000      2       Declined
    """
    empty = table(spark, "subject", RETRIES)
    found = rows(
        failures(empty, table(spark, dead, DEAD_LETTERS), window=Window(0, HOUR_MS), steps=(HOUR_MS,)), "cause"
    )
    assert [(row["attempts_mean"], row["attempts_max"]) for row in found.values()] == [(2.0, 2)]


def test_delayed_messages_of_a_subject_without_a_name_are_left_out(spark: SparkSession) -> None:
    delayed = """
        subject due_at  size state
        s       3599999 5    pending
        s       3600000 6    pending
        s       3600001 7    delivering
        -       3600002 8    pending
    """
    found = rows(delayed_load(table(spark, delayed, DELAYED), steps=(HOUR_MS,)), "at_ms", "subject")
    assert {key: row["pending_bytes"] for key, row in found.items()} == {(0, "s"): 5, (HOUR_MS, "s"): 6}


def test_minutes_are_kept_of_hours_in_which_a_group_had_lag_or_messages_arrived(spark: SparkSession) -> None:
    lag_lines, hour = ["step_ms at_ms subject group lag_messages_last lag_messages_max"], HOUR_MS // MINUTE_MS

    def add(subject: str, at_hour: int, lags: list[int | str], first: int = 0) -> None:
        known = [lag for lag in lags if lag != "-"]
        most = max(known, default="-")
        lag_lines.append(f"{HOUR_MS} {at_hour * HOUR_MS} {subject} g {lags[-1]} {most}")
        begin = at_hour * hour + first
        lag_lines.extend(f"{MINUTE_MS} {(begin + n) * MINUTE_MS} {subject} g {lag} {lag}" for n, lag in enumerate(lags))

    add("idle", 0, [0] * 60)
    add("has_lag", 0, [0] * 59 + [7])
    add("has_lag", 1, [0] * 60)
    add("sent", 1, [0] * 60)
    add("begins", 1, [3, "-", 4], first=57)
    rates = f"""
        step_ms     at_ms              subject sent_messages
        {HOUR_MS}   {HOUR_MS}          sent    5
        {MINUTE_MS} {63 * MINUTE_MS}   sent    5
        {HOUR_MS}   0                  begins  9
        {MINUTE_MS} 0                  begins  9
        {HOUR_MS}   {2 * HOUR_MS}      idle    1
    """
    progress = f"""
        subject          group at                    kind
        %RETRY%has_lag%g g     {58 * MINUTE_MS + 5}  start
        has_lag          g     {59 * MINUTE_MS}      ack
        sent             g     {3 * HOUR_MS}         start
    """
    found = group_minutes(
        table(spark, "\n".join(lag_lines), outputs.LAG),
        table(spark, rates, outputs.SUBJECT_RATES),
        table(spark, progress, PROGRESS),
        window=Window(0, 2 * HOUR_MS),
    )
    by_hour = rows(found, "hour_ms", "subject", "group")
    assert by_hour.keys() == {(0, "has_lag", "g"), (HOUR_MS, "sent", "g"), (HOUR_MS, "begins", "g")}
    assert by_hour[0, "has_lag", "g"] == {
        "minutes": list(range(60)),
        "arrived_messages": [0] * 60,
        "lag_messages": [0] * 59 + [7],
        "was_reset": [minute == 58 for minute in range(60)],
    }
    assert by_hour[HOUR_MS, "sent", "g"]["arrived_messages"] == [5 if minute == 3 else 0 for minute in range(60)]
    begins = by_hour[HOUR_MS, "begins", "g"]
    assert (begins["minutes"], begins["lag_messages"]) == ([57, 58, 59], [3, None, 4])


def hours_of_groups(*found: tuple[int, list[int | None]]) -> pa.Table:
    """Rows of GROUP_MINUTES of one group: hours and the lags of their last minutes."""
    lines = []
    for hour, lags in found:
        count = len(lags)
        lines.append([hour * HOUR_MS, "s", "g", list(range(60 - count, 60)), [2] * count, lags, [False] * count])
    return local_table(lines, GROUP_MINUTES)


def test_between_busy_hours_a_group_has_no_lag_and_a_deleted_one_has_none_that_is_known() -> None:
    hours = hours_of_groups((1, [0] * 59 + [4]), (3, [0] * 60), (5, [1, None]), (6, [3]))
    found = history_of(hours, np.zeros(4, dtype=np.int64), 0, 8 * HOUR_MS)
    assert found.known_from.tolist() == [60]
    lag = found.lag[0]
    assert (lag[:120] == 0).all()
    assert lag[120] == 4
    assert np.isnan(lag[121:181]).all(), "the group was gone for an hour"
    assert (lag[181:301] == 0).all(), "hours without a row behind one without lag"
    assert np.isnan(lag[301:359]).all()
    assert lag[359] == 1
    assert np.isnan(lag[360:420]).all()
    assert lag[420] == 3
    assert np.isnan(lag[421:]).all()
    arrived = found.arrived[0]
    assert (arrived[60], arrived[120], arrived[181], arrived[-1]) == (0, 120, 122, 2 * (60 + 60 + 2 + 1))


def test_groups_without_lag_are_drained_and_of_an_unknown_lag_nothing_is_forecast(spark: SparkSession) -> None:
    lag_rows = f"""
        step_ms   at_ms        subject group lag_messages_last
        {HOUR_MS} 0            late    g     9
        {HOUR_MS} 0            done    g     0
        {HOUR_MS} 0            dark    g     -
        {HOUR_MS} {23 * HOUR_MS} done  g     0
        {MINUTE_MS} 0          done    g     4
        {DAY_MS}  0            done    g     0
        {HOUR_MS} {DAY_MS}     done    g     4
    """
    made = local_frame(
        spark,
        [(0, "late", "g", "possible", "from_2_hours", 600.0, None, None)],
        StructType(
            [
                StructField("at_ms", LongType()),
                *(StructField(name, StringType()) for name in ("subject", "group", "outlook", "case_class")),
                *(StructField(f"drain_seconds_{end}", DoubleType()) for end in ("low", "mid", "high")),
            ]
        ),
    )
    day = Window(0, DAY_MS)
    hours = drain_rows(table(spark, lag_rows, outputs.LAG), made, window=day)
    found = rows(at_days_too(hours, window=day, steps=(HOUR_MS, DAY_MS)), *SERIES)
    said = ("outlook", "case_class", "drain_seconds_low", "drain_seconds_mid", "drain_seconds_high")
    assert {key: tuple(row[name] for name in said) for key, row in found.items()} == {
        (HOUR_MS, 0, "late", "g"): ("possible", "from_2_hours", 600.0, None, None),
        (HOUR_MS, 0, "done", "g"): ("expected", "none", 0.0, 0.0, 0.0),
        (HOUR_MS, 0, "dark", "g"): ("unknown", "none", None, None, None),
        (HOUR_MS, 23 * HOUR_MS, "done", "g"): ("expected", "none", 0.0, 0.0, 0.0),
        (DAY_MS, 0, "done", "g"): ("expected", "none", 0.0, 0.0, 0.0),
    }
    assert {row["interval_ratio"] for row in found.values()} == {0.8}


def test_flags_hold_if_the_next_hour_is_flagged_in_the_same_direction(spark: SparkSession) -> None:
    judged = f"""
        step_ms   at_ms            subject group metric score is_flagged
        {HOUR_MS} 0                s       g     m      2.0   true
        {HOUR_MS} {HOUR_MS}        s       g     m      3.0   true
        {HOUR_MS} {2 * HOUR_MS}    s       g     m      -2.0  true
        {HOUR_MS} {3 * HOUR_MS}    s       g     m      -0.5  false
        {HOUR_MS} {HOUR_MS}        t       g     m      2.0   true
        {HOUR_MS} {3 * HOUR_MS}    t       g     m      2.0   true
        {DAY_MS}  0                s       g     m      2.0   true
    """
    window = Window(HOUR_MS, 4 * HOUR_MS)
    no_cases = local_frame(spark, [], FORECAST_CASES)
    anomalies_frame = table(spark, judged, outputs.ANOMALIES)
    found = rows(
        forecast_scores(no_cases, anomalies_frame, window=window, steps=(HOUR_MS,)), "at_ms", "scored", "case_class"
    )
    counts = {key: (row["cases_count"], row["held_count"]) for key, row in found.items()}
    assert counts == {
        (HOUR_MS, "anomalies", "all"): (2, 0),
        (2 * HOUR_MS, "anomalies", "all"): (1, 0),
        (3 * HOUR_MS, "anomalies", "all"): (2, 1),
        (HOUR_MS, "anomaly_flags", "all"): (1, 1),
        (2 * HOUR_MS, "anomaly_flags", "all"): (1, 0),
        (3 * HOUR_MS, "anomaly_flags", "all"): (1, 0),
    }
    assert {row["target_ratio"] for row in found.values()} == {row["below_count"] for row in found.values()} == {None}


# --- days without rows -------------------------------------------------------------------------------------------------------


def test_lag_of_days_in_which_nothing_happens_grows_older_only(spark: SparkSession) -> None:
    text = "subject second messages first_sequence end_sequence\n s 86395 3 0 3\n t 86310 2 0 2"
    stored = table(spark, text, frames.STORED_SECONDS, broker_group="b")
    text = """
    subject group  next_sequence consumer_key pull_begin begin messages pulled_ms
    s       behind 1             -            -          -     -        -
    s       done   3             -            -          -     -        -
    s       gone   -1            -            -          -     -        -
    t       holds  2             -            -          -     -        -
    t       holds  -             7            1          1     1        86320000
    """
    state = table(spark, text, frames.GROUP_STATE, broker_group="b")
    progress = table(spark, "subject", PROGRESS)
    days = Window(DAY_MS, 3 * DAY_MS)
    followed = runs(progress, state, window=days, buckets=BUCKETS)
    found = rows(lag(stored, progress, state, followed, window=days, buckets=BUCKETS, steps=SHORT_STEPS), *SERIES)
    # Stored to the second; 2 of s are not pulled, 1 of t is held.
    expected = {}
    for step_ms in SHORT_STEPS:
        for at_ms in range(days.from_ms, days.to_ms, step_ms):
            for subject, group, backlog, held, since in (
                ("s", "behind", 2, 0, 86395),
                ("s", "done", 0, 0, None),
                ("t", "holds", 0, 1, 86310),
            ):
                counts = {"backlog": backlog, "in_flight": held, "lag": backlog + held}
                row = {f"{name}_messages_{of}": n for name, n in counts.items() for of in ("max", "mean", "last")}
                row["lag_messages_min"] = backlog + held
                ages = (
                    [0.0]
                    if since is None
                    else range((at_ms // 1000) + 1 - since, (at_ms + step_ms) // 1000 + 1 - since)
                )
                row |= {f"time_lag_seconds_{of}": float(ages[-1]) for of in ("max", "last")}
                row["time_lag_seconds_mean"] = (ages[0] + ages[-1]) / 2
                expected[step_ms, at_ms, subject, group] = row
    assert found == expected


def test_a_group_beside_which_something_happens_has_the_same_lag(spark: SparkSession) -> None:
    """A group on a subject without any row is computed in another way than one beside which another group moves."""
    stored = table(spark, "subject second messages first_sequence end_sequence\n s 10 3 0 3", frames.STORED_SECONDS)
    head = "subject group next_sequence consumer_key pull_begin begin messages pulled_ms"
    state = table(
        spark,
        f"{head}\n s behind 1 - - - - -\n s holds 2 - - - - -\n s holds - 7 1 1 1 11000\n s other 3 - - - - -",
        frames.GROUP_STATE,
    )
    nothing = table(spark, "subject", PROGRESS)
    window = Window(HOUR_MS, 2 * HOUR_MS)
    moves = table(spark, "subject group position at kind next_sequence\n s other 5 5000000 pull 3", PROGRESS)
    steps = (MINUTE_MS, HOUR_MS)

    def of(progress: DataFrame) -> dict[tuple[Any, ...], dict[str, Any]]:
        followed = runs(progress, state, window=window, buckets=BUCKETS)
        return rows(lag(stored, progress, state, followed, window=window, buckets=BUCKETS, steps=steps), *SERIES)

    found = of(nothing)
    assert found == of(moves)
    assert {key[3] for key in found} == {"behind", "holds", "other"}
    assert len(found) == 3 * 61


# --- anomalies ---------------------------------------------------------------------------------------------------------------

TODAY_MS = 20_511 * DAY_MS
"""Friday, 27 February 2026; Europe/Berlin is an hour ahead."""
TODAY = Window(TODAY_MS, TODAY_MS + DAY_MS)
UTC_ZONE, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
WEEKS_3 = 3 * 7 * 24


def values(spark: SparkSession, series: dict[str, tuple[str, dict[int, float]]]) -> DataFrame:
    """VALUES of (metric, values by hours from the beginning of today on) by subject; a latency of 3 is of 30 messages."""
    given = [
        (
            TODAY_MS + hour * HOUR_MS,
            subject,
            "g",
            metric,
            float(value),
            10.0 * value if metric in (TIME_LAG, P99) else None,
        )
        for subject, (metric, by_hour) in series.items()
        for hour, value in by_hour.items()
    ]
    return frame(spark, dict(zip(VALUES.names, zip(*given, strict=True), strict=True)), VALUES)


def about(mean: float, hours: range, seed: int = 1) -> dict[int, float]:
    return dict(zip(hours, np.random.default_rng(seed).poisson(mean, len(hours)).tolist(), strict=True))


def per_second(counts: dict[int, float]) -> dict[int, float]:
    return {hour: count / 3600 for hour, count in counts.items()}


def judged_rows(
    given: DataFrame, window: Window = TODAY, *steps: int, zone: ZoneInfo = UTC_ZONE, buckets: int = BUCKETS
) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = anomalies(given, window=window, zone=zone, buckets=buckets, steps=steps or (HOUR_MS,))
    return rows(found, "subject", "step_ms", "at_ms")


def test_traffic_that_stops_is_flagged_in_its_second_hour(spark: SparkSession) -> None:
    before, today = range(-WEEKS_3, 0), range(-WEEKS_3, 24)
    stopped_at = range(-WEEKS_3, 10)
    given = {
        "stops": (SENT, per_second(about(1000, stopped_at))),
        "fails": (FAILURES, dict.fromkeys(before, 1.0) | dict.fromkeys(range(20, 24), 50.0)),
        "goes": (LAG, about(1000, stopped_at)),
        "stays": (LAG, about(1000, today)),
        "young": (SENT, per_second(about(1000, range(-3 * 24, 24)))),
    }
    found = judged_rows(values(spark, given), TODAY, HOUR_MS, DAY_MS)
    assert {key[0] for key in found} == {"stops", "fails", "goes", "stays"}
    hours = {
        subject: {(key[2] - TODAY_MS) // HOUR_MS: row for key, row in found.items() if key[:2] == (subject, HOUR_MS)}
        for subject in given
    }
    assert {subject: list(of) for subject, of in hours.items() if len(of) != 24} == {"goes": [*range(10)], "young": []}
    flagged = {subject: [hour for hour, row in of.items() if row["is_flagged"]] for subject, of in hours.items()}
    assert flagged["stops"][0] == 11
    assert flagged["fails"][0] == 1, "no failures in an hour are 0"
    assert flagged["goes"] == flagged["stays"] == []
    row = hours["stops"][11]
    assert (row["value"], row["score"] < -1) == (0.0, True)
    assert row["expected"] * 3600 == pytest.approx(1000, rel=0.1)
    assert 0 < row["expected_low"] < row["expected"] < row["expected_high"] < 2 * row["expected"]
    # A day's row is the hour furthest from what was expected, of flagged hours if there are any.
    for subject, flags in flagged.items():
        candidates = [row for hour, row in hours[subject].items() if not flags or hour in flags]
        if candidates:
            assert found[subject, DAY_MS, TODAY_MS] == max(candidates, key=lambda row: abs(row["score"]))


def test_an_anomaly_says_how_many_messages_it_is_about(spark: SparkSession) -> None:
    hours = range(-WEEKS_3, 20)
    given = {
        metric: (metric, dict.fromkeys(hours, usual / scale) | dict.fromkeys((20, 21), now / scale))
        for metric, usual, now, scale in (
            (SENT, 7200, 360, 3600),
            (FAILURES, 100, 1100, 1),
            (LAG, 40.4, 20, 1),
            (TIME_LAG, 5, 60.04, 1),
            (P99, 10, 700, 1),
        )
    }
    found = judged_rows(values(spark, given), TODAY, HOUR_MS, DAY_MS)
    about_messages = {SENT: 6840, FAILURES: 1000, LAG: 20, TIME_LAG: 600, P99: 7000}
    for metric, messages in about_messages.items():
        assert found[metric, HOUR_MS, TODAY_MS + 21 * HOUR_MS]["about_messages"] == messages
        day = found[metric, DAY_MS, TODAY_MS]
        assert (day["is_flagged"], day["about_messages"]) == (True, messages), "the row of a day is of its hour"
    assert found[LAG, HOUR_MS, TODAY_MS]["about_messages"] == 0
    assert found[P99, HOUR_MS, TODAY_MS]["about_messages"] == 100


def test_hours_and_days_give_the_same_alone_and_together_in_any_number_of_buckets(spark: SparkSession) -> None:
    """Also where a first value is left behind: what is before the next is not 0 then."""
    lookback = LOOKBACK_HOURS // 24
    given = {
        "left behind": (SENT, dict.fromkeys((-lookback * 24, *range(-60 * 24, -35 * 24), *range(3 * 24)), 5.0)),
        "begins": (SENT, per_second(about(100, range(-20 * 24 + 5, 3 * 24)))),
        **{f"lag_{number}": (LAG, about(50, range(-WEEKS_3, 3 * 24), number)) for number in range(4)},
    }
    given_values = values(spark, given).cache()
    together = Window(TODAY_MS, TODAY_MS + 3 * DAY_MS)
    found = judged_rows(given_values, together, HOUR_MS, DAY_MS)
    assert found == judged_rows(given_values, together, HOUR_MS, DAY_MS, buckets=1)
    assert {key[0] for key in found} == given.keys()
    alone = {}
    for begin in range(together.from_ms, together.to_ms, DAY_MS):
        alone |= judged_rows(given_values, Window(begin, begin + DAY_MS), HOUR_MS, DAY_MS)
    assert found == alone
    afternoon = Window(TODAY_MS + 13 * HOUR_MS, TODAY_MS + 15 * HOUR_MS)
    of_hours = judged_rows(given_values, afternoon)
    assert of_hours == {key: found[key] for key in of_hours}
    assert len(of_hours) == 2 * len(given)


def test_hours_without_lag_count_as_0_and_groups_that_never_had_lag_are_not_judged(spark: SparkSession) -> None:
    """All rows of `lag` as jobs publish them, of which the transform reads few, are judged like a value for each hour."""
    lookback = range(-LOOKBACK_HOURS, 3 * 24)
    weekly = [hour for hour in lookback if hour % 168 in (30, 31)]
    given = {
        "never": dict.fromkeys(lookback, 0.0),
        "first": dict.fromkeys(lookback, 0.0) | dict.fromkeys(range(20, 26), 500.0),
        "weekly": dict.fromkeys(lookback, 0.0) | dict.fromkeys(weekly, 40.0),
        "new": dict.fromkeys(range(-30 * 24, 3 * 24), 0.0) | dict.fromkeys(range(30, 40), 70.0),
        "goes": dict.fromkeys(range(-40 * 24, 34), 0.0) | dict.fromkeys(range(-40 * 24, 34, 5), 9.0),
        "away": {hour: 3.0 for hour in lookback if not -30 * 24 <= hour < -20 * 24},
        "unknown": dict.fromkeys(lookback, 0.0) | {hour: 5.0 for hour in lookback if hour % 24 == 7},
    }
    together = Window(TODAY_MS, TODAY_MS + 3 * DAY_MS)
    columns: dict[str, list[Any]] = {name: [] for name in outputs.LAG.names}

    def add(step_ms: int, hour: int, subject: str, lags: list[float]) -> None:
        row: dict[str, Any] = dict.fromkeys(outputs.LAG.names)
        row |= {"step_ms": step_ms, "at_ms": TODAY_MS + hour * HOUR_MS, "subject": subject, "group": "g"}
        row |= {"lag_messages_mean": sum(lags) / len(lags), "lag_messages_max": int(max(lags))}
        # How old messages are was not measured on each fourth day.
        is_known = subject != "unknown" or hour // 24 % 4 != 1 or not max(lags)
        row["time_lag_seconds_max"] = 2 * max(lags) if is_known else None
        for name, value in row.items():
            columns[name].append(value)

    for subject, by_hour in given.items():
        for hour, lag_messages in by_hour.items():
            add(HOUR_MS, hour, subject, [lag_messages])
        for day in range(min(by_hour) // 24, 3):
            if lags := [by_hour[hour] for hour in range(day * 24, day * 24 + 24) if hour in by_hour]:
                add(DAY_MS, day * 24, subject, lags)
    published = frame(spark, columns, outputs.LAG).cache()
    hours, days = (published.where(F.col("step_ms") == step_ms) for step_ms in (HOUR_MS, DAY_MS))
    no_rates, no_group_rates, no_latencies, no_failures = (
        frame(spark, {name: [] for name in schema.names}, schema)
        for schema in (outputs.SUBJECT_RATES, outputs.GROUP_RATES, outputs.LATENCIES, outputs.FAILURES)
    )

    def found_in(window: Window, is_whole: bool) -> dict[tuple[Any, ...], dict[str, Any]]:
        groups = groups_with_lag(hours, days, window=window)
        read = hours if is_whole else hours_of_lag(hours, days, groups, window=window)
        found = anomalies(
            metric_values(read, no_rates, no_group_rates, no_latencies, no_failures),
            window=window,
            zone=UTC_ZONE,
            buckets=BUCKETS,
            steps=(HOUR_MS, DAY_MS),
        )
        return rows(found, "subject", "metric", "step_ms", "at_ms")

    found = found_in(together, is_whole=False)
    assert found == found_in(together, is_whole=True), "whatever is not read is 0"
    read = hours_of_lag(hours, days, groups_with_lag(hours, days, window=together), window=together)
    assert read.count() < hours.count() / 4
    assert {key[0] for key in found} == given.keys() - {"never"}
    alone = {}
    for begin in range(together.from_ms, together.to_ms, DAY_MS):
        alone |= found_in(Window(begin, begin + DAY_MS), is_whole=False)
    assert found == alone
    of_hours = {
        subject: [(key[3] - TODAY_MS) // HOUR_MS for key in sorted(found) if key[:3] == (subject, LAG, HOUR_MS)]
        for subject in given
    }
    assert of_hours["first"] == [*range(20, 3 * 24)], "before, there was no lag to judge"
    assert of_hours["new"] == [*range(30, 3 * 24)]
    assert of_hours["goes"] == [*range(34)]
    flagged = {(key[0], (key[3] - TODAY_MS) // HOUR_MS) for key, row in found.items() if row["is_flagged"]}
    assert ("first", 21) in flagged, "lag of a group that had none in all the weeks before"
    assert not {subject for subject, _ in flagged} & {"weekly", "away"}
    measured = {(key[3] - TODAY_MS) // HOUR_MS for key in found if key[:3] == ("unknown", TIME_LAG, HOUR_MS)}
    assert measured == {*range(3 * 24)} - {24 + 7}


def test_hours_are_the_same_by_the_clocks_of_the_zone(spark: SparkSession) -> None:
    """On 29 March 2026 clocks go forward: 09:00 in Berlin is 08:00 UTC on the 28th, 07:00 from then on."""
    monday = 31 * 24
    by_hour = {
        hour: 1000.0 if local % 24 == 9 else 10.0
        for hour, local in enumerate(
            local_hours(TODAY_MS - WEEKS_3 * HOUR_MS, WEEKS_3 + 40 * 24, BERLIN).tolist(), -WEEKS_3
        )
    }
    day = Window(TODAY_MS + monday * HOUR_MS, TODAY_MS + monday * HOUR_MS + DAY_MS)
    given = values(spark, {"daily": (LAG, by_hour)})
    at = ("daily", HOUR_MS, day.from_ms + 7 * HOUR_MS)
    for zone, expected in ((BERLIN, 1000.0), (UTC_ZONE, 10.0)):
        row = judged_rows(given, day, zone=zone)[at]
        assert (row["value"], row["expected"]) == (1000.0, pytest.approx(expected))


def test_other_steps_than_hours_and_days_are_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"steps of \[60000\] ms: must be an hour or a day"):
        judged_rows(values(spark, {"s": (LAG, {0: 1.0})}), TODAY, MINUTE_MS)


def test_metrics_come_from_the_tables_rows(spark: SparkSession) -> None:
    head = "step_ms at_ms subject group"
    found = metric_values(
        table(spark, f"{head} lag_messages_mean time_lag_seconds_max\n 1 0 s g 2.5 -\n 1 0 s h 1.5 8.0", outputs.LAG),
        table(spark, "step_ms at_ms subject sent_messages_per_second_mean\n 1 0 s 4.0", outputs.SUBJECT_RATES),
        table(spark, f"{head} acked_messages_per_second_mean\n 1 0 s g 3.0", outputs.GROUP_RATES),
        table(
            spark, f"{head} kind messages p99_ms\n 1 0 s g handling 5 1.0\n 1 0 s g end_to_end 6 9.0", outputs.LATENCIES
        ),
        table(spark, f"{head} kind cause messages\n 1 0 s g retry A 2\n 1 0 s g dead_letter B 3", outputs.FAILURES),
    )
    assert {key: (row["value"], row["messages"]) for key, row in rows(found, "subject", "group", "metric").items()} == {
        ("s", "", "sent_messages_per_second"): (4.0, None),
        ("s", "g", "acked_messages_per_second"): (3.0, None),
        ("s", "g", "lag_messages"): (2.5, None),
        ("s", "g", "time_lag_seconds"): (None, 2.5),
        ("s", "h", "lag_messages"): (1.5, None),
        ("s", "h", "time_lag_seconds"): (8.0, 1.5),
        ("s", "g", "end_to_end_p99_ms"): (9.0, 6.0),
        ("s", "g", "failures_messages"): (5.0, None),
    }


# --- expressions -----------------------------------------------------------------------------------------------------------------


def test_subjects_that_nobody_owns_count_in_the_steps_they_were_there(spark: SparkSession) -> None:
    stored = """
        broker_group subject    second messages bytes
        b            mine       10     1        100
        b            new        3700   2        200
        b            %RETRY%new%g 3710 1        50
        b            other      7300   4        400
    """
    sampled = """
        broker_group subject at_ms   begin end stored_bytes
        b            new     7300000 0     2   200
    """
    owners = """
        subject team
        mine    a
        idle    a
    """
    found = team_capacity(
        table(spark, stored, frames.STORED_SECONDS),
        table(spark, owners, frames.OWNERS),
        table(spark, sampled, frames.RANGES),
        window=Window(0, 3 * HOUR_MS),
        steps=(HOUR_MS,),
    )
    assert {
        (row["at_ms"] // HOUR_MS, row["team"]): (
            row["subjects_count"],
            row["sent_messages"],
            row["stored_messages_last"],
        )
        for row in found.collect()
    } == {
        (0, "a"): (2, 1, None),
        (1, "a"): (2, 0, None),
        (2, "a"): (2, 0, None),
        (1, ""): (1, 3, None),
        (2, ""): (2, 4, 2),
    }


def test_bytes_of_what_is_kept_are_those_of_the_rows_in_the_range(spark: SparkSession) -> None:
    """As all pairs of a sample and a row would give them, with gaps between rows, and sequences of a later log."""
    base = SEQUENCES_PER_LOG
    places = {
        "s": [(0, 10, 100), (10, 12, 500), (20, 30, 1_000), (30, 31, 7)],
        "later": [(0, 5, 50), (base, base + 4, 90), (base + 4, base + 9, 1 << 40)],
        "unknown": [],
    }
    ends = {
        "s": [0, 3, 10, 11, 12, 15, 20, 25, 30, 31, 40],
        "later": [0, 5, base, base + 2, base + 4, base + 7, base + 9],
        "unknown": [0, 8],
    }
    stored = [(place, *row) for place, found in places.items() for row in found]
    stored_frame = table(
        spark,
        "broker_group subject first_sequence end_sequence bytes\n"
        + "\n".join(f"b {place} {first} {end} {size}" for place, first, end, size in stored),
        frames.STORED_SECONDS,
    )
    samples = [
        (place, begin, end)
        for place, found in ends.items()
        for begin in found
        for end in found
        if 0 <= end - begin < base // 2
    ]
    samples_frame = table(
        spark,
        "broker_group subject sampled_at begin end\n"
        + "\n".join(f"b {place} {number} {begin} {end}" for number, (place, begin, end) in enumerate(samples)),
        SAMPLED_RANGES,
    )
    expected: dict[int, int | None] = {}
    for number, (place, begin, end) in enumerate(samples):
        parts = [(max(0, min(end, to) - max(begin, first)), to - first, size) for first, to, size in places[place]]
        counted, size = sum(part for part, _, _ in parts), sum(size * part / length for part, length, size in parts)
        known = round(size * (end - begin) / counted) if counted else None
        expected[number] = 0 if begin == end else known
    found = {row["at_ms"]: row["stored_bytes"] for row in kept_ranges(samples_frame, stored_frame).collect()}
    assert found.keys() == expected.keys()
    assert {number: size for number, size in found.items() if size != pytest.approx(expected[number], abs=1)} == {}


def test_a_row_that_overlaps_another_counts_in_part_where_it_ends_first(spark: SparkSession) -> None:
    stored = """
        broker_group subject first_sequence end_sequence bytes
        b            s       0              10           100
        b            s       5              20           300
    """
    samples = """
        broker_group subject sampled_at begin end
        b            s       1          0     20
        b            s       2          6     20
        b            s       3          12    20
    """
    found = kept_ranges(table(spark, samples, SAMPLED_RANGES), table(spark, stored, frames.STORED_SECONDS))
    # 25 messages of 400 bytes; without the first 6 of the first row; without that row and 7 of the other.
    expected = {1: round(400 * 20 / 25), 2: round(340 * 14 / 19), 3: round(160 * 8 / 8)}
    assert {row["at_ms"]: row["stored_bytes"] for row in found.collect()} == expected


def test_names_of_retry_subjects_are_taken_apart_as_the_protocol_does(spark: SparkSession) -> None:
    names = [
        "orders",
        "%RETRY%orders%g",
        "%DEAD_RETRY%orders%g",
        "%RETRY%orders",
        "%RETRY%a%b%c",
        "a%RETRY%b",
        "%RETRYorders%g%h",
        "%",
    ]
    named = frame(spark, {"subject": names, "team": names}, frames.OWNERS)
    found = named.select(
        "subject",
        frames.original_subject(F.col("subject")),
        frames.retrying_group(F.col("subject")),
        frames.is_special(F.col("subject")),
    ).collect()
    for name, original, group, is_special in found:
        split = split_subject(name)
        assert (original, is_special) == (split.subject, split.kind != "real"), name
        assert group == (split.group if split.kind == "retry" and split.group else None), name


def test_a_consumer_without_an_id_is_named_by_its_key(spark: SparkSession) -> None:
    found = spark.range(1).select(
        frames.consumer_name(F.lit(None).cast("string"), F.lit(-2).cast("long")),
        frames.consumer_name(F.lit(None).cast("string"), F.lit(255).cast("long")),
        frames.consumer_name(F.lit("me"), F.lit(1).cast("long")),
    )
    assert tuple(found.collect()[0]) == ("fffffffffffffffe", "00000000000000ff", "me")
