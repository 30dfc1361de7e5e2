"""The Django application."""

from django.apps import AppConfig


class QmqConfig(AppConfig):
    """Provides the command qmq_consume."""

    name = "qmq.integrations.django"
    label = "qmq"
    verbose_name = "PyQMQ"
