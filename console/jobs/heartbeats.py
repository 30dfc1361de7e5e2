"""Heartbeat expiry: a broker group whose master's lease ran out is taken offline.

Metaservers do so themselves within a second of the expiry, and notify clients. This job covers the case that none of them
could. It uses the leases they stored, and acts only if a metaserver has received and stored heartbeats without a pause for
longer than the expiry: a pause of a metaserver, or of the database, takes no node offline.
"""

from datetime import timedelta

from django.utils import timezone

from console.jobs.job import TEXT_CHARS_MAX, Context, Job
from console.jobs.results import Part, Result, result
from metaserver import queries
from metaserver.memory.live_groups import STORED_LEASE_SECONDS, offline_seconds
from metaserver.services import broker_groups
from qmq.protocol.reasons import Code, Reason


def silent_seconds(members: int) -> float:
    """Return how old the stored lease of a group of this size may become: metaservers announce it as offline before."""
    return offline_seconds(members) + STORED_LEASE_SECONDS


def expire(context: Context) -> Result:
    """Mark groups without heartbeats as offline."""
    now = timezone.now()
    since = queries.hearing_since(now, queries.METASERVER_FRESH_SECONDS)
    if since is None:
        return result(Part("heartbeats.no_metaserver", "no metaserver is storing heartbeats; nodes are not checked"))
    if now - since < timedelta(seconds=silent_seconds(1)):
        return result(Part("heartbeats.just_started", "a metaserver has just started; nodes are not checked yet"))
    gone = []
    for name, members, leased_at in queries.silent_groups(now, silent_seconds(1)):
        seconds = silent_seconds(members)
        if now - max(since, leased_at or since) < timedelta(seconds=seconds):
            continue
        reason = Reason.of(Code.NO_HEARTBEAT)
        if leased_at is not None:
            reason = Reason.of(Code.HEARTBEATS_MISSING, seconds=round((now - leased_at).total_seconds(), 1))
        if broker_groups.expire_group(name, silent_seconds=seconds, actor=context.actor, reason=reason):
            gone.append(name)
    if not gone:
        return result(Part("heartbeats.reachable", "all groups reachable"))
    groups = ", ".join(gone)
    return result(Part("heartbeats.offline", f"taken offline: {groups}", {"groups": groups[:TEXT_CHARS_MAX]}))


HEARTBEATS = Job("heartbeats", 2.0, 10.0, "marks broker groups without heartbeats as offline", expire)
