"""`manage.py metaserver`: the metaserver inside the console's project."""

import sys
from typing import Any

from django.core.management.base import BaseCommand

from metaserver.__main__ import read_options, run
from qmq.daemon.runner import set_up_logging


class Command(BaseCommand):
    """Run a metaserver; its own flags are those of `python -m metaserver --help`."""

    help = __doc__ or ""

    def run_from_argv(self, argv: list[str]) -> None:
        """Take the flags as they are: the metaserver reads them itself."""
        options = read_options(argv[2:])
        set_up_logging(options.log_level, options.log_format)
        sys.exit(run(options))

    def handle(self, *args: Any, **options: Any) -> None:
        """Called by `call_command` only."""
        sys.exit(run(read_options(list(args))))
