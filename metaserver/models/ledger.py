"""The one row that every change passes, last of all it touches: the order of changes is the order on this row."""

from django.db import models


class Ledger(models.Model):
    """The newest change: metaservers ask for its number to learn whether to read anew, and audit entries chain from it."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    changes = models.BigIntegerField(default=0)
    """Raised by each change of what metaservers and nodes go by."""
    audit_digest = models.CharField(max_length=64, blank=True)
    """The digest of the newest audit entry."""
    audit_count = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"change {self.changes}, {self.audit_count} audit entries"
