"""The Django app of the metadata."""

from django.apps import AppConfig


class MetaserverConfig(AppConfig):
    """Models, services and queries of the metadata."""

    name = "metaserver"
    default_auto_field = "django.db.models.BigAutoField"
