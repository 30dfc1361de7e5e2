"""What the processes of tests share: users, and systems that a test asks for."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.required import missing
from tests.support.servers.services import (
    Server,
    ServerMissing,
    named_databases,
    running,
)
from tests.support.servers.system import Person, System

PEOPLE = (
    Person("viewer", "viewer"),
    Person("operator", "operator"),
    Person("disabled", "operator"),
    Person("signed-out", "admin"),
    Person("ended", "admin"),
    Person("idle", "viewer"),
    Person("new-password", "viewer"),
)
"""Of the long-lived system, beside `admin`."""


class NewSystems:
    """Creates systems in a folder and closes them at the end. Without the servers they need, the test is skipped, or fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stack = contextlib.ExitStack()
        self.made: list[System] = []

    def __enter__(self) -> "NewSystems":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __call__(self, **parts: Any) -> System:
        """Create a system with these parts of `System`, not started."""
        try:
            self.made.append(self._stack.enter_context(System(self._folder, **parts)))
        except ServerMissing as error:
            missing(str(error), is_required=bool(named_databases()))
        return self.made[-1]


def server_for_tests(kind: type[Server], *, is_required: bool) -> Iterator[Server]:
    """A running server; without it the test fails when it is required or in CI, else it is skipped."""
    try:
        with running(kind) as server:
            yield server
    except ServerMissing as error:
        missing(str(error), is_required=is_required)
