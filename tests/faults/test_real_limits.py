"""F13, F14 with a real process under real limits: file descriptors, file size, a full file system."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from qmq.errors import ConnectionLost
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import LeaveGroupRequest
from tests.faults.limited_broker import LimitedBroker
from tests.support.drivers.in_process import Client, message
from tests.support.waiting import eventually_async

FILES_MAX = 64


async def a_new_connection_serves(broker: LimitedBroker) -> bool:
    caller = await broker.connect()
    try:
        return not await Client(caller).send(message(100))
    except ConnectionLost:
        return False
    finally:
        await caller.close()


async def test_f14_without_file_descriptors_it_serves_who_is_there_and_does_not_spin(tmp_path: Path) -> None:
    broker = LimitedBroker(tmp_path / "b", f"ulimit -n {FILES_MAX}", tmp_path / "log")
    try:
        caller = await broker.connect()
        client = Client(caller)
        with ExitStack() as sockets:
            for _ in range(FILES_MAX + 20):
                sock = sockets.enter_context(socket.socket())
                sock.setblocking(False)
                sock.connect_ex(("127.0.0.1", broker.port))
            await eventually_async(lambda: "connections are the limit" in broker.log.read_text())
            before = broker.cpu_seconds()
            for number in range(20):
                # A burst of connections that it has no room for, while files of a new subject are opened.
                for _ in range(FILES_MAX):
                    with socket.socket() as sock:
                        sock.setblocking(False)
                        sock.connect_ex(("127.0.0.1", broker.port))
                assert not await client.send(message(number, subject=f"orders{number}"))
                await asyncio.sleep(0.05)
            assert broker.cpu_seconds() - before < 0.5, "it spins on accept"
            assert broker.log.read_text().count("no new connections for now") <= 2
        await caller.close()
        deadline = asyncio.get_running_loop().time() + 10
        while not await a_new_connection_serves(broker):
            assert asyncio.get_running_loop().time() < deadline, "connections are taken again without a restart"
            await asyncio.sleep(0.05)
    finally:
        assert broker.stop() == 0


def test_f14_a_file_size_limit_is_said_in_one_line(tmp_path: Path) -> None:
    broker = LimitedBroker(tmp_path / "b", "ulimit -f 1024", tmp_path / "log")
    assert broker.process.wait(60) == 1
    assert "the process ends: [Errno 27] File too large" in broker.log.read_text()
    assert "Traceback" not in broker.log.read_text()


@pytest.fixture
def small_file_system(tmp_path: Path) -> Iterator[Path]:
    """64 MB of tmpfs."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=False
    ).returncode == 0  # fmt: skip
    if not mounted:
        pytest.skip("a file system can't be mounted here; test_bad_input has the same on a disk in memory")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


async def test_f13_consumers_that_leave_a_full_file_system_do_not_end_the_broker(
    small_file_system: Path, tmp_path: Path
) -> None:
    command = ["mount", "-o", "remount,size=160m", str(small_file_system)]
    await asyncio.to_thread(subprocess.run, command, check=True)
    groups = [f"g{n}" for n in range(12)]
    for start in range(2):
        broker = LimitedBroker(small_file_system / "b", "true", tmp_path / f"log{start}")
        try:
            caller = await broker.connect()
            client = Client(caller)
            if start == 0:
                for group in groups:
                    await client.begin(group=group)
            stored, remarks = 0, {""}
            while not any("no space" in remark for remark in remarks):
                failures = await client.send(*(message(stored + n, size=20_000) for n in range(20)))
                remarks = {failure.remark for failure in failures.values()}
                stored += 20 - len(failures)
            for group in groups:
                begin, got = await client.pull(group=group, limit=200)
                assert len(got) == 200
                leave = LeaveGroupRequest("orders", group, "c1").encode()
                assert (await client.raw(Command.LEAVE_GROUP, leave)).code == ResponseCode.SUCCESS
            # What they held comes again, and is acked.
            begin, again = await client.pull(limit=200, group="g0")
            assert again[:1] == [f"m{200 * start}"]
            assert await client.ack(begin, begin + 199, group="g0") == ResponseCode.SUCCESS
            await caller.close()
        finally:
            assert broker.stop() == 0, broker.log.read_text()


async def test_f13_a_full_file_system_refuses_sends_and_nothing_else(small_file_system: Path, tmp_path: Path) -> None:
    broker = LimitedBroker(small_file_system / "b", "true", tmp_path / "log")
    try:
        caller = await broker.connect()
        client = Client(caller)
        await client.begin()
        stored = 0
        remark = ""
        while "no space" not in remark:
            failures = await client.send(*(message(stored + n, size=20_000) for n in range(20)))
            remarks = {failure.remark for failure in failures.values()}
            remark = " ".join(remarks)
            stored += 20 - len(failures)
            assert {failure.result for failure in failures.values()} <= {6}
            assert len(failures) in (0, 20), remark
            # Until it is known whether there is space, sends leave the reserve alone.
            assert all("no space" in words or "not created yet" in words for words in remarks)
        last, taken = -1, 0
        while taken < stored:
            begin, got = await client.pull(limit=50, last=last)
            assert got
            taken, last = taken + len(got), begin + len(got) - 1
            assert await client.ack(begin, last) == 0
        command = ["mount", "-o", "remount,size=128m", str(small_file_system)]
        await asyncio.to_thread(subprocess.run, command, check=True)
        while await client.send(message(99_999)):  # noqa: ASYNC110 -- each look is a send
            await asyncio.sleep(0.1)
        await caller.close()
    finally:
        assert broker.stop() == 0, broker.log.read_text()
