"""The read side of the metadata."""

from metaserver import snapshot
from metaserver.choices import GroupKind, GroupState
from metaserver.models import BrokerGroup, Node, SubjectRoute


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
        snapshot.Route(row.subject.name, tuple(row.broker_groups), row.version, row.created_at_ms)
        for row in SubjectRoute.objects.select_related("subject").iterator()
    )
    return snapshot.Metadata(groups, nodes, routes)
