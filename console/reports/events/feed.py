"""Pages of events: the sources merged by time, newest first."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from console.reports.events.kinds import EventKind
from console.reports.events.rows import Event, event_of
from console.reports.events.sources import About, Place, Wanted, newest
from metaserver import queries

KEPT = timedelta(days=90)
"""How far back events can be read. The audit log goes further."""
_PROCESSES = frozenset({"metaserver", "system"})
_JOB = "job "


@dataclass(frozen=True, slots=True)
class Page:
    """Events, newest first; `next` is where the following page begins, None at the end."""

    events: list[Event]
    next: Place | None


def about_subject(subject: str, group: str = "") -> About:
    """What concerns a subject, or one of its consumer groups: also what happens to the broker groups that serve it."""
    return About(subject, group, tuple(queries.broker_groups_of(subject) or ()))


def about_broker_group(name: str) -> About:
    """What concerns a broker group and its nodes."""
    nodes = queries.nodes().filter(broker_group__name=name).values_list("node_id", flat=True)
    return About(broker_groups=(name,), nodes=tuple(nodes))


def read(wanted: Wanted, place: Place | None, limit: int) -> Page:
    """Return the newest events below a place. Each source is read once, at most one row more than the page has."""
    rows = sorted(newest(wanted, place, limit + 1), key=lambda item: _order(item[0]), reverse=True)
    page = rows[:limit]
    events = _with_requesters([event_of(place, row) for place, row in page])
    if not wanted.may_read_audit:
        events = [_without_user(event) for event in events]
    return Page(_with_broker_groups(events), page[-1][0] if len(rows) > limit else None)


def _order(place: Place) -> tuple[datetime, int, int]:
    return place.at, place.source, place.row


def _with_requesters(events: list[Event]) -> list[Event]:
    """A master that resigns because a user requested a switch-over has this user as its actor."""
    resigned = [(event.broker_group, event.at) for event in events if event.kind is EventKind.SWITCH_OVER]
    users = queries.switch_over_requesters(resigned)
    return [
        replace(event, actor=users[event.broker_group, event.at])
        if event.kind is EventKind.SWITCH_OVER and (event.broker_group, event.at) in users
        else event
        for event in events
    ]


def _without_user(event: Event) -> Event:
    """Leave out who made a change and their reason. What processes do stays."""
    if event.actor in _PROCESSES or event.actor.startswith(_JOB) or not event.actor:
        return event
    return replace(event, actor="", reason="")


def _with_broker_groups(events: list[Event]) -> list[Event]:
    """Name the broker group of each node that is known."""
    nodes = {event.node for event in events if event.node and not event.broker_group}
    if not nodes:
        return events
    rows = queries.nodes().filter(node_id__in=nodes).values_list("node_id", "broker_group__name")
    groups = dict(rows)
    return [
        replace(event, broker_group=groups.get(event.node, "")) if event.node in nodes else event for event in events
    ]
