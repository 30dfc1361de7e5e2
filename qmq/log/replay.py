"""How a node opens its log: load the newest checkpoint, replay the commits behind it, report."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qmq.log.checkpoint import Checkpoint, as_number
from qmq.log.disk import Disk
from qmq.log.epochs import NO_EPOCHS, EpochChain
from qmq.log.log import SegmentedLog
from qmq.log.record import FIRST_EPOCH, Position
from qmq.log.recovery import Commit, Damage


@dataclass(frozen=True, slots=True)
class LogMemory:
    """What a checkpoint remembers of the log below its position, which the next start does not read."""

    damage: tuple[Damage, ...] = ()
    tails: Mapping[int, Position] = field(default_factory=dict)
    """Last commits of segments."""
    epochs: EpochChain = NO_EPOCHS

    @classmethod
    def decode(cls, head: Mapping[str, Any]) -> "LogMemory":
        """From a checkpoint's head. Raises ValueError, LookupError, TypeError."""
        return cls(
            tuple(Damage(as_number(begin), as_number(end), str(why)) for begin, end, why in head["damaged"]),
            {
                as_number(base): Position(as_number(offset), as_number(crc))
                for base, offset, crc in head["segment_tails"]
            },
            # Versions without replication recorded none: all commits were of the first epoch.
            EpochChain.of(
                (as_number(epoch), as_number(begin)) for epoch, begin in head.get("epochs", [[FIRST_EPOCH, 0]])
            ),
        )

    @staticmethod
    def encode(log: SegmentedLog) -> dict[str, Any]:
        """What to remember of a log, for a checkpoint's head."""
        return {
            "damaged": [[damage.begin, damage.end, damage.why] for damage in log.damaged],
            "segment_tails": [[base, tail.offset, tail.chain] for base, tail in log.tails.items()],
            "epochs": list(log.epochs),
        }


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a data folder found."""

    rebuilt: bool
    """Without a checkpoint, from the whole log."""
    why_rebuilt: str
    from_offset: int
    replayed_commits: int
    replayed_messages: int

    @property
    def loaded_offset(self) -> int:
        """Where the checkpoint stands, 0 without one."""
        return 0 if self.rebuilt else self.from_offset


class Replay(ABC):
    """Applies commits of the log to a store; a kind of node says how."""

    def __init__(self) -> None:
        self.commits = 0
        self.messages = 0

    @abstractmethod
    def visit(self, commit: Commit) -> None:
        """Apply one valid commit; in order."""

    def open_log(
        self,
        disk: Disk,
        folder: str,
        segment_bytes: int,
        checkpoint: Checkpoint | None,
        memory: LogMemory,
        synced_to: int = 0,
    ) -> SegmentedLog:
        """Open the log and replay it from the checkpoint on. Errors are those of `SegmentedLog.open`."""

        def visit(commit: Commit) -> None:
            self.commits += 1
            self.visit(commit)

        log = SegmentedLog.open(
            disk,
            folder,
            segment_bytes=segment_bytes,
            start=checkpoint.log_position if checkpoint is not None else None,
            synced_to=checkpoint.synced_to if checkpoint is not None else synced_to,
            tails=memory.tails,
            epochs=memory.epochs,
            visit=visit,
        )
        known = {damage.begin for damage in log.damaged}
        log.damaged += tuple(d for d in memory.damage if d.begin not in known and d.end > log.begin)
        return log

    def report(self, log: SegmentedLog, checkpoint: Checkpoint | None, why_rebuilt: str) -> RecoveryReport:
        """What was found."""
        begin = checkpoint.log_position.offset if checkpoint is not None else log.begin
        return RecoveryReport(checkpoint is None, why_rebuilt, begin, self.commits, self.messages)
