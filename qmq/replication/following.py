"""Whether a slave may follow a master, and up to where it keeps its log. Pure."""

from dataclasses import dataclass
from enum import Enum, auto

from qmq.log.epochs import EpochChain
from qmq.replication.row import GroupRow


class Follow(Enum):
    """The master's answer to a slave that wants to follow."""

    ACCEPTED = auto()
    COPY = auto()
    """The slave's log has nothing in common with what the master still has: it copies the master's state first."""
    NOT_MEMBER = auto()
    OLDER_EPOCH = auto()
    """The slave has not learned of the master's epoch."""
    NEWER_EPOCH = auto()
    """The slave has learned of a newer epoch: this master steps down."""
    OTHER_PROMOTION = auto()
    """Two promotions have the same epoch, which the rules exclude."""
    END_BEYOND = auto()
    """The slave has more of the master's own epoch than the master, which the rules exclude."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What is to be known of a log to compare it with another."""

    chain: EpochChain
    begin: int
    """The oldest log offset kept."""
    end: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, and where the slave's log is truncated if it is accepted."""

    follow: Follow
    keep_to: int = 0


def answer_follow(row: GroupRow, own: LogEnd, slave: str, epoch: int, promotion_id: str, theirs: LogEnd) -> Answer:
    """Return the answer of the master of `row` to a slave.

    Args:
        own: the master's log, with what it has not synced yet.
        epoch: the highest that the slave has on disk, with its promotion id.
        theirs: the slave's log.
    """
    if slave not in row.members or slave == row.master:
        return Answer(Follow.NOT_MEMBER)
    if epoch != row.epoch:
        return Answer(Follow.OLDER_EPOCH if epoch < row.epoch else Follow.NEWER_EPOCH)
    if promotion_id != row.promotion_id:
        return Answer(Follow.OTHER_PROMOTION)
    common = theirs.chain.common_end(theirs.end, own.chain, own.end)
    if common is None:
        # Two empty logs are equal.
        common = 0
    if common < own.begin or common < theirs.begin:
        return Answer(Follow.COPY)
    if theirs.chain.last_epoch == row.epoch and theirs.end > own.end:
        return Answer(Follow.END_BEYOND)
    return Answer(Follow.ACCEPTED, common)


class TruncationRejected(Exception):
    """A truncation below a high watermark that the slave knows: a rule was broken somewhere, and it stops instead."""


def check_truncation(keep_to: int, high_watermark: int) -> None:
    """Raises TruncationRejected if a log may not be truncated to `keep_to`.

    Args:
        high_watermark: the highest one that the node knew.
    """
    if keep_to < high_watermark:
        raise TruncationRejected(
            f"the log would be truncated to offset {keep_to}, below the high watermark {high_watermark}:"
            " acknowledged messages would be lost"
        )
