"""`manage.py metaserver`: the metaserver inside the console's project."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from metaserver.__main__ import run


class Command(BaseCommand):
    """Run a metaserver; its own flags are those of `python -m metaserver --help`."""

    help = __doc__ or ""

    def run_from_argv(self, argv: list[str]) -> None:
        """Take the flags as they are: the metaserver reads them itself."""
        sys.exit(run(argv[2:]))

    def handle(self, *args: Any, **options: Any) -> None:
        """Run with the flags of `call_command`, which alone calls this method."""
        sys.exit(run(list(args)))
