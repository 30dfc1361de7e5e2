"""Whether a slave may follow a master, and up to where it keeps its log. Pure."""

from dataclasses import dataclass

from qmq.protocol.codes import FollowResult
from qmq_node.log.epochs import EpochChain
from qmq_node.replication.rules.membership import Membership


@dataclass(frozen=True, slots=True)
class LogEnd:
    """What is to be known of a log to compare it with another."""

    chain: EpochChain
    begin: int
    """The oldest log offset kept."""
    end: int
    damaged: tuple[tuple[int, int], ...] = ()
    """Ranges [begin, end) that can't be read; equal offsets: a commit does not follow the one before it."""

    def damaged_end_behind(self, offset: int) -> int:
        """Return where the last damage ends that is not below a log offset; 0: everything from there on can be read."""
        ends = (max(end, begin + 1) for begin, end in self.damaged)
        return max((end for end in ends if end > offset), default=0)

    def is_damaged_at(self, offset: int) -> bool:
        """Whether the commit that ends at a log offset is damaged."""
        return any(begin < offset <= end for begin, end in self.damaged)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer, and where the slave's log is truncated if it is accepted."""

    result: FollowResult
    keep_to: int = 0


def check_slave(membership: Membership, slave: str, epoch: int, promotion_id: str) -> FollowResult:
    """Return whether a node is a slave of the master of `membership`: ACCEPTED, or why not.

    Args:
        epoch: the highest that the slave has on disk, with its promotion id.
    """
    if slave == membership.master:
        return FollowResult.NOT_MEMBER
    return check_member(membership, slave, epoch, promotion_id)


def check_member(membership: Membership, node: str, epoch: int, promotion_id: str) -> FollowResult:
    """As `check_slave`, of a node that may also be the master."""
    if node not in membership.members:
        return FollowResult.NOT_MEMBER
    if epoch != membership.epoch:
        return FollowResult.OLDER_EPOCH if epoch < membership.epoch else FollowResult.NEWER_EPOCH
    return FollowResult.ACCEPTED if promotion_id == membership.promotion_id else FollowResult.OTHER_PROMOTION


def answer_follow(
    membership: Membership,
    own: LogEnd,
    slave: str,
    epoch: int,
    promotion_id: str,
    theirs: LogEnd,
    state_offset: int = 0,
) -> Answer:
    """Return the answer of the master of `membership` to a slave.

    Args:
        own: the master's log, with what it has not synced yet.
        epoch, promotion_id: as in `check_slave`.
        theirs: the slave's log.
        state_offset: the log offset of the master's state that the slave has, 0 if it has none. What the log below it has lost to
            retention is in the state, so a slave with an empty log can begin where the master's log does. So is what damage took,
            which such a slave leaves out. Any other one that needs it has to copy first.
    """
    result = check_slave(membership, slave, epoch, promotion_id)
    if result is not FollowResult.ACCEPTED:
        return Answer(result)
    if state_offset and not theirs.end and own.begin <= state_offset <= own.end:
        is_behind = own.damaged_end_behind(own.begin) <= state_offset
        return Answer(FollowResult.ACCEPTED, own.begin) if is_behind else Answer(FollowResult.TOO_FAR_BEHIND)
    common = theirs.chain.common_end(theirs.end, own.chain, own.end)
    if common is None:
        # Two empty logs are equal.
        common = 0
    if common < own.begin or common < theirs.begin:
        return Answer(FollowResult.TOO_FAR_BEHIND)
    if theirs.chain.last_epoch == membership.epoch and theirs.end > own.end:
        return Answer(FollowResult.END_BEYOND)
    # A log that is to be truncated is answered again afterwards.
    is_next = common == theirs.end or own.is_damaged_at(common)
    if is_next and own.damaged_end_behind(common) > state_offset:
        return Answer(FollowResult.TOO_FAR_BEHIND)
    return Answer(FollowResult.ACCEPTED, common)


class TruncationRejected(Exception):
    """A truncation that the rules exclude: one was broken somewhere, or the master is none. The log stays."""


def check_truncation(keep_to: int, high_watermark: int, log_epoch: int, epoch: int) -> None:
    """Raises TruncationRejected if a log may not be truncated to `keep_to`.

    Args:
        high_watermark: the highest one that the node knew.
        log_epoch: that of the newest commit in the log.
        epoch: that of the master. It wrote all commits of its epoch itself, so only older ones can be unknown to it.
    """
    if log_epoch >= epoch:
        raise TruncationRejected(
            f"the log would be truncated to offset {keep_to}, and its newest commit is of epoch {log_epoch}, which the master has"
            " written"
        )
    if keep_to < high_watermark:
        raise TruncationRejected(
            f"the log would be truncated to offset {keep_to}, below the high watermark {high_watermark}:"
            " acknowledged messages would be lost"
        )
