"""Names in order, so that a page of them costs the page and not all names."""

from bisect import bisect_left, bisect_right, insort

SINGLE_ADDS_MAX = 100
"""New names that are inserted one by one; more are sorted in together."""


class SortedNames:
    """A set of names, read in pages in the order of their characters.

    New names are put in order when a page is read: a start that adds all subjects sorts them once.
    """

    def __init__(self) -> None:
        self._sorted: list[str] = []
        self._added: set[str] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._added)

    def add(self, name: str) -> None:
        """Add a name that is not there."""
        self._added.add(name)

    def remove(self, name: str) -> None:
        """Remove a name that is there."""
        if name in self._added:
            self._added.remove(name)
            return
        at = bisect_left(self._sorted, name)
        assert self._sorted[at] == name, f"{name!r} is not there"
        del self._sorted[at]

    def page(self, after: str, limit: int, prefix: str = "") -> list[str]:
        """Up to `limit` names with a prefix that come after this one, which need not be there."""
        if len(self._added) > SINGLE_ADDS_MAX:
            self._sorted += self._added
            self._sorted.sort()
        else:
            for name in self._added:
                insort(self._sorted, name)
        self._added.clear()
        begin = bisect_right(self._sorted, after) if after >= prefix and after else bisect_left(self._sorted, prefix)
        return [name for name in self._sorted[begin : begin + limit] if name.startswith(prefix)]
