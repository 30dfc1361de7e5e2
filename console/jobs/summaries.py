"""Summaries of broker groups: what Redis keeps for an hour is stored in the database before it goes.

The job stores the whole ten minutes that the history in Redis has and the table has not, and the hours that are over. It may
miss up to five runs: the history still has their time. What was not measured (no collector ran, Redis was emptied, the group had
no master) has no row.
"""

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import redis
from django.conf import settings
from django.db import transaction
from django.db.models import Avg, F, Max, QuerySet

from console.analytics import services
from console.analytics.models import BROKER_GROUP_COLUMNS, BrokerGroupNumbers, TableState
from console.analytics.rows import AT, Window
from console.analytics.steps import Step
from console.jobs.job import Context, Job, JobFailed
from console.jobs.results import Part, Result, counting, result
from console.snapshot.history import SECTIONS, STEP_SECONDS, STEPS
from console.snapshot.many_histories import Histories, read_histories
from qmq.words import counted

TABLE = "broker_group_numbers"
SECTION = "broker_groups"
_MEASURED_MS = STEP_SECONDS * 1000
_STEP = Step.TEN_MINUTES

Row = dict[str, Any]


def summarise(context: Context) -> Result:
    """Store what is due.

    Raises:
        JobFailed: Redis is unavailable.
    """
    try:
        found = read_histories(settings.REDIS_URL, SECTION, None)
    except (redis.RedisError, OSError) as error:
        why = Part("summaries.no_redis", f"Redis is not responding: {error}", {"error": str(error)})
        raise JobFailed(why) from error
    rows = store(found)
    return result(counting("summaries.rows", rows, f"{counted(rows, 'row')} stored"))


def store(found: Histories) -> int:
    """Store what a history has and the table has not; how many rows.

    All of it is one transaction. A run that ends in between changes nothing, and its time is due again.
    """
    end_ms = found.begin_ms + STEPS * _MEASURED_MS
    end_ms -= end_ms % _STEP.ms
    first_ms = found.begin_ms + -found.begin_ms % _STEP.ms
    known = TableState.objects.filter(table=TABLE).values_list("watermark_at", flat=True).first()
    known_ms = first_ms if known is None else int(known.timestamp() * 1000)
    if known_ms > end_ms + Step.HOUR.ms:
        # A clock ran ahead. After a smaller step back what was stored stays, because Redis may have been emptied since.
        known_ms = first_ms
    due = Window(max(first_ms, known_ms), end_ms)
    if due.from_ms >= due.to_ms:
        return 0
    # The hour of the last row was not over then.
    begin_ms = min(due.from_ms, known_ms)
    hours = Window(begin_ms - begin_ms % Step.HOUR.ms, end_ms - end_ms % Step.HOUR.ms)
    end_at = _time(end_ms)
    with transaction.atomic():
        run = services.start_run(SUMMARIES.name, from_at=_time(due.from_ms), to_at=end_at)
        written = services.publish(run, TABLE, ten_minutes(found, due), step=_STEP)
        if hours.from_ms < hours.to_ms:
            written += services.publish(run, TABLE, _hours(hours), step=Step.HOUR, window=hours)
        services.finish_run(run, watermark_at=end_at)
    return written


def ten_minutes(found: Histories, window: Window) -> Iterator[Row]:
    """Yield the rows of whole steps of a history; none for a step in which a group was not measured."""
    fields = SECTIONS[SECTION]
    length = _STEP.ms // _MEASURED_MS
    for name, points in found.series.items():
        for at_ms in range(window.from_ms, window.to_ms, _STEP.ms):
            first = (at_ms - found.begin_ms) // _MEASURED_MS
            measured = [point for point in points[first : first + length] if point is not None]
            row: Row = {AT: at_ms, "broker_group": name}
            for number, field in enumerate(fields):
                values = [point[number] for point in measured if not math.isnan(point[number])]
                column = BROKER_GROUP_COLUMNS[field]
                row[f"{column}_max"] = _number(max(values)) if values else None
                row[f"{column}_mean"] = _number(math.fsum(values) / len(values)) if values else None
            if any(row[f"{column}_mean"] is not None for column in BROKER_GROUP_COLUMNS.values()):
                yield row


def _hours(window: Window) -> Iterator[Row]:
    """Yield the rows of whole hours, from the stored ten minutes of each, of which every one counts the same."""
    found: QuerySet[Any] = BrokerGroupNumbers._default_manager.filter(
        step_seconds=_STEP.seconds, at_ms__gte=window.from_ms, at_ms__lt=window.to_ms
    )
    by_hour = found.order_by().annotate(hour_ms=F(AT) - F(AT) % Step.HOUR.ms).values("broker_group", "hour_ms")
    columns = BROKER_GROUP_COLUMNS.values()
    highest = {f"of_{column}_max": Max(f"{column}_max") for column in columns}
    mean = {f"of_{column}_mean": Avg(f"{column}_mean") for column in columns}
    for row in by_hour.annotate(**highest, **mean):
        values = {name.removeprefix("of_"): row[name] for name in (*highest, *mean)}
        yield {AT: row["hour_ms"], "broker_group": row["broker_group"], **values}


def _number(value: float) -> float:
    """The seven digits that the history has of a value."""
    return float(f"{value:.7g}")


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


SUMMARIES = Job(
    "summaries", 600.0, 60.0, "stores the numbers of broker groups of the last hour as summaries", summarise
)
