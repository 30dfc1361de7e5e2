"""Connections of a pool that are ended although their peers hang."""

import asyncio
import math

import pytest

from qmq.clock import SYSTEM_CLOCK
from qmq.errors import ConnectionLost, Unreachable
from qmq.net.caller import Caller
from qmq.net.pool import DISCONNECTED, Pool
from qmq.protocol.codes import Command
from qmq_node.server.server import FrameServer
from tests.sim.world.loop import Process, running_loop
from tests.sim.world.network import TEST_HOST, SimulatedListener

CONNECT_SECONDS = 5.0
SECONDS = 0.1
"""Within so long, what waits for a connection fails when the connection is ended."""


async def silent_server() -> str:
    """Start a server on a host of its own that answers nothing, and return its address."""
    loop = running_loop()
    server = FrameServer("127.0.0.1", 0, lambda connection, frame: None, clock=SYSTEM_CLOCK, listen=SimulatedListener)
    await Process(loop, "server").start(server.start())
    host, port = server.address
    return f"{host}:{port}"


async def test_what_waits_for_an_answer_fails_at_once() -> None:
    pool, address = Pool(CONNECT_SECONDS), await silent_server()
    caller = await pool.get(address)
    call = asyncio.create_task(caller.call(Command.HEARTBEAT, timeout_s=60))
    await asyncio.sleep(1.0)
    began = running_loop().now
    pool.disconnect(address)
    with pytest.raises(ConnectionLost, match=DISCONNECTED):
        await call
    assert running_loop().now - began < SECONDS
    assert pool.connected(address) is None
    assert await pool.get(address) is not caller
    await pool.close()


async def test_all_that_wait_for_a_connection_fail_at_once() -> None:
    pool, address = Pool(CONNECT_SECONDS), await silent_server()
    network = running_loop().network
    network.cut(TEST_HOST, "server")
    waiting = [asyncio.create_task(pool.get(address)) for _ in range(3)]
    await asyncio.sleep(1.5)
    began = running_loop().now
    pool.disconnect(address)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unreachable] * 3
    assert all(DISCONNECTED in str(outcome) for outcome in outcomes)
    assert running_loop().now - began < SECONDS
    network.heal()
    assert (await pool.get(address)).is_connected
    await pool.close()
    pool.disconnect(address)
    pool.disconnect("unknown:1")


async def test_a_connection_that_is_made_after_the_end_of_the_pool_is_closed() -> None:
    pool, address = Pool(CONNECT_SECONDS), await silent_server()
    opening = asyncio.create_task(pool.get(address))
    await asyncio.sleep(0)
    await pool.close()
    await asyncio.gather(opening, return_exceptions=True)
    await asyncio.sleep(1.0)
    assert running_loop().network.connections() == []


async def test_a_caller_that_is_ended_at_its_time_limit_and_again_stays_ended() -> None:
    address = await silent_server()
    loop = running_loop()
    loop.network.cut(TEST_HOST, "server")
    host, port = address.split(":")
    caller = Caller(host, int(port), connect_seconds=1.0)
    connecting = asyncio.create_task(caller.connect())
    await asyncio.sleep(0)
    ended: list[bool] = []

    def end() -> None:
        for _ in range(2):
            caller.abort(ConnectionLost("too late"))
            ended.append(connecting.done())

    assert caller._connecting is not None
    loop.call_at(math.nextafter(caller._connecting.when() or 0.0, math.inf), end)  # in the same turn of the loop
    with pytest.raises(Unreachable) as raised:
        await connecting
    assert "too late" not in str(raised.value)
    assert ended == [False, False], "its time was over, and it had not ended yet"
    with pytest.raises(ConnectionLost, match="is closed"):
        caller.call_soon(Command.HEARTBEAT)
