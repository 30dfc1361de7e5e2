"""`manage.py reset_password NAME`: sets a new password; requires access to the machine that runs the console."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.services import UP, reset_password
from console.management.places import add_data_dir
from metaserver.errors import NotFound


class Command(BaseCommand):
    """Makes a random password, prints it once, ends the user's sessions; audited."""

    help = "Set a new random password for a user, print it once and end the user's sessions."

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)
        parser.add_argument("name", help="username")
        parser.add_argument("--reason", default="", help="reason for the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        """Reset it."""
        try:
            made = reset_password(options["name"], actor=UP, reason=options["reason"][:500])
        except NotFound as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"New password of {options['name']}, shown once: {made.secret}")
