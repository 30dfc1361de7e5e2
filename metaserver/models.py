"""The metadata's one home. Written by `metaserver.services` only.

`version` of a row is raised by every change of an operator; it is the ETag of the API. Null means: no limit, or the node's default.
"""

from django.db import models

from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.versioned import Versioned


class Named(Versioned):
    """A row that operators know by its name."""

    name = models.CharField(max_length=100, unique=True)
    description = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class Team(Named):
    """People who share the ownership of subjects."""

    name = models.CharField(max_length=60, unique=True)


class Subject(Named):
    """The name messages are sent to, and what was decided about it."""

    owner = models.ForeignKey(Team, null=True, blank=True, on_delete=models.PROTECT, related_name="subjects")
    tags = models.JSONField(default=list)
    messages_per_second = models.PositiveIntegerField(null=True)
    """Each broker group takes this many."""
    bytes_per_second = models.PositiveBigIntegerField(null=True)
    retention_hours = models.FloatField(null=True)
    allowed_groups = models.JSONField(null=True)
    """Consumer groups that may pull; null: any."""
    masking = models.JSONField(default=list)
    """Masking rules, see `metaserver.services.masking`."""
    body_format = models.CharField(max_length=40, default="json")
    """How bodies are decoded for display (qmq.formats)."""
    body_schema = models.TextField(blank=True, default="")
    archived_at = models.DateTimeField(null=True, db_index=True)
    deleting_since = models.DateTimeField(null=True)
    """When a request began to delete the subject on nodes; null: none does."""
    updated_at = models.DateTimeField(auto_now=True, db_index=True)


class SubjectRoute(models.Model):
    """A subject's broker groups; the version is raised by each change (compare-and-set)."""

    subject = models.OneToOneField(Subject, on_delete=models.CASCADE, related_name="route")
    broker_groups = models.JSONField(default=list)
    phases = models.JSONField(default=dict)
    """Broker group -> Phase, of those that come or go."""
    has_phases = models.BooleanField(default=False, db_index=True)
    version = models.BigIntegerField(default=0)
    created_at_ms = models.BigIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)


class ConsumerGroup(Versioned):
    """Consumers that share the work of a subject."""

    subject = models.ForeignKey(Subject, on_delete=models.CASCADE, related_name="consumer_groups")
    name = models.CharField(max_length=200)
    description = models.CharField(max_length=500, blank=True)
    tags = models.JSONField(default=list)
    is_paused = models.BooleanField(default=False)
    paused_consumers = models.JSONField(default=list)
    """Consumer ids that are paused one by one."""
    has_pauses = models.BooleanField(default=False, db_index=True)
    """Whether the group or any of its consumers is paused."""
    pause_reason = models.CharField(max_length=500, blank=True)
    progress_changing_since = models.DateTimeField(null=True)
    """When a request began to change the group's progress on nodes; null: none does."""
    first_seen_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("subject", "name"), name="one_group_per_subject"),)
        ordering = ("subject__name", "name")

    def __str__(self) -> str:
        return f"{self.name} on {self.subject}"


class BrokerGroup(Named):
    """A master and its slaves under one name.

    Master, members, in-sync set, epoch and promotion are changed by `metaserver.services.memberships` only, by
    compare-and-set on epoch and in_sync_version.
    """

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
    members = models.JSONField(default=list)
    """Node ids."""
    in_sync = models.JSONField(default=list)
    in_sync_version = models.BigIntegerField(default=0)
    in_sync_min = models.PositiveSmallIntegerField(default=2)
    """Members that have to be in sync so that sends are accepted, or all members that are not `joining` if there are fewer."""
    copies = models.PositiveSmallIntegerField(default=2)
    """How many members the group should have."""
    preferred = models.JSONField(default=list)
    """Node ids: of members with equally long logs, the first is promoted."""
    joining = models.JSONField(default=list)
    """Node ids of members that have not been in sync since they became members."""
    incarnations = models.JSONField(default=list)
    """In the order of `members`: of the data folder with which a member was last added to the in-sync set, or empty."""
    master_boot_id = models.CharField(max_length=100, blank=True, default="")
    """Of the process that was promoted; empty if the master never was."""
    promotion_id = models.UUIDField(null=True)
    loss_id = models.CharField(max_length=36, blank=True, default="")
    """Identifies the newest loss of acknowledged messages that an operator accepted; empty: there was none."""
    replaced = models.CharField(max_length=100, blank=True, default="")
    """The node ID of the member that `replacement` replaces; empty if no replacement is pending. It may have left already."""
    replacement = models.CharField(max_length=100, blank=True, default="")
    """The node ID of the node that becomes a member instead; it may be one already."""
    known_epoch = models.BigIntegerField(default=0)
    known_version = models.BigIntegerField(default=0)
    """With `known_epoch`, the highest place of this row that a metaserver knew when it read an older one. While the row is older,
    the database was restored from a backup, and nothing changes who is master or in sync."""
    updated_at = models.DateTimeField(auto_now=True)

    @property
    def in_sync_min_in_force(self) -> int:
        """How many members have to be in sync now so that sends are accepted; without members, what is set."""
        counting = len(self.members) - len(self.joining)
        return min(self.in_sync_min, counting) if counting else self.in_sync_min


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
    log_epoch = models.BigIntegerField(default=1)
    """The epoch of the node's newest commit when it reported `log_end`."""
    log_end_version = models.BigIntegerField(default=0)
    """How often an operator accepted a log loss. A metaserver with an older version does not change `log_end`."""
    sync_address = models.CharField(max_length=100, blank=True, default="")
    """Where slaves follow it if it is the master; empty if it has no replication."""
    rack = models.CharField(max_length=100, blank=True, default="")
    report = models.JSONField(default=dict)
    """What it last reported of its part in replication (`metaserver.reports`), stored with `leased_at`."""
    leased_at = models.DateTimeField(null=True)
    """When the last lease that was stored was given; written every few seconds."""

    class Meta:
        ordering = ("node_id",)

    def __str__(self) -> str:
        return self.node_id


