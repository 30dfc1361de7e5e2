"""What rules evaluate now: the collector's snapshot, and what the database knows."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

from console.alerts import readings
from console.alerts.readings import JobRun, Reading
from console.alerts.rules import ROLE_CHANGES_SECONDS, Kind
from console.models import BackgroundJob
from console.outbox.queries import enabled_numbers
from metaserver import queries

URGENT = frozenset({Kind.GROUP_STATE, Kind.DISK_STUCK})
"""Kinds that are evaluated as soon as what they are about changes (console/collector/urgent.py): few, and read with few queries."""


def current_readings(
    snapshot: Mapping[str, Any] | None, now: datetime, job_intervals: Mapping[str, float]
) -> Iterator[Reading]:
    """Readings of all kinds but dead letters, which are counted over time (`readings.of_dead_letters`), and but those of
    analytics (`forecast_readings`)."""
    changed_since = now - timedelta(seconds=ROLE_CHANGES_SECONDS)
    groups = queries.all_members(now)
    return chain(
        readings.of_broker_groups(groups, snapshot, now.timestamp()),
        readings.of_members(groups, queries.role_changes(changed_since)),
        readings.of_jobs(_jobs(now, job_intervals)),
        readings.of_outboxes(enabled_numbers(now)),
        readings.of_snapshot(snapshot),
    )


def urgent_readings(snapshot: Mapping[str, Any] | None, now: datetime) -> Iterator[Reading]:
    """Readings of the kinds in URGENT."""
    groups, nodes = queries.all_members(now), readings.of_nodes(snapshot)
    found = chain(readings.of_broker_groups(groups, snapshot, now.timestamp()), nodes)
    return (reading for reading in found if reading.kind in URGENT)


def _jobs(now: datetime, intervals: Mapping[str, float]) -> Iterator[JobRun]:
    for row in BackgroundJob.objects.filter(is_enabled=True, name__in=list(intervals)):
        ago = None if row.succeeded_at is None else (now - row.succeeded_at).total_seconds()
        yield JobRun(row.name, intervals[row.name], ago, row.is_new(now))
