"""Subjects, which broker groups serve them, and the consumer groups that were seen.

`version` of a row is raised by every change of an operator; it is the ETag of the API.
"""

from django.db import models

from metaserver.models.teams import Team
from metaserver.versioned import Versioned


class Subject(Versioned):
    """The name messages are sent to, and what was decided about it. Null means: no limit, or the node's default."""

    name = models.CharField(max_length=100, unique=True)
    description = models.CharField(max_length=500, blank=True)
    owner = models.ForeignKey(Team, null=True, blank=True, on_delete=models.PROTECT, related_name="subjects")
    tags = models.JSONField(default=list)
    messages_per_second = models.PositiveIntegerField(null=True)
    """Each broker group takes this many."""
    bytes_per_second = models.PositiveBigIntegerField(null=True)
    retention_hours = models.FloatField(null=True)
    allowed_groups = models.JSONField(null=True)
    """Consumer groups that may pull; null: any."""
    archived_at = models.DateTimeField(null=True, db_index=True)
    deleting_since = models.DateTimeField(null=True)
    """When a request began to delete the subject on nodes; null: none does."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


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

    def __str__(self) -> str:
        return f"{self.subject} v{self.version}"


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
