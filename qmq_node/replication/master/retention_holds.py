"""class RetentionHolds: what retention leaves for slaves that are behind. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

HOLD_SECONDS = 600.0
"""A slave that gets no further for so long holds nothing any more, and may have to copy all of the log later. It may restart in
this time."""
REBUILD_BYTES_PER_SECOND = 16 << 20
"""A slave that copies opens what it has copied, and builds all indexes, without a session. It is given the time that this takes at
this rate besides: a slow machine reaches it with small messages."""
REBUILD_SECONDS_MAX = 3_600.0
"""The longest such time: a slave that is gone keeps retention from removing segments for HOLD_SECONDS longer at most."""


@dataclass(eq=False, repr=False)
class RetentionHolds:
    """The log offset that each slave needs next, and when its hold ends. Times are monotonic seconds."""

    _held: dict[str, tuple[int, float]] = field(default_factory=dict)

    def hold(self, slave: str, offset: int, now: float, *, to_rebuild: int = 0, is_further: bool = False) -> None:
        """A slave needs the log from `offset` on. A lower one than before is no progress.

        Args:
            to_rebuild: bytes of log that the slave has copied and may not have opened yet.
            is_further: whether the slave made progress although it needs the same log as before: it copies files.
        """
        known = self._held.get(slave)
        end = now + HOLD_SECONDS + min(to_rebuild / REBUILD_BYTES_PER_SECOND, REBUILD_SECONDS_MAX)
        self._held[slave] = offset, end if is_further or known is None or offset > known[0] else known[1]

    def keep_only(self, slaves: Iterable[str]) -> None:
        """Drop the holds of all other slaves."""
        members = set(slaves)
        self._held = {slave: held for slave, held in self._held.items() if slave in members}

    def offsets(self, now: float) -> list[int]:
        """Return what is held."""
        return [offset for offset, end in self._held.values() if now < end]
