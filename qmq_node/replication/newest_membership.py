"""class NewestMembership: the newest membership of a node's broker group that a metaserver has sent."""

import asyncio
import logging
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.errors import ProtocolError
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import Command
from qmq.protocol.frames import Frame
from qmq.protocol.group_memberships import GroupMembership

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class NewestMembership:
    """Takes memberships from answers and requests of metaservers. Those of other broker groups, and older ones, change nothing."""

    _broker_group: str
    _clock: Clock
    value: GroupMembership | None = field(default=None, init=False)
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)
    changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    """Set when there is a newer membership, or another address of a member. What acts on it clears it."""

    def learned(self, membership: GroupMembership) -> None:
        """A metaserver sent this membership."""
        if membership.broker_group != self._broker_group:
            name = membership.broker_group
            text = f"a metaserver sent the membership of broker group {name} to a node of {self._broker_group}; it is ignored"
            # Each heartbeat may have it.
            self._log_limiter.error(logger, membership.broker_group, text, self._clock.monotonic())
        elif self.value is None or _is_newer(membership, self.value):
            self.value = membership
            self.changed.set()

    def requested(self, frame: Frame) -> None:
        """A metaserver sent a request: the membership."""
        if frame.is_response:
            # It came after its time limit.
            return
        try:
            if frame.code != Command.ROLE:
                raise ProtocolError(f"command {frame.code} is none that a metaserver sends to a node")
            membership = GroupMembership.decode(frame.body)
        except ProtocolError as error:
            logger.warning("a request of a metaserver is ignored: %s", error)
            return
        self.learned(membership)


def _is_newer(membership: GroupMembership, known: GroupMembership) -> bool:
    """Whether a membership replaces the known one: it is a later version, or states an address that was not known."""
    place, known_place = (membership.epoch, membership.in_sync_version), (known.epoch, known.in_sync_version)
    if place != known_place:
        return place > known_place
    known_addresses = {"", known.master_sync_address, *known.sync_addresses}
    return not {membership.master_sync_address, *membership.sync_addresses} <= known_addresses
