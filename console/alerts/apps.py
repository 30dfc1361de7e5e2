"""The alerts as a Django app."""

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AlertsConfig(AppConfig):
    """Rules, alerts, silences and notifications."""

    name = "console.alerts"
    label = "alerts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from console.alerts import checks  # noqa: F401  (registers itself)

        post_migrate.connect(_make_builtin_rules, sender=self, dispatch_uid="alerts.builtin_rules")


def _make_builtin_rules(**_: Any) -> None:
    from console.alerts.services.rules import ensure_builtin_rules

    ensure_builtin_rules()
