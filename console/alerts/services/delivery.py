"""Delivers the notifications that wait: at least once each, with increasing delays after failures, and a limited number of
attempts.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from console.alerts.http import SEND_SECONDS, NotDelivered, RateLimited
from console.alerts.models import Alert, AlertChannel, Notification, NotificationState
from console.alerts.notifiers import Notifier, notifiers
from console.alerts.rules import Event, pause_seconds
from console.alerts.services.channels import note_outcome, pause
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
    """Send what is due, at most `limit` notifications and for at most RUN_SECONDS_MAX; for each chat as one message.

    A channel that fails is skipped for the rest of the run, so that it can't hold up the others. One whose server limits the
    rate is left alone for the time that the server asks for.
    """
    ticks, senders = clock or SystemClock(), using or notifiers()
    end = ticks.monotonic() + RUN_SECONDS_MAX
    is_allowed = Q(channel__paused_until__isnull=True) | Q(channel__paused_until__lte=now)
    due = Notification.objects.filter(is_allowed, state=NotificationState.WAITING, next_at__lte=now)
    rows = list(due.select_related("channel").order_by("next_at", "id")[:limit])
    broken: set[int] = set()
    counts = {"delivered": 0, "failed": 0, "given_up": 0}
    for message in _messages(rows, senders):
        channel = message[0].channel
        if ticks.monotonic() >= end:
            break
        if channel.pk in broken:
            continue
        claimed = [row for row in message if not _waits_for_another(row) and _claim(row, now)]
        if not claimed:
            continue
        outcome = _send(channel, claimed, senders[channel.kind])
        if outcome.error:
            broken.add(channel.pk)
        for result in _record_attempt(channel, claimed, outcome, now):
            counts[result] += 1
    return Delivered(**counts)


def _messages(rows: Iterable[Notification], senders: Mapping[str, Notifier]) -> list[list[Notification]]:
    """Notifications by message, in the order of the first of each."""
    messages: list[list[Notification]] = []
    newest: dict[int, list[Notification]] = {}
    for row in rows:
        message = newest.get(row.channel_id)
        if message is None or len(message) >= senders[row.channel.kind].batch_max:
            message = newest[row.channel_id] = []
            messages.append(message)
        message.append(row)
    return messages


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


@dataclass(frozen=True, slots=True)
class _Outcome:
    """How an attempt went ("": well), and for how long the server wants nothing more."""

    error: str = ""
    pause_seconds: float = 0.0


def _send(channel: AlertChannel, rows: Sequence[Notification], sender: Notifier) -> _Outcome:
    """One attempt."""
    if not channel.is_enabled:
        return _Outcome("the channel is disabled")
    try:
        sender.send(channel, str(rows[0].pk), [row.body for row in rows])
    except (NotDelivered, SealBroken) as error:
        logger.warning("notification %s to %s, attempt %d: %s", rows[0].pk, channel.name, rows[0].attempts, error)
        return _Outcome(str(error) or type(error).__name__, error.seconds if isinstance(error, RateLimited) else 0.0)
    return _Outcome()


def _record_attempt(channel: AlertChannel, rows: Sequence[Notification], outcome: _Outcome, now: datetime) -> list[str]:
    """Store what became of the notifications of a message; the counter of each."""
    with transaction.atomic():
        if channel.is_enabled:
            note_outcome(channel, now, outcome.error)
        if outcome.pause_seconds:
            pause(channel, now, outcome.pause_seconds)
        return [_record(row, channel, outcome, now) for row in rows]


def _record(row: Notification, channel: AlertChannel, outcome: _Outcome, now: datetime) -> str:
    mine = Notification.objects.filter(pk=row.pk, state=NotificationState.WAITING, attempts=row.attempts)
    error = outcome.error[:500]
    if not error:
        if mine.update(state=NotificationState.DELIVERED, delivered_at=now, last_error=""):
            Alert.objects.filter(pk=row.alert_id).update(notified_count=F("notified_count") + 1)
        return "delivered"
    if row.attempts >= ATTEMPTS_MAX or not channel.is_enabled:
        if mine.update(state=NotificationState.GIVEN_UP, last_error=error):
            Alert.objects.filter(pk=row.alert_id).update(failed_count=F("failed_count") + 1)
        return "given_up"
    seconds = max(outcome.pause_seconds, pause_seconds(row.attempts, PAUSE_SECONDS, PAUSE_SECONDS_MAX))
    mine.update(next_at=now + timedelta(seconds=seconds), last_error=error)
    return "failed"
