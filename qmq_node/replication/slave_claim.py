"""What a slave proves to its master, and the master to it, before anything else on the sync port; and any member to another.

Both sign the claim of the slave: its broker group, its node ID, its epoch and promotion ID. A master proves only the claim of one
of its own slaves in its own promotion. So proofs of one connection can not be passed on to a node that leads something else, and
a program at the address of a master that is gone can't answer for it.
"""

from dataclasses import dataclass

from qmq.net.caller import Caller
from qmq.net.node_secret import NodeSecret
from qmq.protocol.replication import FollowRequest, ReadCopyRequest, ReadRangeRequest
from qmq_node.server.connection_auth import authenticate

PURPOSE, RANGE_PURPOSE = "sync", "range"
PROOF_SECONDS = 2.0
"""Time from the connection to the slave's proof, after which the master closes it; and the slave's limit for each answer."""


@dataclass(frozen=True, slots=True)
class SlaveClaim:
    """Which slave of which master a connection belongs to."""

    broker_group: str
    node_id: str
    epoch: int
    promotion_id: str

    @classmethod
    def of(cls, request: FollowRequest | ReadCopyRequest) -> "SlaveClaim":
        """Return the claim that a request depends on."""
        return cls(request.broker_group, request.node_id, request.epoch, request.promotion_id)

    @classmethod
    def parse(cls, purpose: str) -> "SlaveClaim | None":
        """Return the claim of a purpose; None if it is of another kind."""
        parts = purpose.split("\n")
        if len(parts) != 5 or parts[0] != PURPOSE or not parts[3].isdecimal():
            return None
        return cls(parts[1], parts[2], int(parts[3]), parts[4])

    @property
    def purpose(self) -> str:
        """The text that both sides sign. Without line feeds in names, no two claims have the same."""
        return "\n".join((PURPOSE, self.broker_group, self.node_id, str(self.epoch), self.promotion_id))


@dataclass(frozen=True, slots=True)
class RangeClaim:
    """Which member a connection belongs to that requests ranges (READ_RANGE), and which one it is to.

    Both are named: a proof of one member to another is none of a master to its slave, and can't be passed on to a third one.
    """

    broker_group: str
    node_id: str
    epoch: int
    promotion_id: str
    to: str
    """Node ID of the member that is asked."""

    @classmethod
    def of(cls, request: ReadRangeRequest, to: str) -> "RangeClaim":
        """Return the claim that a request to a member depends on."""
        return cls(request.broker_group, request.node_id, request.epoch, request.promotion_id, to)

    @classmethod
    def parse(cls, purpose: str) -> "RangeClaim | None":
        """Return the claim of a purpose; None if it is of another kind."""
        parts = purpose.split("\n")
        if len(parts) != 6 or parts[0] != RANGE_PURPOSE or not parts[3].isdecimal():
            return None
        return cls(parts[1], parts[2], int(parts[3]), parts[4], parts[5])

    @property
    def purpose(self) -> str:
        """As `SlaveClaim.purpose`."""
        return "\n".join((RANGE_PURPOSE, self.broker_group, self.node_id, str(self.epoch), self.promotion_id, self.to))


async def prove(caller: Caller, secret: NodeSecret | None, claim: SlaveClaim | RangeClaim) -> None:
    """Prove a claim to the other member, and check that it proves itself. Nothing is proved without a secret.

    Raises:
        AuthenticationFailed: one of both has another secret, or none, or the other one rejects the claim: it does not lead this
            promotion, or is not the member that was meant.
        CallTimeout, ConnectionLost: as `Caller.call`.
    """
    if secret is not None:
        await authenticate(caller, secret, claim.purpose, timeout_s=PROOF_SECONDS)
