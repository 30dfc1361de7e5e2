"""Registered databases, and what was measured of them."""

from django.db import models

from console.sealing import Seal
from metaserver.versioned import Versioned
from qmq.idempotent.cleanup import RETENTION
from qmq.outbox.databases import Kind, Tls
from qmq.outbox.dialects import TABLE

PASSWORDS = Seal(
    b"qmq outbox databases", what="the password of the database", code="outbox_database.password_unreadable"
)


class OutboxDatabase(Versioned):
    """A database with an outbox. Its password is in `sealed` only."""

    name = models.CharField(max_length=100, unique=True)
    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in Kind])
    host = models.CharField(max_length=253, blank=True)
    port = models.PositiveIntegerField(default=0)
    database = models.CharField(max_length=300)
    user = models.CharField(max_length=128, blank=True)
    sealed = models.TextField(blank=True)
    table = models.CharField(max_length=127, default=TABLE)
    tls = models.CharField(max_length=10, choices=[(tls.value, tls.value) for tls in Tls], default=Tls.OFF.value)
    owner = models.CharField(max_length=60, blank=True)
    """The team whose operators may resend and discard rows. "": every operator may."""
    is_enabled = models.BooleanField(default=True)
    rows_per_second_max = models.PositiveIntegerField(null=True)
    """Limit of the relay; null: none."""
    age_hours_max = models.PositiveIntegerField(null=True)
    """Rows older than this that fail are left to an operator; null: never."""
    marker_table = models.CharField(max_length=127, blank=True, default="", db_default="")
    """Table of the markers of idempotent handlers, of which old ones are deleted; "": none are."""
    marker_days = models.PositiveIntegerField(default=RETENTION.days, db_default=RETENTION.days)
    """How long markers are kept, unless messages are kept longer."""
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    # What the background job has measured last. It writes these columns only, and no version is raised.
    measured_at = models.DateTimeField(null=True)
    """When the four numbers were measured; null: never."""
    pending = models.BigIntegerField(null=True)
    """Unsent rows, counted up to `PENDING_COUNTED_MAX + 1`."""
    oldest_ms = models.BigIntegerField(null=True)
    """Age of the oldest unsent row, 0 when there is none."""
    failed = models.BigIntegerField(null=True)
    """Rows that wait for an operator, counted like `pending`."""
    leader = models.CharField(max_length=200, blank=True)
    """The relay that holds the lease; "": none."""
    rows_per_second = models.FloatField(null=True)
    """What this system's relay has sent in the last passes; null: another relay leads, or none."""
    error = models.CharField(max_length=500, blank=True)
    """Why the last attempt to use the database failed; "": it did not."""
    error_code = models.CharField(max_length=60, blank=True)
    error_since = models.DateTimeField(null=True)
    marker_cleanup_at = models.DateTimeField(null=True)
    """When the last cleanup of markers ended or failed; null: none has."""
    marker_error = models.CharField(max_length=500, blank=True, default="", db_default="")
    """Why the last cleanup of markers failed; "": it did not. Rows are relayed all the same."""
    marker_error_code = models.CharField(max_length=60, blank=True, default="", db_default="")

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
