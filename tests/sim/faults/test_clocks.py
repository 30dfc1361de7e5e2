"""F25, F26: the wall clock of one machine steps while it serves, forward and backward, once and again and again."""

import asyncio
import json

import pytest

from delay_node.trusted_clock import STEP_ACCEPTED_MS
from metaserver.memory.live_groups import EXPIRY_SECONDS
from qmq.net.discovery import http_post_json
from qmq_node.node.storage import JOB_SECONDS
from tests.sim.faults.scenario import NETWORK_SECONDS, OFFLINE_SECONDS, running

HOUR_MS = 3_600_000
STROBE = (30_000, -30_000) * 5


@pytest.mark.parametrize("name", ["g1", "meta", "p1", "c1"])
async def test_f25_a_clock_that_steps_costs_no_lease_and_no_message(name: str) -> None:
    async with running() as scenario:
        routes = scenario.watch_routes()
        scenario.add_consumer("c1")
        scenario.add_producer("p1", every=0.5)
        scenario.add_producer("p2", every=0.5, delay=1.0)
        await asyncio.sleep(2)
        began = scenario.loop.now
        client = scenario.clients.get(name)
        clock = client.clock if client is not None else scenario.host(name).clock
        for offset_ms in (HOUR_MS, 0, -HOUR_MS, 0, *STROBE, 0):
            clock.offset_ms = offset_ms
            await asyncio.sleep(2)
        assert scenario.changes_since(began) == []
        assert len({frozenset(states.items()) for _, states in routes.seen[-1:] + routes.since(began)}) == 1
        await scenario.settle()
        assert max(send.seconds for send in scenario.sends) < NETWORK_SECONDS
        assert {send.attempts for send in scenario.sends} == {1}
        assert not scenario.repeated()


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
async def test_f25_a_node_that_dies_when_the_metaserver_s_clock_steps_is_offline_on_time(offset_ms: int) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(3)
        began = scenario.loop.now
        scenario.host("meta").clock.offset_ms = offset_ms
        scenario.host("g1").kill()
        last = scenario.heartbeat_at("g1")
        await asyncio.sleep(10)
        (offline,) = [one.at for one in scenario.changes if one.at > began]
        assert last + EXPIRY_SECONDS < offline <= last + OFFLINE_SECONDS + NETWORK_SECONDS
        scenario.host("g1").start()
        await scenario.settle()


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
async def test_f25_sequences_and_routes_are_in_order_after_restarts_with_a_wrong_clock(offset_ms: int) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1")
        await asyncio.sleep(2)
        began = scenario.loop.now
        for name in ("g1", "meta", "g1"):
            scenario.host(name).clock.offset_ms = offset_ms
            scenario.host(name).kill()
            scenario.host(name).start()
            await asyncio.sleep(3)
            scenario.host(name).clock.offset_ms = 0
            await asyncio.sleep(2)
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert not scenario.repeated() - {send.value for send in scenario.sends if send.attempts > 1}


async def test_f26_a_delay_node_whose_clock_steps_forward_delivers_nothing_early_and_all_on_time() -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", delay=5.0, every=0.1)
        await asyncio.sleep(6)
        began = scenario.loop.now
        host = scenario.host("d1")
        for offset_ms in (HOUR_MS, 0, STEP_ACCEPTED_MS + 1_000, 0, HOUR_MS):
            host.clock.offset_ms = offset_ms
            await asyncio.sleep(4)
        due = {send.value: send.due for send in scenario.sends}
        lateness = [item.at - (due[item.value] or 0.0) for item in scenario.received]
        assert -0.001 <= min(lateness) <= max(lateness) < NETWORK_SECONDS
        assert max(item.at for item in scenario.received) > scenario.loop.now - 0.2, "delivery continues"
        assert scenario.changes_since(began) == []
        await scenario.settle()
        assert not scenario.repeated()


