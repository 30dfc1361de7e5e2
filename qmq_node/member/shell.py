"""class Shell: what a member needs of its node."""

from collections.abc import Callable
from typing import Protocol

from qmq_node.log.truncation import Truncation
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.rules.roles import Identity, ReplicaState
from qmq_node.replication.slave.follower import Follower


class Shell(Protocol):
    """What a member needs of its node."""

    @property
    def identity(self) -> Identity:
        """Which node, process and data folder this is."""

    @property
    def replica_state(self) -> ReplicaState:
        """What is on disk."""

    async def store_replica_state(self, state: ReplicaState) -> None:
        """Make it durable. Raises OSError, or ValueError for an older epoch."""

    @property
    def log_problem(self) -> str:
        """Why the log that was opened can't be used, so that it has to be replaced by a copy of the master's; "" if it can.

        A log that fails later is opened again by the next start.
        """

    async def wait_for_state(self, address: str, on_problem: Callable[[str], None]) -> None:
        """As `qmq_node.replication.slave.state_copy.wait_for_state`."""

    def new_follower(self) -> Follower:
        """A follower in the epoch on disk."""

    async def begin_epoch(self, membership: Membership) -> tuple[Leading, int]:
        """Lead the epoch on disk: apply the whole log, and append the record of the epoch; its log offset."""

    async def begin_alone(self) -> None:
        """Write to the log from now on, in the epoch on disk, without slaves: apply the whole log."""

    async def begin_replicating(self, membership: Membership) -> Leading:
        """Lead the epoch on disk, which this node has served alone until now, while clients are connected."""

    def replication_problem(self) -> str:
        """Why this node can't have slaves; "" if it can."""

    async def wait_confirmed(self, offset: int) -> None:
        """Wait until the record at a log offset is below the high watermark. Raises LogError when the log fails."""

    async def serve_clients(self) -> None:
        """Let clients connect."""

    async def truncate(self, to: Truncation) -> None:
        """Truncate the log, which is not used any more. Raises LogError or OSError."""

    async def discard_log(self) -> None:
        """Record that the log, which is not used any more, is replaced by a copy of the master's. Raises OSError."""

    def end(self, error: BaseException) -> None:
        """End this node with an error; after LifeEnded, the process makes a new one."""
