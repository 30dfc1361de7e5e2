"""class RangeServing: answers READ_RANGE of other members, as master and as slave."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.errors import ReadRefused
from qmq.protocol.codes import FollowResult
from qmq.protocol.group_memberships import GroupMembership
from qmq.protocol.replication import (
    COPY_BUSY,
    COPY_FORBIDDEN,
    COPY_NO_FILE,
    LOG_FILE,
    READ_COPY_BYTES_MAX,
    ReadRangeRequest,
    ReadRangeResponse,
)
from qmq_node.repair.ranges import RepairableFiles
from qmq_node.replication.rate_limit import RateLimit
from qmq_node.replication.rules.following import check_member
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.rules.roles import ReplicaState
from qmq_node.replication.slave_claim import RangeClaim

READS_MAX = 2
"""Reads in progress; a further one is rejected as busy. Each member repairs one range at a time."""


@dataclass(eq=False, repr=False)
class RangeServing:
    """Serves the members of the newest membership that this node knows, in the epoch that it has on disk."""

    _broker_group: str
    node_id: str
    _state: Callable[[], ReplicaState]
    _membership: Callable[[], GroupMembership | None]
    _files: Callable[[str], RepairableFiles | None]
    """Returns what has a file of this name; None: this kind of node has none, or it is not open yet."""
    _rate: RateLimit
    """For all members together."""
    _reads: int = field(default=0, init=False)

    def problem_of(self, claim: RangeClaim) -> str:
        """Return why this node answers no requests of a node; "" if it does."""
        if claim.broker_group != self._broker_group:
            return f"UNKNOWN_GROUP: this node belongs to broker group {self._broker_group}, not {claim.broker_group}"
        if claim.to != self.node_id:
            return f"NOT_MEMBER: this node is {self.node_id}, not {claim.to}"
        state, sent = self._state(), self._membership()
        if sent is None or (sent.epoch, sent.promotion_id) != (state.epoch, state.promotion_id):
            return "NOT_MEMBER: this node does not know yet which members its broker group has"
        membership = Membership.of(sent)
        result = check_member(membership, claim.node_id, claim.epoch, claim.promotion_id)
        if (
            result is not FollowResult.ACCEPTED
            or claim.node_id == self.node_id
            or self.node_id not in membership.members
        ):
            return (
                f"{result.name}: node {claim.node_id} states epoch {claim.epoch}; {self.node_id} has epoch {state.epoch} with"
                f" members {', '.join(membership.members)}"
            )
        return ""

    async def read(self, request: ReadRangeRequest) -> ReadRangeResponse:
        """Return the first bytes of a range, checked. Raises ReadRefused with one of the codes of READ_RANGE."""
        if problem := self.problem_of(RangeClaim.of(request, self.node_id)):
            raise ReadRefused(problem, code=COPY_FORBIDDEN)
        # A name is looked up, and never becomes a part of a path.
        files = self._files(request.file)
        if files is None or (request.file == LOG_FILE and request.since):
            raise ReadRefused(f"this node has no file {request.file[:100]!r} since {request.since}", code=COPY_NO_FILE)
        if self._reads >= READS_MAX:
            raise ReadRefused(f"{READS_MAX} reads of ranges are in progress, the maximum", code=COPY_BUSY)
        self._reads += 1
        try:
            await self._rate.wait(min(request.end - request.begin, READ_COPY_BYTES_MAX))
            return await asyncio.to_thread(files.read, request)
        finally:
            self._reads -= 1
