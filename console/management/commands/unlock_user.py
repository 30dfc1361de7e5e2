"""`manage.py unlock_user NAME`: ends the lock of a user after failed sign-ins."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.models import User
from console.accounts.services import UP, unlock_user
from console.management.places import add_data_dir


class Command(BaseCommand):
    """Clears the counts of a user's failed sign-ins; the password stays. Audited."""

    help = "Reset the failed sign-in counts of a user, so that they can sign in again immediately."

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)
        parser.add_argument("name", help="username")
        parser.add_argument("--reason", default="", help="reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        """Unlock the user."""
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"User {options['name']!r} not found.")
        change = unlock_user(user.pk, actor=UP, reason=options["reason"][:500])
        self.stdout.write(
            f"User {user.username} unlocked." if change.is_change else f"User {user.username} was not locked."
        )
