"""Delay nodes of one group whose wall clocks differ: a promoted one continues the time of the group, and delivers nothing early."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from delay_node.delay_node import DelayNode
from delay_node.trusted_clock import STEP_ACCEPTED_MS
from qmq.net.discovery import http_get, http_post_json
from qmq_node.node.storage import JOB_SECONDS
from tests.sim.replication.pair import DELAY_NODES, Members, client_of, in_sync, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import delayed, now_ms
from tests.support.waiting import eventually_async

HOUR_MS = 3_600_000
SECOND_MS = 1_000
NETWORK_MS = 100
"""Above every delay of a frame."""


class Pair:
    """A master with the right time, g1-a, and a slave, g1-b."""

    def __init__(self, group: Members) -> None:
        self.group = group

    def node(self, name: str = "g1-b") -> DelayNode:
        found = self.group.node(name)
        assert isinstance(found, DelayNode)
        return found

    def step(self, offset_ms: int, name: str = "g1-b") -> None:
        """Set a wall clock to this much ahead of the right time."""
        self.group.hosts[name].clock.offset_ms = offset_ms

    def files(self, name: str = "g1-b") -> list[str]:
        return list(self.group.hosts[name].disk.list_dir(f"/{name}"))

    async def page(self, path: str, name: str = "g1-b") -> dict[str, Any]:
        host, port = self.node(name).admin.address
        return dict(json.loads((await http_get(f"http://{host}:{port}{path}", timeout_s=5))[1]))

    async def ahead_ms(self, name: str = "g1-b") -> int:
        return int((await self.page("/stats", name))["clock"]["ahead_ms"])

    async def compared(self) -> None:
        """Wait until both have compared their clocks and written what they hold."""
        await asyncio.sleep(3 * JOB_SECONDS)

    async def fail_over(self, to: str = "g1-b", *, jump_ms: int | None = None) -> None:
        """Kill the master, and have the other one promoted; its clock may jump meanwhile."""
        self.group.hosts[self.group.membership.value.master].kill()
        await asyncio.sleep(2)
        if jump_ms is not None:
            self.step(jump_ms, to)
        await self.group.promote(to)

    def assert_right(self, least_ms: int = -NETWORK_MS, name: str = "g1-b") -> None:
        """The node's time is the right one, not early by a millisecond."""
        assert least_ms <= self.node(name).data.trusted.now_ms() - now_ms() <= 0


@asynccontextmanager
async def pair(slave_ahead_ms: int = 0) -> AsyncIterator[Pair]:
    async with members(running_loop(), kind=DELAY_NODES) as group:
        found = Pair(group)
        found.step(slave_ahead_ms)
        # It may have started with a right clock: what it sees first is compared all the same.
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b")
        await found.compared()
        yield found


@pytest.mark.parametrize("ahead_ms", [STEP_ACCEPTED_MS + NETWORK_MS, 60 * SECOND_MS, HOUR_MS])
async def test_a_slave_that_is_ahead_reports_it_and_delivers_nothing_early_when_it_is_promoted(ahead_ms: int) -> None:
    async with pair(ahead_ms) as both:
        assert -1 <= await both.ahead_ms() - ahead_ms <= NETWORK_MS
        assert await both.ahead_ms("g1-a") == 0
        assert "ms ahead of the group's time" in (await both.page("/readyz"))["clock"]
        assert "clock" not in await both.page("/readyz", "g1-a")
        metrics = (await both.node().admin.metrics_text()).decode()
        assert 'qmq_delay_clock_held{broker_group="g1"} 1.0' in metrics
        async with client_of(both.node("g1-a")) as client:
            assert await client.send(delayed(0, now_ms() + 30 * SECOND_MS)) == {}
        await both.group.all_equal()
        await both.fail_over()
        both.assert_right()
        assert -1 <= await both.ahead_ms() - ahead_ms <= NETWORK_MS, "it is kept"
        await eventually_async(lambda: both.node().store.wheel.count == 1)
        await asyncio.sleep(15)
        assert both.node().store.wheel.count == 1, "nothing is due early"
        both.assert_right()
        await asyncio.sleep(15)
        assert both.node().store.wheel.count == 0, "it is due in time"
        host, port = both.node().admin.address
        status, body = await http_post_json(f"http://{host}:{port}/clock/confirm", b"{}", timeout_s=5)
        assert (status, json.loads(body)["confirmed"]) == (200, True)
        assert both.node().data.trusted.now_ms() - now_ms() == ahead_ms
        assert "clock" not in both.files()


