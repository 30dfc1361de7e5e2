"""Which broker groups serve a subject, and who was seen on it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from hashlib import blake2b
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.errors import Conflict, NotFound, Stale
from metaserver.models import BrokerGroup, ClientSeen, ConsumerGroup, Subject, SubjectRoute
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, changing, check_version, delete_some, lock
from qmq.protocol.codes import ClientType


def save_route(route: domain.Route, *, actor: Actor, reason: str) -> domain.Route:
    """Store version n + 1 over version n; the route that is stored afterwards, which may be another's."""
    try:
        return _save_route(route, actor, reason)
    except IntegrityError:
        # Another process created the subject, or its route, at the same moment. Try again: now it is there.
        return _save_route(route, actor, reason)


@transaction.atomic
def _save_route(route: domain.Route, actor: Actor, reason: str) -> domain.Route:
    subject, _ = Subject.objects.get_or_create(name=route.subject)
    row = SubjectRoute.objects.filter(subject=subject).first()
    if row is None:
        SubjectRoute.objects.create(subject=subject, created_at_ms=route.created_at_ms, **_stored(route))
        before = None
    else:
        before = _described(queries.snapshot(row, route.subject))
        if not _replace(row, route):
            return queries.snapshot(SubjectRoute.objects.get(pk=row.pk), route.subject)
    audit.record(
        actor, "route.set", route.subject, reason=reason, before=before, after=_described(route), subject=route.subject
    )
    return route


