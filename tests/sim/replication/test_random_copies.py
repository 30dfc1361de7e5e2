"""Members of a group whose log is short, under random kills, power cuts and promotions: slaves copy, and nothing acknowledged is
lost or delivered again."""

import asyncio
from random import Random

import pytest

from tests.sim.replication.copy_storms import SEEDS, CopyStorm, endured, make_copies_frequent
from tests.sim.replication.copying import BYTES, SETTINGS, all_equal, assert_no_failures
from tests.sim.replication.pair import Members, client_of, members, stored
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, message


class LargeStorm(CopyStorm):
    """Sends so much that the master soon removes what an absent slave needs, and consumes."""

    def __init__(self, group: Members, rng: Random) -> None:
        super().__init__(group, rng)
        self.acked: set[str] = set()
        self.copies = 0

    async def _send(self, client: Client) -> None:
        filler = [message(number, "large", size=BYTES) for number in range(20)]
        async with asyncio.timeout(5):
            await client.send(*filler)
        await super()._send(client)
        async with asyncio.timeout(5):
            begin, pulled = await client.pull(limit=5, last=-1)
            if pulled and await client.ack(begin, begin + len(pulled) - 1) == 0:
                self.acked |= {*pulled}


async def count_copies(storm: LargeStorm) -> None:
    """Count the starts of nodes that replace their logs."""
    known: dict[str, object] = {}
    while True:
        await asyncio.sleep(0.01)
        for name, host in storm.group.hosts.items():
            server = host.server
            if server is not None and known.get(name) is not server:
                known[name] = server
                broker = storm.group.broker(name)
                storm.copies += broker.storage.opening is not None and broker.storage.opening.is_log_only


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_nothing_acknowledged_is_lost(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make_copies_frequent(monkeypatch)
    settings = {**SETTINGS, "copy_bytes_per_second": 4 << 20}
    async with members(running_loop(), count, in_sync_min=1, **settings) as group:
        storm = LargeStorm(group, Random(seed))
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await client.begin()
        await endured(storm, count_copies(storm))
        await all_equal(group)
        assert_no_failures(group)
        async with client_of(group.broker(group.membership.value.master)) as client:
            _, again = await client.pull(limit=1000, last=-1)
            found = await stored(client)
    assert len(storm.acknowledged) > 10
    assert not storm.acked & set(again), "an acknowledged message was delivered again"
    assert len(found) == len(set(found)), "a message is stored twice"
    # Retention has removed the first ones.
    kept = [name for name in storm.acknowledged if int(name[1:]) >= int(found[0][1:])]
    assert [name for name in found if name in set(kept)] == kept
    assert storm.copies or SEEDS > 6, "none of the first seeds is without a copy"
