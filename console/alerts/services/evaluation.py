"""One look: the collector's snapshot against all rules. May run in any number of processes, and twice with the same
snapshot: every change of an alert compares the version it read, and an open alert is one by its key."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from console.alerts import readings
from console.alerts.models import Alert, AlertRule, AlertState, Resolution
from console.alerts.readings import READINGS_MAX, Reading
from console.alerts.rules import Conditions, Event, Kind, Phase, Severity, State, matcher, step
from console.alerts.services.closing import change_alert, last_values, milliseconds, resolve
from console.alerts.services.current import URGENT, current_readings, urgent_readings
from console.alerts.services.dead_letters import count_dead_letters
from console.alerts.services.notifications import Notifications
from console.alerts.services.rules import RULES_MAX
from console.alerts.services.silences import IsSilenced, silenced_at
from metaserver import queries

logger = logging.getLogger("qmq.alerts")

OPEN_MAX = 10_000
"""Open alerts at a time; what would be more is counted and opened once there is room."""
BATCH_ALERTS = 200
"""Alerts changed in one transaction."""
CHANGES_MAX = 1_000
"""Changes written by one evaluation; the rest is written by the next. Changes with notifications come first."""
REFRESHED_MAX = 1_000
"""Values of open alerts written by one look; those that were not come with the next, as the others are fresh then."""
VALUE_SECONDS = 30
"""An open alert's newest value is written this often."""
GONE_SECONDS = 3_600
"""A target that is missing for this long, while everything can be measured, counts as removed."""
_OPEN_PLACE = 1 << 62
_CRITICAL_PLACE = 1 << 61
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


def open_key(rule_id: int, target: str) -> str:
    """What is unique among open alerts."""
    return blake2b(f"{rule_id}\n{target}".encode(), digest_size=32).hexdigest()


