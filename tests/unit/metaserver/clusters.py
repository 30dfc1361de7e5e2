"""A directory with nodes that register."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace

from metaserver.choices import GroupState
from metaserver.domain import Metadata
from metaserver.memory.directory import Directory
from metaserver.memory.live_groups import Registered, Reloaded
from metaserver.stored.stored_metadata import StoredMetadata
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest
from tests.support.manual_clock import ManualClock

ONLINE, HEARTBEAT, OFFLINE = BrokerRequestType.ONLINE, BrokerRequestType.HEARTBEAT, BrokerRequestType.OFFLINE


HOME = "10.0.0.1:20881"


REQUEST = NodeRegisterRequest(ONLINE, "g1", "g1-a", "broker", 0, HOME, "10.0.0.1:20981", 1, 1, 5000, 1000, "1")


class Cluster:
    """A metaserver's memory in which g1-a registered a second ago.

    Args:
        usual: in what its nodes differ from `REQUEST`.
    """

    def __init__(self, usual: Mapping[str, object] | None = None, **settings: object) -> None:
        self.usual = replace(REQUEST, **(usual or {}))  # type: ignore[arg-type]
        self.clock = ManualClock()
        self.directory = Directory(self.clock, random.Random(1), **settings)  # type: ignore[arg-type]
        self.stored = StoredMetadata(self.directory, self.clock)

    def load(self, metadata: Metadata) -> Reloaded:
        """Apply the content of the database."""
        return asyncio.run(self.stored.load(metadata))

    def send(self, **values: object) -> Registered:
        """A registration that differs from the usual one in these values, with the change of the membership that it
        asks for. A second passes."""
        request = replace(self.usual, **values)  # type: ignore[arg-type]
        registered = self.directory.register(request)
        if registered.wish is not None:
            self.directory.learn_membership(registered.wish.change(self.directory.groups["g1"].membership))
            registered = self.directory.register(request)
        self.clock.advance(1)
        self.directory.expire()
        return registered

    def code(self, **values: object) -> str:
        """Why such a registration is refused; "" when it is accepted."""
        registered = self.send(**values)
        assert registered.answer.accepted == (registered.answer.code == "")
        return registered.answer.code

    @property
    def route(self) -> tuple[str, GroupState]:
        """Address and state of g1 as clients get them."""
        live = self.directory.groups["g1"]
        assert live.node is not None
        return live.node.address, live.state
