"""What a broker enforces: closed subjects, quotas, pauses, allowed groups, retention of single subjects, read only."""

import asyncio
import logging
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import broker_node.retention.subject_retention as retention
from broker_node.broker import Broker
from broker_node.delivery.rejections import ERROR_HOLD_SECONDS
from qmq import Producer
from qmq.protocol.codes import BrokerGroupState, ResponseCode, SendResult
from qmq.protocol.commands import SendFailure
from qmq.receipt import Receipt
from qmq_node.log.index import DenseIndex
from qmq_node.policy import EMPTY_POLICY, NodePolicy, SubjectPolicy
from tests.sim.broker.policies import enforce
from tests.support.drivers.in_process import (
    Client,
    connected,
    copy_files,
    files_in,
    get_json,
    get_page,
    message,
    read_file,
    run_jobs,
    running_broker,
    small_system,
    write_file,
)
from tests.support.drivers.policies import set_policies
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


def rules(**subjects: SubjectPolicy) -> NodePolicy:
    return NodePolicy.of(subjects)


def paused(*pauses: tuple[str, str, str]) -> NodePolicy:
    return NodePolicy.of(paused=pauses)


async def page(broker: Broker, path: str) -> tuple[int, Any]:
    if path == "/metrics":
        status, body = await get_page(broker, path)
        return status, body.decode()
    return await get_json(broker, path)


def results(failures: dict[str, SendFailure]) -> dict[str, int]:
    return {message_id: failure.result for message_id, failure in failures.items()}


# --- sends ------------------------------------------------------------------------------------------------------------


