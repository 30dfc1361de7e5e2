"""class GroupTime: the time of a group whose members agree on one: its master states it with COMMITS, its slaves continue it."""

from typing import Protocol

from qmq.protocol.replication import StatedTime


class GroupTime(Protocol):
    """What a member does with the time of its group."""

    def statement(self) -> StatedTime:
        """Return the time of the group now, as this node knows it as master."""

    def session_began(self) -> None:
        """A session with a master begins: what was stated before is of another process."""

    def stated(self, time: StatedTime, received_at: float) -> None:
        """Take the time that the master stated in a frame that was received at a moment of this node's monotonic clock, in seconds.

        Called for each COMMITS, in the order of their arrival.
        """
