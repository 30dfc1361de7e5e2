"""Runs of jobs, and how far each summary table is."""

from datetime import UTC, datetime
from enum import StrEnum

from django.db import models

DEMO_JOB = "demo"
"""The job whose rows are simulated; the first real run that fills a table deletes them from it."""
DEMO_DATA = "demo_data"
"""Why a scheduled run skips a table: it holds demo data whose replacement was not requested."""


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
    part = models.PositiveIntegerField(null=True)
    """Which of the `parts` it is that the call of all jobs has to compute, from 1; null for the run that reads the nodes: what is
    to be computed is known afterwards."""
    parts = models.PositiveIntegerField(null=True)
    inputs = models.JSONField(default=dict)
    tables = models.JSONField(default=list)
    """Names of the summary tables it has filled."""
    rows_read = models.BigIntegerField(null=True)
    rows_written = models.BigIntegerField(null=True)
    missing = models.JSONField(default=list)
    """Names of the broker groups that could not be read: their rows are missing."""
    late_rows = models.BigIntegerField(null=True)
    """Rows read that came after their steps may have been published; null where the run reads no nodes."""
    holes = models.BigIntegerField(null=True)
    """Stretches that nodes had deleted before they were read; null where the run reads no nodes."""
    skipped = models.JSONField(default=dict)
    """Summary table -> why this call of all jobs did not fill it: `DEMO_DATA`. Known of the call's run that reads the nodes."""
    error = models.TextField(blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.job} {self.state}"


class TableState(models.Model):
    """How far a summary table is. No row: no run has filled it yet."""

    table = models.CharField(max_length=60, unique=True)
    run = models.ForeignKey(AnalyticsRun, on_delete=models.CASCADE)
    """The last that filled it."""
    watermark_at = models.DateTimeField(null=True)
    """Everything before it is in the table; null until a run that filled it has succeeded."""
    is_replaceable = models.BooleanField(default=False)
    """Whether scheduled runs may replace demo data in it; other data is always replaced."""
    unfinished = models.JSONField(null=True)
    """Windows [step_seconds, from_ms, to_ms] that are being published in several transactions, or were when their run was
    killed; null: none. Readers leave their rows out, and they are due again."""

    @property
    def complete_until(self) -> datetime | None:
        """Everything before it is in the table; None: no run that filled it has succeeded, or all of it is unfinished."""
        begin_ms = min((from_ms for _, from_ms, _ in self.unfinished or ()), default=None)
        if self.watermark_at is None or begin_ms is None:
            return self.watermark_at
        return min(self.watermark_at, datetime.fromtimestamp(begin_ms / 1000, UTC)) if begin_ms else None

    def __str__(self) -> str:
        return self.table


class LeftOut(models.Model):
    """A moment of a table that has only the rows that rank highest. No row: nothing was left out."""

    table = models.CharField(max_length=60)
    step_seconds = models.PositiveIntegerField()
    at_ms = models.BigIntegerField()
    rows_count = models.PositiveIntegerField()
    """Rows that the moment would have."""
    left_out_count = models.PositiveIntegerField()
    """Those of them that are not in the table."""

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("table", "step_seconds", "at_ms"), name="analytics_left_out_key"),
        )

    def __str__(self) -> str:
        return f"{self.table}: {self.left_out_count} of {self.rows_count}"
