"""What would happen if a node were stopped now: to its broker group, and to the subjects and consumer groups that use it."""

from dataclasses import dataclass
from typing import Any

from console.placement.route_cache import ROUTES
from console.reports.lag_table import is_internal
from console.reports.overview import numbers
from metaserver.choices import GroupKind
from metaserver.memory.members import Stop
from metaserver.services import members

OF_BROKER = ("send_rate", "pull_rate")
OF_DELAY = ("delivered_per_second", "pending")


@dataclass(frozen=True, slots=True)
class StopEffect:
    """A broker group without one of its nodes, and what uses the group."""

    node_id: str
    broker_group: str
    kind: GroupKind
    is_member: bool
    """Otherwise the node is a spare, and stopping it changes nothing."""
    is_master: bool
    stop: Stop
    subjects: int
    """Subjects that the group serves; 0 for a delay group."""
    sole_subjects: int
    """Of these, the ones whose messages no other broker group accepts."""
    consumer_groups: int | None
    numbers: dict[str, Any]
    """Rates of the group's master; each None where it was not measured, and those of the other kind."""
    unmeasured_reason: str | None


def stop_effect(node_id: str) -> StopEffect:
    """Return what stopping a node would mean. Raises NotFound."""
    found = members.members_around(node_id)
    name, member = found.group.name, found.find(node_id)
    live = numbers()
    state = live.state or {}
    routes = {route.subject: route for route in ROUTES.routes() if name in route.broker_groups}
    groups = state.get("groups")
    measured = state.get("nodes", {}).get(found.group.membership.master, {})
    fields = OF_BROKER if found.group.kind is GroupKind.BROKER else OF_DELAY
    values = dict.fromkeys((*OF_BROKER, *OF_DELAY)) | {field: measured.get(field) for field in fields}
    is_known = all(values[field] is not None for field in fields)
    return StopEffect(
        node_id=node_id,
        broker_group=name,
        kind=found.group.kind,
        is_member=member is not None and member.is_member,
        is_master=member is not None and member.is_master,
        stop=found.without(node_id),
        subjects=len(routes),
        sole_subjects=sum(route.writable == (name,) for route in routes.values()),
        consumer_groups=None if groups is None else _consumer_groups(groups.values(), routes),
        numbers=values,
        unmeasured_reason=None
        if is_known
        else live.reason or measured.get("reason") or "not known to the collector yet",
    )


def _consumer_groups(entries: Any, routes: Any) -> int:
    return sum(entry["subject"] in routes and not is_internal(entry["subject"]) for entry in entries)
