"""A metaserver inside the test's own process, and a peer that is its client or one of its nodes."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from metaserver.options import MetaOptions
from metaserver.server import Metaserver
from metaserver.stored.write_behind import Repository
from qmq.net.caller import Caller
from qmq.protocol.codes import SLAVE_ROLES, BrokerRequestType, ClientType, Command, ResponseCode, Role
from qmq.protocol.commands import (
    ClientRegisterRequest,
    ClientRegisterResponse,
)
from qmq.protocol.extensions import NodeRegisterRequest, NodeRegisterResponse
from qmq.protocol.frames import Frame, encode_request
from qmq_testing.repository import MemoryRepository
from tests.support.drivers.in_process import machine
from tests.support.manual_clock import ManualClock


@asynccontextmanager
async def running(
    folder: Path, clock: ManualClock, repository: Repository | None = None, **settings: Any
) -> AsyncIterator[Metaserver]:
    options = MetaOptions(http_port=0, tcp_port=0, data_dir=str(folder), **{"new_groups": "allow", **settings})
    metaserver = Metaserver(options, repository or MemoryRepository(), replace(machine(clock), rng=random.Random(1)))
    await metaserver.start()
    try:
        yield metaserver
    finally:
        await metaserver.close()


class Peer:
    """A client or node of the metaserver."""

    def __init__(self, caller: Caller, pushed: list[Frame]) -> None:
        self.caller = caller
        self.pushed = pushed

    def ask(self, subject: str, client_type: ClientType, group: str = "") -> None:
        """CLIENT_REGISTER as the official client sends it: opaque 0, answers matched by content."""
        request = ClientRegisterRequest(subject, client_type, "app", "client@@1", group, 1)
        self.caller.send_frame(encode_request(Command.CLIENT_REGISTER, 0, request.encode()))

    def answers(self) -> list[ClientRegisterResponse]:
        assert all(frame.code == ResponseCode.SUCCESS for frame in self.pushed)
        return [ClientRegisterResponse.decode(frame.body) for frame in self.pushed]

    async def register(
        self, group: str, node_id: str = "", *, port: int = 1, log_end: int = 0, kind: str = "broker",
        request_type: int = BrokerRequestType.ONLINE, state: int = 1, epoch: int = 1,
        **values: Any,
    ) -> NodeRegisterResponse:  # fmt: skip
        if state == 1 and values.get("boot_id"):
            # It serves, and may have to be the master of slaves.
            values.setdefault("incarnation", "0123456789abcdef")
        role = Role.DELAY_MASTER if kind == "delay" else Role.MASTER
        role = SLAVE_ROLES[role] if state == 4 else role
        request = NodeRegisterRequest(
            request_type, group, node_id or f"{group}-a", kind, role, f"10.0.0.1:{port}", "", state, epoch, log_end, 0, "1",
            **values,
        )  # fmt: skip
        frame = await self.caller.call(Command.NODE_REGISTER, request.encode(), timeout_s=20)
        assert frame.code == ResponseCode.SUCCESS
        return NodeRegisterResponse.decode(frame.body)


@asynccontextmanager
async def peer(metaserver: Metaserver) -> AsyncIterator[Peer]:
    pushed: list[Frame] = []
    caller = Caller(*metaserver.server.address, on_push=pushed.append)
    await caller.connect()
    try:
        yield Peer(caller, pushed)
    finally:
        await caller.close()