def move(
    subject: str,
    targets: Sequence[str],
    *,
    actor: Actor,
    reason: str,
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Let these broker groups serve a subject, and no others once the others are empty.

    New ones join first: they are read, and written when every consumer group is ready there. Then the others drain. The
    background job `moves` does each step (`console.placement.plan.advance`). Raises NotFound without a route; Conflict for an
    unknown broker group, or if no target accepts messages.
    """
    with changing(dry_run=dry_run):
        row, there = _locked(subject)
        check_version(f"the route of {subject}", there.version, expected_version)
        wanted = tuple(dict.fromkeys(targets))
        rows = BrokerGroup.objects.filter(name__in=wanted, kind=GroupKind.BROKER)
        known = {group.name: group for group in rows}
        for name in wanted:
            if name not in known and name not in there.broker_groups:
                raise Conflict(f"Broker group {name!r} not found.", code="broker_group.unknown")
        taking = [
            name
            for name, group in known.items()
            if group.state == GroupState.READ_WRITE and group.operator_state == OperatorState.NORMAL
        ]
        if not taking:
            raise Conflict(
                f"None of {', '.join(wanted)} accepts messages at the moment, so sends to {subject} would fail.",
                code="route.not_writable",
            )
        phases: dict[str, Phase | None] = {}
        for name in dict.fromkeys((*there.broker_groups, *wanted)):
            phase = there.phases.get(name)
            if name not in there.broker_groups:
                phases[name] = Phase.JOINING
            elif name not in wanted:
                # One that is not written yet may hold nothing; it goes by the same door as all.
                phases[name] = Phase.DRAINING if phase in (Phase.JOINING, Phase.DRAINING) else Phase.LEAVING
            elif phase in (Phase.JOINING, Phase.DRAINING):
                # Consumer groups may have come meanwhile that never read here.
                phases[name] = Phase.JOINING
            else:
                phases[name] = None
        groups = tuple(phases)
        kept = {name: phase for name, phase in phases.items() if phase is not None}
        return _change(row, there, replace(there, broker_groups=groups, phases=kept), "route.move", actor, reason)


def rejoin(broker_group: str, *, actor: Actor, reason: str) -> list[str]:
    """Let a broker group keep the subjects that are leaving it, in the caller's transaction. Returns their names.

    Where it rejects sends already it joins again, because consumer groups may have come meanwhile that never read there.
    """
    leaving = [
        route.subject
        for route in queries.route_snapshots(moving_only=True)
        if route.phases.get(broker_group) in (Phase.LEAVING, Phase.DRAINING)
    ]
    kept = []
    for subject in sorted(leaving):
        row, there = _locked(subject)
        phases = dict(there.phases)
        phase = phases.pop(broker_group, None)
        if phase is Phase.DRAINING:
            phases[broker_group] = Phase.JOINING
        if phase in (Phase.LEAVING, Phase.DRAINING):
            _change(row, there, replace(there, phases=phases), "route.rejoin", actor, reason)
            kept.append(subject)
    return kept


def leave_lost(broker_group: str, *, actor: Actor, reason: str) -> tuple[int, list[str]]:
    """Take a broker group that is lost out of all routes, in the caller's transaction.

    Subjects that no other group serves keep it until another one has joined. Returns how many left, and the names of those.
    """
    left, kept = 0, []
    served = [route for route in queries.route_snapshots() if broker_group in route.broker_groups]
    for subject in sorted(route.subject for route in served):
        row, there = _locked(subject)
        names = tuple(name for name in there.broker_groups if name != broker_group)
        phases = {name: phase for name, phase in there.phases.items() if name != broker_group}
        if not any(name not in phases for name in names):
            # Groups that were leaving stay. Those that drain reject messages: consumer groups may have come that never read there.
            phases = {name: Phase.JOINING for name, phase in phases.items() if phase in (Phase.JOINING, Phase.DRAINING)}
        if any(name not in phases for name in names):
            left += 1
        else:
            # Without any other group, the rebalance adds one: it plans only subjects that do not move.
            phases = {**phases, broker_group: Phase.LEAVING} if names else {}
            names = there.broker_groups
            kept.append(subject)
        _change(row, there, replace(there, broker_groups=names, phases=phases), "route.lost", actor, reason)
    return left, kept


@transaction.atomic
def step(route: domain.Route, *, actor: Actor, reason: str, action: str = "route.step") -> Change:
    """Store the next step of a move. Raises NotFound without a route, Stale when it was changed in the meantime."""
    row, there = _locked(route.subject)
    check_version(f"the route of {route.subject}", there.version, route.version)
    return _change(row, there, route, action, actor, reason)


def _change(
    row: SubjectRoute, there: domain.Route, wanted: domain.Route, action: str, actor: Actor, reason: str
) -> Change:
    before, after = _described(there), _described(wanted)
    if before == after:
        return Change(there.subject, before, before, there.version)
    route = replace(wanted, version=there.version + 1)
    if not _replace(row, route):
        raise Stale(f"The placement of {there.subject} was changed by someone else. Reload it and try again.")
    audit.record(actor, action, there.subject, reason=reason, before=before, after=after, subject=there.subject)
    return Change(there.subject, before, after, route.version)


def _locked(subject: str) -> tuple[SubjectRoute, domain.Route]:
    row = lock(SubjectRoute.objects.filter(subject__name=subject))
    if row is None:
        raise NotFound(f"Subject {subject!r} has no broker group yet.", code="route.unknown")
    return row, queries.snapshot(row, subject)


def _replace(row: SubjectRoute, route: domain.Route) -> bool:
    """Compare-and-set on the version."""
    before = SubjectRoute.objects.filter(pk=row.pk, version=route.version - 1)
    return bool(before.update(updated_at=timezone.now(), **_stored(route)))


def _stored(route: domain.Route) -> dict[str, Any]:
    return _described(route) | {"has_phases": bool(route.phases), "version": route.version}


def _described(route: domain.Route) -> dict[str, Any]:
    phases = {name: str(phase) for name, phase in sorted(route.phases.items())}
    return {"broker_groups": list(route.broker_groups), "phases": phases}


@transaction.atomic
def save_clients(clients: list[domain.ClientSeen]) -> None:
    """Note registrations; consumers make their group known. Subjects that are not stored yet get no group."""
    now = timezone.now()
    rows = [ClientSeen(key=client_key(client), last_seen_at=now, **client._asdict()) for client in clients]
    # MySQL and MariaDB find the conflicting key themselves and accept no target.
    target = ["key"] if connection.features.supports_update_conflicts_with_target else None
    ClientSeen.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=target, update_fields=["last_seen_at", "app", "agent"]
    )
    consumers = [c for c in clients if c.client_type == ClientType.CONSUMER and c.group]
    subjects = {s.name: s for s in Subject.objects.filter(name__in={c.subject for c in consumers})}
    ConsumerGroup.objects.bulk_create(
        [ConsumerGroup(subject=subjects[c.subject], name=c.group) for c in consumers if c.subject in subjects],
        ignore_conflicts=True,
    )


def client_key(client: domain.ClientSeen) -> str:
    """What makes a sighting unique, as a short text."""
    text = "\n".join((client.subject, str(client.client_type), client.group, client.client_id))
    return blake2b(text.encode(), digest_size=16).hexdigest()


def forget_clients(keep: timedelta, most: int) -> int:
    """Delete clients that were not seen for so long; how many. Their consumer groups stay."""
    return delete_some(ClientSeen.objects.filter(last_seen_at__lt=timezone.now() - keep), most)