@pytest.mark.parametrize("ahead_ms", [NETWORK_MS - STEP_ACCEPTED_MS, -500, 500, STEP_ACCEPTED_MS - NETWORK_MS])
async def test_a_small_difference_is_no_step(ahead_ms: int) -> None:
    async with pair(ahead_ms) as both:
        assert "clock" not in await both.page("/readyz")
        await both.fail_over()
        assert both.node().data.trusted.now_ms() - now_ms() == ahead_ms
        assert "clock" not in await both.page("/readyz")


async def test_a_slave_that_is_behind_reports_it_and_delivers_late_when_it_is_promoted() -> None:
    async with pair(-60 * SECOND_MS) as both:
        clock = (await both.page("/stats"))["clock"]
        assert clock["ahead_ms"] == 0
        assert 0 <= 60 * SECOND_MS - clock["behind_ms"] <= NETWORK_MS
        assert "ms behind the group's time; a master delivers late by that" in (await both.page("/readyz"))["clock"]
        assert "qmq_delay_clock_behind_seconds" in (await both.node().admin.metrics_text()).decode()
        await both.fail_over()
        assert both.node().data.trusted.now_ms() - now_ms() == -60 * SECOND_MS
        assert (await both.page("/stats"))["clock"]["behind_ms"] > 0
        assert "clock" in await both.page("/readyz"), "messages are late"


@pytest.mark.parametrize("jump_ms", [6 * SECOND_MS, HOUR_MS])
async def test_a_clock_that_jumps_during_a_promotion_is_not_accepted(jump_ms: int) -> None:
    async with pair() as both:
        await both.fail_over(jump_ms=jump_ms)
        both.assert_right()
        await both.compared()
        assert await both.ahead_ms() >= jump_ms - 1
        assert "clock" in both.files()


async def test_a_step_is_held_over_a_restart_of_the_slave_and_a_promotion_before_it_follows() -> None:
    async with pair(HOUR_MS) as both:
        assert "clock" in both.files()
        both.group.hosts["g1-b"].kill()
        both.group.hosts["g1-a"].kill()
        await asyncio.sleep(5)
        await both.group.start("g1-b")
        await both.group.promote("g1-b")
        both.assert_right()
        assert await both.ahead_ms() >= HOUR_MS - 1


async def test_a_step_ends_when_the_clock_returns_and_when_the_master_s_is_confirmed() -> None:
    async with pair(HOUR_MS) as both:
        both.step(0)
        await both.compared()
        assert await both.ahead_ms() == 0
        assert "clock" not in both.files()
        for name in ("g1-a", "g1-b"):
            both.step(HOUR_MS, name)
        await both.compared()
        assert await both.ahead_ms() > 0 < await both.ahead_ms("g1-a"), "both jumped, and neither knows why"
        both.assert_right()
        host, port = both.node("g1-a").admin.address
        assert (await http_post_json(f"http://{host}:{port}/clock/confirm", b"{}", timeout_s=5))[0] == 200
        await both.compared()
        assert await both.ahead_ms() == await both.ahead_ms("g1-a") == 0
        assert {name for name in ("g1-a", "g1-b") if "clock" in both.files(name)} == set()
        host, port = both.node("g1-b").admin.address
        status, _ = await http_post_json(f"http://{host}:{port}/clock/confirm", b"{}", timeout_s=5)
        assert status == 404, "a slave's time is its master's"


async def test_the_time_of_the_group_continues_over_many_failovers_with_clocks_that_step() -> None:
    rng, offsets = running_loop().rng("clocks"), (0, 0, 3 * SECOND_MS, 7 * SECOND_MS, HOUR_MS, -HOUR_MS, -3 * SECOND_MS)
    async with pair() as both:
        master, slave = "g1-a", "g1-b"
        for _ in range(12):
            for name in (master, slave):
                if rng.random() < 0.5:
                    both.step(rng.choice(offsets), name)
            await both.compared()
            last_ms, at = both.node(master).data.trusted.now_ms(), running_loop().time()
            await both.fail_over(slave, jump_ms=rng.choice([None, *offsets]))
            early_ms = both.node(slave).data.trusted.now_ms() - last_ms - (running_loop().time() - at) * 1_000
            assert early_ms <= STEP_ACCEPTED_MS + 10, "early by the time of the group"
            await both.group.start(master)
            await in_sync(both.group, *sorted((master, slave)))
            master, slave = slave, master


async def test_after_a_start_of_all_members_the_clock_of_the_promoted_one_counts() -> None:
    async with members(running_loop(), kind=DELAY_NODES) as group:
        both = Pair(group)
        for name in group.hosts:
            group.hosts[name].kill()
        both.step(HOUR_MS)
        await group.start()
        await group.promote("g1-b")
        assert both.node().data.trusted.now_ms() - now_ms() == HOUR_MS
