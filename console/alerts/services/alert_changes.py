"""What an evaluation changes: collected while it decides, then written in batches. Any number of processes may do so at a time:
each change of an alert compares the version it read, and an open alert is one by its key."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import F

from console.alerts.models import Alert, AlertRule, AlertState, Resolution
from console.alerts.readings import Reading
from console.alerts.rules import Event, Severity, State
from console.alerts.services.closing import change_alert, last_values, milliseconds, resolve
from console.alerts.services.notifications import Notifications
from console.alerts.services.silences import IsSilenced, silenced_at
from metaserver import queries

BATCH_ALERTS = 200
"""Alerts changed in one transaction."""
CHANGES_MAX = 1_000
"""Changes written by one evaluation; the rest is written by the next. Changes with notifications come first."""
REFRESHED_MAX = 1_000
"""Values of open alerts written by one evaluation; the others come with the next, as these are fresh then."""
_OPEN_PLACE = 1 << 62
_CRITICAL_PLACE = 1 << 61

Change = Callable[[], Counter[str]]
"""Writes, and returns what it did, by the names of `Evaluated`."""


class AlertChanges:
    """The changes of one evaluation."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._silenced: IsSilenced = silenced_at(now)
        self._notifications = Notifications()
        self._urgent: list[Change] = []
        self._openings: list[Change] = []
        self._memory: list[Change] = []
        self._refreshed: list[Alert] = []
        self._subjects: set[str] = set()
        self._owners: dict[str, str | None] = {}

    # --- collecting ----------------------------------------------------------------------------------------------------

    def open(self, rule: AlertRule, reading: Reading, state: State, event: Event | None) -> None:
        """A new alert, pending or firing."""
        self._subjects.add(reading.subject)
        self._openings.append(lambda: self._open(rule, reading, state, event))

    def fire(self, rule: AlertRule, alert: Alert, reading: Reading, state: State) -> None:
        """A pending alert fires."""
        alert.why = _why(reading)
        self._urgent.append(lambda: self._fire(rule, alert, state))

    def end(self, alert: Alert, resolution: Resolution) -> None:
        """A firing alert is resolved, a pending one deleted."""
        if alert.state == AlertState.PENDING:
            self._urgent.append(lambda: self._drop(alert))
        else:
            self._urgent.append(lambda: self._resolved(alert, resolution))

    def announce_late(self, rule: AlertRule, alert: Alert) -> None:
        """Notify about an alert that fired while it was silenced, once the silence has ended, unless it has been acknowledged."""
        is_untold = alert.state == AlertState.FIRING and alert.announced_at is None and alert.acknowledged_at is None
        if is_untold and not self._silenced(alert):
            self._urgent.append(lambda: self._announce(rule, alert))

    def remember(self, alert: Alert, state: State) -> None:
        """Since when its value is as it is."""
        self._memory.append(lambda: self._remember(alert, state))

    def refresh(self, alert: Alert) -> None:
        """Its newest value only."""
        self._refreshed.append(alert)

    # --- writing -------------------------------------------------------------------------------------------------------

    def write(self) -> Counter[str]:
        """Write all changes, up to the limits; what was done, by the names of `Evaluated`."""
        total: Counter[str] = Counter()
        subjects = sorted(self._subjects)
        for begin in range(0, len(subjects), BATCH_ALERTS):
            self._owners |= queries.owners_of(subjects[begin : begin + BATCH_ALERTS])
        found = [*self._urgent, *self._openings, *self._memory]
        jobs, total["put_off"] = found[:CHANGES_MAX], max(0, len(found) - CHANGES_MAX)
        for begin in range(0, len(jobs), BATCH_ALERTS):
            with transaction.atomic():
                done = [job() for job in jobs[begin : begin + BATCH_ALERTS]]
            for counts in done:
                total.update(counts)
        stale = sorted(self._refreshed, key=lambda alert: alert.pk)[:REFRESHED_MAX]
        for begin in range(0, len(stale), BATCH_ALERTS):
            batch = stale[begin : begin + BATCH_ALERTS]
            # Values only: no decision of a user is in these columns, so no version needs to be compared.
            Alert.objects.bulk_update(batch, ("last_value", "retries", "reason", "last_seen_at"))
        return total

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


def open_key(rule_id: int, target: str) -> str:
    """What is unique among open alerts."""
    return blake2b(f"{rule_id}\n{target}".encode(), digest_size=32).hexdigest()


def _why(reading: Reading) -> dict[str, Any] | None:
    return reading.why.as_json() if reading.why else None


def _memory(state: State) -> dict[str, datetime | None]:
    return {name: _at(getattr(state, name)) for name in ("held_from", "clear_from", "unknown_from")}


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
