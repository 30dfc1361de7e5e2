"""The alerts as a Django app."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AlertsConfig(AppConfig):
    """Rules, alerts, silences and notifications."""

    name = "console.alerts"
    label = "alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from console.alerts.builtin import ensure_builtin_rules

        post_migrate.connect(ensure_builtin_rules, sender=self, dispatch_uid="alerts.builtin_rules")
