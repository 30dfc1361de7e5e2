"""F13: a disk that is full takes no sends and serves everything else."""

import pytest

from qmq.protocol.reasons import NO_REASON
from qmq_node.commits.log_space import LogSpace
from qmq_node.node.storage import JOB_SECONDS
from tests.sim.faults.scenario import NETWORK_SECONDS, Scenario, running
from tests.support.promises import CaughtBy, Check, judging

TEXT = "x" * 2_000


async def fill(scenario: Scenario) -> None:
    """Send until the broker's disk is full, with two groups that have not read any of it; then let them read."""
    host = scenario.host("g1")
    host.disk.capacity_bytes = host.disk.used_bytes + (1 << 20)
    scenario.add_producer("p1", text=TEXT, every=0.01, at_once=16)
    for group in ("billing", "audit"):
        scenario.add_consumer(f"c of {group}", group=group)
        scenario.clients[f"c of {group}"].process.pause()
    with judging(Check.RESERVE):
        await scenario.until(scenario.failed, 60, "sends are refused")
    refused = scenario.loop.now
    for group in ("billing", "audit"):
        scenario.clients[f"c of {group}"].process.resume()
    with judging(Check.RESERVE):
        await scenario.until(lambda: not scenario.missing(), 30, "all that was acknowledged is read")
        assert {send.error.code for send in scenario.failed() if send.error is not None} == {"client.no_space"}
        assert scenario.host("g1").exits == []
        await scenario.until(lambda: scenario.loop.now > refused + 3, 5, "time passes")
        subject = server(scenario).store.subjects["orders"]
        for state in subject.groups.values():
            held = [list(consumer.log.runs()) for consumer in state.progress.consumers.values()]
            assert not any(held), "acks are stored"


def server(scenario: Scenario):  # type: ignore[no-untyped-def]
    """The broker's process that runs now."""
    node = scenario.host("g1").server
    assert node is not None, "the broker ended"
    return node


async def test_f13_a_full_disk_refuses_sends_at_once_and_takes_acks_and_writes_again_when_there_is_space() -> None:
    async with running(brokers=1, delays=0) as scenario:
        await fill(scenario)
        scenario.host("g1").disk.capacity_bytes = 1 << 30
        freed = scenario.loop.now
        await scenario.until(
            lambda: any(send.is_acked for send in scenario.sends_of(freed, freed + 60)), 10, "it writes"
        )
        # The broker looks at the disk once a second, reports it with its next heartbeat; clients leave the group alone a second.
        assert scenario.loop.now < freed + 3 * JOB_SECONDS + 2 * NETWORK_SECONDS
        assert scenario.host("g1").starts == 1
        await scenario.settle(may_fail=True)
        assert not scenario.repeated()


async def test_a_disk_without_its_reserve_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogSpace, "lacks_space", lambda self: NO_REASON)
    with CaughtBy(Check.RESERVE):
        async with running(brokers=1, delays=0) as scenario:
            await fill(scenario)
