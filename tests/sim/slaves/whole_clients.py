"""Clients of a whole system whose broker groups have slaves."""

import zlib
from collections.abc import Iterable

from tests.sim.slaves.clients import Address
from tests.sim.swarm.workload import Place, RawMember, Sender


class MarkedSender(Sender):
    """A producer whose messages can be found in the bytes of a log."""

    @staticmethod
    def content_of(message_id: str, size: int) -> str:
        """The message's id as `committed.MARK` finds it, and further bytes."""
        return f"<{message_id}>" + f"{zlib.crc32(message_id.encode()):08x}" * (size // 8)


class RoamingMember(RawMember):
    """A consumer on the bare protocol that connects to any member of a group that lets it, also to an old master."""

    def places(self) -> Iterable[Place]:
        """All broker groups."""
        return [Address(self.cluster, group, self.rng) for group in self.cluster.brokers]
