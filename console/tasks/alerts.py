"""Alerts: rules are looked at, notifications are delivered. Each is its own loop, so that a slow webhook delays no alert."""

from django.conf import settings
from django.utils import timezone
from redis.exceptions import RedisError

from console.alerts.services.delivery import deliver
from console.alerts.services.evaluation import evaluate
from console.live.bus import SNAPSHOT_MS, read_stored
from console.tasks.loops import Context, Loop, loop_intervals, register
from qmq.words import counted


def look(context: Context) -> str:
    """Look at every rule, with the collector's newest numbers; without any, they count as unknown."""
    why = ""
    try:
        snapshot, _ = read_stored(settings.REDIS_URL)
    except RedisError as error:
        snapshot, why = None, f", without live data: {error}"
    now = timezone.now()
    if snapshot is not None and now.timestamp() * 1000 - snapshot["at_ms"] > SNAPSHOT_MS:
        # A Redis that stood still forgets late; old numbers are none.
        snapshot, why = None, ", with outdated live data"
    intervals = loop_intervals()
    found = evaluate(snapshot["state"] if snapshot is not None else None, now, loop_intervals=intervals)
    done = f"{found.opened} opened, {found.fired} fired, {found.resolved} resolved"
    left = f", {found.left_out} over the limits ignored" if found.left_out else ""
    return f"{counted(found.looked_at, 'reading')}: {done}{left}{why}"


def notify(context: Context) -> str:
    """Deliver what is due."""
    done = deliver(timezone.now())
    return f"{done.delivered} delivered, {done.failed} to be retried, {done.given_up} failed permanently"


ALERTS = register(Loop("alerts", 5.0, 60.0, "evaluates alert rules", look))
NOTIFICATIONS = register(Loop("notifications", 5.0, 60.0, "delivers alert notifications", notify))
