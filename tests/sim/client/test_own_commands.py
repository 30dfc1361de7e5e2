"""`OwnCommands`: a node that does not know PyQMQ's own commands gets one of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from qmq.client import own_commands
from qmq.client.own_commands import UNANSWERED_SECONDS, UNSUPPORTED_SECONDS, OwnCommands
from qmq.clock import SYSTEM_CLOCK
from qmq.errors import CallTimeout, ConnectionLost
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.frames import Frame
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from tests.support.drivers.in_process import machine


@dataclass
class Node:
    """A server that answers every request with the next of its codes; None: not at all, -1: by closing the connection."""

    codes: list[int | None]
    received: list[int] = field(default_factory=list)
    server: FrameServer = field(init=False)

    def handle(self, connection: Connection, frame: Frame) -> None:
        self.received.append(frame.code)
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if code == -1:
            connection.abort()
        elif code is not None:
            connection.reply(frame, code)

    async def connected(self) -> Caller:
        caller = Caller(*self.server.address)
        await caller.connect()
        return caller


@asynccontextmanager
async def node_answering(*codes: int | None) -> AsyncIterator[tuple[Node, Caller]]:
    node = Node(list(codes))
    node.server = FrameServer("127.0.0.1", 0, node.handle, clock=SYSTEM_CLOCK, listen=machine().listen)
    await node.server.start()
    caller = await node.connected()
    try:
        yield node, caller
    finally:
        await caller.close()
        await node.server.close(0)


async def ask(own: OwnCommands, caller: Caller, command: Command, *, is_optional: bool = False) -> int | None:
    frame = await own.call(caller, command, b"", timeout_s=1, is_optional=is_optional)
    return None if frame is None else frame.code


def is_unsupported(own: OwnCommands, address: str) -> bool:
    """Whether a node is known not to support own commands."""
    node = own._nodes.get(address)
    return node is not None and asyncio.get_running_loop().time() < node.unsupported_until


async def test_requests_at_the_same_time_send_one_command_to_a_node_that_knows_none() -> None:
    own = OwnCommands()
    async with node_answering(ResponseCode.UNKNOWN_CODE) as (node, caller):
        assert not is_unsupported(own, caller.address)
        commands = (Command.ENSURE_GROUP, Command.ENSURE_GROUP, Command.LEAVE_GROUP, Command.FIND_DELAYED)
        assert await asyncio.gather(*(ask(own, caller, command) for command in commands)) == [None] * 4
        assert node.received == [Command.ENSURE_GROUP]
        assert is_unsupported(own, caller.address)


async def test_a_node_that_was_replaced_is_asked_again_after_a_while() -> None:
    own = OwnCommands()
    async with node_answering(ResponseCode.UNKNOWN_CODE, ResponseCode.SUCCESS) as (node, caller):
        assert await ask(own, caller, Command.ENSURE_GROUP) is None
        await asyncio.sleep(UNSUPPORTED_SECONDS - 1)
        assert await ask(own, caller, Command.ENSURE_GROUP) is None
        await asyncio.sleep(2)
        assert await ask(own, caller, Command.ENSURE_GROUP) == ResponseCode.SUCCESS
        assert len(node.received) == 2
        assert not is_unsupported(own, caller.address)


async def test_a_node_of_ours_without_one_command_gets_the_others() -> None:
    own = OwnCommands()
    async with node_answering(ResponseCode.PARAM_ERROR, ResponseCode.UNKNOWN_CODE, ResponseCode.SUCCESS) as (_, caller):
        assert await ask(own, caller, Command.ENSURE_GROUP) == ResponseCode.PARAM_ERROR
        assert await ask(own, caller, Command.LIST_HOURS) is None
        assert await ask(own, caller, Command.LEAVE_GROUP) == ResponseCode.SUCCESS


async def test_after_silence_optional_commands_are_omitted_for_a_while_and_others_are_sent() -> None:
    own = OwnCommands()
    async with node_answering(None, ResponseCode.SUCCESS) as (node, caller):
        with pytest.raises(CallTimeout):
            await ask(own, caller, Command.ENSURE_GROUP, is_optional=True)
        assert await ask(own, caller, Command.LEAVE_GROUP, is_optional=True) is None
        assert node.received == [Command.ENSURE_GROUP]
        await asyncio.sleep(UNANSWERED_SECONDS)
        assert await ask(own, caller, Command.LEAVE_GROUP, is_optional=True) == ResponseCode.SUCCESS
    async with node_answering(None, ResponseCode.SUCCESS) as (_, caller):
        own = OwnCommands()
        with pytest.raises(CallTimeout):
            await ask(own, caller, Command.ENSURE_GROUP)
        assert await ask(own, caller, Command.ENSURE_GROUP) == ResponseCode.SUCCESS, "the caller needs it"


async def test_after_a_closed_connection_optional_commands_are_omitted() -> None:
    own = OwnCommands()
    async with node_answering(-1, ResponseCode.SUCCESS) as (node, caller):
        with pytest.raises(ConnectionLost):
            await ask(own, caller, Command.ENSURE_GROUP, is_optional=True)
        again = await node.connected()
        assert await ask(own, again, Command.LEAVE_GROUP, is_optional=True) is None
        assert node.received == [Command.ENSURE_GROUP]
        await again.close()


async def test_a_node_of_ours_that_is_slow_once_gets_optional_commands() -> None:
    own = OwnCommands()
    async with node_answering(ResponseCode.SUCCESS, None, ResponseCode.SUCCESS) as (_, caller):
        assert await ask(own, caller, Command.ENSURE_GROUP) == ResponseCode.SUCCESS
        with pytest.raises(CallTimeout):
            await ask(own, caller, Command.LEAVE_GROUP, is_optional=True)
        assert await ask(own, caller, Command.LEAVE_GROUP, is_optional=True) == ResponseCode.SUCCESS


async def test_after_a_lost_connection_a_node_of_ours_may_have_been_replaced() -> None:
    own = OwnCommands()
    async with node_answering(ResponseCode.SUCCESS, -1, ResponseCode.UNKNOWN_CODE) as (node, caller):
        assert await ask(own, caller, Command.ENSURE_GROUP) == ResponseCode.SUCCESS
        with pytest.raises(ConnectionLost):
            await ask(own, caller, Command.LEAVE_GROUP)
        again = await node.connected()
        assert await ask(own, again, Command.ENSURE_GROUP) is None
        assert is_unsupported(own, again.address)
        await again.close()


async def test_the_number_of_remembered_addresses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_commands, "ADDRESSES_MAX", 2)
    own = OwnCommands()
    addresses = []
    for _ in range(3):
        async with node_answering(ResponseCode.UNKNOWN_CODE) as (_, caller):
            assert await ask(own, caller, Command.ENSURE_GROUP) is None
            addresses.append(caller.address)
    assert [is_unsupported(own, address) for address in addresses] == [False, True, True]
