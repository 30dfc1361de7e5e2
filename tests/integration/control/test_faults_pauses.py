"""F24: a process of the control plane, a delay node or a consumer stands still for 12 s. F32: no metaserver for 30 s."""

import asyncio
import sys
import time
from collections.abc import Iterator

import pytest

from tests.support.control import ControlPlane
from tests.support.faults import (
    Api,
    States,
    during,
    figure,
    goes_on,
    judges_again,
    load,
    running_plane,
    standing,
    until,
)
from tests.support.processes import Process
from tests.support.services import RedisServer
from tests.support.whole import in_whole_fault_runs

PAUSE_SECONDS = 12.0
NO_METASERVER_SECONDS = 30.0
EXPIRY_SECONDS = 6.0
"""metaserver.directory: silence after which a group is offline, and the grace after a pause of the metaserver's own."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, redis_server: RedisServer) -> Iterator[ControlPlane]:
    with running_plane(tmp_path_factory.mktemp("pauses"), redis_server.url, delays=1) as found:
        yield found


@in_whole_fault_runs
async def test_f24_a_metaserver_that_stood_still_takes_nobody_for_dead_before_a_full_expiry(
    plane: ControlPlane,
) -> None:
    states = States(plane)
    async with load(plane, "pause-orders", "pause-payments"):
        with standing(plane.system.meta):
            await during(PAUSE_SECONDS, lambda: plane.get("/broker-groups/"))
            assert states.changes() == []
            # The delay node dies while nobody looks: only its silence after the return may count.
            await asyncio.to_thread(plane.system.delays["d1"].kill)
            returned_at = time.monotonic()
        await until(lambda: plane.group("d1")["state"] == "offline", 20, "the dead node's group is offline")
        took = time.monotonic() - returned_at
        figure("F24 metaserver paused 12 s, a node dead meanwhile: offline after the return", took)
        assert took >= EXPIRY_SECONDS - 0.5
        changes = await asyncio.to_thread(states.changes)
        assert [(group, state) for group, state, _ in changes] == [("d1", "offline")], changes
        await asyncio.to_thread(plane.system.delays["d1"].start)
        await until(lambda: plane.group("d1")["state"] == "read_write", 15, "it is back")


@in_whole_fault_runs
async def test_f24_a_worker_a_delay_node_and_a_consumer_that_stood_still_go_on(plane: ControlPlane) -> None:
    system = plane.system
    count = 100
    reader = Process(
        "reader",
        [
            sys.executable, "-m", "qmq.cli", "consume", "pause-late", "readers", "--count", str(count),
            "--timeout", "90", "--from", "earliest", "--meta", system.meta_url,
        ],
        plane.folder,
        "",
    )  # fmt: skip
    states = States(plane)
    runs = int(plane.loop("heartbeats")["runs"])
    async with load(plane, "pause-stock"):
        sent = await asyncio.to_thread(system.qmq, "produce", "pause-late", "-p", "a=1", "--count", str(count - 1))
        assert sent.returncode == 0, sent.stderr
        sent = await asyncio.to_thread(system.qmq, "produce", "pause-late", "-p", "a=late", "--delay", "3s")
        assert sent.returncode == 0, sent.stderr
        reader.start(wait=False)
        try:
            with standing(plane.workers[0], system.delays["d1"], reader):
                await during(PAUSE_SECONDS, lambda: plane.get("/broker-groups/"))
                changes = await asyncio.to_thread(states.changes)
                # The metaserver saw the delay node's silence; the paused worker saw nothing.
                assert [(group, state) for group, state, _ in changes] == [("d1", "offline")], changes
            took = await until(lambda: plane.group("d1")["state"] == "read_write", 15, "the delay group is back")
            figure("F24 delay node paused 12 s: in use again after the return", took)
            took = await until(lambda: not plane.loop("heartbeats")["is_late"], 15, "the loop runs")
            figure("F24 worker paused 12 s: heartbeats run again after the return", took)
            assert await asyncio.to_thread(reader.wait, 60) == 0, reader.log()
        finally:
            await asyncio.to_thread(reader.stop)
        assert "late" in reader.log().replace("pause-late", ""), "the delayed message came"
        changes = await asyncio.to_thread(states.changes)
        assert [(group, state) for group, state, _ in changes] == [("d1", "offline"), ("d1", "read_write")], changes
    assert int(plane.loop("heartbeats")["runs"]) > runs


@in_whole_fault_runs
async def test_f32_running_clients_do_not_notice_that_no_metaserver_is_there(plane: ControlPlane) -> None:
    """A start without the database as well is in test_faults_database.py."""
    states, api = States(plane), Api(plane)
    async with load(plane, "alone-orders", "alone-payments") as traffic:
        plane.system.meta.kill()
        await during(NO_METASERVER_SECONDS, lambda: api.ask("GET", "/broker-groups/"))
        assert api.statuses == {200}
        await goes_on(traffic)
        # Clients keep routes in memory only: one that starts now has to wait for a metaserver.
        newcomer = plane.system.qmq_soon("produce", "alone-later", "-p", "value=1")
        began = time.monotonic()
        await asyncio.to_thread(plane.system.meta.start)
        figure("F32 metaserver killed and started: it serves", time.monotonic() - began)
        code, output = await asyncio.to_thread(newcomer.finish, 30)
        assert code == 0, output
        took = await judges_again(plane)
        figure("F32 metaserver started: the heartbeats loop judges again", took)
    assert states.changes() == []
