"""Subjects with their live numbers, in the order of a number.

The database says which subjects there are, the snapshot what is measured of them. A process keeps one table: that of the newest
snapshot.
"""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from console.reports.lag_table import lag_value
from console.reports.live_orders import LiveOrders
from console.reports.stored_names import StoredNames
from metaserver import queries

NUMBERS = ("send_rate", "highest_lag")
"""What subjects can be ordered by."""

Entry = Mapping[str, Any]


class SubjectTable:
    """The subjects of the database with the numbers of one snapshot.

    Args:
        entries: the snapshot's, by name.
        names: of all subjects, in order.
    """

    def __init__(self, entries: Mapping[str, Entry], names: list[str], orders: LiveOrders) -> None:
        self.entries = entries
        self.names = names
        self._orders = orders

    def ordered(self, field: str, is_down: bool) -> Sequence[str]:
        """The names by a number. What is unknown comes last."""
        return self._orders.ordered(self.entries, self.names, field, is_down)

    def row(self, name: str) -> dict[str, Any]:
        """What a subject is ordered by."""
        entry = self.entries.get(name)
        return {"name": name} | {field: None if entry is None else lag_value(entry, field) for field in NUMBERS}


class SubjectTables:
    """The newest table of a process. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored = StoredNames(queries.subjects_mark, queries.subject_names)
        self._orders = LiveOrders(lag_value)
        self._table = SubjectTable({}, [], self._orders)

    def newest(self, entries: Mapping[str, Entry]) -> SubjectTable:
        """The table of a snapshot's subjects; the same object while these and the database's are the same."""
        with self._lock:
            before = self._table
            names = sorted(self._stored.names) if self._stored.refresh() else before.names
            if names is not before.names or entries is not before.entries:
                self._table = SubjectTable(entries, names, self._orders)
            return self._table


TABLES = SubjectTables()
"""The process's own."""
