"""One look: the collector's snapshot against all rules. May run in any number of processes, and twice with the same snapshot."""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from console.alerts import readings
from console.alerts.models import Alert, AlertRule, AlertState, Resolution
from console.alerts.readings import READINGS_MAX, Reading
from console.alerts.rules import OF_ANALYTICS, Conditions, Event, Kind, Phase, State, matcher, step
from console.alerts.services.alert_changes import AlertChanges
from console.alerts.services.current import URGENT, current_readings, urgent_readings
from console.alerts.services.dead_letters import count_dead_letters
from console.alerts.services.forecasts import Needed, forecast_readings
from console.alerts.services.rules import RULES_MAX

logger = logging.getLogger("qmq.alerts")

OPEN_MAX = 10_000
"""Open alerts at a time; what would be more is counted and opened once there is room."""
VALUE_SECONDS = 30
"""An open alert's newest value is written this often."""
GONE_SECONDS = 3_600
"""A target that is missing for this long, while everything can be measured, counts as removed."""
_FROM_DATABASE = {
    Kind.GROUP_STATE, Kind.JOB_LATE, Kind.COPIES, Kind.BELOW_MINIMUM, Kind.NO_CANDIDATE, Kind.ONE_RACK, Kind.ROLE_CHANGES,
    Kind.REPLICATION, Kind.OUTBOX_AGE, Kind.OUTBOX_FAILED, Kind.OUTBOX_UNREACHABLE,
}  # fmt: skip
"""Kinds whose targets are known whether or not there is a snapshot."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What a look did."""

    looked_at: int
    """Readings."""
    opened: int
    """Alerts that became pending or fired at once."""
    fired: int
    resolved: int
    notifications: int
    left_out: int
    """Readings, alerts and notifications above their limits."""
    put_off: int
    """Changes left to the next look."""


def evaluate(
    snapshot: Mapping[str, Any] | None, now: datetime, *, job_intervals: Mapping[str, float] | None = None
) -> Evaluated:
    """Evaluate all rules once.

    Args:
        snapshot: the collector's; None when there is none: then no value is known, and no alert resolves.
        now: the time of the evaluation, with its zone.
        job_intervals: the interval of each background job in seconds; other jobs are not evaluated.
    """
    return _Look(snapshot, now, current_readings(snapshot, now, job_intervals or {})).run()


def evaluate_urgent(snapshot: Mapping[str, Any] | None, now: datetime) -> Evaluated:
    """As `evaluate`, rules of the kinds in URGENT only."""
    return _Look(snapshot, now, urgent_readings(snapshot, now), URGENT).run()


