"""A producer whose broker groups have no space: sends fail with the reason, and at once; with other groups they do not fail."""

from pathlib import Path

import pytest

from metaserver.choices import GroupState
from qmq import Producer
from qmq.errors import SendFailed
from tests.support.in_process import SmallSystem, small_system
from tests.support.waiting import eventually_async

FULL = "no space: 0 bytes free on disk, the reserve is 16777216"


def fill(monkeypatch: pytest.MonkeyPatch, system: SmallSystem, *groups: str) -> None:
    for name in groups:
        monkeypatch.setattr(system.brokers[name], "lacks_space", lambda: FULL)


async def refused(producer: Producer) -> SendFailed:
    with pytest.raises(SendFailed) as raised:
        await producer.send("orders", "refused")
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
                errors = [await refused(producer) for _ in range(20)]
                assert {error.code for error in errors} == {"client.no_space"}
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
