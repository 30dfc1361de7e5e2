"""A producer whose broker groups have no space: sends fail with the reason, and at once; with other groups they do not fail."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from metaserver.choices import GroupState
from qmq import Producer
from qmq.errors import SendFailed
from qmq.protocol.reasons import Code, Reason
from qmq_node.node.node import Node
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.waiting import eventually_async

FULL = Reason.of(Code.DISK_SPACE, free=0, reserve=16777216)


def fill(monkeypatch: pytest.MonkeyPatch, system: SmallSystem, *groups: str) -> None:
    for name in groups:
        monkeypatch.setattr(system.brokers[name].storage.space, "lacks_space", lambda: FULL)


async def filled(monkeypatch: pytest.MonkeyPatch, system: SmallSystem, *nodes: Node) -> None:
    """Fill the disks of nodes; the metaserver knows it when this returns."""
    for node in nodes:
        monkeypatch.setattr(node.storage.space, "lacks_space", lambda: FULL)
    groups = [system.meta.directory.groups[node.options.broker_group] for node in nodes]
    await eventually_async(lambda: {group.state for group in groups} == {GroupState.READ_ONLY}, 20)


async def refused(producer: Producer, subject: str = "orders", delay: timedelta | None = None) -> SendFailed:
    with pytest.raises(SendFailed) as raised:
        await producer.send(subject, "refused", delay=delay, due=None)
    return raised.value


async def test_sends_to_a_single_full_broker_group_fail_at_once_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        async with Producer(system.meta_url) as producer:
            await producer.send("orders", "stored")
            with monkeypatch.context() as full:
                fill(full, system, "g1")
                failures = system.brokers["g1"].handlers.counters.send_failures
                error = await refused(producer)
                assert (error.code, error.retriable) == ("client.no_space", True)
                assert FULL in str(error)
                assert "it is not stored" in str(error)
                assert failures["store_error"] == 1, "it was tried once"
                # Others fail without being sent, for a second.
                loop = asyncio.get_running_loop()
                began = loop.time()
                errors = [await refused(producer) for _ in range(20)]
                assert {error.code for error in errors} == {"client.no_space"}
                assert loop.time() == began, "they wait for nothing"
                # The same holds when the metaserver knows the group as read only.
                group = system.meta.directory.groups["g1"]
                await eventually_async(lambda: group.state is GroupState.READ_ONLY, 20)
                assert (await refused(producer)).code == "client.no_space"
            await eventually_async(lambda: group.state is GroupState.READ_WRITE, 20)
        async with Producer(system.meta_url) as producer:
            await producer.send("orders", "stored")


async def test_sends_go_to_the_broker_groups_that_have_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with (
        small_system(tmp_path, groups=3, with_delay=False) as system,
        Producer(system.meta_url) as producer,
    ):
        served = {(await producer.send("orders", "stored")).broker_group for _ in range(30)}
        with_space = sorted(served)[0]
        assert len(served) > 1
        fill(monkeypatch, system, *served - {with_space})
        receipts = [await producer.send("orders", "stored") for _ in range(30)]
        assert {receipt.broker_group for receipt in receipts} == {with_space}
        assert len(system.stored("orders")) == 60


@pytest.mark.parametrize("subject", ["orders", "new"])
async def test_sends_of_a_producer_that_starts_while_every_broker_group_is_full_fail_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    async with small_system(tmp_path, groups=2, with_delay=False) as system:
        async with Producer(system.meta_url) as producer:
            await producer.send("orders", "stored")
        brokers = list(system.brokers.values())
        with monkeypatch.context() as full:
            await filled(full, system, *brokers)
            async with Producer(system.meta_url) as producer:
                error = await refused(producer, subject)
                assert (error.code, error.retriable) == ("client.no_space", True)
                assert FULL in str(error)
                assert "no broker group has space" in str(error)
                assert "it is not stored" in str(error)
                tries = [broker.handlers.counters.send_failures["store_error"] for broker in brokers]
                assert tries == [1, 1], "each group was tried once"
        groups = system.meta.directory.groups
        await eventually_async(lambda: groups["g1"].state is groups["g2"].state is GroupState.READ_WRITE, 20)
        async with Producer(system.meta_url) as producer:
            await producer.send(subject, "stored")


async def test_delayed_sends_of_a_producer_that_starts_while_every_delay_group_is_full_fail_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_system(tmp_path) as system:
        await filled(monkeypatch, system, system.delay)
        async with Producer(system.meta_url) as producer:
            error = await refused(producer, delay=timedelta(hours=1))
            assert (error.code, error.retriable) == ("client.no_space", True)
            assert FULL in str(error)
            assert "no delay group has space" in str(error)
            assert system.delay.handlers.counters.send_failures["store_error"] == 1, "it was tried once"
            assert (await producer.send("orders", "stored")).broker_group == "g1"


async def test_a_producer_that_starts_waits_for_a_broker_group_that_is_away_while_the_other_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with small_system(tmp_path, groups=2, with_delay=False) as system:
        await system.brokers["g2"].close()
        assert system.meta.directory.groups["g2"].state is GroupState.OFFLINE
        await filled(monkeypatch, system, system.brokers["g1"])
        async with Producer(system.meta_url) as producer:
            sending = asyncio.ensure_future(producer.send("new", "stored"))
            await eventually_async(lambda: system.meta.handlers.counters.held == 1, 20)
            await system.start_broker("g2")
            assert (await sending).broker_group == "g2"
