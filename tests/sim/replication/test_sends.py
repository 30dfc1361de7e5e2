"""Sends to a replicated master whose slaves are missing or slow, by whole nodes."""

import asyncio

import pytest

from qmq.errors import ConnectionLost
from qmq.protocol.codes import BrokerGroupState, BrokerRequestType, SendResult
from qmq_node.replication.master.master_state import STALLED_SECONDS
from qmq_node.requests import sends
from tests.sim.replication.pair import client_of, in_sync, members
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import Client, message
from tests.support.waiting import eventually_async

BELOW = "read only: 2 copies are required, 1 is in sync"


async def rejected(client: Client, number: int) -> str:
    """Send a message that is rejected; the reason."""
    failures = await client.send(message(number))
    assert list(failures) == [f"m{number}"]
    assert failures[f"m{number}"].result == SendResult.STORE_ERROR
    return failures[f"m{number}"].remark


async def test_a_group_below_its_minimum_rejects_sends_and_serves_everything_else() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        broker = group.broker("g1-a")
        async with client_of(broker) as client:
            await in_sync(group, "g1-a", "g1-b")
            await client.begin()
            assert await client.send(message(0), message(1)) == {}
            assert broker.registration.request(BrokerRequestType.HEARTBEAT).state is BrokerGroupState.READ_WRITE
            group.hosts["g1-b"].kill()
            await in_sync(group, "g1-a")
            await eventually_async(lambda: broker.registration.refuse_sends() == BELOW)
            assert await rejected(client, 2) == BELOW
            assert broker.registration.request(BrokerRequestType.HEARTBEAT).state is BrokerGroupState.READ_ONLY
            assert broker.serving.describe()["state_reason"] == BELOW
            why = {
                "code": "one_in_sync",
                "values": {"required": 2, "in_sync": 1},
                "text": BELOW.removeprefix("read only: "),
            }
            assert broker.serving.describe()["state_why"] == {"code": "refuses", "values": {"why": why}, "text": BELOW}
            assert await client.pull() == (0, ["m0", "m1"])
            assert await client.ack(0, 1) == 0
            assert await client.begin(group="another") == 0
            await group.start("g1-b")
            await in_sync(group, "g1-a", "g1-b")
            await eventually_async(lambda: not broker.registration.refuse_sends())
            assert broker.serving.describe()["state_why"] is None
            assert await client.send(message(3)) == {}
            assert await client.pull(last=1) == (2, ["m3"])


async def test_a_stored_send_is_neither_answered_as_stored_nor_as_rejected_below_the_minimum() -> None:
    async with members(running_loop()) as group:
        await group.promote("g1-a")
        broker = group.broker("g1-a")
        async with client_of(broker) as sender, client_of(broker) as reader:
            await in_sync(group, "g1-a", "g1-b")
            await reader.begin()
            group.hosts["g1-b"].kill()
            sending = asyncio.create_task(sender.send(message(0)))
            with pytest.raises(ConnectionLost):
                await sending
            assert group.membership.value.in_sync == ("g1-a",)
            assert broker.handlers.counters.unknown_sends == 1
            assert broker.handlers.counters.send_failures.total() == 0
            assert await reader.pull() == (0, ["m0"]), "all in-sync members have it"


async def test_a_stored_send_is_answered_when_enough_members_are_left() -> None:
    async with members(running_loop(), 3) as group:
        await group.promote("g1-a")
        async with client_of(group.broker("g1-a")) as client:
            await in_sync(group, "g1-a", "g1-b", "g1-c")
            group.hosts["g1-b"].kill()
            assert await client.send(message(0)) == {}
            assert group.membership.value.in_sync == ("g1-a", "g1-c")


async def test_sends_are_rejected_while_stored_ones_wait_for_slaves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert STALLED_SECONDS == 2.0
    monkeypatch.setattr(sends, "UNCONFIRMED_BYTES_MAX", 100)
    async with members(running_loop(), in_sync_min=1) as group:
        await group.promote("g1-a")
        broker = group.broker("g1-a")
        async with client_of(broker) as first, client_of(broker) as second:
            await in_sync(group, "g1-a", "g1-b")
            await first.begin()
            group.membership.is_available = False
            group.hosts["g1-b"].kill()
            began = running_loop().now
            stored = asyncio.create_task(first.send(message(0)))
            await eventually_async(lambda: broker.committer.unconfirmed_bytes > 100)
            reason = await rejected(second, 1)
            assert running_loop().now - began == pytest.approx(STALLED_SECONDS, abs=0.3), (
                "it waited, and was not stored"
            )
            assert reason.startswith("read only: stored messages have waited 2.")
            assert "have waited" in await rejected(second, 2)
            assert not stored.done()
            await group.start("g1-b")
            assert await stored == {}
            assert await second.send(message(3)) == {}
            assert await second.pull() == (0, ["m0", "m3"])


async def test_f17_a_slave_with_a_slow_disk_is_removed_and_returns_by_itself() -> None:
    async with members(running_loop(), 3) as group:
        await group.promote("g1-a")
        await in_sync(group, "g1-a", "g1-b", "g1-c")
        loop, weather = running_loop(), group.hosts["g1-b"].weather
        taken: list[tuple[float, float]] = []
        """When each send was answered, and how long it took."""

        async def work(client: Client) -> None:
            number = 0
            while not is_ending:
                began = loop.now
                assert await client.send(message(number)) == {}
                taken.append((loop.now, loop.now - began))
                number += 1
                await asyncio.sleep(0.02)

        def longest(begin: float, end: float) -> float:
            return max((seconds for at, seconds in taken if begin < at <= end), default=0.0)

        is_ending = False
        async with client_of(group.broker("g1-a")) as client:
            working = asyncio.create_task(work(client))
            await asyncio.sleep(1.0)
            slow_at, weather.sync_seconds = loop.now, 0.2
            await asyncio.sleep(10.0)
            assert group.membership.value.in_sync == ("g1-a", "g1-b", "g1-c"), "it makes progress"
            assert 0.1 < longest(slow_at, loop.now) < 1.0
            stalled_at, weather.sync_seconds = loop.now, 10.0
            await in_sync(group, "g1-a", "g1-c")
            assert loop.now - stalled_at < 4.0
            await asyncio.sleep(20.0)
            assert longest(stalled_at + 5.0, loop.now) < 0.1, "the others store what is sent"
            weather.sync_seconds = 0.0
            await in_sync(group, "g1-a", "g1-b", "g1-c")
            is_ending = True
            await working
        await group.all_equal()
