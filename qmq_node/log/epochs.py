"""class EpochChain: which epoch wrote which part of a log, and up to where two logs are equal. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple


class EpochBegin(NamedTuple):
    """An epoch, and the log offset behind the last commit before it.

    Not the offset of its first commit: that may lie further on, in the next segment, and what another log has in between is not
    part of this one.
    """

    epoch: int
    begin: int


@dataclass(frozen=True, slots=True)
class EpochChain:
    """The epochs of a log, the oldest first; both numbers of the entries rise.

    An epoch has one writer, and a node adds a commit of an epoch only behind the same bytes as the writer's. So two logs that
    both have commits of an epoch are equal up to the end of that epoch in the log where it ends first.
    """

    entries: tuple[EpochBegin, ...] = ()

    def __post_init__(self) -> None:
        for before, after in zip(self.entries, self.entries[1:], strict=False):
            if before.epoch >= after.epoch or before.begin >= after.begin:
                raise ValueError(
                    f"epoch {after.epoch} from {after.begin} on follows {before.epoch} from {before.begin} on"
                )

    @classmethod
    def of(cls, entries: Iterable[tuple[int, int]]) -> "EpochChain":
        """Return the chain of pairs (epoch, begin). Raises ValueError if they do not rise."""
        return cls(tuple(EpochBegin(epoch, begin) for epoch, begin in entries))

    def __iter__(self) -> Iterator[EpochBegin]:
        return iter(self.entries)

    @property
    def last_epoch(self) -> int:
        """The epoch of the newest commit; 0 for an empty log."""
        return self.entries[-1].epoch if self.entries else 0

    def with_commit(self, epoch: int, previous_end: int) -> "EpochChain":
        """Return the chain after a commit of `epoch` was added. Raises ValueError for an older epoch.

        Args:
            previous_end: the end of the commit before it.
        """
        if epoch == self.last_epoch and self.entries:
            return self
        return EpochChain((*self.entries, EpochBegin(epoch, previous_end)))

    def truncated(self, end: int) -> "EpochChain":
        """Return the chain of the log without everything from `end` on."""
        return EpochChain(tuple(entry for entry in self.entries if entry.begin < end))

    def common_end(self, end: int, other: "EpochChain", other_end: int) -> int | None:
        """Return the highest offset up to which both logs are equal; None if they have no epoch in common.

        Args:
            end: of the log of this chain.
            other_end: of the log of `other`.
        """
        ends, other_ends = self._ends(end), other._ends(other_end)
        common = max(ends.keys() & other_ends.keys(), default=None)
        return None if common is None else min(ends[common], other_ends[common])

    def _ends(self, log_end: int) -> dict[int, int]:
        """Where each epoch ends."""
        ends = [*(entry.begin for entry in self.entries[1:]), log_end]
        return {entry.epoch: end for entry, end in zip(self.entries, ends, strict=True)} if self.entries else {}


NO_EPOCHS = EpochChain()
"""Of an empty log."""
