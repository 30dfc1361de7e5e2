"""The Django app of the metadata."""

from typing import Any

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import pre_migrate


class MetaserverConfig(AppConfig):
    """Models, services and queries of the metadata."""

    name = "metaserver"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Remove the time limits of statements for migrations."""
        pre_migrate.connect(_wait_for_ever, sender=self, dispatch_uid="metaserver.wait_for_ever")


def _wait_for_ever(*, using: str, **_: Any) -> None:
    from metaserver.database import wait_for_ever

    wait_for_ever(connections[using])
