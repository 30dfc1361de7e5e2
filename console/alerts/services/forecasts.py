"""Reads what rules about forecasts and anomalies evaluate: of the newest hour the rows that can open, keep or end an alert."""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from console.alerts import forecasts
from console.alerts.forecasts import NOT_WITHIN_A_DAY, group_target
from console.alerts.readings import Reading
from console.alerts.rules import Kind
from console.analytics.newest import newest_hour, scores_by_class

SUBJECTS_AT_ONCE = 500
"""Subjects of open alerts that are named in one query."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The targets whose values of a kind an evaluation reads."""

    above: float = math.inf
    """Those with a value above it."""
    targets: Collection[str] = frozenset()
    """And these, whatever their value."""

    def together(self, other: "Needed") -> "Needed":
        return Needed(min(self.above, other.above), {*self.targets, *other.targets})


ALL = Needed(-math.inf)


def forecast_readings(needed: Mapping[Kind, Needed], now: datetime) -> Iterator[Reading]:
    """Return readings of kinds in OF_ANALYTICS, at least those that an evaluation reads. Other kinds cost nothing."""
    now_ms = int(now.timestamp() * 1000)
    if Kind.DRAIN_TIME in needed:
        rows = _drains(needed[Kind.DRAIN_TIME])
        yield from forecasts.of_drains(rows, scores_by_class("drain_forecasts", now), now_ms)
    if Kind.DISK_IN_A_DAY in needed:
        disks = newest_hour("disk_forecasts").values_list(*forecasts.DISK, named=True)
        yield from forecasts.of_disks(disks, scores_by_class("disk_forecasts", now), now_ms)
    if Kind.ANOMALY in needed:
        yield from forecasts.of_anomalies(_anomalies(needed[Kind.ANOMALY]), now_ms)


def _drains(needed: Needed) -> Iterator[Any]:
    above = Q(drain_seconds_mid__gt=needed.above)
    if needed.above < NOT_WITHIN_A_DAY:
        above |= Q(drain_seconds_mid__isnull=True)
    has_lag = Q(lag_messages_last__gt=0)
    rows = newest_hour("drain_forecasts").values_list(*forecasts.DRAIN, named=True)
    return _rows(rows, Q() if needed.above < 0 else has_lag & above, needed.targets)


def _anomalies(needed: Needed) -> Iterator[Any]:
    rows = newest_hour("anomalies").values_list(*forecasts.ANOMALY, named=True)
    return _rows(rows, Q() if needed.above < 0 else Q(is_flagged=True), needed.targets)


def _rows(hour: "QuerySet[Any]", above: Q, targets: Collection[str]) -> Iterator[Any]:
    """Rows that are above, then those of targets that have none there."""
    missing = set(targets)
    for row in hour.filter(above).iterator():
        missing.discard(group_target(row.subject, row.group))
        yield row
    subjects = sorted({target.partition("/")[0] for target in missing})
    for begin in range(0, len(subjects), SUBJECTS_AT_ONCE):
        for row in hour.filter(subject__in=subjects[begin : begin + SUBJECTS_AT_ONCE]).iterator():
            if group_target(row.subject, row.group) in missing:
                yield row
