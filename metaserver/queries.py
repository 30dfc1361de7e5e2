"""The read side of the metadata."""

from django.db.models import Q

from metaserver import snapshot
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.models import BrokerGroup, ConsumerGroup, Ledger, Node, Subject, SubjectRoute


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
        snapshot.Route(row.subject.name, tuple(row.broker_groups), row.version, row.created_at_ms, tuple(row.draining))
        for row in SubjectRoute.objects.select_related("subject").iterator()
    )
    return snapshot.Metadata(groups, nodes, routes, _rules(), _paused())


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
