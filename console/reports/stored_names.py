"""Names of rows in the database, kept by a process: a request loads those that are new."""

from collections.abc import Callable
from typing import Generic, TypeVar

from metaserver.queries import Mark

Name = TypeVar("Name")


class StoredNames(Generic[Name]):
    """The names of one table.

    Args:
        mark: returns what changes whenever a row is created or deleted; None: there are none.
        names: returns the names of rows created after a mark (None: of all) up to another; None: one may have been deleted.
    """

    def __init__(
        self, mark: Callable[[], Mark | None], names: Callable[[Mark | None, Mark], list[Name] | None]
    ) -> None:
        self._mark_now = mark
        self._names_of = names
        self._mark: Mark | None = None
        self.names: set[Name] = set()

    def refresh(self) -> bool:
        """Load the names of rows that were created since, or all if one was deleted; whether any changed."""
        mark = self._mark_now()
        if mark == self._mark:
            return False
        since, self._mark = self._mark, None
        added = self._names_of(since, mark) if since is not None and mark is not None else None
        if added is None:
            self.names = set()
            added = (self._names_of(None, mark) if mark is not None else None) or []
        self.names.update(added)
        self._mark = mark
        return True