class RemovedGroup(models.Model):
    """A broker group that was removed with the loss of its messages. A node that returns with one of its data folders needs an
    operator's approval."""

    name = models.CharField(max_length=100, db_index=True)
    incarnations = models.JSONField(default=list)
    """Of the data folders of its nodes."""
    removed_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.name


class ClientSeen(models.Model):
    """A client, in a role, on a subject. `key` is a digest of the rest: together they are too long for an index."""

    key = models.CharField(max_length=64, unique=True)
    subject = models.CharField(max_length=100, db_index=True)
    client_type = models.PositiveSmallIntegerField()
    group = models.CharField(max_length=200, blank=True)
    client_id = models.CharField(max_length=200)
    app = models.CharField(max_length=100, blank=True)
    agent = models.CharField(max_length=100, blank=True, default="")
    """Library and language with their versions; empty if it does not report them."""
    first_seen_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ("subject", "client_id")


class Ledger(models.Model):
    """The order of changes is the order of updates of this row: it is locked until the change is committed.

    Metaservers poll `changes`, and audit entries chain from `audit_digest`.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    changes = models.BigIntegerField(default=0)
    """The number of the newest MetadataChange. Audited actions that change no metadata do not raise it."""
    audit_digest = models.CharField(max_length=64, blank=True)
    """The digest of the newest audit entry."""
    audit_count = models.BigIntegerField(default=0)


class MetadataChange(models.Model):
    """The subject or broker group of one change, so that readers load the rows of these alone. Numbers have no gap."""

    number = models.BigIntegerField(primary_key=True)
    subject = models.CharField(max_length=100, blank=True)
    """Its rule, its route, or a pause of its consumer groups was created, changed or deleted."""
    broker_group = models.CharField(max_length=100, blank=True)
    """Its row, or a node of it, was created, changed or deleted."""
    at = models.DateTimeField(auto_now_add=True)


class MetaserverBeat(models.Model):
    """A metaserver. Missing heartbeats count only while some metaserver received and stored heartbeats without a pause."""

    name = models.CharField(max_length=200, unique=True)
    seen_at = models.DateTimeField()
    """When it last stored something, by its own wall clock."""
    steady_since = models.DateTimeField()
    """Since when it has been running and storing without a pause."""


class AuditEntry(models.Model):
    """One change, written in the same transaction as the change. Its digest covers the digest of the entry before."""

    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=200, db_index=True)
    action = models.CharField(max_length=100, db_index=True)
    target = models.CharField(max_length=300, db_index=True)
    reason = models.CharField(max_length=500, blank=True)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    address = models.CharField(max_length=100, blank=True)
    """Where the request came from."""
    request_id = models.CharField(max_length=64, blank=True)
    client_request_id = models.CharField(max_length=64, blank=True, default="")
    """The caller's own `X-Request-Id`, which any caller can choose."""
    digest = models.CharField(max_length=64, blank=True)
    is_event = models.BooleanField(default=True)
    """Whether the feed of events shows it: it is neither a read nor a step of a change that has an entry of its own."""

    class Meta:
        ordering = ("-id",)
        indexes = (models.Index(fields=("is_event", "at"), name="audit_event"),)
