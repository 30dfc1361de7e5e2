"""Heartbeat expiry: a broker group whose master's lease ran out is taken offline.

Metaservers do so by themselves within a second of the expiry, and tell clients. This loop is for when none of them could:
it goes by the leases they stored, and judges nobody unless a metaserver has heard and stored without a pause for longer
than the silence it would punish: the pause of a metaserver, or of the database, is nobody's death.
"""

from datetime import timedelta

from django.utils import timezone

from console.tasks.loops import Context, Loop, register
from metaserver import queries
from metaserver.services import broker_groups

SILENT_SECONDS = 9.0
"""Expiry (6 s) and the time until a lease is stored (2 s), and one more."""
METASERVER_FRESH_SECONDS = 4.0


def expire(context: Context) -> str:
    """Take silent groups offline."""
    now = timezone.now()
    since = queries.hearing_since(now, METASERVER_FRESH_SECONDS)
    if since is None:
        return "no metaserver is storing heartbeats; nodes are not checked"
    if now - since < timedelta(seconds=SILENT_SECONDS):
        return "a metaserver has just started; nodes are not checked yet"
    gone = []
    for name, leased_at in queries.silent_groups(now, SILENT_SECONDS):
        reason = (
            f"last heartbeat {(now - leased_at).total_seconds():.1f} s ago" if leased_at is not None else "no heartbeat"
        )
        if broker_groups.expire_group(name, silent_seconds=SILENT_SECONDS, actor=context.actor, reason=reason):
            gone.append(name)
    return f"taken offline: {', '.join(gone)}" if gone else "all groups reachable"


HEARTBEATS = register(Loop("heartbeats", 2.0, 10.0, "takes broker groups without heartbeats offline", expire))
