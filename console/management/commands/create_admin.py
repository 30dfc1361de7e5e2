"""`manage.py create_admin`: the first user of a system that `up` does not run."""

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.accounts.services import FIRST_ADMIN, ensure_first_admin
from console.management.passwords import command, hand_out
from console.management.places import add_data_dir


class Command(BaseCommand):
    """Creates the user `admin` if there are no users; a terminal shows the password once, other output names the file with it."""

    help = "Create the first administrator, if there are no users yet."

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Create it.

        Raises:
            CommandError: there are users already.
        """
        password = ensure_first_admin()
        if password is None:
            raise CommandError(
                f"There are users already. An administrator creates more; `{command('reset_password NAME')}` sets a new password."
            )
        shown = hand_out(FIRST_ADMIN, password, out=sys.stdout, data_dir=settings.DATA_DIR)
        self.stdout.write(f"User {FIRST_ADMIN} created, password {shown}")
