"""Which broker groups serve a subject, and who was seen on it."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from metaserver import snapshot
from metaserver.choices import GroupKind
from metaserver.models import BrokerGroup, ClientSeen, ConsumerGroup, Subject, SubjectRoute
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, Conflict, NotFound, Stale, changing, check_version
from qmq.protocol.codes import ClientType


def save_route(route: snapshot.Route, *, actor: Actor, reason: str) -> snapshot.Route:
    """Store version n + 1 over version n; the route that is stored afterwards, which may be another's."""
    try:
        with transaction.atomic():
            subject, _ = Subject.objects.get_or_create(name=route.subject)
            before = SubjectRoute.objects.filter(subject=subject).first()
            if before is None:
                SubjectRoute.objects.create(
                    subject=subject,
                    broker_groups=list(route.broker_groups),
                    draining=list(route.draining),
                    version=route.version,
                    created_at_ms=route.created_at_ms,
                )
                said = None
            else:
                said = _said(before.broker_groups, before.draining, before.version)
                if not _replace(subject, route):
                    return _stored(route.subject)
            audit.record(
                actor=actor,
                action="route.set",
                target=route.subject,
                reason=reason,
                before=said,
                after=_said(list(route.broker_groups), list(route.draining), route.version),
            )
            return route
    except IntegrityError:
        # Another metaserver made the subject at the same moment.
        return _stored(route.subject)


def _replace(subject: Subject, route: snapshot.Route) -> bool:
    """Compare-and-set on the version."""
    since = timezone.now() if route.draining else None
    return bool(
        SubjectRoute.objects.filter(subject=subject, version=route.version - 1).update(
            broker_groups=list(route.broker_groups),
            draining=list(route.draining),
            draining_since=since,
            version=route.version,
            updated_at=timezone.now(),
        )
    )


def _said(groups: list[str], draining: list[str], version: int) -> dict[str, Any]:
    return {"broker_groups": groups, "draining": draining, "version": version}


def place(
    subject: str,
    broker_groups: Sequence[str],
    draining: Sequence[str],
    *,
    actor: Actor,
    reason: str,
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Say which groups serve a subject; those in `draining` (a part of them) take nothing new and are read until empty.

    Raises:
        NotFound: the subject has no route yet: none of its clients came so far.
        Conflict: no group would take new messages, a group is unknown, or one that may still hold messages is left out.
    """
    with changing(dry_run=dry_run):
        row = SubjectRoute.objects.select_for_update(of=("self",)).select_related("subject")
        there = row.filter(subject__name=subject).first()
        if there is None:
            raise NotFound(f"subject {subject!r} is served by no broker group yet", code="route.unknown")
        check_version(f"the route of {subject}", there.version, expected_version)
        known = {g.name: g for g in BrokerGroup.objects.filter(name__in=broker_groups, kind=GroupKind.BROKER)}
        unknown = [name for name in broker_groups if name not in known]
        if unknown:
            raise Conflict(f"there is no broker group {unknown[0]!r}", code="broker_group.unknown")
        taking = [name for name in broker_groups if name not in draining]
        if not taking:
            raise Conflict(f"no broker group would take new messages of {subject}", code="route.not_writable")
        lost = [name for name in there.broker_groups if name not in broker_groups and name not in there.draining]
        if lost:
            raise Conflict(
                f"{lost[0]} may hold messages of {subject}: let it drain first, then take it away",
                code="route.not_drained",
            )
        before = _said(there.broker_groups, there.draining, there.version)
        if (there.broker_groups, there.draining) == (list(broker_groups), list(draining)):
            return Change(subject, before, before, there.version)
        route = snapshot.Route(
            subject, tuple(broker_groups), there.version + 1, there.created_at_ms, draining=tuple(draining)
        )
        if not _replace(there.subject, route):
            raise Stale(f"the route of {subject} was changed meanwhile", code="change.stale")
        after = _said(list(broker_groups), list(draining), route.version)
        audit.record(actor=actor, action="route.place", target=subject, reason=reason, before=before, after=after)
        return Change(subject, before, after, route.version)


def move(
    subject: str,
    targets: Sequence[str],
    *,
    actor: Actor,
    reason: str,
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Let these groups take a subject's messages. Groups it leaves drain: nothing new, read until they are empty.

    Raises: as `place`.
    """
    there = SubjectRoute.objects.filter(subject__name=subject).first()
    if there is None:
        raise NotFound(f"subject {subject!r} is served by no broker group yet", code="route.unknown")
    left = [name for name in there.broker_groups if name not in targets]
    wanted = list(dict.fromkeys(targets))
    kept = [name for name in there.broker_groups if name in wanted]
    fresh = [name for name in wanted if name not in kept]
    return place(
        subject,
        [*kept, *fresh, *left],
        left,
        actor=actor,
        reason=reason,
        expected_version=there.version if expected_version is None else expected_version,
        dry_run=dry_run,
    )


def _stored(subject: str) -> snapshot.Route:
    row = SubjectRoute.objects.select_related("subject").get(subject__name=subject)
    return snapshot.Route(
        subject, tuple(row.broker_groups), row.version, row.created_at_ms, draining=tuple(row.draining)
    )


@transaction.atomic
def save_clients(clients: list[snapshot.ClientSeen]) -> None:
    """Note registrations; consumers make their group known. Subjects that are not stored yet get no group."""
    now = timezone.now()
    rows = [
        ClientSeen(
            key=client_key(client),
            subject=client.subject[:100],
            client_type=client.client_type,
            group=client.group,
            client_id=client.client_id,
            app=client.app,
            last_seen_at=now,
        )
        for client in clients
    ]
    # MySQL and MariaDB find the conflicting key themselves and refuse to be told.
    target = ["key"] if connection.features.supports_update_conflicts_with_target else None
    ClientSeen.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=target, update_fields=["last_seen_at", "app"]
    )
    consumers = [c for c in clients if c.client_type == ClientType.CONSUMER and c.group]
    subjects = {s.name: s for s in Subject.objects.filter(name__in={c.subject for c in consumers})}
    ConsumerGroup.objects.bulk_create(
        [ConsumerGroup(subject=subjects[c.subject], name=c.group) for c in consumers if c.subject in subjects],
        ignore_conflicts=True,
    )


def client_key(client: snapshot.ClientSeen) -> str:
    """What makes a sighting unique, as a short text."""
    text = "\n".join((client.subject, str(client.client_type), client.group, client.client_id))
    return blake2b(text.encode(), digest_size=16).hexdigest()
