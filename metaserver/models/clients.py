"""Clients that registered."""

from django.db import models


class ClientSeen(models.Model):
    """A client, in a role, on a subject. `key` is a digest of the rest: together they are too long for an index."""

    key = models.CharField(max_length=64, unique=True)
    subject = models.CharField(max_length=100, db_index=True)
    client_type = models.PositiveSmallIntegerField()
    group = models.CharField(max_length=200, blank=True)
    client_id = models.CharField(max_length=200)
    app = models.CharField(max_length=100, blank=True)
    first_seen_at = models.DateTimeField(auto_now_add=True)
    last_seen_at = models.DateTimeField()

    class Meta:
        ordering = ("subject", "client_id")

    def __str__(self) -> str:
        return f"{self.client_id} on {self.subject}"
