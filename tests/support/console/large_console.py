"""A console over a database with very many subjects: its web process alone, for pages that show lists."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.system import Person, System

VIEWER = Person("vera", "viewer")
_FILL = """
import django, sys
django.setup()
from console.accounts.models import User
from tests.support.console.large import fill
fill(User.objects.get(username="vera"), int(sys.argv[1]))
"""


@contextmanager
def large_console(folder: Path, subjects: int) -> Iterator[System]:
    """Serving `subject0000` and so on to VIEWER; no node, no collector: nothing is measured. Stopped afterwards."""
    with System(folder, groups=0, console=True, collectors=0, people=(VIEWER,)) as found:
        found.prepare()
        found.python("-c", _FILL, str(subjects))
        found.console.start()
        yield found
