"""A broker group whose master removes segments soon, so that slaves have to copy."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from broker_node.storage.store import MessageStore
from qmq_node.process.life import LifeEnded
from qmq_node.replication.master.retention_holds import HOLD_SECONDS
from qmq_node.replication.rules.roles import CopyPhase
from qmq_node.replication.slave import slave_copy
from tests.sim.replication.pair import Members, client_of, comparable, members
from tests.sim.world.loop import SimulatedLoop, running_loop
from tests.support.drivers.in_process import Client, message
from tests.support.waiting import eventually_async

BYTES = 8_000
"""Of a message: some 30 fill a segment."""
SETTINGS = {"retention_bytes": 600 << 10, "checkpoint_seconds": 1.0}
"""Two whole segments are kept."""


def make_copies_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies of some hundred KiB are large."""
    monkeypatch.setattr(slave_copy, "COPY_BYTES_MIN", 200_000)
    monkeypatch.setattr(slave_copy, "FOLLOW_BYTES_MAX", 20_000)


class Traffic:
    """What a client does at a master before others copy, and what must be known afterwards."""

    def __init__(self) -> None:
        self.sent: dict[str, list[str]] = {}
        self.in_flight: tuple[int, list[str]] = (0, [])
        self._number = 0

    async def send(self, client: Client, count: int, subject: str = "large", size: int = BYTES) -> None:
        """Send messages, one after the other."""
        for _ in range(count):
            self._number += 1
            assert await client.send(message(self._number, subject=subject, size=size)) == {}
            self.sent.setdefault(subject, []).append(f"m{self._number}")

    async def prepare(self, client: Client) -> None:
        """Leave an idle group, and a subject without messages behind: none of their records will be in the log."""
        await self.send(client, 5, "idle", 10)
        await client.begin("idle")
        assert (await client.pull("idle", limit=5))[1] == self.sent["idle"]
        assert await client.ack(0, 4, "idle") == 0
        await self.send(client, 3, "unread", 10)

    async def fill(self, client: Client, group: Members, name: str, away: str = "") -> None:
        """Send until the master has removed all that was there when this began.

        Args:
            away: a slave for which the log is held for some time.
        """
        broker = group.broker(name)
        end = broker.log.written_end
        if away:
            await self.send(client, 60)
            await asyncio.sleep(HOLD_SECONDS)
        while broker.log.begin < end:
            await self.send(client, 20)
        # In flight, and acknowledged in part.
        await client.begin("large", "busy", "latest")
        await self.send(client, 10)
        begin, pulled = await client.pull("large", "busy", limit=10)
        self.in_flight = begin + 4, pulled[4:]
        assert len(pulled) == 10
        assert await client.ack(begin, begin + 3, "large", "busy") == 0

    async def check(self, client: Client) -> None:
        """A master that was a copy knows all of it."""
        await self.check_idle(client)
        # The same consumer gets what it has not acknowledged, under the same numbers.
        begin, pulled = await client.pull("large", "busy", limit=6, last=-1)
        assert (begin, pulled) == self.in_flight

    async def check_idle(self, client: Client) -> None:
        """The idle group gets what is new, and nothing else."""
        assert await client.pull("idle", limit=5, last=4) == (-1, [])
        await self.send(client, 1, "idle", 10)
        assert await client.pull("idle", limit=5, last=4) == (5, self.sent["idle"][5:])


def crash(group: Members, name: str, *, is_power_cut: bool) -> None:
    """End a node without warning; with a power cut, its disk loses what was not synced."""
    if is_power_cut:
        group.hosts[name].cut_power()
        running_loop().network.power_on(name)
    else:
        group.hosts[name].kill()


def phase_of(group: Members, name: str) -> CopyPhase | None:
    """What a node copies, as it is on its disk."""
    copying = group.broker(name).folder.replica.state.copying
    return copying.phase if copying is not None else None


async def in_sync(group: Members, *names: str) -> None:
    """Wait until these members are in sync, and the master knows it."""
    await eventually_async(lambda: group.membership.value.in_sync == names and group.master_knows_membership(), 60)


def assert_no_failures(group: Members) -> None:
    """No node has ended by itself for another reason than to be opened again."""
    for name, host in group.hosts.items():
        assert all(isinstance(error, LifeEnded) for error in host.exits), (name, host.exits)


@asynccontextmanager
async def ahead(loop: SimulatedLoop, count: int = 2, **settings: Any) -> AsyncIterator[tuple[Members, Traffic]]:
    """A master whose log has lost its first segments, and slaves that have never run."""
    async with members(loop, count, in_sync_min=1, starts=["g1-a"], **SETTINGS, **settings) as group:
        traffic = Traffic()
        await group.promote("g1-a")
        await in_sync(group, "g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await traffic.prepare(client)
            await traffic.fill(client, group, "g1-a")
        yield group, traffic
        assert_no_failures(group)


def derived(store: MessageStore, log_begin: int) -> tuple[dict[str, Any], dict[tuple[str, ...], bytes]]:
    """What follows from the log of a node from an offset on, and what may begin later than on another node: entries of messages,
    which leave with their segments, and histories, of which a copy has what was in the log."""
    state = comparable(store)
    lists: dict[tuple[str, ...], bytes] = {}
    for subject, found in state["subjects"].items():
        lists[subject,] = found.pop("entries")
        del found["line"]["begin"]
        lists |= {(subject, group_name): entries for group_name, entries in found.pop("histories").items()}
    state["ages"] = {base: at_ms for base, at_ms in state["ages"].items() if base >= log_begin}
    return state, lists


async def all_equal(group: Members) -> None:
    """All members that run have the same log and the same state."""
    await group.all_equal()
    running = [name for name, host in group.hosts.items() if host.server is not None]
    begin = max(group.broker(name).log.begin for name in running)
    expected, lists = derived(group.broker(running[0]).store, begin)
    for name in running[1:]:
        state, others = derived(group.broker(name).store, begin)
        assert state == expected
        for key, entries in lists.items():
            assert entries.endswith(others[key]) or others[key].endswith(entries), key
