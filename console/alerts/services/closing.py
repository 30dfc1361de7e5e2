"""Changes of an alert that compare its version, the end of open alerts, and what of the past is kept."""

from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet

from console.alerts.models import Alert, AlertState, Resolution, Silence
from console.alerts.services.notifications import Notifications
from metaserver.services.changes import delete_some

KEEP = timedelta(days=90)
BATCH_ROWS = 500


def close_alerts(alerts: "QuerySet[Alert]", resolution: Resolution, now: datetime) -> int:
    """End open alerts whatever their value, in the caller's transaction; how many."""
    notifications, closed = Notifications(), 0
    for alert in alerts.select_for_update():
        if alert.state == AlertState.PENDING:
            alert.delete()
        else:
            closed += resolve(alert, resolution, now, notifications)[0]
    return closed


def resolve(alert: Alert, resolution: Resolution, now: datetime, notifications: Notifications) -> tuple[int, int, int]:
    """End a firing alert: alerts resolved (0 or 1), notifications written, notifications that did not fit."""
    changed = change_alert(
        alert, state=AlertState.RESOLVED, resolved_at=now, resolution=resolution, open_key=None, held_from=None,
        clear_from=None, unknown_from=None, place=milliseconds(alert.since), **last_values(alert),
    )  # fmt: skip
    if not changed:
        return 0, 0, 0
    # Channels that were notified that it fires get its end too, silenced or not: an open page is closed.
    notified, refused = notifications.notify_resolved(alert, now) if alert.announced_at is not None else (0, 0)
    return 1, notified, refused


def change_alert(alert: Alert, **values: Any) -> bool:
    """Set columns of an alert unless it was changed since it was read."""
    mine = Alert.objects.filter(pk=alert.pk, version=alert.version)
    if mine.update(version=F("version") + 1, **values) != 1:
        return False
    for name, value in values.items():
        setattr(alert, name, value)
    alert.version += 1
    return True


def last_values(alert: Alert) -> dict[str, Any]:
    """Return the columns that every look writes."""
    return {name: getattr(alert, name) for name in ("last_value", "retries", "reason", "last_seen_at")}


def milliseconds(at: datetime) -> int:
    """Return milliseconds since the epoch, by which alerts are ordered."""
    return int(at.timestamp() * 1000)


def forget_old(now: datetime) -> int:
    """Delete resolved alerts (with their notifications) and silences that ended KEEP ago, at most BATCH_ROWS of each; how
    many. To be called again and again: with little at a time no lock lasts."""
    old = now - KEEP
    alerts = Alert.objects.filter(state=AlertState.RESOLVED, resolved_at__lt=old).order_by("resolved_at")
    silences = Silence.objects.filter(ends_at__lt=old).order_by("ends_at")
    return delete_some(alerts, BATCH_ROWS) + delete_some(silences, BATCH_ROWS)
