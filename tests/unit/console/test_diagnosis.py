"""Why a group lags: each rule with its numbers, and nothing said of what was not measured."""

from collections.abc import Mapping
from typing import Any

import pytest

from console.reports.diagnosis import (
    PACE_STEPS,
    STUCK_MAX,
    STUCK_SECONDS,
    Code,
    Held,
    Observed,
    Pace,
    diagnose,
    growth,
    pace_of,
)
from console.snapshot.history import STEP_SECONDS, STEPS, History
from console.snapshot.lag_state import LagState

GROWING: dict[str, Any] = {"state": LagState.GROWING, "lag": 400, "time_lag_seconds": 65.0, "consumers_online": 1}
STOPPED: dict[str, Any] = GROWING | {"state": LagState.STOPPED}
CAUGHT_UP: dict[str, Any] = GROWING | {"state": LagState.CAUGHT_UP, "lag": 0, "time_lag_seconds": 0.0}


def held(consumer: str, in_flight: int, seconds: float, is_online: bool = True) -> Held:
    return Held(consumer, is_online, in_flight, seconds)


def found(**numbers: Any) -> list[tuple[str, str, Mapping[str, Any]]]:
    return [(one.code.value, one.severity.value, one.values) for one in diagnose(Observed(**numbers))]


CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str, dict[str, Any]]]]] = {
    "all is well": (CAUGHT_UP, [("keeping_up", "ok", {"lag": 0, "seconds": 0.0})]),
    "it catches up": (
        GROWING | {"state": LagState.DRAINING, "drain_seconds": 90.0},
        [("draining", "info", {"lag": 400, "seconds": 90.0})],
    ),
    "not measured": (
        {"state": LagState.UNKNOWN, "unknown_reason": "Redis is not responding"},
        [("unknown", "info", {"reason": "Redis is not responding"})],
    ),
    "broker groups away": (
        {"state": LagState.UNKNOWN, "away": {"g2": "timed out", "g1": "refused"}},
        [
            ("broker_group_away", "critical", {"broker_group": "g1", "reason": "refused"}),
            ("broker_group_away", "critical", {"broker_group": "g2", "reason": "timed out"}),
        ],
    ),
    "paused": (
        GROWING | {"state": LagState.PAUSED, "is_paused": True, "consumers_online": 0},
        [("paused", "warning", {"lag": 400})],
    ),
    "one consumer paused": (
        CAUGHT_UP | {"paused_consumers": ["a"]},
        [("consumers_paused", "warning", {"consumers": ["a"], "count": 1})],
    ),
    "no consumer": (
        STOPPED | {"consumers_online": 0, "arriving": 1.4},
        [("no_consumers", "critical", {"lag": 400, "arriving": 1.4})],
    ),
    "no consumer, and nothing to do": (
        CAUGHT_UP | {"consumers_online": 0},
        [("no_consumers", "warning", {"lag": 0, "arriving": None})],
    ),
    "stopped": (STOPPED, [("stopped", "critical", {"lag": 400, "seconds": 65.0, "count": 1})]),
    "a consumer that holds messages": (
        STOPPED | {"held": [held("a", 3, 229.0), held("a", 5, 300.0), held("a", 9, 1.0), held("b", 9, 0.5)]},
        [("consumer_stuck", "critical", {"consumer": "a", "count": 8, "seconds": 229.0})],
    ),
    "a consumer that holds messages for less than a minute": (
        STOPPED | {"held": [held("a", 8, STUCK_SECONDS - 1)]},
        [("stopped", "critical", {"lag": 400, "seconds": 65.0, "count": 1})],
    ),
    "too few, and one of them stuck": (
        GROWING
        | {
            "arriving": 4.4,
            "acked": 1.7,
            "consumers_online": 2,
            "held": [held("a", 8, 145.0)],
            "pace": Pace(0.8, 4.2, 60),
        },
        [
            ("consumer_stuck", "critical", {"consumer": "a", "count": 8, "seconds": 145.0}),
            (
                "too_few_consumers",
                "warning",
                {"arriving": 4.4, "acked": 1.7, "count": 1, "needed": 3, "seconds": 65.0},
            ),
        ],
    ),
    "a consumer that left is not stuck: its messages are settled": (
        CAUGHT_UP | {"held": [held("a", 8, 500.0, False), held("b", 0, 500.0)]},
        [("keeping_up", "ok", {"lag": 0, "seconds": 0.0})],
    ),
    "the three that hold the most": (
        CAUGHT_UP | {"held": [held(f"c{number}", number + 1, 61.0) for number in range(5)]},
        [
            ("consumer_stuck", "critical", {"consumer": f"c{number}", "count": number + 1, "seconds": 61.0})
            for number in (4, 3, 2)
        ],
    ),
    "too few consumers": (
        GROWING | {"arriving": 1.4, "acked": 0.9},
        [
            (
                "too_few_consumers",
                "warning",
                {"arriving": 1.4, "acked": 0.9, "count": 1, "needed": 2, "seconds": 65.0},
            )
        ],
    ),
    "too few consumers by far": (
        GROWING | {"arriving": 40.0, "acked": 4.0, "consumers_online": 3},
        [
            (
                "too_few_consumers",
                "warning",
                {"arriving": 40.0, "acked": 4.0, "count": 3, "needed": 30, "seconds": 65.0},
            )
        ],
    ),
    "growing, and rates are not known": (
        GROWING | {"arriving": None, "acked": 0.9},
        [("growing", "warning", {"lag": 400, "seconds": 65.0})],
    ),
    "handlers are slower": (
        GROWING | {"state": LagState.DRAINING, "drain_seconds": None, "pace": Pace(0.9, 4.2, 1_200)},
        [
            ("slower", "warning", {"now": 0.9, "before": 4.2, "seconds_ago": 1_200}),
            ("draining", "info", {"lag": 400, "seconds": None}),
        ],
    ),
    "handlers as fast as before": (
        GROWING | {"state": LagState.DRAINING, "pace": Pace(0.9, 1.7, 1_200)},
        [("draining", "info", {"lag": 400, "seconds": None})],
    ),
    "slower handlers of a group that keeps up": (
        CAUGHT_UP | {"pace": Pace(0.9, 4.2, 1_200)},
        [("keeping_up", "ok", {"lag": 0, "seconds": 0.0})],
    ),
    "no history": (
        GROWING | {"state": LagState.DRAINING, "pace": Pace(reason="Redis is not responding")},
        [
            ("pace_unknown", "info", {"reason": "Redis is not responding"}),
            ("draining", "info", {"lag": 400, "seconds": None}),
        ],
    ),
    "a retry loop": (
        CAUGHT_UP | {"attempts": 2.0, "failing": 1.8, "retry_lag": 40},
        [("retry_loop", "warning", {"failing": 1.8, "attempts": 2.0, "pending": 40})],
    ),
    "some messages fail": (
        CAUGHT_UP | {"attempts": 2.0, "failing": 0.9, "retry_lag": 4},
        [("keeping_up", "ok", {"lag": 0, "seconds": 0.0})],
    ),
    "a single failure": (
        CAUGHT_UP | {"attempts": 0.05, "failing": 0.05, "retry_lag": 1},
        [("keeping_up", "ok", {"lag": 0, "seconds": 0.0})],
    ),
    "more dead letters": (
        CAUGHT_UP | {"dead_letters": 12, "dead_letters_seconds": 3_600},
        [("dead_letters", "warning", {"count": 12, "seconds": 3_600})],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule(name: str) -> None:
    numbers, expected = CASES[name]
    assert found(**numbers) == expected


def test_each_code_has_a_case() -> None:
    assert {code for _, findings in CASES.values() for code, _, _ in findings} == set(Code)
    assert STUCK_MAX == 3


def test_the_worst_comes_first() -> None:
    numbers = GROWING | {
        "consumers_online": 2,
        "arriving": 1.4,
        "acked": 0.9,
        "held": [held("a", 8, 229.0)],
        "dead_letters": 1,
    }
    assert [code for code, _, _ in found(**numbers)] == ["consumer_stuck", "dead_letters", "too_few_consumers"]


# --- the history ----------------------------------------------------------------------------------------------------------


def history(acked: list[Any], consumers: Any = 2.0, lag: Any = 30.0) -> History:
    """The newest points of an hour; `consumers` and `lag` for all of them, or a list."""
    missing: list[Any] = [None] * (STEPS - len(acked))

    def column(values: Any) -> list[Any]:
        return missing + (values if isinstance(values, list) else [values] * len(acked))

    return History(
        [""] * STEPS,
        {"ack_rate": column(acked), "consumers_online": column(consumers), "lag": column(lag)},
    )


MINUTE = PACE_STEPS
SLOW_NOW = [8.0] * MINUTE + [8.4] * MINUTE + [1.8] * MINUTE


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (history(SLOW_NOW), Pace(0.9, 4.2, 60)),
        (history([*SLOW_NOW, *[2.0] * MINUTE]), Pace(1.0, 4.2, 120)),
        (history([1.8] * MINUTE), Pace(0.9, None, 0)),
        (history([1.8] * (MINUTE - 1)), Pace()),
        (history(SLOW_NOW, consumers=[2.0] * (2 * MINUTE) + [2.0] * 5 + [3.0]), Pace()),
        (history(SLOW_NOW, consumers=[1.0] * (2 * MINUTE) + [2.0] * MINUTE), Pace(0.9, 8.4, 60)),
        (history(SLOW_NOW, consumers=[0.0] * (2 * MINUTE) + [2.0] * MINUTE), Pace(0.9, None, 0)),
        (history(SLOW_NOW, lag=[9.0] * (3 * MINUTE - 1) + [0.0]), Pace()),
        (history(SLOW_NOW, lag=[9.0] * (3 * MINUTE - 1) + [None]), Pace()),
        (history([*[0.4] * MINUTE, *[0.1] * MINUTE], consumers=1.0), Pace(0.1, None, 0)),
        (history([]), Pace()),
        (History([], {}, "Redis is not responding"), Pace(reason="Redis is not responding")),
    ],
    ids=[
        "slower", "the fastest earlier minute", "nothing earlier", "less than a minute", "a consumer came", "fewer consumers then",
        "no consumer then", "nothing waits", "lag unknown", "too few messages", "empty", "unknown",
    ],
)  # fmt: skip
def test_the_pace_of_consumers(of: History, expected: Pace) -> None:
    assert pace_of(of) == expected


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0, 5.0, 15.0], (12, 90)), ([None, 5.0, 15.0], (10, 60)), ([3.0, 15.0, None], (12, 90)), ([None, 4.0, None], (0, 60)),
        ([9.0, 5.0], (0, 60)), ([None, None], (0, 0)), ([], (0, 0)),
    ],
)  # fmt: skip
def test_how_much_a_number_increased(values: list[float | None], expected: tuple[int, int]) -> None:
    assert growth(History([""] * len(values), {"stored": values}), "stored", 3 * STEP_SECONDS) == expected
