"""The console as a Django app."""

from django.apps import AppConfig


class ConsoleConfig(AppConfig):
    """The console."""

    name = "console"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Register the checks."""
        from console import checks  # noqa: F401  (they register themselves)
