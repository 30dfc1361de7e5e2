"""The Django application."""

from django.apps import AppConfig


class QmqDjangoConfig(AppConfig):
    """Provides the command qmq_consume."""

    name = "qmq_django"
    verbose_name = "PyQMQ"
