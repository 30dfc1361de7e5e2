"""F17: each sync of a slave takes 50 ms while its master makes a thousand commits a second: it catches up, and stays."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable

import pytest

from tests.faults.replication.disks import MODULE, Disks
from tests.faults.replication.load import Load
from tests.faults.replication.scene import (
    NODE_FLAGS,
    PER_SECOND,
    Figures,
    in_sync,
    logs_are_equal,
    process_of,
    report_of,
    role_of,
    start,
)
from tests.support.promises import judging
from tests.support.servers.system import System
from tests.support.whole import in_whole_fault_runs

TURNS = 5
SYNC_SECONDS = 0.05
SINGLE_SENDS = 1_500
"""A second, each a request of its own, so that there are at least two thirds as many commits."""
AWAY_SECONDS, STAY_SECONDS = 10.0, 60.0
JOINED_SECONDS, P99_SECONDS = 60.0, 0.25


@in_whole_fault_runs
@pytest.mark.timeout(300 + TURNS * 300)
async def test_f17_a_slave_whose_syncs_are_slower_than_the_commits_of_its_master_catches_up_and_stays(
    new_system: Callable[..., System],
) -> None:
    system = new_system(groups=1, copies=2, broker_flags=NODE_FLAGS, broker_module=MODULE)
    disks, figures = Disks(system), Figures("F17, 50 ms for each sync of a slave")
    await start(system)
    await asyncio.to_thread(system.call_service, "members.set_copies", "g1", {"in_sync_min": 1})
    async with Load(system.meta_url, PER_SECOND) as load:
        for _ in range(TURNS):
            master = await in_sync(system, "g1")
            (slave,) = (node for node in system.members("g1") if node != master)
            await asyncio.to_thread(process_of(system, slave).kill)
            disks.delay(slave, SYNC_SECONDS)
            count = int(SINGLE_SENDS * (AWAY_SECONDS + JOINED_SECONDS + STAY_SECONDS))
            sends = system.qmq_soon(
                "bench", "produce", "single", f"--count={count}", "--batch=1", f"--rate={SINGLE_SENDS}", "--connections=4",
                "--json",
            )  # fmt: skip
            await load.until(time.monotonic() + AWAY_SECONDS)
            process_of(system, slave).start(wait=False)
            await figures.timed("in sync", JOINED_SECONDS, lambda node=slave: role_of(system, node) == "in_sync")
            began, version = time.monotonic(), report_of(system, master)["in_sync_version"]
            commits = await asyncio.to_thread(commits_of, system, master)
            await load.until(began + STAY_SECONDS)
            per_second = (await asyncio.to_thread(commits_of, system, master) - commits) / (time.monotonic() - began)
            seconds = load.sends.seconds(began)
            figures.add("99 % of sends", seconds[int(len(seconds) * 0.99)], P99_SECONDS)
            changed = report_of(system, master)["in_sync_version"] - version
            print(f"figure: {per_second:.0f} commits a second; the in-sync set changed {changed} times")
            code, output = await asyncio.to_thread(sends.finish, JOINED_SECONDS + STAY_SECONDS + AWAY_SECONDS)
            with judging():
                assert code == 0, output
            figures.add("99 % of single sends", json.loads(output)["p99_ms"] / 1000, P99_SECONDS)
            disks.delay(slave, 0)
    figures.report()
    with judging():
        assert not load.sends.errors, load.sends.errors[:5]
    await logs_are_equal(system)


def commits_of(system: System, node: str) -> float:
    """Return how many commits a broker node has written."""
    _, port = system.ports[node.removesuffix("-a")]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as page:
        lines = page.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith("qmq_broker_commits_total"))
