"""Broker groups and their nodes. A group's row is the only place of truth for epoch, master and in-sync set."""

from django.db import models

from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.versioned import Versioned


class BrokerGroup(Versioned):
    """A master and its slaves under one name; changed by compare-and-set on epoch and in_sync_version."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=[(k.value, k.value) for k in GroupKind], default=GroupKind.BROKER)
    state = models.CharField(max_length=12, choices=[(s.value, s.value) for s in GroupState])
    operator_state = models.CharField(
        max_length=12, choices=[(s.value, s.value) for s in OperatorState], default=OperatorState.NORMAL
    )
    """What an operator decided; `state` is what the group does."""
    operator_reason = models.CharField(max_length=500, blank=True)
    operator_since = models.DateTimeField(null=True)
    epoch = models.BigIntegerField(default=0)
    master = models.CharField(max_length=100, blank=True)
    in_sync = models.JSONField(default=list)
    in_sync_version = models.BigIntegerField(default=0)
    in_sync_min = models.PositiveSmallIntegerField(default=1)
    promotion_id = models.UUIDField(null=True)
    description = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Node(models.Model):
    """One broker or delay node, as it last registered."""

    node_id = models.CharField(max_length=100, unique=True)
    broker_group = models.ForeignKey(BrokerGroup, on_delete=models.PROTECT, related_name="nodes")
    role = models.PositiveSmallIntegerField()
    address = models.CharField(max_length=100)
    admin_address = models.CharField(max_length=100, blank=True)
    version = models.CharField(max_length=40, blank=True)
    log_end = models.BigIntegerField(default=0)
    """The highest synced log offset that the node reported since an operator last accepted a log loss. A node that reports
    less has lost data."""
    log_end_version = models.BigIntegerField(default=0)
    """How often an operator accepted a log loss. A metaserver with an older version does not change `log_end`."""
    leased_at = models.DateTimeField(null=True)
    """When the last lease that was stored was given; written every few seconds."""

    class Meta:
        ordering = ("node_id",)

    def __str__(self) -> str:
        return self.node_id
