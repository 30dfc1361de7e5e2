"""What a rule would do: which targets are above its threshold now, and how often it would have fired in the last 24 hours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from console.alerts import readings
from console.alerts.models import Alert, DeadLetterCount
from console.alerts.past import Span, firings
from console.alerts.readings import READINGS_MAX, Reading
from console.alerts.rules import OF_ANALYTICS, Conditions, Kind, matcher
from console.alerts.services.current import current_readings
from console.alerts.services.forecasts import ALL, forecast_readings
from console.jobs.jobs import job_intervals
from console.reports.rule_history import LOOK_BACK, TARGETS_MAX, past_values

SHOWN_MAX = 20
"""Targets that a preview names; the others are counted."""


@dataclass(frozen=True, slots=True)
class Often:
    """A target and how often the rule would have fired for it."""

    target: str
    count: int


@dataclass(frozen=True, slots=True)
class Past:
    """The last 24 hours, or as much of them as was stored: `spans`; empty: nothing of this kind is stored."""

    count: int
    targets_count: int
    """Targets for which it would have fired."""
    targets: Sequence[Often]
    """The first SHOWN_MAX, the most frequent one first."""
    spans: Sequence[Span]
    left_out: int
    """Targets whose past was not evaluated."""


@dataclass(frozen=True, slots=True)
class RulePreview:
    """What a rule would do."""

    matched: int
    """Targets that it means."""
    above: int
    """Targets whose value is above the threshold now."""
    unmeasured: int
    targets: Sequence[Reading]
    """The first SHOWN_MAX above the threshold, the highest value first."""
    past: Past
    fired: int | None
    """How often the stored rule did fire in the last 24 hours; None: it is new."""


def preview_rule(
    kind: Kind,
    target: str,
    conditions: Conditions,
    window_seconds: float,
    *,
    rule: int | None,
    snapshot: Mapping[str, Any] | None,
    now: datetime,
) -> RulePreview:
    """Evaluate a rule without storing anything.

    Args:
        rule: the ID of the stored rule; None: it is new.
        snapshot: the collector's; None: there is none, and what it measures is unknown.
    """
    found = _readings(kind, target, window_seconds, snapshot, now)
    above = [one for one in found if one.value is not None and one.value > conditions.threshold]
    looked_at = sorted(found, key=_order)[:TARGETS_MAX]
    past = past_values(kind, looked_at, conditions.clear_threshold, window_seconds, snapshot, now)
    counts = [Often(one.target, firings(conditions, past.points.get(one.target, ()))) for one in looked_at]
    fired = sorted((one for one in counts if one.count), key=lambda one: (-one.count, one.target))
    return RulePreview(
        matched=len(found),
        above=len(above),
        unmeasured=sum(1 for one in found if one.value is None),
        targets=sorted(above, key=_order)[:SHOWN_MAX],
        past=Past(
            sum(one.count for one in fired), len(fired), fired[:SHOWN_MAX], past.spans, len(found) - len(looked_at)
        ),
        fired=None if rule is None else _fired(rule, now - LOOK_BACK),
    )


def _order(reading: Reading) -> tuple[float, str]:
    """The highest value first; what was not measured last."""
    return (float("inf") if reading.value is None else -reading.value, reading.target)


def _readings(
    kind: Kind, target: str, window_seconds: float, snapshot: Mapping[str, Any] | None, now: datetime
) -> list[Reading]:
    means = matcher(target)
    if kind == Kind.DEAD_LETTERS:
        counted = {row.target: row.arrivals for row in DeadLetterCount.objects.exclude(target="")}
        found = readings.of_dead_letters(counted, window_seconds, now.timestamp())
    elif kind in OF_ANALYTICS:
        found = list(islice(forecast_readings({kind: ALL}, now), READINGS_MAX))
    else:
        current = islice(current_readings(snapshot, now, job_intervals()), READINGS_MAX)
        found = [one for one in current if one.kind == kind]
    # A group that can't be measured because its node is unavailable is an alert of the node, as in evaluations.
    return [one for one in found if means(one.target) and ("/" in target or not one.is_consequence)]


def _fired(rule: int, since: datetime) -> int:
    return Alert.objects.filter(rule_id=rule, fired_at__gte=since).count()
