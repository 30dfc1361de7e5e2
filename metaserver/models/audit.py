"""Who changed what, why. Append-only; actors are named in text because history outlives accounts."""

from django.db import models


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
    """"" for entries older than the chain."""

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return f"{self.at:%Y-%m-%d %H:%M:%S} {self.actor} {self.action} {self.target}"
