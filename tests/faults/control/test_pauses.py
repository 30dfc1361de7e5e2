"""F24: real processes stand still for 12 s: a worker, a delay node, a consumer. The metaserver, producers and brokers, and F32:
tests/sim/faults."""

import asyncio
import sys
from collections.abc import Iterator

import pytest

from tests.support.load.faults import States, during, load, running_plane, standing, until
from tests.support.servers.processes import Process
from tests.support.servers.services import RedisServer
from tests.support.servers.system import System
from tests.support.waiting import figure
from tests.support.whole import in_whole_fault_runs

PAUSE_SECONDS = 12.0


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[System]:
    with running_plane(tmp_path_factory.mktemp("pauses"), redis_server.url, delays=1) as found:
        yield found


@in_whole_fault_runs
async def test_f24_a_worker_a_delay_node_and_a_consumer_that_stood_still_go_on(plane: System) -> None:
    count = 100
    reader = Process(
        "reader",
        [
            sys.executable, "-m", "qmq.cli", "consume", "pause-late", "readers", "--count", str(count),
            "--timeout", "90", "--from", "earliest", "--meta", plane.meta_url,
        ],
        plane.folder,
        "",
    )  # fmt: skip
    states = States(plane)
    runs = int(plane.job("heartbeats")["runs"])
    async with load(plane, "pause-stock"):
        sent = await asyncio.to_thread(plane.qmq, "produce", "pause-late", "-p", "a=1", "--count", str(count - 1))
        assert sent.returncode == 0, sent.stderr
        sent = await asyncio.to_thread(plane.qmq, "produce", "pause-late", "-p", "a=late", "--delay", "3s")
        assert sent.returncode == 0, sent.stderr
        reader.start(wait=False)
        try:
            with standing(plane.workers[0], plane.delays["d1"], reader):
                await during(PAUSE_SECONDS, lambda: plane.get("/broker-groups/"))
                changes = await asyncio.to_thread(states.changes)
                # The metaserver saw the delay node's silence; the paused worker saw nothing.
                assert [(group, state) for group, state, _ in changes] == [("d1", "offline")], changes
            took = await until(lambda: plane.group("d1")["state"] == "read_write", 15, "the delay group is back")
            figure("F24 delay node paused 12 s: in use again after the return", took)
            took = await until(lambda: not plane.job("heartbeats")["is_late"], 15, "the job runs")
            figure("F24 worker paused 12 s: heartbeats run again after the return", took)
            assert await asyncio.to_thread(reader.wait, 60) == 0, reader.log()
        finally:
            await asyncio.to_thread(reader.stop)
        assert "late" in reader.log().replace("pause-late", ""), "the delayed message came"
        changes = await asyncio.to_thread(states.changes)
        assert [(group, state) for group, state, _ in changes] == [("d1", "offline"), ("d1", "read_write")], changes
    assert int(plane.job("heartbeats")["runs"]) > runs
