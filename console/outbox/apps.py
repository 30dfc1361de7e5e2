"""The registered databases as a Django app."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """Databases with an outbox."""

    name = "console.outbox"
    label = "console_outbox"
    default_auto_field = "django.db.models.BigAutoField"
