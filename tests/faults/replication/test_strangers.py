"""Programs without a secret at the sync ports of a group: they keep no slave out, and get nothing of one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from qmq.net.discovery import split_address
from qmq.protocol.codes import Command
from qmq.protocol.frames import FrameReader
from tests.faults.replication.scene import (
    NODE_FLAGS,
    TURNS,
    Figures,
    becomes,
    in_sync,
    process_of,
    repeated,
    report_of,
    start,
)
from tests.support.servers.system import System
from tests.support.waiting import eventually_async

SECRET = "the secret of the sync ports of this system"
JOINED_SECONDS = 3.0
SYNC_ADDRESS = "SELECT sync_address FROM metaserver_node WHERE node_id = ?"


def sync_address(system: System, node: str) -> tuple[str, int]:
    return split_address(system.query(SYNC_ADDRESS, node)[0][0])


@asynccontextmanager
async def idle_connections(address: tuple[str, int], count: int) -> AsyncIterator[list[int]]:
    """Connections that send nothing, and are opened again as soon as they are closed. The value has one entry for each end."""
    ended: list[int] = []

    async def reopen(number: int) -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(*address)
            except OSError:
                await asyncio.sleep(0.01)
                continue
            try:
                with suppress(OSError):
                    await reader.read()
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
            ended.append(number)

    tasks = [asyncio.create_task(reopen(number)) for number in range(count)]
    try:
        yield ended
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@repeated
@pytest.mark.parametrize("count", [40, 160])
async def test_idle_connections_that_are_opened_again_and_again_keep_no_slave_out(
    new_system: Callable[..., System], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setenv("QMQ_SYNC_TOKEN", SECRET)
    system, figures = new_system(groups=1, copies=2, broker_flags=NODE_FLAGS), Figures(f"{count} idle connections")
    await start(system)
    for _ in range(TURNS):
        master = await in_sync(system, "g1")
        (slave,) = (node for node in system.members("g1") if node != master)
        async with idle_connections(await asyncio.to_thread(sync_address, system, master), count) as ended:
            await eventually_async(lambda ended=ended: len(ended) > count, what="all have ended once")
            process = process_of(system, slave)
            await asyncio.to_thread(process.kill)
            await asyncio.to_thread(process.start)
            await figures.timed(
                "a started slave follows",
                JOINED_SECONDS,
                lambda node=slave: report_of(system, node).get("problem") == "",
            )
            assert await in_sync(system, "g1") == master
    figures.report()


@repeated
async def test_a_program_at_the_address_of_a_dead_master_gets_nothing(
    new_system: Callable[..., System], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QMQ_SYNC_TOKEN", SECRET)
    system = new_system(groups=1, copies=2, broker_flags=NODE_FLAGS)
    await start(system)
    for _ in range(TURNS):
        master = await in_sync(system, "g1")
        (slave,) = (node for node in system.members("g1") if node != master)
        address, received, sent = await asyncio.to_thread(sync_address, system, master), list[int](), list[bytes]()

        async def take(
            reader: asyncio.StreamReader,
            writer: asyncio.StreamWriter,
            received: list[int] = received,
            sent: list[bytes] = sent,
        ) -> None:
            frames = FrameReader()
            while data := await reader.read(1 << 16):
                sent.append(data)
                frames.get_buffer()[: len(data)] = data
                received.extend(frame.code for frame in frames.buffer_updated(len(data)))
            writer.close()

        await asyncio.to_thread(process_of(system, master).kill)
        server = await asyncio.start_server(take, *address)
        await becomes(system, "master", slave)
        server.close()
        assert set(received) <= {Command.AUTHENTICATE}
        assert SECRET.encode() not in b"".join(sent)
        await asyncio.to_thread(process_of(system, master).start)
        await in_sync(system, "g1", slave)
