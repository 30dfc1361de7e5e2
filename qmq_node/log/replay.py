"""How a node opens its log: load the newest checkpoint, replay the commits behind it, report. A slave continues to replay."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from qmq_node.log.checkpoint import Checkpoint, as_number
from qmq_node.log.disk import Disk
from qmq_node.log.epochs import NO_EPOCHS, EpochChain
from qmq_node.log.log import SegmentedLog
from qmq_node.log.lost_ranges import LostRanges
from qmq_node.log.opening import added, inspect
from qmq_node.log.record import EPOCH_KIND, Position, iter_records
from qmq_node.log.recovery import Commit, Damage, Walker
from qmq_node.log.segment import Segments


@dataclass(frozen=True, slots=True)
class LogMemory:
    """What a checkpoint remembers of the log below its position, which the next start does not read."""

    damage: tuple[Damage, ...] = ()
    tails: Mapping[int, Position] = field(default_factory=dict)
    """Last commits of segments."""
    epochs: EpochChain = NO_EPOCHS
    records_end: int = 0
    """The end of a commit: the checkpoint's state may hold records up to here. All of it was confirmed when it was saved."""

    @classmethod
    def decode(cls, head: Mapping[str, Any]) -> "LogMemory":
        """From a checkpoint's head. Raises ValueError, LookupError, TypeError."""
        return cls(
            tuple(Damage(as_number(begin), as_number(end), str(why)) for begin, end, why in head["damaged"]),
            {
                as_number(base): Position(as_number(offset), as_number(crc))
                for base, offset, crc in head["segment_tails"]
            },
            EpochChain.of((as_number(epoch), as_number(begin)) for epoch, begin in head["epochs"]),
        )

    @staticmethod
    def encode(log: SegmentedLog) -> dict[str, Any]:
        """What to remember of a log, for a checkpoint's head."""
        return {
            "damaged": [[damage.begin, damage.end, damage.why] for damage in log.stored.damaged],
            "segment_tails": [[base, tail.offset, tail.chain] for base, tail in log.watermark.tails.items()],
            "epochs": list(log.epochs),
        }


@dataclass(frozen=True, slots=True)
class MemberOpening:
    """How a member of a larger group opens its log."""

    high_watermark: int
    """The highest one that this node knows, without that of its checkpoint. Commits above both may be truncated, so they are not
    applied."""
    copied_from: int | None = None
    """Where the copy of the master's log began that is not complete, as `qmq_node.log.opening.inspect` takes it."""
    is_log_only: bool = False
    """The log is being copied from its begin on: there is no state that belongs to it yet."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a data folder found."""

    rebuilt: bool
    """Without a checkpoint, from the whole log."""
    why_rebuilt: str
    from_offset: int
    replayed_commits: int
    replayed_messages: int
    replay: "Replay"
    """Can continue with further commits."""

    @property
    def loaded_offset(self) -> int:
        """Where the checkpoint stands, 0 without one."""
        return 0 if self.rebuilt else self.from_offset


class Replay(ABC):
    """Applies commits of the log to a store; a kind of node says how.

    After the log was opened it may continue with the commits that follow: the store is then the same as after a replay of all.
    """

    def __init__(self) -> None:
        self.commits = 0
        self.messages = 0

    def begin(self, commit: Commit) -> None:
        """A commit comes next; its records follow."""
        self.commits += 1

    @abstractmethod
    def apply_record(self, offset: int, kind: int, payload: memoryview) -> None:
        """Apply a record, whose payload is at this log offset; in order. Raises LogError for one that can't be read."""

    @property
    def is_full(self) -> bool:
        """Whether a slave should apply nothing more before the next checkpoint, which frees memory."""
        return False

    @abstractmethod
    def finish(self) -> None:
        """Bring up to date what is not kept so for each record; after the commits that were applied together."""

    def visit(self, commit: Commit) -> None:
        """Apply one valid commit; in order."""
        for _ in self.steps(commit):
            pass

    def steps(self, commit: Commit) -> Iterator[int]:
        """Apply one valid commit record by record, and yield the size of each, in bytes, before it is applied.

        A state that is taken between two of them is that of the log up to the commit before: records are applied again without
        effect.
        """
        self.begin(commit)
        for offset, kind, payload in iter_records(commit.body, commit.body_offset):
            yield len(payload)
            # A promotion changes nothing of what is stored.
            if kind != EPOCH_KIND:
                self.apply_record(offset, kind, payload)

    def open_log(
        self,
        disk: Disk,
        folder: str,
        segment_bytes: int,
        checkpoint: Checkpoint | None,
        memory: LogMemory,
        synced_to: int = 0,
        member: MemberOpening | None = None,
    ) -> SegmentedLog:
        """Open the log and replay it from the checkpoint on.

        Args:
            member: the node belongs to a group of two or more members; None: it is the only one. What the checkpoint's state may
                hold is below the high watermark that such a node knows, so no truncation removes it.

        Raises:
            LogError, OSError: as `inspect` and `SegmentedLog.activate`.
        """
        if member is not None and member.is_log_only:
            _remove_without_commits(disk, folder)
        if checkpoint is not None:
            synced_to = checkpoint.synced_to
        visit_end = None
        if member is not None:
            # A member syncs each commit before it is confirmed.
            synced_to = max(synced_to, memory.records_end)
            visit_end = max(member.high_watermark, memory.records_end)
        found = inspect(
            disk,
            folder,
            start=checkpoint.log_position if checkpoint is not None else None,
            synced_to=synced_to,
            tails=memory.tails,
            epochs=memory.epochs,
            visit=self.visit,
            visit_end=visit_end,
            copied_from=member.copied_from if member is not None else None,
            is_only_member=member is None,
        )
        log = SegmentedLog.activate(found, segment_bytes=segment_bytes, is_only_member=member is None)
        damaged = [one for one in found.walked.damaged if not found.lost.covers(one.begin, one.end)]
        if member is not None and log.failed is None and damaged:
            # What is behind would be applied without it. Other members have it.
            log.refuse(
                f"the log is damaged between offsets {damaged[0].begin} and {damaged[-1].end}, where it has to be applied"
            )
        known = {damage.begin for damage in log.stored.damaged}
        remembered = (damage for damage in memory.damage if damage.begin not in known and damage.end > log.begin)
        log.stored.damaged = added(log.stored.damaged, remembered)
        return log

    def report(self, log: SegmentedLog, checkpoint: Checkpoint | None, why_rebuilt: str) -> RecoveryReport:
        """What was found."""
        begin = checkpoint.log_position.offset if checkpoint is not None else log.begin
        return RecoveryReport(checkpoint is None, why_rebuilt, begin, self.commits, self.messages, self)


def _remove_without_commits(disk: Disk, folder: str) -> None:
    """Remove the segments of a copy that has no commit yet: a crash left them, and the copy may begin elsewhere."""
    segments = Segments(disk, folder)
    begin = segments.begin or 0
    # The first commit is enough.
    lost = LostRanges.load(disk, folder).ranges
    walker = Walker(segments, lambda _: None, copied_from=0, lost=lost, stop=lambda offset: offset > begin)
    if not walker.walk(None).epochs.entries:
        disk.make_dir(folder)
        for info in segments.infos():
            segments.remove(info.base)
        disk.sync_dir(folder)
    segments.close()
