"""Members of a delay group whose log is short, under random kills, power cuts and promotions: slaves copy, and nothing that was
acknowledged is lost or undone."""

import asyncio
from random import Random
from typing import Any

import pytest

from delay_node import files_copy
from delay_node.delay_node import DelayNode
from delay_node.records import HOUR_MS, RecordKind, State
from qmq.protocol.delayed import DelayedTarget, ListDelayedRequest, Operation, Outcome
from qmq_node.replication.master import state_reads
from qmq_node.replication.rules.roles import CopyPhase
from tests.sim.replication.copy_storms import SEEDS, CopyStorm, endured, make_copies_frequent
from tests.sim.replication.copying import assert_no_failures
from tests.sim.replication.delay_copying import all_equal, delay_node
from tests.sim.replication.pair import DELAY_NODES, Members, client_of, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, delayed, now_ms

HOURS = 8
FILLER_BYTES = 8_000


class DelayStorm(CopyStorm):
    """Schedules so much that the master soon removes what an absent slave needs; cancels, and ends hours, which are used again."""

    def __init__(self, group: Members, rng: Random) -> None:
        super().__init__(group, rng)
        self.cancelled: set[str] = set()
        self.maybe_gone: set[str] = set()
        """Cancelled, or claimed by the test, without an answer."""
        self.due: dict[str, int] = {}
        self.begin_ms = (now_ms() // HOUR_MS + 24) * HOUR_MS
        self.phases: set[CopyPhase] = set()
        self.ended = 0

    async def _send(self, client: Client) -> None:
        self._number += 1
        name, due = f"m{self._number}", self.begin_ms + self.rng.randrange(HOURS * HOUR_MS)
        self.due[name] = due
        self.unknown.add(name)
        fillers = [
            delayed(
                1_000_000 + self._number * 100 + n, self.begin_ms + HOURS * HOUR_MS, "large", data="x" * FILLER_BYTES
            )
            for n in range(4)
        ]
        async with asyncio.timeout(5):
            failures = await client.send(delayed(self._number, due), *fillers)
        self.unknown.discard(name)
        if not failures:
            self.acknowledged.append(name)
        if self.acknowledged and self.rng.random() < 0.3:
            await self._cancel(client, self.rng.choice(self.acknowledged))
        if self.rng.random() < 0.1:
            await self._end_hour()

    async def _cancel(self, client: Client, name: str) -> None:
        self.maybe_gone.add(name)
        async with asyncio.timeout(5):
            (change,) = await client.change(Operation.CANCEL, DelayedTarget(name, "orders", self.due[name]))
        if change.outcome is Outcome.DONE:
            self.cancelled.add(name)

    async def _end_hour(self) -> None:
        """Cancel all of an hour at the master, and end it."""
        node = delay_node(self.group, self.group.membership.value.master)
        store = node.store
        number = self.begin_ms // HOUR_MS + self.rng.randrange(HOURS)
        if not node.replication.is_serving or node.replication.holds_files:
            return
        async with store.open_hours.use(number) as hour:
            if hour is None:
                return
            assert hour.states is not None
            refs = [number << 32 | n for n, state in enumerate(hour.states) if state == State.PENDING]
            self.maybe_gone |= {name for name, due in self.due.items() if due // HOUR_MS == number}
            if refs:
                store.act(RecordKind.CANCELLED, refs, now_ms())
                node.committer.kick()
            async with asyncio.timeout(5):
                await node.committer.synced(node.log.gather.records_end - 1)
        if hour.is_complete and not hour.users and store.hours.get(number) is hour and not node.replication.holds_files:
            store.end_hours([hour], now_ms())
            node.committer.kick()
            self.ended += 1

    async def watch_phases(self) -> None:
        """Note what slaves copy."""
        while True:
            await asyncio.sleep(0.003)
            for name, host in self.group.hosts.items():
                if isinstance(host.server, DelayNode):
                    copying = delay_node(self.group, name).folder.replica.state.copying
                    if copying is not None:
                        self.phases.add(copying.phase)


async def pending(client: Client) -> set[str]:
    """The IDs of all pending messages of the subject."""
    found: set[str] = set()
    request = ListDelayedRequest("orders", 0, 1 << 47, limit=200)
    while True:
        page = await client.listed(request)
        found |= {item.message.message_id for item in page.items}
        if not page.cursor:
            return found
        request = ListDelayedRequest("orders", 0, 1 << 47, limit=200, cursor=page.cursor)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", range(SEEDS))
async def test_nothing_acknowledged_is_lost(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make_copies_frequent(monkeypatch)
    monkeypatch.setattr(state_reads, "PIECE_BYTES", 16 << 10)
    monkeypatch.setattr(files_copy, "FILES_PER_SYNC", 3)
    monkeypatch.setattr(files_copy, "BYTES_PER_SYNC", 64 << 10)
    settings: dict[str, Any] = {"checkpoint_seconds": 1.0, "copy_bytes_per_second": 2 << 20}
    async with members(running_loop(), count, in_sync_min=1, kind=DELAY_NODES, **settings) as group:
        storm = DelayStorm(group, Random(seed))
        await group.promote("g1-a")
        await endured(storm, storm.watch_phases())
        await all_equal(group)
        assert_no_failures(group)
        async with client_of(group.node(group.membership.value.master)) as client:
            found = await pending(client)
    assert len(storm.acknowledged) > 10
    lost = set(storm.acknowledged) - storm.maybe_gone - found
    assert not lost, "acknowledged messages are not pending"
    assert not storm.cancelled & found, "a cancelled message is pending"
    assert CopyPhase.FILES in storm.phases or SEEDS > 6, "none of the first seeds is without a copy"
