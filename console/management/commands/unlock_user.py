"""`manage.py unlock_user NAME`: ends the lock of a user after failed sign-ins."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.models import User
from console.accounts.services import UP, unlock_user
from console.management.places import add_data_dir


class Command(BaseCommand):
    """Clears the counts of a user's failed sign-ins; the password stays. Audited."""

    help = "Clear the counts of a user's failed sign-ins, so that they can sign in from anywhere at once."

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)
        parser.add_argument("name", help="the user's name")
        parser.add_argument("--reason", default="", help="for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        """Unlock the user."""
        user = User.objects.filter(username=options["name"]).first()
        if user is None:
            raise CommandError(f"there is no user {options['name']!r}")
        change = unlock_user(user.pk, actor=UP, reason=options["reason"][:500])
        self.stdout.write(f"{user.username} is unlocked" if change.is_change else f"{user.username} was not locked")
