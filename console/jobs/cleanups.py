"""Deletes expired rows: stored answers of repeated requests, sessions, clients not seen long, old alerts, events and summaries."""

from datetime import datetime, timedelta

from django.contrib.sessions.models import Session
from django.utils import timezone

from console.accounts.sessions import forget_expired
from console.alerts.services import closing
from console.analytics import retention
from console.jobs.job import Context, Job
from console.jobs.results import Result, counting, result
from console.models import ANSWERS_KEPT, IdempotencyKey, SystemEvent
from metaserver.services import routes
from metaserver.services.changes import delete_some
from qmq.words import counted

KEEP_CLIENTS = timedelta(days=7)
KEEP_EVENTS = timedelta(days=90)
EVENTS_MAX = 100_000
"""Newest events that are kept, if nodes come and go all the time."""
ROWS_MAX = 5_000
"""Rows of a kind deleted in one run; of summaries as many as there is time for."""
RESERVE_SECONDS = 60.0
"""Time of a run that summaries leave."""


def clean_up(context: Context) -> Result:
    """Delete expired rows, a bounded number at a time."""
    now = timezone.now()
    answers = delete_some(IdempotencyKey.objects.filter(created_at__lt=now - ANSWERS_KEPT), ROWS_MAX)
    sessions = delete_some(Session.objects.filter(expire_date__lt=now), ROWS_MAX) + forget_expired(ROWS_MAX)
    past_alerts = closing.forget_old(now)
    clients = routes.forget_clients(KEEP_CLIENTS, ROWS_MAX)
    events = _forget_events(now)
    summaries = retention.forget_old(now, is_time_up=lambda: context.seconds_left < RESERVE_SECONDS)
    return result(
        counting("cleanups.keys", answers, f"deleted {counted(answers, 'idempotency key')}"),
        counting("cleanups.sessions", sessions, counted(sessions, "session")),
        counting("cleanups.clients", clients, counted(clients, "client")),
        counting("cleanups.alerts", past_alerts, f"{past_alerts} alerts and silences"),
        counting("cleanups.events", events, counted(events, "event")),
        counting("cleanups.summaries", summaries, counted(summaries, "summary", "summaries")),
    )


def _forget_events(now: datetime) -> int:
    """Delete events that are older than KEEP_EVENTS or beyond the newest EVENTS_MAX."""
    limit = SystemEvent.objects.order_by("-at").values_list("at", flat=True)[EVENTS_MAX : EVENTS_MAX + 1].first()
    old = max(now - KEEP_EVENTS, limit or now - KEEP_EVENTS)
    return delete_some(SystemEvent.objects.filter(at__lte=old).order_by("at"), ROWS_MAX)


CLEANUPS = Job("cleanups", 600.0, 120.0, "deletes expired rows from the database", clean_up)
