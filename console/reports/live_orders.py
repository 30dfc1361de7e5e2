"""Orders of live numbers that follow their changes: entries that stayed the same objects keep their places."""

import operator
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, overload

ORDERS_MAX = 4
"""Orders that are kept: about 200 bytes for each key of each."""
CHANGED_SHARE_MAX = 0.25
"""Of the keys; when more changed, everything is sorted again, which is faster then."""

Entry = Mapping[str, Any]
Value = Callable[[Entry, str], Any]
Place = tuple[Any, tuple[str, ...], str]
"""What a key is sorted by: the value (negative for a descending order), then the parts of the key; and the key."""


@dataclass(frozen=True, slots=True)
class Order(Sequence[str]):
    """The keys of a list in an order."""

    entries: Mapping[str, Entry]
    keys: Sequence[str]
    members: frozenset[str]
    """The keys."""
    known: list[Place]
    unknown: list[str]
    """Keys without a value; they come last."""

    def __len__(self) -> int:
        return len(self.known) + len(self.unknown)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        at, count = range(len(self))[index], len(self.known)
        return self.known[at][2] if at < count else self.unknown[at - count]


class LiveOrders:
    """The orders of one list that were requested last. From any thread.

    Args:
        value: what an entry is ordered by, a number; None: unknown.
    """

    def __init__(self, value: Value) -> None:
        self._value = value
        self._lock = threading.Lock()
        self._orders: dict[tuple[str, bool], Order] = {}

    def __len__(self) -> int:
        return len(self._orders)

    def ordered(self, entries: Mapping[str, Entry], keys: Sequence[str], field: str, is_down: bool) -> Order:
        """The keys by a number of their entries, descending or not, then by the parts of the key. What is unknown comes last."""
        with self._lock:
            order = self._orders.pop((field, is_down), None)
            if order is None or order.entries is not entries or order.keys is not keys:
                order = self._following(order, entries, keys, field, is_down)
            for oldest in list(self._orders)[: -(ORDERS_MAX - 1)]:
                del self._orders[oldest]
            self._orders[field, is_down] = order
            return order

    def _following(
        self, before: Order | None, entries: Mapping[str, Entry], keys: Sequence[str], field: str, is_down: bool
    ) -> Order:
        def places(state: Mapping[str, Entry], wanted: Iterable[str]) -> list[Place]:
            found: list[Place] = []
            for key in wanted:
                entry = state.get(key)
                value = None if entry is None else self._value(entry, field)
                if value is not None:
                    found.append((-value if is_down else value, key.partition("\n"), key))
            return found

        members = before.members if before is not None and keys is before.keys else frozenset(keys)
        changed: Collection[str] = keys
        if before is not None:
            changed = _changed(before, entries, members)
        if before is None or len(changed) > len(keys) * CHANGED_SHARE_MAX:
            known = sorted(places(entries, keys))
            left = {place[2] for place in known}
            return Order(entries, keys, members, known, [key for key in keys if key not in left])
        touched = {*changed, *(before.members - members if members is not before.members else ())}
        removed, added = places(before.entries, touched & before.members), places(entries, changed)
        unknown = before.unknown
        if len(removed) < len(touched) or len(added) < len(changed):
            lacking = (set(unknown) - touched) | (set(changed) - {place[2] for place in added})
            unknown = [key for key in keys if key in lacking]
        return Order(entries, keys, members, _with(_without(before.known, removed), added), unknown)


def _changed(before: Order, entries: Mapping[str, Entry], members: frozenset[str]) -> list[str]:
    """The keys that are new or have another entry."""
    old = before.entries
    if members is before.members and len(old) == len(entries) and all(map(operator.eq, old, entries)):
        others = compress(entries, map(operator.is_not, entries.values(), old.values()))
        return [key for key in others if key in members]
    get, known = old.get, before.members
    return [key for key in members if key not in known or entries.get(key) is not get(key)]


def _without(known: list[Place], removed: list[Place]) -> list[Place]:
    found: list[Place] = []
    begin = 0
    for place in sorted(removed):
        at = bisect_left(known, place, begin)
        found += known[begin:at]
        begin = at + 1
    return found + known[begin:]


def _with(known: list[Place], added: list[Place]) -> list[Place]:
    found: list[Place] = []
    begin = 0
    for place in sorted(added):
        at = bisect_left(known, place, begin)
        found += known[begin:at]
        found.append(place)
        begin = at
    return found + known[begin:]
