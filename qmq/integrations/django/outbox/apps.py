"""The Django application of the outbox, apart from `qmq.integrations.django`: only who installs it gets its tables."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """Provides the tables, their migration, the checks and the command outbox_watchdog."""

    name = "qmq.integrations.django.outbox"
    label = "qmq_outbox"
    verbose_name = "PyQMQ outbox"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks."""
        import qmq.integrations.django.outbox.checks  # noqa: F401
