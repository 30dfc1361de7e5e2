"""class Sessions: the slaves that follow a master now, at most one session of each."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import LogError
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import FollowState
from qmq_node.replication.counters import ReplicationCounters
from qmq_node.replication.master.in_sync_set import InSyncSet
from qmq_node.replication.master.master_state import MasterState
from qmq_node.replication.master.sender import Sender
from qmq_node.replication.rules.master import SessionRejected
from qmq_node.server.connection import Connection

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class Sessions:
    """Begins and ends sessions, and informs the rules and the in-sync set."""

    _master: MasterState
    _in_sync: InSyncSet
    _counters: ReplicationCounters
    _clock: Clock
    _next_number: int
    """Numbers are not used twice, so what belongs to an ended session has no effect."""
    _by_slave: dict[str, Sender] = field(default_factory=dict, init=False)
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)
    _closing: list[Sender] = field(default_factory=list, init=False)
    """Ended sessions with a read under way."""

    def __iter__(self) -> Iterator[Sender]:
        """In the order of the membership's members. Sessions may end meanwhile."""
        members = self._master.value.membership.members
        return iter([self._by_slave[member] for member in members if member in self._by_slave])

    def end_of_others(self) -> None:
        """End sessions of nodes that are no members any more, or that are in sync with another data folder."""
        master = self._master.value
        for sender in list(self._by_slave.values()):
            if sender.slave not in master.membership.members:
                self.end(sender, "not_member")
            elif not master.may_follow(sender.slave, sender.incarnation):
                self.end(sender, "other_folder")

    def end_of_leaving(self) -> None:
        """End sessions of slaves that stop and that the master does not count any more: they wait for that."""
        counted = self._master.value.counted
        for sender in [sender for sender in self._by_slave.values() if sender.slave not in counted]:
            if sender.state is FollowState.LEAVING:
                self.end(sender, "left")

    def on(self, connection: Connection) -> Sender | None:
        """Return the session of a connection, if it has one."""
        return next((sender for sender in self._by_slave.values() if sender.connection is connection), None)

    def new_number(self) -> int:
        """Return the number of the next session."""
        number, self._next_number = self._next_number, self._next_number + 1
        return number

    def begin(self, sender: Sender) -> None:
        """Begin a session. Another one of the same slave ends, with its connection."""
        earlier = self._by_slave.get(sender.slave)
        if earlier is not None:
            self.end(earlier, "replaced")
        self._by_slave[sender.slave] = sender
        self._master.set(self._master.value.followed(sender.slave, sender.number, sender.incarnation))
        self._in_sync.followed(sender.slave)
        self._counters.sessions += 1
        logger.info(
            "node %s follows from log offset %d in session %d", sender.slave, sender.confirmed_end, sender.number
        )
        sender.connection.on_close(lambda: self.end(sender, "disconnected"))

    def end(self, sender: Sender, reason: str) -> None:
        """End a session, once, and close its connection. What the slave confirmed in it counts no longer."""
        if self._by_slave.get(sender.slave) is not sender:
            return
        del self._by_slave[sender.slave]
        self._closing = [*(closing for closing in self._closing if closing.is_reading), sender]
        self._counters.ended_sessions[reason] += 1
        self._master.set(self._master.value.session_ended(sender.slave, sender.number))
        self._in_sync.session_ended(sender.slave)
        sender.close()
        logger.info("session %d with node %s ended: %s", sender.number, sender.slave, reason)

    def fail(self, sender: Sender, reason: str, error: SessionRejected | LogError) -> None:
        """As `end`, because of an error. It is logged with a doubling pause: further sessions of the slave may end the same."""
        text = f"session {sender.number} with node {sender.slave} ends: {error}"
        self._log_limiter.error(logger, (sender.slave, reason, error.code), text, self._clock.monotonic())
        self.end(sender, reason)

    async def close(self) -> None:
        """End all sessions, and wait until none reads the log any more."""
        for sender in self:
            self.end(sender, "closed")
        for sender in self._closing:
            await sender.wait_closed()
