"""Rows of summary tables against the naive computation's."""

from tests.support.analytics import naive
from tests.support.analytics.frames import differences


def assert_true(expected: naive.Rows, found: naive.Rows, relative: float = 1e-12) -> None:
    assert expected, "the simulated day has none of it"
    different = differences(expected, found, relative)
    assert not different, f"{len(different)} differences: " + "; ".join(different[:10])


def assert_true_latencies(expected: dict[naive.Key, list[int]], found: naive.Rows, relative: float = 1e-12) -> None:
    """Counts, means and maxima are exact, percentiles within 1 %."""
    exact: naive.Rows = {}
    for key, values in expected.items():
        exact[key] = {"messages": len(values), "mean_ms": sum(values) / len(values), "max_ms": float(values[-1])}
    names = ("messages", "mean_ms", "max_ms")
    assert_true(exact, {key: {name: row[name] for name in names} for key, row in found.items()}, relative)
    for key, values in expected.items():
        row = found[key]
        for name, ratio in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99), ("p999_ms", 0.999)):
            want = naive.percentile(values, ratio)
            assert abs(row[name] - want) <= (0.01 + 1e-9) * want, (key, name, row[name], want)
            assert row[name] <= row["max_ms"], (key, name)
