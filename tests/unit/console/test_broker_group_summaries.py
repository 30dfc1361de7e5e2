"""Ten minutes of broker groups from the history of the last hour."""

import math

from console.analytics.rows import Window
from console.jobs.summaries import ten_minutes
from tests.support.console.histories import POINTS, TEN_MINUTES_MS, history, point

END_MS = 100 * TEN_MINUTES_MS


def test_a_step_has_the_highest_value_and_the_mean_of_what_was_measured() -> None:
    points = [point(send_rate=3.0, connections=7), *[None] * (POINTS - 2), point(send_rate=0.1, disk_used_bytes=9e11)]
    [row] = ten_minutes(history(END_MS, {"g1": points}), Window(END_MS - 2 * TEN_MINUTES_MS, END_MS))
    assert (row["at_ms"], row["broker_group"]) == (END_MS - TEN_MINUTES_MS, "g1")
    assert (row["sent_messages_per_second_max"], row["sent_messages_per_second_mean"]) == (3, 1.55)
    assert (row["connections_count_max"], row["connections_count_mean"]) == (7, 7)
    assert (row["disk_used_bytes_max"], row["disk_used_bytes_mean"]) == (9e11, 9e11)
    assert (row["pulled_messages_per_second_max"], row["pulled_messages_per_second_mean"]) == (None, None)


def test_a_step_in_which_nothing_was_measured_has_no_row() -> None:
    unknown = point()
    assert all(math.isnan(value) for value in unknown)
    points = [point(send_rate=0.0)] * POINTS + [unknown] * POINTS + [None] * POINTS
    found = ten_minutes(history(END_MS, {"g1": points}), Window(END_MS - 6 * TEN_MINUTES_MS, END_MS))
    assert [(row["at_ms"], row["sent_messages_per_second_max"]) for row in found] == [(END_MS - 3 * TEN_MINUTES_MS, 0)]


def test_steps_outside_of_the_window_are_left_out() -> None:
    begin_ms = END_MS - 3 * TEN_MINUTES_MS
    points = [point(send_rate=float(number // POINTS)) for number in range(6 * POINTS)]
    found = ten_minutes(history(END_MS, {"g1": points}), Window(begin_ms, begin_ms + TEN_MINUTES_MS))
    assert [(row["at_ms"], row["sent_messages_per_second_mean"]) for row in found] == [(begin_ms, 3)]
