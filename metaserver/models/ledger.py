"""The one row that every change updates last, and the numbered list of what changed in the metadata."""

from django.db import models


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

    def __str__(self) -> str:
        return f"change {self.changes}, {self.audit_count} audit entries"


class MetadataChange(models.Model):
    """The subject or broker group of one change, so that readers load the rows of these alone. Numbers have no gap."""

    number = models.BigIntegerField(primary_key=True)
    subject = models.CharField(max_length=100, blank=True)
    """Its rule, its route, or a pause of its consumer groups was created, changed or deleted."""
    broker_group = models.CharField(max_length=100, blank=True)
    """Its row, or a node of it, was created, changed or deleted."""
    at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return f"change {self.number}: {self.subject or self.broker_group}"
