"""`manage.py analytics`: runs the jobs that fill the tables of the Analytics page."""

import os
import subprocess
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.analytics.process import command, environment


class Command(BaseCommand):
    """Run analytics jobs on Spark; `manage.py analytics --list` says which there are. The console never imports Spark: this
    becomes the process that does."""

    help = __doc__ or ""

    def run_from_argv(self, argv: list[str]) -> None:
        """Become `python -m spark_analytics.jobs` with the same arguments."""
        sys.stdout.flush()
        os.execve(sys.executable, command(argv[2:]), environment())

    def add_arguments(self, parser: CommandParser) -> None:
        """What code that calls this command hands on; the process has options of its own."""
        parser.add_argument("arguments", nargs="*")

    def handle(self, *args: Any, **options: Any) -> None:
        """For `call_command`: run it and wait.

        Raises:
            CommandError: it did not succeed; `returncode` is its exit code.
        """
        code = subprocess.run(command(options["arguments"]), env=environment(), check=False).returncode
        if code:
            raise CommandError(f"analytics ended with exit code {code}", returncode=code)
