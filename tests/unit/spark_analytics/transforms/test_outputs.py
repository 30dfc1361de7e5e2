"""The transforms' schemas are the console's summary tables; windows and small kernels."""

from random import Random

import numpy as np
import pytest

from console.analytics.models.summaries import (
    CAUSE_CHARS_MAX,
    METHOD_CHARS_MAX,
    CaseClass,
    FailureKind,
    LatencyKind,
    Metric,
    Outlook,
    Scored,
)
from console.analytics.steps import Step
from console.analytics.tables import TABLES
from console.jobs.summaries import TABLE as FILLED_BY_CONSOLE
from spark_analytics.forecasts import conformal, disk, drain
from spark_analytics.transforms import anomalies, failures, forecasts, latency, scores, windows
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
    outlooks = {conformal.EXPECTED, conformal.POSSIBLE, conformal.NEVER, conformal.UNKNOWN}
    assert outlooks == {outlook.value for outlook in Outlook}
    assert set(anomalies.METRICS) == {metric.value for metric in Metric}
    assert [*drain.CLASSES, scores.ALL_CLASS, forecasts.NO_CLASS] == [name.value for name in CaseClass]
    assert {scores.ANOMALY, scores.FLAG} == {Scored.ANOMALY, Scored.FLAG}
    assert failures.CAUSE_CHARS_MAX == CAUSE_CHARS_MAX
    assert max(len(drain.METHOD), len(disk.METHOD)) <= METHOD_CHARS_MAX
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
