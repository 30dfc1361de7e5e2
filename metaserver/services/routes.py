"""Which broker groups serve a subject, and who was seen on it."""

from hashlib import blake2b

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from metaserver import snapshot
from metaserver.models import ClientSeen, ConsumerGroup, Subject, SubjectRoute
from metaserver.services import audit
from qmq.protocol.codes import ClientType


def save_route(route: snapshot.Route, *, actor: str, reason: str) -> snapshot.Route:
    """Store version n + 1 over version n; the route that is stored afterwards, which may be another's."""
    try:
        with transaction.atomic():
            subject, _ = Subject.objects.get_or_create(name=route.subject)
            groups = list(route.broker_groups)
            before = SubjectRoute.objects.filter(subject=subject).first()
            if before is None:
                SubjectRoute.objects.create(
                    subject=subject, broker_groups=groups, version=route.version, created_at_ms=route.created_at_ms
                )
            else:
                changed = SubjectRoute.objects.filter(subject=subject, version=route.version - 1).update(
                    broker_groups=groups, version=route.version, updated_at=timezone.now()
                )
                if not changed:
                    return _stored(route.subject)
            audit.record(
                actor=actor,
                action="route.set",
                target=route.subject,
                reason=reason,
                before=None if before is None else {"broker_groups": before.broker_groups, "version": before.version},
                after={"broker_groups": groups, "version": route.version},
            )
            return route
    except IntegrityError:
        # Another metaserver made the subject at the same moment.
        return _stored(route.subject)


def _stored(subject: str) -> snapshot.Route:
    row = SubjectRoute.objects.select_related("subject").get(subject__name=subject)
    return snapshot.Route(subject, tuple(row.broker_groups), row.version, row.created_at_ms)


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
