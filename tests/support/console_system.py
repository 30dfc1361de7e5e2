"""A whole system with its console as real processes: what browser tests and screenshots visit."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.support.control import ControlPlane
from tests.support.processes import PROJECT, System

_MAKE_PEOPLE = """
import django, json, sys
django.setup()
from allauth.mfa.totp.internal.auth import TOTP
from console.accounts.roles import Role
from metaserver.services.teams import create_team
from tests.support.people import TESTER, person
people = json.loads(sys.argv[1])
for team in sorted({team for one in people for team in one["teams"]}):
    create_team(team, "", actor=TESTER)
for one in people:
    user = person(one["name"], Role(one["role"]), one["teams"], language=one["language"])
    if one["totp_secret"]:
        TOTP.activate(user, one["totp_secret"])
"""


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who signs in with `tests.support.password.PASSWORD`."""

    name: str
    role: str
    teams: tuple[str, ...] = ()
    language: str = ""
    totp_secret: str = ""
    """base32; "": no second factor."""


class ConsoleSystem:
    """Metaserver, two broker groups, a delay group, web process, collector, Celery worker and beat."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.folder = folder
        self.system = System(folder)
        self.system.add_delay("d1")
        self.plane = ControlPlane(self.system, redis_url)

    @property
    def url(self) -> str:
        """Of the start page, without a slash at its end."""
        return f"http://127.0.0.1:{self.plane.port}"

    def start(self, people: tuple[Person, ...] = ()) -> None:
        """Make the tables, these people and their teams; start everything."""
        self.make_tables(people)
        self.system.start()
        self.plane.start()

    def make_tables(self, people: tuple[Person, ...]) -> None:
        """The database, with these people and their teams."""
        self.plane.migrate()
        self.python("-c", _MAKE_PEOPLE, json.dumps([asdict(one) for one in people]))

    def stop(self) -> None:
        """Stop everything."""
        self.plane.stop()
        self.system.stop()

    @property
    def environment(self) -> dict[str, str]:
        """For a process of this system."""
        return {**os.environ, **self.plane.environment}

    def python(self, *arguments: str) -> str:
        """Run Python in the console's environment; what it printed."""
        done = subprocess.run(
            [sys.executable, *arguments], env=self.environment, cwd=PROJECT, capture_output=True, text=True,
            check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def console_system(folder: Path, redis_url: str, people: tuple[Person, ...] = ()) -> Iterator[ConsoleSystem]:
    """A started system; stopped afterwards."""
    found = ConsoleSystem(folder, redis_url)
    try:
        found.start(people)
        yield found
    finally:
        found.stop()
