"""Writes notifications in the transaction of the change that they report; `delivery` sends them."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Count

from console.alerts.models import Alert, AlertChannel, Notification, NotificationState
from console.alerts.rules import Event
from console.times import rfc3339

WAITING_OF_A_CHANNEL_MAX = 1_000
"""Maximum number of pending notifications of one channel; above it alerts are shown but not notified."""


class Notifications:
    """What waits for each channel, counted once and kept up to date as notifications are written."""

    def __init__(self) -> None:
        waiting = Notification.objects.filter(state=NotificationState.WAITING).order_by()
        counted = waiting.values("channel").annotate(count=Count("pk")).values_list("channel", "count")
        self._waiting: dict[int, int] = dict(counted)

    def notify(self, alert: Alert, event: Event, channels: Iterable[AlertChannel], now: datetime) -> tuple[int, int]:
        """Write an alert's notifications; how many, and how many did not fit. In the caller's transaction."""
        rows, refused = [], 0
        for channel in channels:
            if not channel.is_enabled:
                continue
            if self._waiting.get(channel.pk, 0) >= WAITING_OF_A_CHANNEL_MAX:
                refused += 1
                continue
            self._waiting[channel.pk] = self._waiting.get(channel.pk, 0) + 1
            rows.append(
                Notification(
                    alert=alert, channel=channel, event=event, body=body_of(alert, event), next_at=now, created_at=now
                )
            )
        Notification.objects.bulk_create(rows)
        return len(rows), refused

    def notify_resolved(self, alert: Alert, now: datetime) -> tuple[int, int]:
        """Notify the recipients of the firing notification."""
        notified = AlertChannel.objects.filter(notifications__alert=alert, notifications__event=Event.FIRING)
        return self.notify(alert, Event.RESOLVED, notified, now)


def body_of(alert: Alert, event: Event) -> dict[str, Any]:
    """What a webhook gets; e-mails are written from it."""
    return {
        "event": str(event),
        "alert": {
            "id": str(alert.pk),
            "rule": alert.rule_name,
            "kind": str(alert.kind),
            "severity": str(alert.severity),
            "target": alert.target,
            "owner": alert.owner or None,
            "value": alert.last_value,
            "retries": alert.retries,
            "threshold": alert.threshold,
            "why": alert.why,
            "since": rfc3339(alert.since),
            "fired_at": rfc3339(alert.fired_at) if alert.fired_at else None,
            "resolved_at": rfc3339(alert.resolved_at) if alert.resolved_at else None,
            "resolution": str(alert.resolution) or None,
        },
        "sent_by": "pyqmq",
    }
