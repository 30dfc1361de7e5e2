"""The Django application."""

from django.apps import AppConfig


class IdempotentConfig(AppConfig):
    """Provides the migration of the table of markers."""

    name = "qmq.integrations.django.idempotent"
    label = "qmq_idempotent"
    verbose_name = "PyQMQ markers"
