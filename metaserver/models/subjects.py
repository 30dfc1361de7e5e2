"""Subjects, which broker groups serve them, and the consumer groups that were seen."""

from django.db import models


class Subject(models.Model):
    """The name messages are sent to."""

    name = models.CharField(max_length=100, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name


class SubjectRoute(models.Model):
    """A subject's broker groups; the version is raised by each change (compare-and-set)."""

    subject = models.OneToOneField(Subject, on_delete=models.CASCADE, related_name="route")
    broker_groups = models.JSONField(default=list)
    version = models.BigIntegerField(default=0)
    created_at_ms = models.BigIntegerField(default=0)
    updated_at = models.DateTimeField(auto_now=True)

    def __str__(self) -> str:
        return f"{self.subject} v{self.version}"


class ConsumerGroup(models.Model):
    """Consumers that share the work of a subject."""

    subject = models.ForeignKey(Subject, on_delete=models.CASCADE, related_name="consumer_groups")
    name = models.CharField(max_length=200)
    first_seen_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("subject", "name"), name="one_group_per_subject"),)
        ordering = ("name",)

    def __str__(self) -> str:
        return f"{self.name} on {self.subject}"
