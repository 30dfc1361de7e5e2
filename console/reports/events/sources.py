"""Where events come from: the audit log, alerts, and what the collector saw. Each source reads at most one page of rows."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, QuerySet
from django.db.models.functions import Left

from console.alerts.models import Alert
from console.alerts.rules import Kind
from console.models import SystemEvent
from console.reports.events.kinds import (
    ACTIONS,
    BROKER_GROUP_ALERTS,
    FAILED,
    GROUP_ALERTS,
    KIND_OF,
    NODE_ALERTS,
    OF_BROKER_GROUP,
    OF_CONSUMER_GROUP,
    OF_NODE,
    OF_SUBJECT,
    PUBLIC,
    SERVING,
    SERVING_ACTIONS,
    WARNINGS,
    EventKind,
    EventSeverity,
)
from metaserver import queries
from metaserver.services.audit import READ, STEPS

_OF_SYSTEM = (EventKind.STATE, EventKind.UNREACHABLE, EventKind.REACHABLE, EventKind.RESTART, EventKind.JOB)
NONE = Q(pk__in=[])


@dataclass(frozen=True, slots=True)
class About:
    """What events concern; names that are "" do not matter. `broker_groups` serve the subject, if one is named."""

    subject: str = ""
    group: str = ""
    broker_groups: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    """Those of the broker group, unless a subject is named."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events are read. Empty `kinds` and `severities`: all."""

    since: datetime
    until: datetime
    kinds: frozenset[EventKind] = frozenset()
    severities: frozenset[EventSeverity] = frozenset()
    about: About | None = None
    """None: everything."""
    may_read_audit: bool = False

    def has_kind(self, *kinds: EventKind) -> bool:
        """Whether events of one of these kinds are read."""
        return not self.kinds or not self.kinds.isdisjoint(kinds)

    def has_severity(self, severity: str) -> bool:
        """Whether events of this severity are read."""
        return not self.severities or severity in self.severities


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page ends: the time, source and row of its last event."""

    at: datetime
    source: int
    row: int


def _starts(beginnings: Collection[str]) -> Q:
    return reduce(or_, (Q(action__startswith=beginning) for beginning in beginnings), NONE)


def _audit(wanted: Wanted) -> "QuerySet[Any]":
    rows = queries.audit_entries()
    # What concerns one thing includes the changes of documents. Few entries have its name, so that the rest costs little.
    rows = rows.filter(is_event=True) if wanted.about is None else rows.exclude(action__in=STEPS)
    if not wanted.may_read_audit:
        rows = rows.filter(_starts(PUBLIC))
    if wanted.about is not None:
        rows, is_wanted = _audit_about(rows, wanted.about)
        rows = rows.filter(is_wanted).exclude(action__endswith=READ)
    if wanted.kinds:
        of_kind = Q(action__in=[action for kind in wanted.kinds for action in ACTIONS.get(kind, ())])
        rows = rows.filter(of_kind | ~Q(action__in=list(KIND_OF)) if EventKind.CHANGE in wanted.kinds else of_kind)
    return rows.filter(_audit_severities(wanted.severities)) if wanted.severities else rows


def _audit_about(rows: "QuerySet[Any]", about: About) -> tuple["QuerySet[Any]", Q]:
    if not about.subject:
        of_group = _starts(OF_BROKER_GROUP) & Q(target__in=about.broker_groups)
        return rows, of_group | (_starts(OF_NODE) & Q(target__in=about.nodes))
    rows, of_subject = _of_subject(rows, about)
    serving = Q(action__in=SERVING_ACTIONS, target__in=about.broker_groups)
    return rows, (_starts(OF_SUBJECT) & Q(target=about.subject)) | (_starts(OF_CONSUMER_GROUP) & of_subject) | serving


def _of_subject(rows: "QuerySet[Any]", about: About) -> tuple["QuerySet[Any]", Q]:
    """Rows whose target is a consumer group of the subject, or this one. Not `startswith`: SQLite's ignores case."""
    if about.group:
        return rows, Q(target=f"{about.subject}/{about.group}")
    beginning = f"{about.subject}/"
    return rows.alias(beginning_of_target=Left("target", len(beginning))), Q(beginning_of_target=beginning)


