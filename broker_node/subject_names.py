"""The names of a broker's subjects in order, for pages. Sorted when a page asks, not when a subject comes."""

from bisect import bisect_left, bisect_right, insort

INSORT_MAX = 100
"""New names inserted one by one; more are appended and sorted together, which takes one pass over all names."""


class SubjectNames:
    """A sorted set of names. Not thread-safe."""

    def __init__(self) -> None:
        self._sorted: list[str] = []
        self._new: list[str] = []

    def __len__(self) -> int:
        return len(self._sorted) + len(self._new)

    def add(self, name: str) -> None:
        """Add a name that is not in the set."""
        self._new.append(name)

    def remove(self, name: str) -> None:
        """Remove a name that is in the set."""
        names = self.all()
        del names[bisect_left(names, name)]

    def all(self) -> list[str]:
        """All names in order. The list changes with the set."""
        if len(self._new) <= INSORT_MAX:
            for name in self._new:
                insort(self._sorted, name)
        else:
            self._sorted += self._new
            self._sorted.sort()
        self._new.clear()
        return self._sorted

    def after(self, name: str, count: int) -> list[str]:
        """The first `count` names behind `name`; "" stands before all."""
        names = self.all()
        at = bisect_right(names, name)
        return names[at : at + count]
