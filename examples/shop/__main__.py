"""`python -m examples.shop`: an online shop's data and traffic in a running system."""

import os
import sys

from console.manage import reporting, take_data_dir
from qmq.private_files import restrict_umask

PROGRAM = "python -m examples.shop"


def main() -> None:
    """Load the shop and send its messages; a wrong setting or a missing database is one line on stderr."""
    restrict_umask()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    reporting([PROGRAM, *take_data_dir(sys.argv[1:])], _run)


def _run(arguments: list[str]) -> None:
    import django

    django.setup()
    from examples.shop.command import Command

    Command().run_from_argv([PROGRAM, "", *arguments[1:]])


if __name__ == "__main__":
    main()
