"""Whether a slave that asks to follow is accepted: what a FOLLOW is answered, before a session begins."""

import asyncio
from dataclasses import dataclass

from qmq.protocol.codes import FollowResult
from qmq.protocol.replication import FollowRequest, ReadCopyRequest
from qmq_node.log.epochs import NO_EPOCHS, EpochChain
from qmq_node.log.log import SegmentedLog
from qmq_node.log.record import Position
from qmq_node.replication.master.feed import Feed
from qmq_node.replication.master.master_state import MasterState
from qmq_node.replication.rules.following import LogEnd, answer_follow, check_slave
from qmq_node.replication.slave_claim import SlaveClaim

ALARMS = frozenset({FollowResult.OTHER_PROMOTION, FollowResult.END_BEYOND, FollowResult.CRC_DIFFERS})
"""Results that are only possible if a data folder or the database was modified from outside."""


class FollowRejected(Exception):
    """A slave that is not accepted, and why."""

    def __init__(self, result: FollowResult, reason: str) -> None:
        super().__init__(reason)
        self.result = result


@dataclass(eq=False, repr=False)
class FollowRules:
    """Checks a FOLLOW against the membership and the log of a master."""

    _master: MasterState
    _log: SegmentedLog
    _feed: Feed

    def check_claim(self, request: ReadCopyRequest | SlaveClaim) -> None:
        """Check that FOLLOW would accept a node, as far as that needs no look at the log. Raises FollowRejected."""
        self.check_sender(request)
        result = check_slave(self._master.value.membership, request.node_id, request.epoch, request.promotion_id)
        if result is not FollowResult.ACCEPTED:
            raise FollowRejected(result, self._reason(result, request))

    def check_sender(self, request: FollowRequest | ReadCopyRequest | SlaveClaim) -> None:
        """Check that this node is the master of the sender's group. Raises FollowRejected."""
        membership = self._master.value.membership
        if request.broker_group != membership.broker_group:
            raise FollowRejected(
                FollowResult.UNKNOWN_GROUP,
                f"this node belongs to broker group {membership.broker_group}, not {request.broker_group}",
            )
        if not self._master.is_active:
            raise FollowRejected(FollowResult.NOT_MASTER, "this node does not lead the broker group")

    async def place(self, request: FollowRequest) -> Position:
        """Return where the slave's log is truncated, and the CRC of the commit that ends there.

        The CRC may have to be read from a segment, in a thread.

        Raises:
            FollowRejected: the slave is not accepted.
        """
        end = self._common_end(request)
        crc = 0 if end == 0 else self._feed.crc_at(end)
        if crc is None:
            crc = self._log.crc_at(end)
        if crc is None:
            # A slave without a log begins where this one does. Only its first commit knows the CRC of the one before it.
            begins_with_state = request.end == 0 and end > 0
            read = self._log.stored.read_previous_crc if begins_with_state else self._log.stored.read_crc_at
            crc = await asyncio.to_thread(read, end)
            if crc is None and begins_with_state:
                # Its first commits are damaged: the first one that it gets follows on nothing that is known.
                crc = 0
            elif crc is None and end > self._log.begin:
                self._log.stored.add_damage(await asyncio.to_thread(self._log.stored.damage_before, end))
            # Meanwhile the membership or the log may have changed.
            if self._common_end(request) != end or not self._master.is_active:
                raise FollowRejected(
                    FollowResult.BUSY, "the master's log or membership changed during the request: repeat it"
                )
        if crc is None and end <= self._log.begin:
            # Its commit was in a segment that was removed.
            raise self._too_far_behind(request)
        if crc is None:
            raise FollowRejected(
                FollowResult.CRC_DIFFERS,
                f"no readable commit of the master ends at log offset {end}, up to which both logs should be equal",
            )
        if end == request.end and crc != request.crc:
            raise FollowRejected(
                FollowResult.CRC_DIFFERS,
                f"the slave's log ends at offset {end} with CRC {request.crc:#010x}, and the master's commit there has"
                f" {crc:#010x}",
            )
        return Position(end, crc)

    def _common_end(self, request: FollowRequest) -> int:
        """Return up to where both logs are equal. Raises FollowRejected."""
        membership, log, end = self._master.value.membership, self._log, self._feed.end
        if not self._master.value.may_follow(request.node_id, request.incarnation):
            raise FollowRejected(
                FollowResult.BUSY,
                f"node {request.node_id} is in sync with another data folder: it can follow with this one when it has left the"
                " in-sync set",
            )
        # A slave may have the commit that this node is writing.
        epochs = log.epochs.with_commit(log.epoch, log.written_end) if end > log.written_end else log.epochs
        damaged = tuple((damage.begin, damage.end) for damage in log.stored.damaged)
        own = LogEnd(epochs, log.begin, end, damaged)
        # Where its log begins, the slave checks itself.
        theirs = LogEnd(EpochChain.of(request.epoch_chain) if request.epoch_chain else NO_EPOCHS, 0, request.end)
        answer = answer_follow(
            membership, own, request.node_id, request.epoch, request.promotion_id, theirs, request.state_offset
        )
        if answer.result is FollowResult.TOO_FAR_BEHIND:
            raise self._too_far_behind(request)
        if answer.result is not FollowResult.ACCEPTED:
            raise FollowRejected(answer.result, self._reason(answer.result, request))
        return answer.keep_to

    def _too_far_behind(self, request: FollowRequest) -> FollowRejected:
        """The slave has to discard its log. While it counts, it may not: the membership may have it promoted with what it has."""
        reason = self._reason(FollowResult.TOO_FAR_BEHIND, request)
        if request.node_id in self._master.value.counted:
            return FollowRejected(FollowResult.BUSY, f"{reason}; it can copy when it has left the in-sync set")
        return FollowRejected(FollowResult.TOO_FAR_BEHIND, reason)

    def _reason(self, result: FollowResult, request: FollowRequest | ReadCopyRequest | SlaveClaim) -> str:
        membership, log = self._master.value.membership, self._log
        if isinstance(request, FollowRequest):
            if result is FollowResult.TOO_FAR_BEHIND:
                lost = f", and is damaged up to {log.stored.damaged_end}" if log.stored.damaged else ""
                return f"the slave's log ends at {request.end}, and the master's begins at {log.begin}{lost}"
            if result is FollowResult.END_BEYOND:
                return f"in epoch {membership.epoch} the slave's log ends at {request.end}, and the master's at {self._feed.end}"
        texts = {
            FollowResult.NOT_MEMBER: f"node {request.node_id} is no slave of broker group"
            f" {membership.broker_group}; its members are {', '.join(membership.members)}, its master is {membership.master}",
            FollowResult.OLDER_EPOCH: f"the slave has epoch {request.epoch}, the master {membership.epoch}",
            FollowResult.NEWER_EPOCH: f"the slave has epoch {request.epoch}, the master {membership.epoch}",
            FollowResult.OTHER_PROMOTION: f"epoch {membership.epoch} has promotion {membership.promotion_id} here and"
            f" {request.promotion_id} there",
        }
        return texts[result]
