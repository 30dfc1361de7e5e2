"""Consumer groups with their live lag, in any order, without creating a row for each.

A process keeps one table: that of the newest snapshot, with the orders that were requested. What a request costs above that is its
page. The names of the groups in the database are kept too; a request loads those that are new.
"""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from console.cluster.group_numbers import GROUP_NUMBERS
from console.reports.live_orders import Entry, LiveOrders
from console.reports.stored_names import StoredNames
from console.snapshot.lag_state import LagState
from console.snapshot.state import group_key
from metaserver import queries
from qmq.protocol.names import split_subject

LISTED_NUMBERS = tuple(name for name, number in GROUP_NUMBERS.items() if number.is_listed)
LAG_FIELDS = (
    "subject", "group", *LISTED_NUMBERS, "drain_seconds", "is_draining", "not_draining", "is_paused", "withheld", "state",
    "reason", "at", "missing", "at_least", "last",
)  # fmt: skip


class LagTable:
    """The groups of one snapshot and of the database.

    Args:
        groups: the snapshot's, by key.
        keys: of the groups to show, in order.
        reason: why a group that is not in the snapshot has no numbers.
        orders: of the tables before; None: there were none.
    """

    def __init__(
        self, groups: Mapping[str, Entry], keys: list[str], reason: str, orders: LiveOrders | None = None
    ) -> None:
        self.groups = groups
        self.keys = keys
        self.reason = reason
        self._orders = LiveOrders(lag_value) if orders is None else orders

    def row(self, key: str) -> dict[str, Any]:
        """A group as lists show it."""
        entry = self.groups.get(key)
        if entry is not None:
            return lag_row(entry)
        subject, _, group = key.partition("\n")
        found = {"subject": subject, "group": group, "state": LagState.UNKNOWN.value, "reason": self.reason}
        return dict.fromkeys(LAG_FIELDS) | found

    def state(self, key: str) -> str:
        """A group's state, a LagState."""
        entry = self.groups.get(key)
        return LagState.UNKNOWN.value if entry is None else str(entry["state"])

    @cached_property
    def states(self) -> Mapping[str, int]:
        """The number of groups in each state that occurs."""
        return Counter(map(self.state, self.keys))

    def ordered(self, field: str, is_down: bool) -> Sequence[str]:
        """The keys by a field, then by name. What is unknown comes last."""
        if field not in ("subject", "group"):
            return self._orders.ordered(self.groups, self.keys, field, is_down)
        part = 0 if field == "subject" else 2
        return sorted(self.keys, key=lambda key: key.partition("\n")[part], reverse=is_down)


def lag_row(entry: Entry) -> dict[str, Any]:
    """A group of the snapshot as lists show it."""
    row = {name: entry.get(name) for name in LAG_FIELDS}
    if row["withheld"] is None and row["lag"] is not None:
        # The snapshot has the number only where it is not 0.
        row["withheld"] = 0
    return row


def lag_value(row: Entry, field: str) -> Any:
    """Return what a row is ordered by; None: unknown.

    A lag that does not decrease takes longer than any other. While broker groups are missing, it is what the others report, else
    the last known number.
    """
    if field == "drain_seconds" and row.get("is_draining") is False:
        return float("inf")
    value = row.get(field)
    if value is None and row.get("missing"):
        return ((row.get("at_least") or {}) if row.get("at_least") else (row.get("last") or {})).get(field)
    return value


def is_internal(subject: str) -> bool:
    """Whether it holds some group's retries or dead letters."""
    return subject.startswith("%") and split_subject(subject).kind != "real"


class LagTables:
    """The newest table of a process. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stored = StoredNames(queries.groups_mark, queries.group_names)
        self._orders = LiveOrders(lag_value)
        self._table = LagTable({}, [], "")

    def newest(self, groups: Mapping[str, Entry], reason: str) -> LagTable:
        """The table of a snapshot's groups; the same object while these and the database's are the same."""
        with self._lock:
            before, is_same = self._table, not self._stored.refresh()
            if is_same and groups is before.groups and reason == before.reason:
                return before
            if is_same and groups.keys() == before.groups.keys():
                keys = before.keys
            else:
                keys = table_keys(groups, {group_key(*names) for names in self._stored.names})
            self._table = LagTable(groups, keys, reason, self._orders)
            return self._table


def table_keys(groups: Mapping[str, Entry], names: set[str]) -> list[str]:
    """The keys of a table in order: subjects that hold retries or dead letters have none."""
    return sorted(
        [key for key in groups if not (key.startswith("%") and is_internal(key.partition("\n")[0]))]
        + [key for key in names if key not in groups],
        key=lambda key: key.partition("\n"),
    )


TABLES = LagTables()
"""The process's own."""
