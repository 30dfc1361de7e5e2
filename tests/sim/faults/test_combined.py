"""F49: several faults at once. Each has its promise alone in another file; here only the messages and the return count."""

import asyncio

from tests.sim.faults.scenario import Scenario, running

RETURN_SECONDS = 30.0


async def returns(scenario: Scenario) -> None:
    """With all faults ended, every group is in use, and messages pass in both groups within RETURN_SECONDS."""
    scenario.heal()
    for host in scenario.cluster.hosts.values():
        host.clock.offset_ms = 0
        host.weather.sync_seconds = 0.0
        if host.process is None:
            scenario.cluster.network.power_on(host.name)
            host.start()
    scenario.cluster.database.is_away = False
    scenario.cluster.database.slowness = 1.0
    began = scenario.loop.now

    def is_back() -> bool:
        if not scenario.host("meta").is_serving:
            return False
        groups = scenario.meta.directory.groups
        used = {send.broker_group for send in scenario.sends_of(began, scenario.loop.now) if send.is_acked}
        return {"g1", "g2"} <= used and all(str(live.state) == "read_write" for live in groups.values())

    await scenario.until(is_back, RETURN_SECONDS, "everything is in use again")
    delayed = {send.value for send in scenario.sends if send.due is not None}
    await scenario.settle(may_repeat=delayed)


def start_clients(scenario: Scenario) -> None:
    scenario.add_consumer("c1")
    scenario.add_consumer("c2")
    scenario.add_producer("p1")
    scenario.add_producer("p2", delay=2.0)


async def test_f49_the_metaserver_is_killed_and_a_broker_loses_power_while_the_database_is_away() -> None:
    async with running() as scenario:
        start_clients(scenario)
        await asyncio.sleep(3)
        scenario.cluster.database.is_away = True
        await asyncio.sleep(2)
        scenario.host("meta").kill()
        scenario.host("g1").cut_power()
        await asyncio.sleep(3)
        scenario.host("meta").start()
        await asyncio.sleep(8)
        await returns(scenario)


async def test_f49_a_delay_node_is_killed_while_brokers_sync_slowly_and_its_clock_is_wrong() -> None:
    async with running() as scenario:
        start_clients(scenario)
        await asyncio.sleep(3)
        for name in ("g1", "g2"):
            scenario.host(name).weather.sync_seconds = 0.5
        scenario.host("d1").clock.offset_ms = -20_000
        await asyncio.sleep(3)
        scenario.host("d1").kill()
        await asyncio.sleep(1)
        scenario.host("d1").start()
        await asyncio.sleep(5)
        await returns(scenario)


async def test_f49_links_flap_while_brokers_are_killed_in_turn() -> None:
    async with running() as scenario:
        start_clients(scenario)
        await asyncio.sleep(3)
        for name in ("g1", "g2", "g1"):
            scenario.cut(("p1", "g1"), ("c1", "g2"), ("d1", "g1"), ("meta", "g2"))
            scenario.host(name).kill()
            await asyncio.sleep(2)
            scenario.heal()
            scenario.host(name).start()
            await asyncio.sleep(3)
        await returns(scenario)


async def test_f49_the_metaserver_stands_still_while_a_broker_is_cut_off_and_another_is_killed() -> None:
    async with running() as scenario:
        start_clients(scenario)
        await asyncio.sleep(3)
        process = scenario.host("meta").process
        assert process is not None
        process.pause()
        scenario.cut(("g1", "meta"), ("p1", "g1"), ("p2", "d1"))
        await asyncio.sleep(5)
        scenario.host("g2").kill()
        await asyncio.sleep(5)
        process.resume()
        await asyncio.sleep(10)
        await returns(scenario)


async def test_f49_all_servers_lose_power_at_once() -> None:
    async with running() as scenario:
        start_clients(scenario)
        await asyncio.sleep(4)
        for host in scenario.cluster.hosts.values():
            host.cut_power()
        await asyncio.sleep(5)
        await returns(scenario)
