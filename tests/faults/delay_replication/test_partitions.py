"""The master of a delay group loses the packets of metaserver and slaves, or they lose its packets, in network
namespaces."""

import time
from pathlib import Path

import pytest

from tests.faults.delay_replication.load import DelayLoad, now_ms
from tests.faults.delay_replication.scene import FLAGS, GROUP, NEAR, RETURN_SECONDS, judge, others_of, start
from tests.faults.replication.network import META, Network, NetworkSystem, require_namespaces
from tests.faults.replication.scene import (
    IS_FULL,
    PER_SECOND,
    TURNS,
    Figures,
    becomes,
    in_sync,
    repeated,
    role_of,
)
from tests.support.whole import in_whole_fault_runs

CUT_SECONDS = 12.0 if IS_FULL else 0.0
"""At least; the cut ends when there is another master."""
LATE_SECONDS = 14.0
NAMES = {"d1-a": "d1", "d1-b": "d1-b", "d1-c": "d1-c"}
"""Node ID to name in the system."""


@repeated
@in_whole_fault_runs
@pytest.mark.parametrize(("copies", "direction"), [(3, "both"), (2, "both"), (3, "to"), (3, "from")])
async def test_a_delay_master_that_is_cut_off_from_metaserver_and_slaves_is_replaced(
    tmp_path: Path, copies: int, direction: str
) -> None:
    """It still reaches the brokers. `direction`: the packets to or from the master are lost, or both."""
    require_namespaces()
    names = dict(list(NAMES.items())[:copies])
    figures = Figures(f"delay master cut off, {copies} members, packets {direction}")
    with (
        Network([META, "g1", *names.values()]) as network,
        NetworkSystem(tmp_path, network, groups=1, delays=1, delay_copies=copies, **FLAGS) as system,
    ):
        await start(system)
        async with DelayLoad(system, PER_SECOND, others=NEAR) as load:
            for _ in range(TURNS):
                old = await in_sync(system, GROUP)
                await load.flows(PER_SECOND)
                others = [META, *(names[node] for node in others_of(system, old))]
                outward = [(names[old], name) for name in others]
                inward = [(name, names[old]) for name in others]
                pairs = {"both": outward + inward, "from": outward, "to": inward}[direction]
                with network.lost(*pairs):
                    cut_at, cut_ms = time.monotonic(), now_ms()
                    await becomes(system, "master", *others_of(system, old))
                    figures.add("another master", time.monotonic() - cut_at, LATE_SECONDS)
                    await load.until(cut_at + CUT_SECONDS)
                await figures.timed(
                    "in sync after the cut", RETURN_SECONDS, lambda node=old: role_of(system, node) == "in_sync"
                )
                await load.flows(PER_SECOND)
                await load.delivered(now_ms() - 1_000)
                figures.add("latest message", load.latest(cut_ms), LATE_SECONDS)
        await judge(system, load, figures, TURNS)
