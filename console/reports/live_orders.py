"""Orders of live numbers that follow their changes: entries that stayed the same objects keep their places."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ORDERS_MAX = 4
"""Orders that are kept: about 200 bytes for each key of each."""
CHANGED_SHARE_MAX = 0.25
"""Of the keys; when more changed, everything is sorted again, which is faster then."""

Entry = Mapping[str, Any]
Value = Callable[[Entry, str], Any]


@dataclass(frozen=True, slots=True)
class _Order:
    entries: Mapping[str, Entry]
    keys: Sequence[str]
    known: list[tuple[Any, tuple[str, ...], str]]
    """(value, the parts of the key, the key), sorted."""
    unknown: frozenset[str]
    result: list[str]


class LiveOrders:
    """The orders of one list that were requested last. From any thread.

    Args:
        value: what an entry is ordered by, a number; None: unknown.
    """

    def __init__(self, value: Value) -> None:
        self._value = value
        self._lock = threading.Lock()
        self._orders: dict[tuple[str, bool], _Order] = {}

    def __len__(self) -> int:
        return len(self._orders)

    def ordered(self, entries: Mapping[str, Entry], keys: Sequence[str], field: str, is_down: bool) -> list[str]:
        """The keys by a number of their entries, descending or not, then by the parts of the key. What is unknown comes last.

        The result must not be changed.
        """
        with self._lock:
            order = self._orders.pop((field, is_down), None)
            if order is None or order.entries is not entries or order.keys is not keys:
                order = self._following(order, entries, keys, field, is_down)
            for oldest in list(self._orders)[: -(ORDERS_MAX - 1)]:
                del self._orders[oldest]
            self._orders[field, is_down] = order
            return order.result

    def _following(
        self, before: _Order | None, entries: Mapping[str, Entry], keys: Sequence[str], field: str, is_down: bool
    ) -> _Order:
        known: list[tuple[Any, tuple[str, ...], str]] = []
        unknown: set[str] = set()
        added: Sequence[str] = keys
        if before is not None:
            changed, gone = _changes(before, entries, keys)
            if len(changed) <= len(keys) * CHANGED_SHARE_MAX:
                left = gone.union(changed)
                known = [one for one in before.known if one[2] not in left] if left else list(before.known)
                unknown, added = set(before.unknown - left), changed
        for key in added:
            entry = entries.get(key)
            value = None if entry is None else self._value(entry, field)
            if value is None:
                unknown.add(key)
            else:
                known.append((-value if is_down else value, key.partition("\n"), key))
        known.sort()
        result = [one[2] for one in known]
        if unknown:
            result += [key for key in keys if key in unknown]
        return _Order(entries, keys, known, frozenset(unknown), result)


def _changes(before: _Order, entries: Mapping[str, Entry], keys: Sequence[str]) -> tuple[list[str], set[str]]:
    """The keys that are new or have another entry, and those that are gone."""
    old, new = before.entries.get, entries.get
    if keys is before.keys:
        return [key for key in keys if new(key) is not old(key)], set()
    known = set(before.keys)
    return [key for key in keys if key not in known or new(key) is not old(key)], known.difference(keys)
