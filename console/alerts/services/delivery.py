"""Delivers the notifications that wait: at least once each, with increasing delays after failures, and a limited number of
attempts.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from console.alerts.models import Alert, Notification, NotificationState
from console.alerts.notifiers import SEND_SECONDS, NotDelivered, Notifier, notifiers
from console.alerts.rules import Event, pause_seconds
from console.alerts.services.channels import note_outcome
from console.sealing import SealBroken
from qmq.clock import Clock, SystemClock

logger = logging.getLogger("qmq.alerts")

ATTEMPTS_MAX = 10
"""Tries of one notification; with the pauses below about an hour and a half."""
PAUSE_SECONDS = 10.0
PAUSE_SECONDS_MAX = 1_800.0
CLAIM_SECONDS = 60
"""Time for which a process claims a notification: longer than an attempt takes; afterwards any process can claim it."""
RUN_SECONDS_MAX = 30.0
"""After this long a run begins no further attempt."""
assert CLAIM_SECONDS > 2 * SEND_SECONDS


@dataclass(frozen=True, slots=True)
class Delivered:
    """What a run did."""

    delivered: int = 0
    failed: int = 0
    """Will be tried again."""
    given_up: int = 0


def deliver(
    now: datetime, limit: int = 100, *, using: Mapping[str, Notifier] | None = None, clock: Clock | None = None
) -> Delivered:
    """Send what is due, at most `limit` notifications and for at most RUN_SECONDS_MAX.

    A channel that fails is skipped for the rest of the run, so that it can't hold up the others.
    """
    ticks, senders = clock or SystemClock(), using or notifiers()
    end = ticks.monotonic() + RUN_SECONDS_MAX
    due = Notification.objects.filter(state=NotificationState.WAITING, next_at__lte=now)
    rows = list(due.select_related("channel").order_by("next_at", "id")[:limit])
    broken: set[int] = set()
    counts = {"delivered": 0, "failed": 0, "given_up": 0}
    for row in rows:
        if ticks.monotonic() >= end:
            break
        if row.channel_id in broken or _waits_for_another(row) or not _claim(row, now):
            continue
        error = _send(row, senders)
        if error:
            broken.add(row.channel_id)
        counts[_record_attempt(row, error, now)] += 1
    return Delivered(**counts)


def _waits_for_another(row: Notification) -> bool:
    """Whether the resolution of an alert would be delivered before its firing."""
    if row.event != Event.RESOLVED:
        return False
    beginning = Notification.objects.filter(alert=row.alert_id, channel=row.channel_id, event=Event.FIRING)
    return beginning.filter(state=NotificationState.WAITING).exists()


def _claim(row: Notification, now: datetime) -> bool:
    """Claim a notification for one attempt; the process that increments the count first has it."""
    mine = Notification.objects.filter(pk=row.pk, state=NotificationState.WAITING, attempts=row.attempts)
    taken = mine.update(attempts=row.attempts + 1, next_at=now + timedelta(seconds=CLAIM_SECONDS))
    row.attempts += taken
    return taken == 1


def _send(row: Notification, senders: Mapping[str, Notifier]) -> str:
    """One attempt; the error, or ""."""
    if not row.channel.is_enabled:
        return "the channel is disabled"
    try:
        senders[row.channel.kind].send(row.channel, str(row.pk), row.body)
    except (NotDelivered, SealBroken) as error:
        logger.warning("notification %s to %s, attempt %d: %s", row.pk, row.channel.name, row.attempts, error)
        return str(error) or type(error).__name__
    return ""


def _record_attempt(row: Notification, error: str, now: datetime) -> str:
    mine = Notification.objects.filter(pk=row.pk, state=NotificationState.WAITING, attempts=row.attempts)
    with transaction.atomic():
        if row.channel.is_enabled:
            note_outcome(row.channel, now, error)
        if not error:
            if mine.update(state=NotificationState.DELIVERED, delivered_at=now, last_error=""):
                Alert.objects.filter(pk=row.alert_id).update(notified_count=F("notified_count") + 1)
            return "delivered"
        if row.attempts >= ATTEMPTS_MAX or not row.channel.is_enabled:
            if mine.update(state=NotificationState.GIVEN_UP, last_error=error[:500]):
                Alert.objects.filter(pk=row.alert_id).update(failed_count=F("failed_count") + 1)
            return "given_up"
        pause = timedelta(seconds=pause_seconds(row.attempts, PAUSE_SECONDS, PAUSE_SECONDS_MAX))
        mine.update(next_at=now + pause, last_error=error[:500])
        return "failed"
