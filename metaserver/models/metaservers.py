"""Metaservers, as they say that they live and can store."""

from django.db import models


class MetaserverBeat(models.Model):
    """A metaserver. Missing heartbeats count only while some metaserver received and stored heartbeats without a pause."""

    name = models.CharField(max_length=200, unique=True)
    seen_at = models.DateTimeField()
    """When it last stored something, by its own wall clock."""
    steady_since = models.DateTimeField()
    """Since when it has been running and storing without a pause."""

    def __str__(self) -> str:
        return self.name
