"""`manage.py make_token USER --name NAME`: creates an API token; requires access to the machine that runs the console."""

from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.models import User
from console.accounts.roles import Scope
from console.accounts.services import UP
from console.accounts.tokens import create_token
from console.management.places import add_data_dir
from metaserver.errors import ChangeRefused


class Command(BaseCommand):
    """Makes a token in a user's name and prints it, alone on a line, this once; audited."""

    help = "Create an API token for a user and print it."

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)
        parser.add_argument("user", help="owner; the token never has more rights than this user")
        parser.add_argument("--name", required=True, help="what the token is for")
        parser.add_argument(
            "--scope", action="append", choices=[scope.value for scope in Scope], help="can be repeated; default: read"
        )
        parser.add_argument("--days", type=int, default=30, help="days until it expires; default: 30")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make it."""
        owner = User.objects.filter(username=options["user"], is_active=True).first()
        if owner is None:
            raise CommandError(f"Active user {options['user']!r} not found.")
        scopes = options["scope"] or [Scope.READ.value]
        try:
            _, token, _ = create_token(owner, options["name"], scopes, timedelta(days=options["days"]), actor=UP)
        except (ChangeRefused, OverflowError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(token or "")
