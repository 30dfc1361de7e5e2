"""class RetentionHolds: what retention leaves for slaves that are behind. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

HOLD_SECONDS = 600.0
"""A slave that gets no further for so long holds nothing any more, and may have to copy all of the log later. It may restart, and
build its indexes, in this time."""


@dataclass(eq=False, repr=False)
class RetentionHolds:
    """The log offset that each slave needs next, and when it rose last. Times are monotonic seconds."""

    _held: dict[str, tuple[int, float]] = field(default_factory=dict)

    def hold(self, slave: str, offset: int, now: float) -> None:
        """A slave needs the log from `offset` on. A lower one than before is no progress."""
        known = self._held.get(slave)
        self._held[slave] = offset, now if known is None or offset > known[0] else known[1]

    def keep_only(self, slaves: Iterable[str]) -> None:
        """Drop the holds of all other slaves."""
        members = set(slaves)
        self._held = {slave: held for slave, held in self._held.items() if slave in members}

    def offsets(self, now: float) -> list[int]:
        """Return what is held."""
        return [offset for offset, at in self._held.values() if now - at < HOLD_SECONDS]
