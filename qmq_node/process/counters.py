"""Counters of a daemon and their Prometheus metrics, declared once: a counter is a dataclass field with its metric's name.

A field without a metric is a plain number that other code reports.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field, fields
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

_METRIC = "metric"


def counted(metric: str, text: str) -> Any:
    """A field that counts from 0 and is exported as a counter. Metric names lack the daemon's prefix."""
    return field(default=0, metadata={_METRIC: (metric, text, "")})


def counted_by(label: str, metric: str, text: str) -> Any:
    """A field of type `collections.Counter` that is exported as a counter with one label."""
    return field(default_factory=Counter, metadata={_METRIC: (metric, text, label)})


class Buckets:
    """A histogram that counts a value with one search; `prometheus_client`'s takes five times as long.

    Args:
        bounds: upper bounds of the buckets, ascending; one more holds what is above them.
    """

    def __init__(self, *bounds: float) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def family(self, name: str, text: str) -> Metric:
        """The metric with the whole name `name`."""
        names = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(name, text, labels=[])
        family.add_metric([], list(zip(names, accumulate(self._counts), strict=True)), self._sum)
        return family


class MetricFamilies:
    """Makes the metric families of one daemon.

    Args:
        prefix: what every name starts with, such as `qmq_broker`.
        labels: what every series carries, such as its broker group.
    """

    def __init__(self, prefix: str, labels: Mapping[str, str] | None = None) -> None:
        self._prefix = prefix
        self.labels = dict(labels or {})

    def counters(self, *declared: Any) -> Iterable[Metric]:
        """The metrics of all counted fields of dataclass instances."""
        for counters in declared:
            for item in fields(counters):
                if _METRIC in item.metadata:
                    metric, text, label = item.metadata[_METRIC]
                    value = getattr(counters, item.name)
                    yield self.by(metric, text, label, value) if label else self.counter(metric, text, value)

    def histogram(self, name: str, text: str, buckets: Buckets) -> Metric:
        """A histogram of the whole daemon."""
        return buckets.family(f"{self._prefix}_{name}", text)

    def counter(self, name: str, text: str, value: float) -> Metric:
        """A counter of the whole daemon."""
        return self.by(name, text, "", {"": value})

    def gauge(self, name: str, text: str, value: float) -> Metric:
        """A gauge of the whole daemon."""
        return self.gauge_by(name, text, "", {"": value})

    def by(self, name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
        """A counter with one more label."""
        return self._family(CounterMetricFamily, name, text, label, values)

    def gauge_by(self, name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
        """A gauge with one more label."""
        return self._family(GaugeMetricFamily, name, text, label, values)

    def _family(
        self,
        kind: type[CounterMetricFamily | GaugeMetricFamily],
        name: str,
        text: str,
        label: str,
        values: Mapping[str, float],
    ) -> Metric:
        names, common = list(self.labels), list(self.labels.values())
        family = kind(f"{self._prefix}_{name}", text, labels=[*names, label] if label else names)
        for key, value in values.items():
            family.add_metric([*common, key] if label else common, value)
        return family
