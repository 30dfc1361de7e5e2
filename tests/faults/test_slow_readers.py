"""Clients that ask and do not read: what they cost a real node in memory, and whether others are served (F-1)."""

import asyncio
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from qmq.protocol.codes import Command
from qmq.protocol.commands import PullRequest
from qmq.protocol.frames import encode_request
from tests.faults.limited_broker import LimitedBroker
from tests.support.drivers.in_process import Client, message
from tests.support.waiting import eventually_async

MIB = 1 << 20
STORED_BYTES = 80 * MIB
MESSAGE_BYTES = 20_000
PULLS = 300
"""Of one connection: 28 kB of requests."""
COST_BYTES_MAX = 150 * MIB
RETRY_SECONDS = 0.05
"""A client's pause before it sends again what a broker refused for the moment."""


def peak_bytes(pid: int) -> int:
    """The most memory that a process has had resident."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmHWM"))) << 10


def has_answer(sock: socket.socket) -> bool:
    try:
        return len(sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)) == 1
    except BlockingIOError:
        return False


@pytest.mark.parametrize("connections", [1, 30])
async def test_clients_that_do_not_read_cost_a_broker_a_bounded_part_of_its_memory(
    tmp_path: Path, connections: int
) -> None:
    broker = LimitedBroker(tmp_path / "b", "true", tmp_path / "log")
    try:
        caller = await broker.connect()
        client = Client(caller)
        await client.begin("slow")
        for n in range(0, STORED_BYTES // MESSAGE_BYTES, 100):
            # A broker whose disk is slow refuses sends until its next segment is there; they are to be sent again.
            while await client.send(*(message(n + i, "slow", size=MESSAGE_BYTES) for i in range(100))):  # noqa: ASYNC110
                await asyncio.sleep(RETRY_SECONDS)
        # One answer of each size beside the measurement: a first one grows the process.
        assert await client.pull("slow", "other", limit=1000, last=-1) is not None
        before = peak_bytes(broker.process.pid)
        with ExitStack() as sockets:
            slow = []
            for n in range(connections):
                sock = sockets.enter_context(socket.create_connection(("127.0.0.1", broker.port)))
                request = PullRequest("slow", "g" if n == 0 else f"g{n}", "c", 1000, -1, -1, -1, False).encode()
                if n:
                    await client.begin("slow", f"g{n}")
                sock.sendall(b"".join(encode_request(Command.PULL_MESSAGE, i, request) for i in range(PULLS)))
                slow.append(sock)
            await eventually_async(lambda: all(has_answer(sock) for sock in slow))
            await client.begin("others")
            # Each answer proves that the broker has had turns to handle more of the others' requests.
            for n in range(50):
                assert not await client.send(message(n, "others"))
                assert await client.pull("others", last=n - 1) == (n, [f"m{n}"])
            assert peak_bytes(broker.process.pid) - before < COST_BYTES_MAX
        await caller.close()
    finally:
        assert broker.stop() == 0
