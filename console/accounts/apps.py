"""The accounts as a Django app."""

from django.apps import AppConfig


class AccountsConfig(AppConfig):
    """Users, teams, tokens, roles."""

    name = "console.accounts"
    label = "accounts"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Listen to sign-ins and changes of credentials."""
        from console.accounts import signals

        signals.connect()
