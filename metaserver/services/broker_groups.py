"""Broker groups and nodes as they register."""

from django.db import transaction
from django.utils import timezone

from metaserver import snapshot
from metaserver.models import BrokerGroup, Node
from metaserver.services import audit


@transaction.atomic
def save_group(group: snapshot.BrokerGroup, *, actor: str, reason: str) -> None:
    """Create or update a group's row; an older epoch never replaces a newer one."""
    after = {"state": str(group.state), "epoch": group.epoch, "master": group.master, "in_sync": list(group.in_sync)}
    row = BrokerGroup.objects.filter(name=group.name).first()
    if row is None:
        BrokerGroup.objects.create(name=group.name, kind=group.kind, **after)
        audit.record(actor=actor, action="broker_group.create", target=group.name, reason=reason, after=after)
        return
    before = {"state": row.state, "epoch": row.epoch, "master": row.master, "in_sync": row.in_sync}
    if before == after:
        return
    changed = BrokerGroup.objects.filter(name=group.name, epoch__lte=group.epoch, epoch=row.epoch).update(
        **after, updated_at=timezone.now()
    )
    if changed:
        audit.record(
            actor=actor, action="broker_group.update", target=group.name, reason=reason, before=before, after=after
        )


@transaction.atomic
def save_node(node: snapshot.Node) -> None:
    """Create or update a node's row; the directory sees to it that its log end is the highest reported."""
    group = BrokerGroup.objects.get(name=node.broker_group)
    Node.objects.update_or_create(
        node_id=node.node_id,
        defaults={
            "broker_group": group,
            "role": node.role,
            "address": node.address,
            "admin_address": node.admin_address,
            "version": node.version,
            "log_end": node.log_end,
            "leased_at": timezone.now(),
        },
    )


@transaction.atomic
def accept_log_loss(node_id: str, *, log_end: int, actor: str, reason: str) -> None:
    """An operator's decision: a node may serve although its log ends earlier than it had reported.

    Raises:
        Node.DoesNotExist: there is no such node.
    """
    node = Node.objects.get(node_id=node_id)
    before = node.log_end
    Node.objects.filter(node_id=node_id).update(log_end=log_end)
    audit.record(
        actor=actor,
        action="node.accept_log_loss",
        target=node_id,
        reason=reason,
        before={"log_end": before},
        after={"log_end": log_end},
    )