def _audit_severities(severities: Collection[EventSeverity]) -> Q:
    states = Q(action__in=ACTIONS[EventKind.STATE])
    critical = states & Q(after__state="offline")
    limited = states & (Q(after__state="read_only") | Q(after__state="write_only"))
    warning = limited | Q(action__in=WARNINGS) | Q(action__endswith=FAILED)
    of_severity = {EventSeverity.CRITICAL: critical, EventSeverity.WARNING: warning}
    found = reduce(or_, (of_severity[severity] for severity in severities if severity in of_severity), NONE)
    return found | ~(critical | warning) if EventSeverity.INFO in severities else found


def _alerts(wanted: Wanted) -> "QuerySet[Any]":
    rows: QuerySet[Any] = Alert.objects.all()
    about = wanted.about
    if about is None:
        return rows
    of_broker_group = Q(kind__in=BROKER_GROUP_ALERTS, target__in=about.broker_groups)
    if not about.subject:
        return rows.filter(of_broker_group | Q(kind__in=NODE_ALERTS, target__in=about.nodes))
    rows, of_subject = _of_subject(rows, about)
    of_itself = NONE if about.group else Q(kind=Kind.ANOMALY, target=about.subject)
    return rows.filter((Q(kind__in=GROUP_ALERTS) & of_subject) | of_itself | of_broker_group)


def _fired(wanted: Wanted) -> "QuerySet[Any]":
    rows = _alerts(wanted).filter(fired_at__isnull=False) if wanted.has_kind(EventKind.ALERT_FIRED) else None
    if rows is None:
        return Alert.objects.none()
    return rows.filter(severity__in=wanted.severities) if wanted.severities else rows


def _resolved(wanted: Wanted) -> "QuerySet[Any]":
    if not wanted.has_kind(EventKind.ALERT_RESOLVED) or not wanted.has_severity(EventSeverity.INFO):
        return Alert.objects.none()
    return _alerts(wanted).filter(resolved_at__isnull=False)


def _system(wanted: Wanted) -> "QuerySet[Any]":
    if not wanted.has_kind(*_OF_SYSTEM):
        return SystemEvent.objects.none()
    rows: QuerySet[Any] = SystemEvent.objects.all()
    if wanted.kinds:
        rows = rows.filter(kind__in=wanted.kinds)
    if wanted.severities:
        rows = rows.filter(severity__in=wanted.severities)
    if (about := wanted.about) is None:
        return rows
    rows = rows.filter(broker_group__in=about.broker_groups)
    return rows.filter(kind__in=(*SERVING, EventKind.UNREACHABLE, EventKind.RESTART)) if about.subject else rows


@dataclass(frozen=True, slots=True)
class Source:
    """A table of which rows are events, at the time in one of its columns."""

    name: str
    at: str
    rows: Callable[[Wanted], "QuerySet[Any]"]


AUDIT, RESOLVED, FIRED, SYSTEM = range(4)
SOURCES = (
    Source("audit", "at", _audit),
    Source("resolved", "resolved_at", _resolved),
    Source("fired", "fired_at", _fired),
    Source("system", "at", _system),
)
"""At one time, events of a later source come first."""


def newest(wanted: Wanted, place: Place | None, most: int) -> Iterator[tuple[Place, Any]]:
    """Yield the rows of each source below a place, newest first, at most `most` of each; the sources are not merged."""
    for number, source in enumerate(SOURCES):
        at = source.at
        rows = source.rows(wanted).filter(**{f"{at}__gte": wanted.since, f"{at}__lt": wanted.until})
        if place is not None:
            below = Q(**{f"{at}__lt": place.at})
            if number < place.source:
                below = Q(**{f"{at}__lte": place.at})
            elif number == place.source:
                below |= Q(**{at: place.at}, pk__lt=place.row)
            rows = rows.filter(below)
        for row in rows.order_by(f"-{at}", "-pk")[:most]:
            yield Place(getattr(row, at), number, row.pk), row