async def test_a_closed_subject_refuses_its_own_messages_and_nothing_else(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.begin("open")
        assert not await client.send(message(0), message(1))
        await enforce(broker, rules(orders=SubjectPolicy(closed=True)))
        frame = (message(2, "open"), message(3), message(4, "open"), message(5), message(6, "%RETRY%orders%g"))
        failures = await client.send(*frame)
        assert results(failures) == {"m3": SendResult.STORE_ERROR, "m5": SendResult.STORE_ERROR}
        assert "subject orders accepts no new messages" in failures["m3"].remark
        assert await client.pull("open") == (0, ["m2", "m4"])
        # What is stored is worked off: read, acked, retried.
        assert await client.pull() == (0, ["m0", "m1"])
        assert await client.ack(1, 1) == ResponseCode.SUCCESS
        assert await client.pull("%RETRY%orders%g") == (0, ["m6", "m0"])
        await enforce(broker, EMPTY_POLICY)
        assert not await client.send(message(7))
        assert await client.pull(last=1) == (2, ["m7"])


async def test_a_quota_refuses_what_is_over_it_as_busy_and_lets_its_neighbours_in(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin()
        await client.begin("open")
        await enforce(broker, rules(orders=SubjectPolicy(messages_per_second=2)))
        frame = [message(0, "open"), *(message(n) for n in range(1, 5)), message(5, "open"), message(6)]
        failures = await client.send(*frame)
        assert results(failures) == dict.fromkeys(("m3", "m4", "m6"), SendResult.STORE_ERROR)
        assert "2 messages a second" in failures["m3"].remark
        assert await client.pull("open") == (0, ["m0", "m5"])
        assert await client.pull() == (0, ["m1", "m2"])
        clock.advance(0.5)
        assert results(await client.send(message(3), message(4))) == {"m4": SendResult.STORE_ERROR}
        assert await client.pull(last=1) == (2, ["m3"])


async def test_a_whole_frame_may_be_refused_and_is_answered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await enforce(broker, rules(orders=SubjectPolicy(closed=True)))
        assert len(await client.send(*(message(n) for n in range(500)))) == 500
        assert "orders" not in broker.store.subjects


async def test_stats_and_metrics_say_what_is_enforced(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.begin("limited")
        policy = NodePolicy.of(
            {
                "orders": SubjectPolicy(closed=True),
                "limited": SubjectPolicy(messages_per_second=1, retention_hours=2.0),
            },
            [("orders", "g", "")],
        )
        await enforce(broker, policy)
        await client.send(message(0), message(1), message(2, "limited"), message(3, "limited"))
        _, stats = await page(broker, "/stats")
        assert stats["policy"]["version"] == policy.version
        found = {subject["subject"]: subject for subject in stats["subjects"]}
        assert (found["orders"]["closed"], found["orders"]["quota"]) == (True, None)
        assert found["limited"]["quota"] == {"messages_per_second": 1, "bytes_per_second": None}
        assert found["limited"]["retention_hours"] == 2.0
        assert [group["paused"] for group in found["orders"]["groups"]] == [True]
        assert [group["paused"] for group in found["limited"]["groups"]] == [False]
        _, text = await page(broker, "/metrics")
        assert 'qmq_broker_policy_refused_messages_total{broker_group="g1",reason="closed"} 2.0' in text
        assert 'qmq_broker_policy_refused_messages_total{broker_group="g1",reason="quota"} 1.0' in text


async def test_our_producer_backs_off_from_a_quota_and_its_other_subjects_do_not_wait(tmp_path: Path) -> None:
    async with small_system(tmp_path, with_delay=False) as system:
        broker = system.brokers["g1"]
        policy = rules(limited=SubjectPolicy(messages_per_second=4), shut=SubjectPolicy(closed=True))
        set_policies(system.meta.directory, {"g1": policy})
        await eventually_async(lambda: broker.policy == policy)
        async with Producer(system.meta_url, app="test") as producer:
            loop = asyncio.get_running_loop()
            await producer.send("open", {"n": "first"})
            never = producer.send_soon("shut", {"n": "never"})
            await eventually_async(lambda: broker.handlers.counters.policy_refused_messages["closed"] >= 2)
            # Its subject is refused, the broker group is fine: no other subject has to avoid it.
            assert not producer._sender._choice.breaker._failing
            began = loop.time()
            waiting = [producer.send_soon("limited", {"n": str(n)}) for n in range(16)]
            slowest = 0.0
            while not all(future.done() for future in waiting):
                sent_at = loop.time()
                await asyncio.wait_for(producer.send("open", {}), 5)
                slowest = max(slowest, loop.time() - sent_at)
                await asyncio.wait([future for future in waiting if not future.done()] or waiting, timeout=0.02)
            took = loop.time() - began
            assert all(isinstance(future.result(), Receipt) for future in waiting)
            # Four at once, and twelve more at four a second.
            assert took >= 2.9
            assert slowest < took / 2, "a send of another subject waited for the quota"
            # Backing off, not asking in a circle: some refusals a message, not hundreds.
            assert broker.handlers.counters.policy_refused_messages["quota"] < 100
            assert broker.handlers.counters.policy_refused_messages["closed"] < 30
            assert not never.done()
            set_policies(system.meta.directory, {})
            assert isinstance(await asyncio.wait_for(never, 20), Receipt)


# --- pulls ------------------------------------------------------------------------------------------------------------


async def waiting_pull(broker: Broker, client: Client, **how: Any) -> "asyncio.Task[tuple[int, list[str]]]":
    """A pull that the broker holds."""
    held = broker.handlers.polls.held
    task = asyncio.create_task(client.pull(timeout_ms=20_000, **how))
    await eventually_async(lambda: broker.handlers.polls.held == held + 1 or task.done())
    assert not task.done(), task.result()
    return task


async def test_a_paused_group_waits_like_on_an_empty_subject_and_goes_on_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.begin(group="other")
        await client.send(message(0), message(1))
        assert await client.pull(limit=1) == (0, ["m0"])
        await enforce(broker, paused(("orders", "g", "")))
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await client.pull(last=0, timeout_ms=300) == (-1, [])
        assert loop.time() - began >= 0.29
        assert await client.pull(last=0) == (-1, [])
        held = await waiting_pull(broker, client, last=0)
        await client.send(message(2))
        assert await client.pull(group="other") == (0, ["m0", "m1", "m2"])
        # Acks are taken; what they say survives the pause.
        assert await client.ack(0, 0) == ResponseCode.SUCCESS
        assert not held.done()
        await enforce(broker, EMPTY_POLICY)
        assert await asyncio.wait_for(held, 2) == (1, ["m1", "m2"])


async def test_a_pause_holds_pulls_that_waited_before_it_and_the_retry_subject(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        before = await waiting_pull(broker, client)
        retries = await waiting_pull(broker, client, subject="%RETRY%orders%g")
        await enforce(broker, paused(("orders", "g", "")))
        await client.send(message(0), message(1, "%RETRY%orders%g"))
        await eventually_async(lambda: broker.store.subjects["%RETRY%orders%g"].visible_end == 1)
        assert await client.pull("%RETRY%orders%g", timeout_ms=200) == (-1, [])
        assert not before.done()
        assert not retries.done()
        await enforce(broker, EMPTY_POLICY)
        assert await asyncio.wait_for(before, 2) == (0, ["m0"])
        assert await asyncio.wait_for(retries, 2) == (0, ["m1"])


async def test_a_paused_consumer_does_not_hold_up_its_group(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await enforce(broker, paused(("orders", "g", "c1")))
        one = await waiting_pull(broker, client, consumer="c1")
        two = await waiting_pull(broker, client, consumer="c2")
        await client.send(message(0))
        assert await asyncio.wait_for(two, 2) == (0, ["m0"])
        assert not one.done()
        await client.send(message(1))
        await enforce(broker, EMPTY_POLICY)
        assert await asyncio.wait_for(one, 2) == (0, ["m1"])


async def test_a_paused_consumer_that_pulls_keeps_what_it_holds(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0))
        await client.pull(consumer="still")
        await client.send(message(1))
        await client.pull(consumer="gone")
        await enforce(broker, paused(("orders", "g", "")))
        for _ in range(3):
            clock.advance(170)
            assert await client.pull(consumer="still", last=0) == (-1, [])
            await run_jobs(broker)
        held = {
            c.consumer_id: c.log.in_flight
            for c in broker.store.subjects["orders"].groups["g"].progress.consumers.values()
        }
        assert held == {"still": 1, "gone": 0}


async def test_a_group_that_comes_first_while_paused_keeps_its_place(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        await enforce(broker, paused(("orders", "new", "")))
        assert await client.pull(group="new") == (-1, [])
        await client.send(message(1))
        await enforce(broker, EMPTY_POLICY)
        # As any new group: from its first pull on.
        assert await client.pull(group="new") == (0, ["m1"])


async def test_groups_that_a_subject_does_not_allow_get_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    caplog.set_level(logging.WARNING, "qmq.broker.handlers")
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        for group in ("g", "spy"):
            await client.begin(group=group)
        held = await waiting_pull(broker, client, group="spy")
        await enforce(broker, rules(orders=SubjectPolicy(allowed_groups=("g",))))
        await client.send(message(0), message(1, "%RETRY%orders%spy"))
        assert await client.pull() == (0, ["m0"])
        assert await asyncio.wait_for(held, 5) == (-1, [])
        loop = asyncio.get_running_loop()
        began = loop.time()
        for name in ("orders", "%RETRY%orders%spy", "%RETRY%orders%g"):
            assert await client.pull(name, group="spy", timeout_ms=20_000) == (-1, [])
        # Held for a while, because official consumers ask again at once; not for all of their patience.
        assert 3 * ERROR_HOLD_SECONDS * 0.95 <= loop.time() - began < 30
        assert broker.handlers.counters.policy_refused_pulls == 4
        said = [record for record in caplog.records if "subject 'orders' allows" in record.getMessage()]
        assert len(said) == 1
        clock.advance(61)
        await client.pull(group="spy")
        said = [record for record in caplog.records if "subject 'orders' allows" in record.getMessage()]
        assert len(said) == 2
        await enforce(broker, EMPTY_POLICY)
        assert await client.pull(group="spy") == (0, ["m0"])


# --- retention --------------------------------------------------------------------------------------------------------


async def stored(client: Client, subject: str, group: str) -> list[str]:
    """Everything the subject still has."""
    await client.begin(subject, group)
    return (await client.pull(subject, group))[1]


async def test_a_subject_keeps_its_messages_shorter_than_the_node(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin(group="slow")
        for number in range(4):
            await client.send(message(number), message(number, "other"))
            clock.advance(1800)
        await enforce(
            broker, rules(orders=SubjectPolicy(retention_hours=1.25), other=SubjectPolicy(retention_hours=100))
        )
        await run_jobs(broker)
        # Stored 2, 1.5, 1 and 0.5 hours ago.
        assert await stored(client, "orders", "a") == ["m2", "m3"]
        assert await stored(client, "other", "a") == ["m0", "m1", "m2", "m3"]
        # A group that was behind goes on with what is left, and the loss is counted.
        assert await client.pull(group="slow") == (0, ["m2", "m3"])
        assert broker.store.subjects["orders"].groups["slow"].skipped_total == 2
        assert broker.store.counters.expired_messages == 2
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        assert await stored(client, "orders", "b") == ["m2", "m3"]
        clock.advance(1800)
        await run_jobs(broker)
        assert await stored(client, "orders", "c") == ["m3"]
        clock.advance(7200)
        await run_jobs(broker)
        assert await stored(client, "orders", "d") == []
        await client.send(message(4))
        assert await stored(client, "orders", "e") == ["m4"]
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        assert await stored(client, "orders", "f") == ["m4"]
        assert broker.data.recovery.rebuilt is False


async def test_nothing_young_is_dropped_though_the_wall_clock_went_back(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(message(0))
        clock.advance(7200)
        await client.send(message(1))
        clock.step_wall(-7200_000)
        await client.send(message(2))
        clock.step_wall(7200_000)
        await enforce(broker, rules(orders=SubjectPolicy(retention_hours=1)))
        await run_jobs(broker)
        # The last one claims to be old, but stands behind a young one.
        assert await stored(client, "orders", "a") == ["m1", "m2"]


async def test_a_tick_drops_no_more_than_its_limit_and_a_start_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TICK_ENTRIES_MAX", 100)
    monkeypatch.setattr(retention, "CHUNK_ENTRIES", 40)
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        for name in ("a", "b", "c"):
            await client.begin(name, "stays")
            await client.send(*(message(n, name) for n in range(150)))
        clock.advance(7200)
        await client.send(message(999, "a"))
        await enforce(broker, NodePolicy.of({name: SubjectPolicy(retention_hours=1) for name in "abc"}))
        for expected in (100, 200, 300):
            await run_jobs(broker)
            assert broker.store.counters.expired_messages == expected
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        assert [broker.store.subjects[name].begin for name in "abc"] == [150, 150, 150]
        assert await stored(client, "a", "g") == ["m999"]
        assert await stored(client, "b", "g") == []


async def test_a_tick_looks_at_so_many_subjects_and_at_all_in_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TICK_SUBJECTS_MAX", 2)
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(message(0, name) for name in "abcde"))
        clock.advance(7200)
        await enforce(broker, NodePolicy.of({name: SubjectPolicy(retention_hours=1) for name in "abcde"}))
        for expected in (2, 4, 5):
            await run_jobs(broker)
            assert broker.store.counters.expired_messages == expected


async def test_index_files_go_only_when_no_checkpoint_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.storage.subject_table.DenseIndex", partial(DenseIndex, segment_entries=10))
    monkeypatch.setattr("broker_node.recovery.checkpoint.TAILS_BYTES_MAX", 0)
    clock = ManualClock()

    def files(broker: Broker) -> int:
        return len(files_in(f"{broker.options.data_dir}/consume", broker.disk))

    async def checkpoint(broker: Broker, client: Client, number: int) -> None:
        saved = broker.checkpoints.saved
        await client.send(message(number))
        clock.advance(61)
        await run_jobs(broker)
        await eventually_async(lambda: broker.checkpoints.saved == saved + 1)

    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(45)))
        await checkpoint(broker, client, 45)
        assert files(broker) == 5
        clock.advance(7200)
        await client.send(message(46))
        await enforce(broker, rules(orders=SubjectPolicy(retention_hours=1)))
        await run_jobs(broker)
        assert broker.store.subjects["orders"].begin == 46
        # Were it to end here, its checkpoint would still find every entry that it counts on.
        copy_files(tmp_path / "broker", tmp_path / "copy" / "broker")
        async with running_broker(tmp_path / "copy", clock=clock) as other, connected(other) as its_client:
            assert not other.data.recovery.rebuilt
            assert await stored(its_client, "orders", "g") == ["m46"]
        for number in (47, 48):
            assert files(broker) == 5
            await checkpoint(broker, client, number)
        assert files(broker) == 1
        assert await stored(client, "orders", "g") == ["m46", "m47", "m48"]


async def test_a_damaged_index_entry_is_made_again_before_its_age_is_judged(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.send(message(0))
        clock.advance(7200)
        await client.send(message(1), message(2))
        index = broker.store.subjects["orders"].consume_log
        index.repair(1, bytes(32))
        await enforce(broker, rules(orders=SubjectPolicy(retention_hours=1)))
        await run_jobs(broker)
        assert await stored(client, "orders", "a") == ["m1", "m2"]


# --- the node ---------------------------------------------------------------------------------------------------------


async def test_a_read_only_node_says_why_in_refusals_stats_and_readiness(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0))
        await enforce(broker, NodePolicy.of(read_only="moving to new disks"))
        failures = await client.send(message(1), message(2, "other"))
        assert results(failures) == {"m1": SendResult.STORE_ERROR, "m2": SendResult.STORE_ERROR}
        assert "moving to new disks" in failures["m1"].remark
        _, stats = await page(broker, "/stats")
        assert (stats["state"], stats["state_reason"]) == ("read_only", "read only: moving to new disks")
        # It serves reads: ready, with the reason beside it.
        assert await page(broker, "/readyz") == (200, {"status": "ok", "read_only": "read only: moving to new disks"})
        assert broker.registration.state is BrokerGroupState.READ_ONLY
        assert await client.pull() == (0, ["m0"])
        await enforce(broker, EMPTY_POLICY)
        assert await page(broker, "/readyz") == (200, {"status": "ok"})
        assert not await client.send(message(3))


async def test_a_restart_goes_on_with_the_kept_policy_and_without_a_damaged_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = NodePolicy.of({"orders": SubjectPolicy(closed=True)}, [("other", "g", "")])
    async with running_broker(tmp_path) as broker:
        await enforce(broker, policy)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert broker.policy == policy
        assert results(await client.send(message(0), message(1, "other"))) == {"m0": SendResult.STORE_ERROR}
        await client.begin("other")
        assert await client.pull("other") == (-1, [])
    file = tmp_path / "broker" / "policy"
    write_file(file, read_file(file)[:-3])
    caplog.clear()
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert broker.policy.version == ""
        assert any("can't be read" in record.getMessage() for record in caplog.records if record.levelname == "ERROR")
        assert not await client.send(message(2))
        await enforce(broker, policy)
    async with running_broker(tmp_path) as broker:
        assert broker.policy == policy


async def test_a_subject_whose_retention_fails_is_reported_and_the_others_are_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        for name in ("a", "b"):
            await client.begin(name)
            await client.send(message(1, name))
        clock.advance(7200)
        await enforce(broker, NodePolicy.of({name: SubjectPolicy(retention_hours=1) for name in "ab"}))

        index = broker.store.subjects["a"].consume_log
        read = DenseIndex.read_cached

        def unreadable(this: DenseIndex, begin: int, end: int) -> bytes | None:
            if this is index:
                raise OSError(5, "Input/output error")
            return read(this, begin, end)

        with monkeypatch.context() as patch:
            patch.setattr(DenseIndex, "read_cached", unreadable)
            await run_jobs(broker)
            assert [broker.store.subjects[name].begin for name in "ab"] == [0, 1]
            failing = broker.supervisor.failing()
            assert list(failing) == ["subject_retention"]
            assert "subject a: its retention stops at sequence 0: [Errno 5]" in failing["subject_retention"]
        await run_jobs(broker)
        assert broker.supervisor.failing() == {}
        assert broker.store.subjects["a"].begin == 1
