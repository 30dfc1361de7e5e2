"""What the console itself remembers: answers given to repeated requests, and runs of the control loops."""

from django.db import models


class IdempotencyKey(models.Model):
    """The answer a POST was given, for whoever sends it again with the same key."""

    key = models.CharField(max_length=64, unique=True)
    """A digest of who asked and the key that was sent."""
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    """Null while the first request runs."""
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)

    def __str__(self) -> str:
        return f"{self.key[:8]} {self.status}"


class ControlLoop(models.Model):
    """A control loop: who may act now, and how its last run went."""

    name = models.CharField(max_length=50, unique=True)
    holder = models.CharField(max_length=100, blank=True)
    held_until = models.DateTimeField(null=True)
    is_enabled = models.BooleanField(default=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=500, blank=True)
    error = models.CharField(max_length=500, blank=True)
    runs = models.BigIntegerField(default=0)
    failures = models.BigIntegerField(default=0)
    state = models.JSONField(default=dict)
    """What the loop remembers from run to run."""

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
