"""class SlaveReport: what a master knows of a slave that follows it."""

from dataclasses import dataclass

from qmq.protocol.codes import FollowState
from qmq_node.replication.master.sender import Sender


@dataclass(frozen=True, slots=True)
class SlaveReport:
    """Offsets and sizes in bytes."""

    node_id: str
    state: FollowState | None
    """None: it has confirmed nothing yet."""
    sent_end: int
    confirmed_end: int
    """The first log offset that the slave has not synced."""
    applied_end: int
    lag_bytes: int
    """From `confirmed_end` to the end of the last commit with records of the master's log."""
    lag_seconds: float | None
    """Since when the master has what the slave lacks; 0.0 if it lacks nothing, None if it is far behind."""

    @classmethod
    def of(cls, sender: Sender, log_end: int) -> "SlaveReport":
        """Return the report of a session."""
        return cls(
            sender.slave,
            sender.state,
            sender.sent_end,
            sender.confirmed_end,
            sender.applied_end,
            max(0, log_end - sender.confirmed_end),
            sender.lag_seconds,
        )
