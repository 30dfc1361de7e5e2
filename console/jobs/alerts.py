"""Alerts: evaluation of rules and delivery of notifications. Each is its own job, so that a slow webhook delays no alert."""

from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from console.alerts.services.delivery import deliver
from console.alerts.services.evaluation import evaluate
from console.jobs.job import Context, Job
from console.jobs.results import Part, Result, counting, result
from console.snapshot.bus import SNAPSHOT_MS, read_stored
from qmq.words import counted


def look(context: Context) -> Result:
    """Evaluate all rules with the collector's latest numbers; without any, they count as unknown."""
    problem = None
    try:
        snapshot, _ = read_stored(settings.REDIS_URL)
    except RedisError as error:
        snapshot, problem = None, Part("alerts.no_data", f"without live data: {error}", {"error": str(error)})
    now = timezone.now()
    if snapshot is not None and now.timestamp() * 1000 - snapshot["at_ms"] > SNAPSHOT_MS:
        # A Redis that was suspended expires keys late; outdated numbers are not used.
        snapshot, problem = None, Part("alerts.outdated_data", "with outdated live data")
    found = evaluate(snapshot["state"] if snapshot is not None else None, now, job_intervals=context.intervals)
    left_out = found.left_out
    return result(
        counting("alerts.readings", found.looked_at, counted(found.looked_at, "reading")),
        counting("alerts.opened", found.opened, f"{found.opened} opened"),
        counting("alerts.fired", found.fired, f"{found.fired} fired"),
        counting("alerts.resolved", found.resolved, f"{found.resolved} resolved"),
        counting("alerts.left_out", left_out, f"{left_out} over the limits ignored") if left_out else None,
        problem,
    )


def notify(context: Context) -> Result:
    """Deliver the notifications that are due."""
    done = deliver(timezone.now())
    return result(
        counting("notifications.delivered", done.delivered, f"{done.delivered} delivered"),
        counting("notifications.retried", done.failed, f"{done.failed} to be retried"),
        counting("notifications.failed", done.given_up, f"{done.given_up} failed permanently"),
    )


ALERTS = Job("alerts", 5.0, 60.0, "evaluates alert rules", look)
NOTIFICATIONS = Job("notifications", 5.0, 60.0, "delivers alert notifications", notify)