class _Look:
    """One evaluation: reads everything, decides in memory, writes in batches."""

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
        self._silenced: IsSilenced = silenced_at(now)
        self._notifications = Notifications()
        self._done: Counter[str] = Counter()
        self._urgent: list[Callable[[], Counter[str]]] = []
        self._openings: list[Callable[[], Counter[str]]] = []
        self._memory: list[Callable[[], Counter[str]]] = []
        self._refreshed: list[Alert] = []
        self._subjects: set[str] = set()
        self._owners: dict[str, str | None] = {}

    def run(self) -> Evaluated:
        enabled = AlertRule.objects.filter(is_enabled=True, kind__in=self._kinds)
        rules = list(enabled.prefetch_related("channels").order_by("id")[:RULES_MAX])
        by_kind = self._read()
        counted = self._snapshot if Kind.DEAD_LETTERS in self._kinds else None
        dead = {} if counted is None else count_dead_letters(counted, self._seconds)
        open_alerts = Alert.objects.filter(open_key__isnull=False)
        still_open = {(alert.rule_id, alert.target): alert for alert in open_alerts.filter(kind__in=self._kinds)}
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
                    self._done["left_out"] += 1
        self._look_at_missing(rules, [alert for alert in still_open.values() if alert.pk not in seen])
        self._write()
        done = self._done
        if done["left_out"]:
            logger.warning("%d readings, alerts or notifications were above their limits", done["left_out"])
        counts = ("opened", "fired", "resolved", "notifications", "left_out", "put_off")
        looked_at = sum(map(len, by_kind.values())) + len(dead)
        return Evaluated(looked_at=looked_at, **{name: done[name] for name in counts})

    def _read(self) -> dict[Kind, list[Reading]]:
        by_kind: dict[Kind, list[Reading]] = {kind: [] for kind in Kind}
        for reading in islice(self._found, READINGS_MAX):
            by_kind[reading.kind].append(reading)
        self._done["left_out"] += sum(1 for _ in self._found)
        return by_kind

    # --- deciding ------------------------------------------------------------------------------------------------------

    def _begin(self, rule: AlertRule, reading: Reading) -> None:
        state, event = step(_conditions(rule), State(), reading.value, self._seconds)
        if state.phase is not Phase.IDLE:
            self._subjects.add(reading.subject)
            self._openings.append(lambda: self._open(rule, reading, state, event))

    def _look_at(self, rule: AlertRule, alert: Alert, reading: Reading) -> None:
        before = _state_of(alert)
        after, event = step(_conditions(rule), before, reading.value, self._seconds)
        is_due = (self._now - alert.last_seen_at).total_seconds() >= VALUE_SECONDS
        if after != before or event is not None or is_due:
            alert.last_value, alert.retries = reading.value, reading.retries
            alert.reason, alert.last_seen_at = reading.reason[:300], self._now
        if after == before and event is None:
            if is_due:
                self._refreshed.append(alert)
            self._announce_late(rule, alert)
        elif event is Event.FIRING:
            alert.why = _why(reading)
            self._urgent.append(lambda: self._fire(rule, alert, after))
        elif after.phase is Phase.IDLE:
            self._end(alert, Resolution.CLEARED)
        else:
            self._memory.append(lambda: self._remember(alert, after))
            self._announce_late(rule, alert)

    def _look_at_missing(self, rules: Sequence[AlertRule], alerts: Iterable[Alert]) -> None:
        """Alerts whose target was not read: the rule does not mean it any more, it is gone, or it can't be measured."""
        of_id = {rule.pk: rule for rule in rules}
        for alert in alerts:
            rule = of_id.get(alert.rule_id or 0)
            if rule is None or not matcher(rule.target)(alert.target):
                self._end(alert, Resolution.RULE_CHANGED)
                continue
            missing_seconds = (self._now - alert.last_seen_at).total_seconds()
            is_known = self._is_complete or rule.kind in _FROM_DATABASE
            if is_known and missing_seconds >= GONE_SECONDS:
                self._end(alert, Resolution.TARGET_GONE)
                continue
            before = _state_of(alert)
            after, _ = step(_conditions(rule), before, None, self._seconds)
            if after != before:
                alert.last_value, alert.retries, alert.reason = None, None, "no data received"
                self._memory.append(lambda alert=alert, after=after: self._remember(alert, after))  # type: ignore[misc]
            self._announce_late(rule, alert)

    def _end(self, alert: Alert, resolution: Resolution) -> None:
        if alert.state == AlertState.PENDING:
            self._urgent.append(lambda: self._drop(alert))
        else:
            self._urgent.append(lambda: self._resolved(alert, resolution))

    def _announce_late(self, rule: AlertRule, alert: Alert) -> None:
        """Notify about an alert that fired while it was silenced, once the silence has ended, unless it has been acknowledged."""
        is_untold = alert.state == AlertState.FIRING and alert.announced_at is None and alert.acknowledged_at is None
        if is_untold and not self._silenced(alert):
            self._urgent.append(lambda: self._announce(rule, alert))

    # --- writing -------------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        subjects = sorted(self._subjects)
        for begin in range(0, len(subjects), BATCH_ALERTS):
            self._owners |= queries.owners_of(subjects[begin : begin + BATCH_ALERTS])
        found = [*self._urgent, *self._openings, *self._memory]
        jobs, self._done["put_off"] = found[:CHANGES_MAX], max(0, len(found) - CHANGES_MAX)
        for begin in range(0, len(jobs), BATCH_ALERTS):
            with transaction.atomic():
                done = [job() for job in jobs[begin : begin + BATCH_ALERTS]]
            for counts in done:
                self._done.update(counts)
        stale = sorted(self._refreshed, key=lambda alert: alert.pk)[:REFRESHED_MAX]
        for begin in range(0, len(stale), BATCH_ALERTS):
            batch = stale[begin : begin + BATCH_ALERTS]
            # Values only: no decision of a user is in these columns, so no version needs to be compared.
            Alert.objects.bulk_update(batch, ("last_value", "retries", "reason", "last_seen_at"))

    def _open(self, rule: AlertRule, reading: Reading, state: State, event: Event | None) -> Counter[str]:
        assert reading.value is not None
        alert = Alert(
            rule=rule,
            rule_name=rule.name,
            kind=rule.kind,
            target=reading.target,
            owner=reading.owner or self._owners.get(reading.subject) or "",
            severity=rule.severity,
            threshold=rule.threshold,
            state=AlertState.PENDING,
            since=self._now,
            held_from=_at(state.held_from),
            value=reading.value,
            last_value=reading.value,
            retries=reading.retries,
            why=_why(reading),
            last_seen_at=self._now,
            open_key=open_key(rule.pk, reading.target),
            place=_OPEN_PLACE + _CRITICAL_PLACE * (rule.severity == Severity.CRITICAL) + milliseconds(self._now),
        )
        try:
            with transaction.atomic():
                alert.save()
        except IntegrityError:
            # Another process opened it between our look and now; it has what we would have written.
            return Counter()
        done = Counter(opened=1)
        if event is Event.FIRING:
            done.update(self._fire(rule, alert, state))
        return done

    def _fire(self, rule: AlertRule, alert: Alert, state: State) -> Counter[str]:
        fired = {"state": AlertState.FIRING, "fired_at": self._now, "value": alert.last_value, "why": alert.why}
        if not change_alert(alert, **fired, **_memory(state), **last_values(alert)):
            return Counter()
        done = Counter(fired=1)
        if not self._silenced(alert):
            done.update(self._announce(rule, alert))
        return done

    def _announce(self, rule: AlertRule, alert: Alert) -> Counter[str]:
        if not change_alert(alert, announced_at=self._now):
            return Counter()
        notified, refused = self._notifications.notify(alert, Event.FIRING, rule.channels.all(), self._now)
        if refused:
            Alert.objects.filter(pk=alert.pk).update(failed_count=F("failed_count") + refused)
        return Counter(notifications=notified, left_out=refused)

    def _resolved(self, alert: Alert, resolution: Resolution) -> Counter[str]:
        resolved, notified, refused = resolve(alert, resolution, self._now, self._notifications)
        return Counter(resolved=resolved, notifications=notified, left_out=refused)

    def _remember(self, alert: Alert, state: State) -> Counter[str]:
        change_alert(alert, **_memory(state), **last_values(alert))
        return Counter()

    def _drop(self, alert: Alert) -> Counter[str]:
        Alert.objects.filter(pk=alert.pk, version=alert.version, state=AlertState.PENDING).delete()
        return Counter()


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


def _why(reading: Reading) -> dict[str, Any] | None:
    return reading.why.as_json() if reading.why else None


def _state_of(alert: Alert) -> State:
    phase = Phase.FIRING if alert.state == AlertState.FIRING else Phase.PENDING
    return State(phase, _seconds(alert.held_from), _seconds(alert.clear_from), _seconds(alert.unknown_from))


def _memory(state: State) -> dict[str, datetime | None]:
    return {name: _at(getattr(state, name)) for name in ("held_from", "clear_from", "unknown_from")}


def _seconds(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
