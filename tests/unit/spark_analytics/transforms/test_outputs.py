"""The transforms' schemas are the console's summary tables; windows and small kernels."""

from random import Random

import numpy as np
import pytest

from console.analytics.models.summaries import (
    CAUSE_CHARS_MAX,
    METHOD_CHARS_MAX,
    FailureKind,
    LatencyKind,
    Metric,
    Outlook,
)
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from console.jobs.summaries import TABLE as FILLED_BY_CONSOLE
from spark_analytics.transforms import anomalies, failures, forecasts, latency, windows
from spark_analytics.transforms.outputs import SCHEMAS

TYPES = {"string": "text", "bigint": "integer", "double": "number", "boolean": "boolean", "binary": "bytes"}


@pytest.mark.parametrize("table", sorted(TABLES.keys() - {FILLED_BY_CONSOLE}))
def test_a_transform_answers_what_its_table_takes(table: str) -> None:
    fields = list(SCHEMAS[table])
    assert [field.name for field in fields[:2]] == ["step_ms", "at_ms"]
    found = {field.name: TYPES[field.dataType.simpleString()] for field in fields[2:]}
    assert found == {column.name: column.type for column in TABLES[table].columns}
    must = {column.name for column in TABLES[table].columns if column.is_key}
    assert {field.name for field in fields[2:] if not field.nullable} == must


def test_there_is_a_transform_for_each_table() -> None:
    assert SCHEMAS.keys() == TABLES.keys() - {FILLED_BY_CONSOLE}


def test_both_sides_mean_the_same_words() -> None:
    assert {latency.END_TO_END, latency.HANDLING} == {kind.value for kind in LatencyKind}
    assert {failures.RETRY, failures.DEAD_LETTER} == {kind.value for kind in FailureKind}
    outlooks = {forecasts.EXPECTED, forecasts.POSSIBLE, forecasts.NEVER, forecasts.UNKNOWN}
    assert outlooks == {outlook.value for outlook in Outlook}
    assert set(anomalies.METRICS) == {metric.value for metric in Metric}
    assert failures.CAUSE_CHARS_MAX == CAUSE_CHARS_MAX
    assert max(len(forecasts.DRAIN_METHOD), len(forecasts.DISK_METHOD)) <= METHOD_CHARS_MAX
    assert tuple(step.ms for step in Step) == windows.SHORT_STEPS
    assert all(
        tuple(step.ms for step in TABLES[name].model.steps) == windows.LONG_STEPS for name in ("failures", "anomalies")
    )


def test_a_window_is_whole_steps() -> None:
    day = windows.Window(0, windows.DAY_MS)
    windows.check_steps(day, windows.SHORT_STEPS)
    with pytest.raises(ValueError, match="not a multiple of 86400000 ms"):
        windows.check_steps(windows.Window(0, windows.HOUR_MS), windows.LONG_STEPS)
    with pytest.raises(ValueError, match="whole minutes"):
        windows.check_steps(day, (1000,))
    with pytest.raises(ValueError, match="holds no time"):
        windows.Window(5, 5)


def density(t: float, degrees: int) -> float:
    """Student's, without its constant."""
    return float((1 + t * t / degrees) ** (-(degrees + 1) / 2))


@pytest.mark.parametrize(("degrees", "t"), forecasts.STUDENT_T)
def test_the_interval_holds_as_much_as_it_says(degrees: int, t: float) -> None:
    def area(end: float, n: int) -> float:
        x = np.linspace(0, end, n)
        return float(np.trapezoid([density(value, degrees) for value in x], x))

    # With t = tan(a) the whole half line is a bounded range.
    angles = np.linspace(0, np.pi / 2, 20_001)[:-1]
    whole = float(np.trapezoid([density(np.tan(a), degrees) / np.cos(a) ** 2 for a in angles], angles))
    assert area(t, 4_001) / whole == pytest.approx(forecasts.INTERVAL_RATIO, abs=2e-4)


def test_degrees_in_between_take_the_wider_interval() -> None:
    assert forecasts.student_t(1) == 3.0777
    assert forecasts.student_t(22) == forecasts.student_t(20) > forecasts.student_t(25)
    assert forecasts.student_t(10**6) == 1.2824


@pytest.mark.parametrize("seed", range(40))
def test_parts_of_runs_are_found_in_the_stretches_that_hold_them(seed: int) -> None:
    random = Random(seed)
    stored: dict[int, int] = {}
    stretches = []
    at = 0
    for number in range(random.randint(0, 12)):
        at += random.choice((0, 0, 3))
        length = random.randint(1, 6)
        stretches.append((at, at + length))
        stored |= dict.fromkeys(range(at, at + length), number)
        at += length
    runs = [(begin, begin + random.randint(1, 15)) for begin in (random.randint(0, 50) for _ in range(8))]
    first, end = (np.array([s[i] for s in stretches], dtype=np.int64) for i in range(2))
    begin, behind = (np.array([r[i] for r in runs], dtype=np.int64) for i in range(2))
    found = {(int(r), int(s)): int(n) for r, s, n in zip(*latency.overlaps(first, end, begin, behind), strict=True)}
    expected: dict[tuple[int, int], int] = {}
    for number, (low, high) in enumerate(runs):
        for sequence in range(low, high):
            if sequence in stored:
                key = (number, stored[sequence])
                expected[key] = expected.get(key, 0) + 1
    assert found == expected


def test_of_stretches_that_overlap_the_later_beginning_counts() -> None:
    first, end = np.array([0, 4]), np.array([10, 6])
    run, stretch, n = latency.overlaps(first, end, np.array([2]), np.array([12]))
    assert list(zip(run.tolist(), stretch.tolist(), n.tolist(), strict=True)) == [(0, 0, 2), (0, 1, 2), (0, 0, 4)]
