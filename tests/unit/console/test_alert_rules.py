"""When alerts begin and end."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.alerts.arrivals import BUCKET_SECONDS, WINDOW_SECONDS_MAX, Arrivals, noted, within
from console.alerts.builtin import BUILTIN
from console.alerts.rules import (
    IDLE,
    Conditions,
    Event,
    Kind,
    Phase,
    State,
    default_clear_threshold,
    literal_subject,
    matcher,
    pause_seconds,
    step,
)
from tests.support.servers.processes import PROJECT

HUNDRED = Conditions(100, 80, for_seconds=30, clear_for_seconds=20)
Look = tuple[float, float | None]


def events(conditions: Conditions, looks: list[Look]) -> list[tuple[float, Event]]:
    """The events of a series of (now, value)."""
    state, found = IDLE, []
    for now, value in looks:
        state, event = step(conditions, state, value, now)
        if event is not None:
            found.append((now, event))
    return found


def test_fires_once_the_value_was_above_for_long_enough():
    assert events(HUNDRED, [(0, 101), (29, 101), (30, 101), (31, 500)]) == [(30, Event.FIRING)]


def test_the_threshold_itself_does_not_fire():
    assert events(HUNDRED, [(0, 100), (60, 100)]) == []


def test_a_dip_before_it_fired_starts_the_count_anew():
    assert events(HUNDRED, [(0, 101), (20, 100), (30, 101), (59, 101), (60, 101)]) == [(60, Event.FIRING)]


def test_without_a_duration_it_fires_at_once():
    assert events(Conditions(0, 0), [(5, 1)]) == [(5, Event.FIRING)]


def test_a_value_that_flaps_around_the_threshold_fires_once():
    looks = [(float(now), 101.0 if now % 2 else 90.0) for now in range(40, 200)]
    assert events(HUNDRED, [(0, 101), (30, 101), *looks]) == [(30, Event.FIRING)]


def test_ends_after_it_was_clear_for_long_enough():
    looks: list[Look] = [(0, 101), (30, 101), (40, 80), (59, 10), (60, 80)]
    assert events(HUNDRED, looks) == [(30, Event.FIRING), (60, Event.RESOLVED)]


def test_above_the_clear_threshold_it_does_not_end():
    assert events(HUNDRED, [(0, 101), (30, 101), (40, 81), (400, 81)]) == [(30, Event.FIRING)]


def test_unknown_neither_fires_nor_ends():
    assert events(HUNDRED, [(0, None), (1000, None)]) == []
    assert events(HUNDRED, [(0, 101), (30, 101), (31, 10), (40, None), (9999, None)]) == [(30, Event.FIRING)]


def test_not_a_number_is_unknown():
    assert step(HUNDRED, IDLE, float("nan"), 0) == (IDLE, None)


def test_time_that_was_not_measured_counts_for_nothing():
    rising: list[Look] = [(0, 101), (10, 101), (15, None), (1000, 101), (1014, 101), (1015, 101)]
    assert events(HUNDRED, rising) == [(1015, Event.FIRING)]
    falling: list[Look] = [(0, 101), (30, 101), (40, 10), (45, None), (1000, 10), (1014, 10), (1015, 10)]
    assert events(HUNDRED, falling) == [(30, Event.FIRING), (1015, Event.RESOLVED)]


def test_a_clock_that_steps_back_fires_nothing():
    assert events(HUNDRED, [(1000, 101), (10, 101), (1029, 101)]) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.none() | st.sampled_from([0.0, 79.0, 80.0, 81.0, 99.0, 100.0, 101.0, 1e9])),
        max_size=60,
    ),
    st.sampled_from([0, 1, 30]),
    st.sampled_from([0, 1, 30]),
)
def test_what_always_holds(steps: list[Look], for_seconds: int, clear_for_seconds: int):
    conditions = Conditions(100, 80, for_seconds, clear_for_seconds)
    state, now = IDLE, 0.0
    expected = Event.FIRING
    above = clear = 0.0
    before: tuple[float, float | None] = (0.0, None)
    for gap, value in steps:
        now += gap
        # What was measured counts as holding until the next look; what was not counts for nothing.
        above += now - before[0] if before[1] is not None and before[1] > 100 else 0.0
        clear += now - before[0] if before[1] is not None and before[1] <= 80 else 0.0
        if value is not None:
            above = above if value > 100 else 0.0
            clear = clear if value <= 80 else 0.0
        after, event = step(conditions, state, value, now)
        if event is not None:
            assert event is expected, "they alternate"
            assert value is not None
            if event is Event.FIRING:
                assert value > 100
                assert above >= for_seconds
                expected, clear = Event.RESOLVED, 0.0
            else:
                assert value <= 80
                assert clear >= clear_for_seconds
                expected, above = Event.FIRING, 0.0
        if value is None:
            assert after.phase is state.phase
        assert (after.phase is Phase.FIRING) == (expected is Event.RESOLVED)
        assert step(conditions, after, value, now) == (after, None), "looking twice changes nothing"
        state, before = after, (now, value)


def test_a_clear_threshold_above_the_threshold_is_a_mistake():
    with pytest.raises(AssertionError):
        Conditions(10, 11)


def test_the_clear_threshold_is_80_percent_unless_told():
    assert default_clear_threshold(1000) == 800


@pytest.mark.parametrize(
    ("pattern", "target", "means"),
    [
        ("*", "orders/billing", True),
        ("*", "node-1", True),
        ("orders", "orders/billing", True),
        ("order*", "orders/billing", True),
        ("orders/*", "orders/billing", True),
        ("orders/b*", "orders/billing", True),
        ("orders/audit", "orders/billing", False),
        ("billing", "orders/billing", False),
        ("order", "orders/billing", False),
        ("ORDERS", "orders/billing", False),
        ("node-?", "node-1", True),
        ("node-[23]", "node-1", False),
    ],
)
def test_patterns(pattern: str, target: str, means: bool):
    assert matcher(pattern)(target) is means


def test_many_stars_are_no_way_to_stop_us():
    assert not matcher("*a" * 100 + "b")("a" * 300)


def test_the_subject_of_a_rule():
    assert literal_subject(Kind.LAG, "orders/*") == "orders"
    assert literal_subject(Kind.LAG, "orders*/billing") is None
    assert literal_subject(Kind.DISK, "orders") is None


def test_pauses_grow_up_to_a_limit():
    assert [pause_seconds(attempts, 10, 100) for attempts in (1, 2, 3, 4, 5, 6, 1000)] == [
        10,
        20,
        40,
        80,
        100,
        100,
        100,
    ]


def test_a_state_that_clears_remembers_since_when():
    firing = State(Phase.FIRING)
    assert step(HUNDRED, firing, 10, 50) == (State(Phase.FIRING, clear_from=50), None)
    assert step(HUNDRED, State(Phase.FIRING, clear_from=50), 90, 55) == (firing, None)


def test_arrivals_count_within_their_window():
    arrivals = noted(noted([], 0, 3, 1000), 3, 5, 1100)
    assert within(arrivals, 600, 1100) == 5
    assert within(arrivals, 600, 1600) == 2
    assert within(arrivals, 600, 1700) == 0


def test_a_counter_that_begins_anew_brings_nothing():
    assert noted([[1000, 3]], 3, 1, 1010) == [[1000, 3]]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=1500))
def test_arrivals_stay_few_and_none_is_lost(steps: list[tuple[int, int]]):
    arrivals: Arrivals = []
    count, now, all_of_them = 0, 10_000.0, []
    for gap, came in steps:
        now += gap
        arrivals = noted(arrivals, count, count + came, now)
        count += came
        all_of_them.append((now, came))
        assert len(arrivals) <= WINDOW_SECONDS_MAX / BUCKET_SECONDS + 1
    recent = sum(came for at, came in all_of_them if at > now - 600)
    older = sum(came for at, came in all_of_them if at > now - 600 - BUCKET_SECONDS)
    late = sum(came for at, came in all_of_them if at > now - 600 + BUCKET_SECONDS)
    assert late <= within(arrivals, 600, now) <= older
    assert recent >= late


def test_the_pages_know_the_names_of_built_in_rules():
    texts = json.loads((PROJECT / "frontend/src/i18n/en/alerts.json").read_text())
    assert texts["rule_name"] == {key: values["name"] for key, values in BUILTIN.items()}
