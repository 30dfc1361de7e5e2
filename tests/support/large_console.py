"""A console over a database with very many subjects: its web process alone, for pages that show lists."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.console_system import ConsoleSystem, Person
from tests.support.services import RedisServer, running

VIEWER = Person("vera", "viewer")
_FILL = """
import django, sys
django.setup()
from console.accounts.models import User
from tests.support.large import fill
fill(User.objects.get(username="vera"), int(sys.argv[1]))
"""


@contextmanager
def large_console(folder: Path, subjects: int) -> Iterator[ConsoleSystem]:
    """Serving `subject0000` and so on to VIEWER; no node, no collector: nothing is measured. Stopped afterwards."""
    with running(RedisServer) as redis:
        found = ConsoleSystem(folder, redis.url)
        found.make_tables((VIEWER,))
        found.python("-c", _FILL, str(subjects))
        try:
            found.plane.console.start()
            yield found
        finally:
            found.plane.console.stop()
