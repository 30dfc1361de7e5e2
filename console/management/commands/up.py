"""`manage.py up`: migrate, then run a whole small system."""

import os
import sys
from argparse import ArgumentTypeError
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from console.accounts.services import FIRST_ADMIN, ensure_first_admin
from console.launcher import main

PORTS_NEEDED = 9


def _port_base(text: str) -> int:
    value = int(text) if text.isdigit() else 0
    if not 1024 <= value <= 65535 - PORTS_NEEDED:
        raise ArgumentTypeError(f"{text!r}: a port from 1024 to {65535 - PORTS_NEEDED} is needed")
    return value


def show_first_admin() -> None:
    """Make the first administrator where there is no user yet, and say the password this once."""
    password = ensure_first_admin()
    if password is None:
        return
    lines = (
        "The first administrator was made. Sign in with",
        f"    user name  {FIRST_ADMIN}",
        f"    password   {password}",
        "It is shown once and kept nowhere; `python manage.py reset_password admin` makes another.",
    )
    rule = "-" * max(map(len, lines))
    print("\n".join((rule, *lines, rule)), flush=True)


class Command(BaseCommand):
    """Redis, metaserver, two broker groups, a delay group, the console and its control loops, watched until Ctrl-C."""

    help = __doc__ or ""

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        parser.add_argument(
            "--data-dir", default=os.environ.get("QMQ_DATA_DIR", "var"), help="where everything is kept"
        )
        parser.add_argument(
            "--port-base", type=_port_base, help="console here, metaserver on the next two, then brokers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Migrate and run."""
        from django.conf import settings

        data_dir = os.path.abspath(options["data_dir"])
        if os.path.abspath(settings.DATA_DIR) != data_dir:
            # Settings were read for another folder: start again with this one in the environment.
            os.environ["QMQ_DATA_DIR"] = data_dir
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
        os.makedirs(os.path.join(data_dir, "meta"), exist_ok=True)
        call_command("migrate", interactive=False, verbosity=0)
        show_first_admin()
        sys.exit(main(data_dir, options["port_base"]))