@pytest.mark.parametrize("end", ["killed", "stopped at once"])
async def test_f26_a_step_that_was_not_accepted_is_held_when_the_node_ends_and_comes_back(end: str) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.add_producer("p1", delay=20.0, every=0.1)
        await asyncio.sleep(22)
        host = scenario.host("d1")
        host.clock.offset_ms = HOUR_MS
        if end == "killed":
            await asyncio.sleep(JOB_SECONDS + NETWORK_SECONDS)
            host.kill()
        else:
            await host.stop()
        host.start()
        await host.has_started.wait()
        began = scenario.loop.now
        await asyncio.sleep(5)
        due = {send.value: send.due or 0.0 for send in scenario.sends}
        lateness = [item.at - due[item.value] for item in scenario.received if item.at > began]
        assert lateness
        assert min(lateness) >= -0.001
        restrictions = host.server.restrictions() if host.server is not None else {}
        assert "ms ahead of the group's time" in restrictions["clock"]
        host.clock.offset_ms = 0
        await asyncio.sleep(2 * JOB_SECONDS)
        assert not [name for name in host.disk.names if name.endswith("/clock")]
        await scenario.settle()


async def test_f26_a_confirmation_that_is_not_on_disk_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as scenario:
        host = scenario.host("d1")
        host.clock.offset_ms = HOUR_MS
        await asyncio.sleep(2 * JOB_SECONDS)
        url = f"http://127.0.0.1:{host.admin_port}/clock/confirm"
        with monkeypatch.context() as patch:
            patch.setattr(host.disk, "remove", failing_remove)
            status, body = await http_post_json(url, b"{}", timeout_s=5)
        assert (status, json.loads(body)["code"]) == (503, "clock.not_confirmed")
        assert host.server is not None
        assert "clock" in host.server.restrictions()
        status, body = await http_post_json(url, b"{}", timeout_s=5)
        assert (status, json.loads(body)["confirmed"]) == (200, True)
        host.kill()
        host.start()
        await host.has_started.wait()
        assert "clock" not in host.server.restrictions(), "the confirmed clock is accepted by the next process"


@pytest.mark.parametrize("offset_ms", [HOUR_MS, -HOUR_MS])
async def test_a_delay_is_a_duration_whatever_the_clock_of_the_producer_shows(
    offset_ms: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as scenario:
        scenario.add_consumer("c1")
        producer = scenario.add_producer("p1", delay=8.0, every=0.1)
        producer.clock.offset_ms = offset_ms
        await asyncio.sleep(20)
        producer.clock.offset_ms = 0  # it is set right while the producer runs
        await asyncio.sleep(10)
        due = {send.value: send.due or 0.0 for send in scenario.sends}
        lateness = [item.at - due[item.value] for item in scenario.received]
        assert len(lateness) > 100
        assert -0.001 <= min(lateness) <= max(lateness) < NETWORK_SECONDS
        assert caplog.text.count("the clock of this machine is 3600.0 s") == 1
        await scenario.settle()


async def test_delays_are_counted_by_the_time_that_the_delay_node_trusts() -> None:
    """Its clock jumped ahead, and it does not accept the step: a delay does not take an hour more."""
    async with running() as scenario:
        scenario.add_consumer("c1")
        scenario.host("d1").clock.offset_ms = HOUR_MS
        scenario.add_producer("p1", delay=8.0, every=0.1)
        await asyncio.sleep(20)
        due = {send.value: send.due or 0.0 for send in scenario.sends}
        lateness = [item.at - due[item.value] for item in scenario.received]
        assert len(lateness) > 50
        assert -0.001 <= min(lateness) <= max(lateness) < NETWORK_SECONDS
        await scenario.settle()


def failing_remove(path: str) -> None:
    raise OSError(5, "Input/output error", path)


async def test_f26_a_delay_node_whose_clock_steps_backward_lets_messages_wait_for_the_corrected_clock() -> None:
    step = 10.0
    async with running() as scenario:
        scenario.add_consumer("c1")
        host = scenario.host("d1")
        scenario.add_producer("p1", delay=5.0, every=0.1)
        await asyncio.sleep(6)
        began = scenario.loop.now
        host.clock.offset_ms = -round(step * 1000)
        await asyncio.sleep(step / 2)
        assert not [item for item in scenario.received if item.at > began + NETWORK_SECONDS]
        await asyncio.sleep(step)
        due = {send.value: send.due or 0.0 for send in scenario.sends}
        since = [item for item in scenario.received if item.at > began + NETWORK_SECONDS]
        assert since
        assert all(step - 0.001 <= item.at - due[item.value] < step + NETWORK_SECONDS for item in since)
        host.clock.offset_ms = 0
        await scenario.until(
            lambda: all(send.value in {item.value for item in scenario.received}
                        for send in scenario.sends if (send.due or 0.0) < scenario.loop.now - 1), 5, "it catches up",
        )  # fmt: skip
        await scenario.settle()
        assert not scenario.repeated()
