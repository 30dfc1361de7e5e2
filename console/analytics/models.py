"""What analytics leave behind for the console: a row a run. Summary tables come with the jobs that fill them."""

from enum import StrEnum

from django.db import models


class RunState(StrEnum):
    """How a run is."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class AnalyticsRun(models.Model):
    """One run of a job over a range of event time. Re-runs of a range give the same tables."""

    job = models.CharField(max_length=60, db_index=True)
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in RunState], default=RunState.RUNNING)
    from_at = models.DateTimeField(null=True)
    to_at = models.DateTimeField(null=True)
    watermark_at = models.DateTimeField(null=True)
    """Everything before it is in the tables."""
    inputs = models.JSONField(default=dict)
    rows_read = models.BigIntegerField(null=True)
    rows_written = models.BigIntegerField(null=True)
    error = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.job} {self.state}"
