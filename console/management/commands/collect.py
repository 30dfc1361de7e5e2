"""`manage.py collect`: requests the numbers of all nodes once a second and publishes changes, until SIGTERM."""

import asyncio
import signal
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from console.collector.collector import Collector
from console.management.places import add_data_dir
from qmq.clock import SystemClock


class Command(BaseCommand):
    """Collects live numbers from all nodes. Any number of collectors can run: one is active, the others take over if it fails."""

    help = __doc__ or ""
    # Checks import every page of the API, half of the CPU time of a start. None is about the collector, and workers run them.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Flags."""
        add_data_dir(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until SIGTERM or Ctrl-C."""
        asyncio.run(_run())


async def _run() -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await Collector(settings.REDIS_URL, SystemClock()).run(stop)
