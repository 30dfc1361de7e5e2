"""Events as codes and values, of which the console makes sentences, from the rows of each source. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from console.alerts.models import Alert
from console.alerts.readings import COLLECTOR
from console.alerts.rules import Kind
from console.jobs.jobs import JOBS
from console.models import SystemEvent
from console.reports.events.kinds import (
    BROKER_GROUP_ALERTS,
    GROUP_ALERTS,
    KIND_OF,
    NODE_ALERTS,
    OF_BROKER_GROUP,
    OF_CONSUMER_GROUP,
    OF_NODE,
    OF_SUBJECT,
    EventKind,
    EventSeverity,
    severity_of,
)
from console.reports.events.sources import FIRED, SOURCES, Place
from metaserver.services.memberships import WHY

FIELDS_MAX = 8
"""Names of changed fields that an event has."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Names are "" where there is none."""

    id: str
    at: datetime
    kind: EventKind
    severity: EventSeverity
    target: str
    action: str = ""
    """Of an audited change."""
    subject: str = ""
    group: str = ""
    broker_group: str = ""
    node: str = ""
    actor: str = ""
    """Who made the change; "" if that is not known, or not to be shown."""
    reason: str = ""
    why: Mapping[str, Any] | None = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """What the sentence mentions, by kind."""


def _id(place: Place) -> str:
    return f"{SOURCES[place.source].name}-{place.row}"


def _of_audit(place: Place, row: Any) -> Event:
    action, before, after = row.action, _mapping(row.before), _mapping(row.after)
    kind = KIND_OF.get(action, EventKind.CHANGE)
    severity = severity_of(action, str(after.get("state", "")))
    names: dict[str, Any] = {}
    if action.startswith(OF_CONSUMER_GROUP):
        names["subject"], _, names["group"] = row.target.partition("/")
    elif action.startswith(OF_SUBJECT):
        names["subject"] = row.target
    elif action.startswith(OF_BROKER_GROUP):
        names["broker_group"] = row.target
    elif action.startswith(OF_NODE):
        names["node"] = row.target
    why = after.pop(WHY, None)
    return Event(
        _id(place), place.at, kind, severity, row.target, action, actor=row.actor, reason=row.reason,
        why=why if isinstance(why, Mapping) else None, values=_values(kind, before, after), **names,
    )  # fmt: skip


def _mapping(found: Any) -> dict[str, Any]:
    return dict(found) if isinstance(found, Mapping) else {}


def _values(kind: EventKind, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case EventKind.FAILOVER | EventKind.SWITCH_OVER:
            found = {"master": after.get("master"), "previous": before.get("master"), "epoch": after.get("epoch")}
            return {name: value for name, value in found.items() if value is not None}
        case EventKind.IN_SYNC | EventKind.MEMBERS:
            column = "in_sync" if kind is EventKind.IN_SYNC else "members"
            old, new = _names(before.get(column)), _names(after.get(column))
            return {
                "joined": [name for name in new if name not in old],
                "left": [name for name in old if name not in new],
            }
        case EventKind.STATE:
            return {"before": str(before.get("state", "")), "after": str(after.get("state", ""))}
        case EventKind.DEPLOYMENT:
            return {name: count for name, count in after.items() if isinstance(count, int)}
        case EventKind.CHANGE:
            changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
            return {"fields": changed[:FIELDS_MAX] if before and after else []}
    return {}


def _names(found: Any) -> list[str]:
    return [str(name) for name in found] if isinstance(found, list) else []


def _of_alert(place: Place, row: Alert) -> Event:
    is_fired = place.source == FIRED
    kind = EventKind.ALERT_FIRED if is_fired else EventKind.ALERT_RESOLVED
    severity = EventSeverity(row.severity) if is_fired else EventSeverity.INFO
    values = {"alert": str(row.pk), "rule": row.rule_name, "kind": row.kind, "threshold": row.threshold}
    values |= {"value": row.value} if is_fired else {"resolution": row.resolution}
    names: dict[str, Any] = {}
    if row.kind in GROUP_ALERTS and "/" in row.target:
        names["subject"], _, names["group"] = row.target.partition("/")
    elif row.kind == Kind.ANOMALY:
        names["subject"] = row.target
    elif row.kind in BROKER_GROUP_ALERTS:
        names["broker_group"] = row.target
    elif row.kind in NODE_ALERTS and row.target != COLLECTOR and row.target not in JOBS:
        names["node"] = row.target
    why = row.why if is_fired else None
    return Event(_id(place), place.at, kind, severity, row.target, why=why, values=values, **names)


def _of_system(place: Place, row: SystemEvent) -> Event:
    kind = EventKind(row.kind)
    node = "" if kind is EventKind.JOB else row.target
    values = {"before": row.before, "after": row.after}
    return Event(
        _id(place), place.at, kind, EventSeverity(row.severity), row.target, broker_group=row.broker_group, node=node,
        reason=row.reason, why=row.why, values=values,
    )  # fmt: skip


_MAKERS: tuple[Callable[[Place, Any], Event], ...] = (_of_audit, _of_alert, _of_alert, _of_system)
"""By number of the source."""


def event_of(place: Place, row: Any) -> Event:
    """Return the event of a row."""
    return _MAKERS[place.source](place, row)
