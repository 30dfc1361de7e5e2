"""`manage.py up`: migrate, then run a whole small system."""

import os
import sys
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser
from django.db import transaction

from console.accounts.services import FIRST_ADMIN, UP, ensure_first_admin
from console.launcher.programs import COPIES, DELAY_GROUP, GROUPS
from console.launcher.system import main
from console.management.passwords import command, hand_out
from console.management.places import add_places
from metaserver import queries
from metaserver.choices import GroupKind
from metaserver.services.broker_groups import announce_group
from metaserver.services.members import set_copies
from qmq.private_files import make_private_dir
from qmq.protocol.group_memberships import MEMBERS_MAX


def show_first_admin() -> None:
    """Create the first administrator if there is no user yet, and show the password on a terminal or name the file that has it."""
    password = ensure_first_admin()
    if password is None:
        return
    shown = hand_out(FIRST_ADMIN, password, out=sys.stdout, data_dir=settings.DATA_DIR)
    is_in_file = shown != password
    lines = (
        "The first administrator was created:",
        f"    username   {FIRST_ADMIN}",
        f"    password   {shown}",
        "Delete the file after you have signed in." if is_in_file else "The password is shown only once.",
        f"`{command('reset_password admin')}` sets a new one.",
    )
    rule = "-" * max(map(len, lines))
    print("\n".join((rule, *lines, rule)), flush=True)


@transaction.atomic
def announce_delay_group(copies: int) -> None:
    """Create the delay group before its first node registers, if there is none. Its minimum is 1: it is the only one, so with
    a higher minimum there would be no delayed sends while a member is unavailable."""
    if queries.broker_group(DELAY_GROUP) is None:
        reason = "first start"
        announce_group(DELAY_GROUP, GroupKind.DELAY, actor=UP, reason=reason)
        set_copies(DELAY_GROUP, {"copies": copies, "in_sync_min": 1}, actor=UP, reason=reason)


class Command(BaseCommand):
    """Runs a whole system until Ctrl-C: Redis, metaserver, broker groups and a delay group with slaves, the console, jobs."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_places(parser)
        parser.add_argument(
            "--copies",
            type=int,
            choices=range(1, MEMBERS_MAX + 1),
            default=COPIES,
            help="members of each new broker or delay group: 1 has no slave. Groups that exist keep what they have",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate and run."""
        data_dir = os.path.abspath(settings.DATA_DIR)
        # The launcher's own folder first: with it, everything below is restricted.
        for folder in (data_dir, os.path.join(data_dir, "meta")):
            make_private_dir(folder)
        call_command("migrate", interactive=False, verbosity=0)
        show_first_admin()
        announce_delay_group(options["copies"])
        stored = {row.name: row.copies for row in queries.broker_groups().filter(name__in=GROUPS)}
        sys.exit(main(data_dir, options["port_base"], options["copies"], stored))
