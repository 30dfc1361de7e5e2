"""Teams: who owns a subject. Which users belong to one is the console's."""

from django.db import models

from metaserver.versioned import Versioned


class Team(Versioned):
    """People who share the ownership of subjects."""

    name = models.CharField(max_length=60, unique=True)
    description = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name
