"""Empty subjects are removed: their places are free again, and what returns is served under new sequences."""

import asyncio
from pathlib import Path

import pytest

from broker_node.broker import Broker
from broker_node.delivery import consumer_leases
from broker_node.retention import subject_removal
from qmq_node.policy import NodePolicy, SubjectPolicy
from tests.sim.broker.policies import enforce
from tests.sim.broker.reading import ranges
from tests.support.drivers.in_process import connected, files_in, message, run_jobs, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

RETRY = "%RETRY%orders%g"


async def expire(broker: Broker, clock: ManualClock, *names: str) -> None:
    """Let retention take all that the subjects hold, and run the jobs."""
    clock.advance(7200)
    await enforce(broker, NodePolicy.of({name: SubjectPolicy(retention_hours=1) for name in names if name[0] != "%"}))
    for name in names:
        if name[0] == "%":
            # Only the log's retention empties a retry subject.
            subject = broker.store.subjects[name]
            subject.consume_log.hide_before(subject.visible_end)
            broker.store.maybe_empty[name] = None
    await run_jobs(broker)
    await run_jobs(broker)
    await enforce(broker, NodePolicy.of({}))


async def test_typos_do_not_fill_the_limit_for_ever(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, subjects_max=3) as broker, connected(broker) as client:
        await client.begin("orders")
        assert not await client.send(message(0, "ordrs"), message(1, "odrers"), message(2, "%RETRY%ordrs%g"))
        assert list(await client.send(message(3, "mail"))) == ["m3"]
        await expire(broker, clock, "ordrs", "odrers", "%RETRY%ordrs%g")
        assert list(broker.store.subjects) == ["orders"]
        assert broker.store.real_subjects == 1
        assert not await client.send(message(4, "mail"), message(5, "ordrs"))
        assert list(await client.send(message(6, "fourth"))) == ["m6"]
        samples = [sample for family in broker.serving.metrics.collect() for sample in family.samples]
        assert [one.value for one in samples if one.name == "qmq_broker_removed_subjects_total"] == [3]
    async with running_broker(tmp_path, clock=clock, subjects_max=3) as broker:
        assert sorted(broker.store.subjects) == ["mail", "orders", "ordrs"]


async def test_messages_that_left_with_their_segment_leave_their_subject_empty(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = {"segment_bytes": 1 << 20, "retention_hours": 1.0, "checkpoint_bytes": 1 << 16}
    async with running_broker(tmp_path, clock=clock, **settings) as broker, connected(broker) as client:
        await client.send(*(message(n, "typo") for n in range(3)))
        for hour in range(4):
            clock.advance(3600)
            for n in range(8):
                await client.send(*(message(hour * 1000 + n * 50 + i, "orders", size=4000) for i in range(50)))
            await eventually_async(lambda: not broker.committer.waiting)
            await run_jobs(broker)
        assert broker.store.log.begin > 0
        await eventually_async(lambda: "typo" not in broker.store.subjects)
        assert broker.store.sequence_floor >= 3
        await client.begin("typo")
        await client.send(message(9, "typo"))
        assert await client.pull("typo") == (0, ["m9"])
        assert broker.store.subjects["typo"].begin == broker.store.sequence_floor


async def test_a_turn_removes_no_more_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject_removal, "BATCH_SUBJECTS_MAX", 2)
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(message(0, name) for name in "abcde"))
        clock.advance(7200)
        await run_jobs(broker)
        await enforce(broker, NodePolicy.of({name: SubjectPolicy(retention_hours=1) for name in "abcde"}))
        await broker.serving.subject_retention.tick()
        for expected in (3, 1, 0):
            await broker.serving.subject_removal.tick()
            assert len(broker.store.subjects) == expected


async def test_a_pull_that_waits_on_a_removed_subject_is_answered(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(message(n, "large") for n in range(70)), message(70, RETRY))
        await expire(broker, clock, "large", RETRY)
        assert broker.store.subjects == {}
        waiting = asyncio.create_task(client.pull(RETRY, timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        await client.send(message(71, RETRY))
        assert await asyncio.wait_for(waiting, 5) == (0, ["m71"])
        subject = broker.store.subjects[RETRY]
        assert (subject.begin, subject.visible_end) == (70, 71)


async def test_a_subject_is_removed_while_a_pull_waits_on_it(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        waiting = asyncio.create_task(client.pull(timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        subject = broker.store.subjects["orders"]
        broker.store.forget_group(subject, subject.groups["g"])
        await run_jobs(broker)
        assert broker.store.subjects == {}
        await client.send(message(0))
        # As for any group that is forgotten: it begins with what is stored from its next pull on.
        await client.send(message(1))
        assert (await asyncio.wait_for(waiting, 5))[1] == ["m1"]


async def test_pages_of_ranges_do_not_break_when_one_subject_replaces_another(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(message(0, "a"), message(1, "b"))
        assert list(await ranges(broker)) == ["a", "b"]
        await expire(broker, clock, "a")
        await client.send(message(2, "c"))
        found = {one.name: (one.begin, one.end, one.origin) for one in (await ranges(broker)).values()}
        assert found == {"b": (0, 1, 0), "c": (1, 2, 1)}


async def test_the_sweep_of_silent_consumers_passes_over_subjects_that_were_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_leases, "SWEEP_SUBJECTS_MAX", 1)
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(message(0, name) for name in "abc"))
        # Another sweep of all subjects begins, and has some left.
        await eventually_async(lambda: not broker.serving.consumer_leases._to_sweep)
        await broker.serving.consumer_leases.check()
        await expire(broker, clock, "a", "b", "c")
        for _ in range(3):
            await broker.serving.consumer_leases.check()
        assert broker.store.subjects == {}
        assert broker.supervisor.failing() == {}


async def test_a_subject_that_returns_keeps_its_entries_when_old_files_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.recovery.checkpoint.TAILS_BYTES_MAX", 0)
    clock = ManualClock()

    async def checkpoint(broker: Broker) -> None:
        saved = broker.checkpoints.saved
        clock.advance(61)
        await run_jobs(broker)
        await eventually_async(lambda: broker.checkpoints.saved > saved)

    def files(broker: Broker) -> list[int]:
        return [int(path.rpartition("/")[2]) for path in files_in(f"{broker.options.data_dir}/consume", broker.disk)]

    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(5)))
        await checkpoint(broker)
        assert files(broker) == [0]
        broker.store.subjects["orders"].consume_log.hide_before(5)
        broker.store.maybe_empty["orders"] = None
        await broker.serving.subject_removal.tick()
        assert "orders" in broker.store.removed
        assert files(broker) == [0]
        await client.send(message(5), message(6))
        await checkpoint(broker)
        assert files(broker) == [0, 5]
        # The checkpoint after the first one without it.
        await checkpoint(broker)
        assert broker.store.removed == {}
        assert files(broker) == [5]
        await client.begin()
        assert (await client.pull())[1] == ["m5", "m6"]
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        assert not broker.data.recovery.rebuilt
        await client.begin(group="h")
        assert (await client.pull(group="h"))[1] == ["m5", "m6"]
