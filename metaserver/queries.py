"""The read side of the metadata."""

from collections.abc import Iterable

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from metaserver import snapshot
from metaserver.choices import GroupKind, GroupState, OperatorState, Phase
from metaserver.models import (
    AuditEntry,
    BrokerGroup,
    ClientSeen,
    ConsumerGroup,
    Ledger,
    Node,
    Subject,
    SubjectRoute,
    Team,
)


def metadata() -> snapshot.Metadata:
    """Everything a metaserver starts from."""
    groups = tuple(
        snapshot.BrokerGroup(
            row.name,
            GroupKind(row.kind),
            GroupState(row.state),
            row.epoch,
            row.master,
            tuple(row.in_sync),
            row.in_sync_version,
            OperatorState(row.operator_state),
        )
        for row in BrokerGroup.objects.all()
    )
    nodes = tuple(
        snapshot.Node(
            row.node_id, row.broker_group.name, row.role, row.address, row.admin_address, row.version, row.log_end
        )
        for row in Node.objects.select_related("broker_group")
    )
    routes = tuple(
        snapshot.Route(
            row.subject.name, tuple(row.broker_groups), row.version, row.created_at_ms, phases_of(row.phases)
        )
        for row in SubjectRoute.objects.select_related("subject").iterator()
    )
    return snapshot.Metadata(groups, nodes, routes, _rules(), _paused())


def phases_of(stored: dict[str, str]) -> dict[str, Phase]:
    """A route's phases as the database keeps them."""
    return {name: Phase(phase) for name, phase in stored.items()}


def changes() -> int:
    """The number of the newest change; equal numbers, equal metadata."""
    return Ledger.objects.values_list("changes", flat=True).get(id=1)


def _rules() -> dict[str, snapshot.SubjectRule]:
    has_rule = Q(archived_at__isnull=False) | Q(allowed_groups__isnull=False) | Q(retention_hours__isnull=False)
    has_quota = Q(messages_per_second__isnull=False) | Q(bytes_per_second__isnull=False)
    return {
        row.name: snapshot.SubjectRule(
            row.archived_at is not None,
            row.messages_per_second,
            row.bytes_per_second,
            row.retention_hours,
            None if row.allowed_groups is None else tuple(row.allowed_groups),
        )
        for row in Subject.objects.filter(has_rule | has_quota).iterator()
    }


def _paused() -> frozenset[tuple[str, str, str]]:
    found = set()
    for row in ConsumerGroup.objects.filter(has_pauses=True).select_related("subject"):
        if row.is_paused:
            found.add((row.subject.name, row.name, ""))
        found.update((row.subject.name, row.name, consumer) for consumer in row.paused_consumers)
    return frozenset(found)


# --- for the API ------------------------------------------------------------------------------------------------------


def subjects() -> QuerySet[Subject]:
    """Subjects with owner, route and the count of their consumer groups: one query a page."""
    groups = ConsumerGroup.objects.filter(subject=OuterRef("pk")).order_by().values("subject")
    counted = groups.annotate(count=Count("pk")).values("count")
    return Subject.objects.select_related("owner", "route").annotate(
        consumer_group_count=Coalesce(Subquery(counted), 0)
    )


def consumer_groups() -> QuerySet[ConsumerGroup]:
    """Consumer groups with their subject and its owner."""
    return ConsumerGroup.objects.select_related("subject__owner")


def broker_groups() -> QuerySet[BrokerGroup]:
    """Broker groups with their nodes: two queries a page."""
    return BrokerGroup.objects.prefetch_related("nodes")


def nodes() -> QuerySet[Node]:
    """Nodes with their group."""
    return Node.objects.select_related("broker_group")


def clients() -> QuerySet[ClientSeen]:
    """Clients that registered."""
    return ClientSeen.objects.all()


def audit_entries() -> QuerySet[AuditEntry]:
    """The audit log, newest first."""
    return AuditEntry.objects.all()


def teams() -> QuerySet[Team]:
    """Teams with the count of their subjects."""
    return Team.objects.annotate(subject_count=Count("subjects"))


def owner_of(subject: str) -> str | None:
    """The team that owns a subject; None: nobody, or there is no such subject."""
    return Subject.objects.filter(name=subject).values_list("owner__name", flat=True).first()


def owners_of(names: Iterable[str]) -> dict[str, str | None]:
    """The same for many."""
    return dict(Subject.objects.filter(name__in=set(names)).values_list("name", "owner__name"))


def routes() -> QuerySet[SubjectRoute]:
    """Routes with their subject."""
    return SubjectRoute.objects.select_related("subject")