class _Look:
    """One evaluation: reads everything, decides in memory, and writes the changes."""

    def __init__(
        self,
        snapshot: Mapping[str, Any] | None,
        now: datetime,
        found: Iterable[Reading],
        kinds: Collection[Kind] = frozenset(Kind),
    ) -> None:
        self._snapshot = snapshot
        self._now = now
        self._seconds = now.timestamp()
        self._is_complete = snapshot is not None and readings.is_complete(snapshot)
        self._found = iter(found)
        self._kinds = kinds
        self._changes = AlertChanges(now)
        self._left_out = 0

    def run(self) -> Evaluated:
        enabled = AlertRule.objects.filter(is_enabled=True, kind__in=self._kinds)
        rules = list(enabled.prefetch_related("channels").order_by("id")[:RULES_MAX])
        counted = self._snapshot if Kind.DEAD_LETTERS in self._kinds else None
        dead = {} if counted is None else count_dead_letters(counted, self._seconds)
        open_alerts = Alert.objects.filter(open_key__isnull=False)
        still_open = {(alert.rule_id, alert.target): alert for alert in open_alerts.filter(kind__in=self._kinds)}
        by_kind = self._read(self._found, forecast_readings(_needed(rules, still_open), self._now))
        room = OPEN_MAX - open_alerts.count()
        seen: set[int] = set()
        for rule in rules:
            found = by_kind[Kind(rule.kind)]
            if rule.kind == Kind.DEAD_LETTERS:
                found = readings.of_dead_letters(dead, rule.window_seconds, self._seconds)
            for reading, alert in _concerned(rule, found, still_open):
                if alert is not None:
                    seen.add(alert.pk)
                    self._look_at(rule, alert, reading)
                elif room > 0:
                    room -= 1
                    self._begin(rule, reading)
                else:
                    self._left_out += 1
        self._look_at_missing(rules, [alert for alert in still_open.values() if alert.pk not in seen])
        done = self._changes.write()
        done["left_out"] += self._left_out
        if done["left_out"]:
            logger.warning("%d readings, alerts or notifications were above their limits", done["left_out"])
        counts = ("opened", "fired", "resolved", "notifications", "left_out", "put_off")
        looked_at = sum(map(len, by_kind.values())) + len(dead)
        return Evaluated(looked_at=looked_at, **{name: done[name] for name in counts})

    def _read(self, *sources: Iterator[Reading]) -> dict[Kind, list[Reading]]:
        by_kind: dict[Kind, list[Reading]] = {kind: [] for kind in Kind}
        for found in sources:
            for reading in islice(found, READINGS_MAX):
                by_kind[reading.kind].append(reading)
            self._left_out += sum(1 for _ in found)
        return by_kind

    def _begin(self, rule: AlertRule, reading: Reading) -> None:
        state, event = step(_conditions(rule), State(), reading.value, self._seconds)
        if state.phase is not Phase.IDLE:
            self._changes.open(rule, reading, state, event)

    def _look_at(self, rule: AlertRule, alert: Alert, reading: Reading) -> None:
        before = _state_of(alert)
        after, event = step(_conditions(rule), before, reading.value, self._seconds)
        is_due = (self._now - alert.last_seen_at).total_seconds() >= VALUE_SECONDS
        if after != before or event is not None or is_due:
            alert.last_value, alert.retries = reading.value, reading.retries
            alert.reason, alert.last_seen_at = reading.reason[:300], self._now
        if after == before and event is None:
            if is_due:
                self._changes.refresh(alert)
            self._changes.announce_late(rule, alert)
        elif event is Event.FIRING:
            self._changes.fire(rule, alert, reading, after)
        elif after.phase is Phase.IDLE:
            self._changes.end(alert, Resolution.CLEARED)
        else:
            self._changes.remember(alert, after)
            self._changes.announce_late(rule, alert)

    def _look_at_missing(self, rules: Sequence[AlertRule], alerts: Iterable[Alert]) -> None:
        """Alerts whose target was not read: the rule does not mean it any more, it is gone, or it can't be measured."""
        of_id = {rule.pk: rule for rule in rules}
        for alert in alerts:
            rule = of_id.get(alert.rule_id or 0)
            if rule is None or not matcher(rule.target)(alert.target):
                self._changes.end(alert, Resolution.RULE_CHANGED)
                continue
            missing_seconds = (self._now - alert.last_seen_at).total_seconds()
            is_known = self._is_complete or rule.kind in _FROM_DATABASE
            if is_known and missing_seconds >= GONE_SECONDS:
                self._changes.end(alert, Resolution.TARGET_GONE)
                continue
            before = _state_of(alert)
            after, _ = step(_conditions(rule), before, None, self._seconds)
            if after != before:
                alert.last_value, alert.retries, alert.reason = None, None, "no data received"
                self._changes.remember(alert, after)
            self._changes.announce_late(rule, alert)


def _needed(rules: Iterable[AlertRule], still_open: Iterable[tuple[int | None, str]]) -> dict[Kind, Needed]:
    """Of which targets these rules need values of the kinds in OF_ANALYTICS."""
    found: dict[Kind, Needed] = {}
    for rule in rules:
        kind = Kind(rule.kind)
        if kind in OF_ANALYTICS:
            targets = {target for rule_id, target in still_open if rule_id == rule.pk}
            found[kind] = found.get(kind, Needed()).together(Needed(rule.threshold, targets))
    return found


def _concerned(
    rule: AlertRule, found: Iterable[Reading], still_open: Mapping[tuple[int | None, str], Alert]
) -> Iterable[tuple[Reading, Alert | None]]:
    """The readings that can change anything about a rule's alerts. Most can't, and cost a comparison each."""
    means = matcher(rule.target)
    includes_consequences = "/" in rule.target
    for reading in found:
        alert = still_open.get((rule.pk, reading.target))
        if alert is None:
            if reading.value is None or not reading.value > rule.threshold:
                continue
            if reading.is_consequence and not includes_consequences:
                continue
        if means(reading.target):
            yield reading, alert


def _conditions(rule: AlertRule) -> Conditions:
    clear = min(rule.clear_threshold, rule.threshold)
    return Conditions(rule.threshold, clear, rule.for_seconds, rule.clear_for_seconds)


def _state_of(alert: Alert) -> State:
    phase = Phase.FIRING if alert.state == AlertState.FIRING else Phase.PENDING
    return State(phase, _seconds(alert.held_from), _seconds(alert.clear_from), _seconds(alert.unknown_from))


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
