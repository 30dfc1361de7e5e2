"""The identity that a slave states in FOLLOW, and the outcomes that end following."""

from dataclasses import dataclass

from qmq.errors import QmqError
from qmq.net.node_secret import NodeSecret
from qmq.protocol.codes import FollowResult
from qmq_node.log.truncation import Truncation
from qmq_node.replication.slave_claim import SlaveClaim


@dataclass(frozen=True, slots=True)
class FollowerIdentity:
    """The identity of a slave, as it proves and FOLLOW states it."""

    broker_group: str
    node_id: str
    boot_id: str
    secret: NodeSecret | None
    """Of the sync port; None: neither side proves anything."""
    epoch: int
    """On disk, with its promotion ID, before the follower is made."""
    promotion_id: str
    incarnation: str
    """Of its data folder."""

    @property
    def claim(self) -> SlaveClaim:
        """What it proves to the master."""
        return SlaveClaim(self.broker_group, self.node_id, self.epoch, self.promotion_id)


class Diverged(Exception):
    """The log has commits that the master's has not: it has to be truncated, and opened again."""

    def __init__(self, truncation: Truncation) -> None:
        super().__init__(f"the log has to be truncated to offset {truncation.end}")
        self.truncation = truncation


class MustCopy(Exception):
    """The master no longer has what follows on this log: the slave has to copy state and log."""


class LogCopied(Exception):
    """The master's state and the log up to it are here: the node has to open them."""

    def __init__(self) -> None:
        super().__init__("the master's state and log were copied")


class ReplicationAlarm(QmqError):
    """A rule of replication was broken somewhere, or the log is damaged. The node takes no further part until an operator has
    decided."""

    code = "replication.alarm"


class MasterAlarm(ReplicationAlarm):
    """What the master stated can't be true if all rules were kept. It is an alarm once the membership confirms that
    this node depends on this master; until then it ends the session only. `result` is the answer to FOLLOW, if it was
    one."""

    def __init__(self, message: str, result: FollowResult | None = None) -> None:
        super().__init__(message)
        self.result = result
