"""class Confirmations: what a slave confirms to its master, and what it counts of a session."""

from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.net.caller import Caller
from qmq.protocol.codes import Command, FollowState
from qmq.protocol.frames import FLAG_ONE_WAY, encode_request
from qmq.protocol.replication import Confirm
from qmq_node.commits.applying import Applying
from qmq_node.log.log import SegmentedLog
from qmq_node.process.counters import counted
from qmq_node.replication.rules.slave import Slave


@dataclass(slots=True)
class FollowerCounters:
    sessions: int = counted("replication_sessions", "Sessions of this slave with a master")
    received_bytes: int = counted("replication_received_bytes", "Bytes of commits received from the master")
    copied_bytes: int = counted(
        "replication_copied_bytes", "Bytes of the master's state and log that this slave received while it copied"
    )
    confirmations: int = counted("replication_confirmations_sent", "Confirmations sent to the master")
    rejected_commits: int = counted("replication_rejected_commits", "Commits of the master that did not fit")


@dataclass(eq=False, repr=False)
class Confirmations:
    """Sends the master the end of what this slave has synced, with the CRC of the commit there."""

    _log: SegmentedLog
    _applying: Applying
    _counters: FollowerCounters
    _is_damaged: Callable[[], bool]
    """Whether the disk of this node has damage that is not repaired."""
    is_leaving: bool = field(default=False, init=False)
    """Whether the node stops: further confirmations say so, and there is no further session."""
    _stated: tuple[int, bool] = field(default=(0, False), init=False)
    """What the newest confirmation stated: up to where commits are applied, and whether the disk has damage."""
    _begin_end: int = field(default=0, init=False)
    _begin_crc: int = field(default=0, init=False)
    """Where the log was synced to when the session began, and the CRC of the commit that ends there."""

    def begin(self, synced_end: int, crc: int) -> None:
        """A session begins with the log synced to `synced_end`, where a commit with this CRC ends."""
        self._begin_end, self._begin_crc = synced_end, crc

    @property
    def are_current(self) -> bool:
        """Whether the newest confirmation stated all that is applied, and whether the disk has damage."""
        return self._stated == (self._applying.applied_end, self._is_damaged())

    def send(self, slave: Slave, caller: Caller) -> None:
        """Send what the slave may confirm, unless the connection is closed."""
        if caller.is_closed:
            return
        stated = self._applying.applied_end, self._is_damaged()
        end, state = slave.confirmable_end, FollowState.DAMAGED if stated[1] else FollowState.FOLLOWING
        if end is None:
            end, state = slave.synced_end, FollowState.COPYING
        crc = self._begin_crc if end == self._begin_end else self._log.crc_at(end)
        if crc is None:
            # Copied, and not among the newest commits: the next sync is confirmed.
            return
        if self.is_leaving:
            state = FollowState.LEAVING
        self._stated = stated
        confirm = Confirm(slave.session, slave.epoch, end, crc, stated[0], state)
        caller.send_frame(encode_request(Command.CONFIRM, 0, confirm.encode(), flag=FLAG_ONE_WAY))
        self._counters.confirmations += 1
