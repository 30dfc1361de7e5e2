"""The Django app of the metadata."""

from django.apps import AppConfig
from django.db.models.signals import pre_migrate

from metaserver.stored.database import wait_for_ever


class MetaserverConfig(AppConfig):
    name = "metaserver"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Remove the time limits of statements for migrations."""
        pre_migrate.connect(wait_for_ever, sender=self, dispatch_uid="metaserver.wait_for_ever")
