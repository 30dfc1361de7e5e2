"""The base of rows that operators change: their version is what ETags carry."""

from django.db import models


class Versioned(models.Model):
    """A row with a version, raised by each change of an operator."""

    version = models.BigIntegerField(default=1)

    class Meta:
        abstract = True
