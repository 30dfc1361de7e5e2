"""What a pull gets and an ack does."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker_node.broker import Broker
from broker_node.delivery.group_position import set_position
from qmq.protocol.codes import Command, ConsumeFrom, ResponseCode
from qmq.protocol.commands import ConsumeManageRequest, TagFilter
from qmq.protocol.extensions import LeaveGroupRequest
from tests.support.drivers.in_process import Client, connected, get_json, message, run_jobs, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


def ids(*numbers: int) -> list[str]:
    return [f"m{n}" for n in numbers]


async def test_a_new_group_starts_at_the_end_and_others_where_they_are_told(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(*(message(n) for n in range(3)))
        assert await client.pull() == (-1, [])
        await client.send(message(3))
        assert await client.pull() == (0, ids(3))
        for start, value, expected in (("earliest", 0, ids(0, 1, 2, 3)), ("sequence", 2, ids(2, 3)), ("latest", 0, [])):
            await client.begin(group=start, start=start, value=value)
            assert (await client.pull(group=start))[1] == expected
        manage = ConsumeManageRequest("orders", "g", ConsumeFrom.EARLIEST).encode()
        assert (await client.raw(Command.CONSUME_MANAGE, manage)).code == ResponseCode.SUCCESS
        assert await client.pull(last=0) == (1, ids(0, 1, 2, 3))


async def test_a_restarted_consumer_gets_its_unacked_messages_first_under_their_old_sequences(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(6)))
        assert await client.pull(limit=4) == (0, ids(0, 1, 2, 3))
        assert await client.ack(0, 1) == ResponseCode.SUCCESS
        assert await client.pull(last=-1) == (2, ids(2, 3))
        assert await client.pull(last=3) == (4, ids(4, 5))
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert await client.pull(last=-1) == (2, ids(2, 3, 4, 5))
        assert await client.ack(2, 5) == ResponseCode.SUCCESS
        assert await client.pull(last=-1) == (-1, [])


async def test_two_consumers_of_a_group_never_hold_the_same_message(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(10)))
        assert (await client.pull(consumer="a", limit=4))[1] == ids(0, 1, 2, 3)
        assert (await client.pull(consumer="b", limit=4))[1] == ids(4, 5, 6, 7)
        assert (await client.pull(consumer="c", limit=4)) == (0, ids(8, 9))


async def test_a_repeated_ack_succeeds_and_an_ack_that_jumps_sends_the_gap_to_the_retry_subject(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n) for n in range(6)))
        await client.pull()
        assert await client.ack(0, 1) == ResponseCode.SUCCESS
        assert await client.ack(0, 1) == ResponseCode.SUCCESS
        assert await client.ack(4, 5) == ResponseCode.SUCCESS
        assert await client.pull(last=-1) == (-1, [])
        assert await client.pull("%RETRY%orders%g") == (0, ids(2, 3))
        assert await client.ack(-1, -1) == ResponseCode.SUCCESS


async def test_a_consumer_that_falls_silent_gives_its_messages_to_the_others(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0), message(1))
        assert (await client.pull(consumer="gone"))[1] == ids(0, 1)
        await client.ack(0, 0, consumer="gone")
        clock.advance(170)
        await client.pull(consumer="alive")
        await run_jobs(broker)
        assert await client.pull("%RETRY%orders%g", consumer="alive") == (-1, [])
        clock.advance(20)
        await run_jobs(broker)
        assert (await client.pull("%RETRY%orders%g", consumer="alive", timeout_ms=20_000))[1] == ids(1)
        # It was only slow: its late ack finds its own message done, and confirms nobody else's.
        assert await client.ack(1, 1, consumer="gone") == ResponseCode.SUCCESS
        await client.send(message(2), message(3))
        assert await client.pull(consumer="gone", last=1) == (2, ids(2, 3))


async def test_numbers_a_consumer_may_still_ack_are_not_given_out_again(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, consumer_forget_hours=1.0) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0), message(1))
        await client.pull()
        await client.ack(0, 1)
        clock.advance(2 * 3600)
        await run_jobs(broker)
        await client.send(message(2), message(3))
        begin, got = await client.pull(last=1)
        assert (begin, got) == (2, ids(2, 3))
        await client.ack(0, 1)
        assert await client.pull(last=-1) == (2, ids(2, 3))


async def test_a_consumer_that_leaves_hands_back_what_it_holds_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0), message(1))
        await client.pull(consumer="a")
        leave = LeaveGroupRequest("orders", "g", "a").encode()
        assert (await client.raw(Command.LEAVE_GROUP, leave)).code == ResponseCode.SUCCESS
        assert (await client.pull("%RETRY%orders%g", consumer="b"))[1] == ids(0, 1)


async def test_a_long_poll_is_woken_by_a_message_and_ends_in_time_without_one(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        loop = asyncio.get_running_loop()
        await client.begin()
        waiting = [asyncio.create_task(client.pull(consumer=f"c{i}", timeout_ms=20_000)) for i in range(3)]
        await eventually_async(lambda: broker.handlers.polls.held == 3)
        began = loop.time()
        await client.send(message(0))
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        # Not before it is on disk, and then at once: no poll in between.
        assert loop.time() - began < 0.01
        assert [task.result() for task in done] == [(0, ids(0))]
        await client.send(message(1), message(2))
        began = loop.time()
        assert (await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))[0]
        assert loop.time() - began < 0.01
        began = loop.time()
        assert await client.pull(consumer="x", timeout_ms=300) == (-1, [])
        assert loop.time() - began == pytest.approx(0.3, abs=0.01)
        for task in waiting:
            task.cancel()


async def test_a_retried_message_stays_invisible_for_its_delay_and_then_wakes_a_waiting_pull(tmp_path: Path) -> None:
    clock = ManualClock()
    settings = {"clock": clock, "retry_delay_seconds": 0.5}
    async with running_broker(tmp_path, **settings) as broker, connected(broker) as client:
        retry = "%RETRY%orders%g"
        await client.send(message(0, retry))
        assert await client.pull(retry) == (-1, [])
        waiting = asyncio.create_task(client.pull(retry, timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        clock.advance(0.5)
        assert await asyncio.wait_for(waiting, 5) == (0, ids(0))
        await client.send(message(1, "%DEAD_RETRY%orders%g"))
        await client.begin("%DEAD_RETRY%orders%g")
        assert (await client.pull("%DEAD_RETRY%orders%g"))[1] == ids(1)


async def test_tags_filter_in_the_broker(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        tags = [("a",), ("b",), ("a", "b"), ("c",), (), ("A",)]
        await client.send(*(message(n, tags=item) for n, item in enumerate(tags)))
        cases = [
            (TagFilter(1, ("a", "b")), ids(0, 1, 2)),
            (TagFilter(2, ("a", "b")), ids(2)),
            (TagFilter(2, ("a",)), ids(0, 2)),
            (TagFilter(0, ()), ids(0, 1, 2, 3, 4, 5)),
            (TagFilter(1, ("zzz",)), []),
        ]
        for number, (item, expected) in enumerate(cases):
            group = f"g{number}"
            await client.begin(group=group)
            assert (await client.pull(group=group, filters=(item,)))[1] == expected
            assert (await client.pull(group=group, filters=(item,), last=len(expected) - 1))[1] == []
        await client.begin(group="old")
        assert (await client.pull(group="old", filters=(TagFilter(1, ("b",)),), version=8))[1] == ids(1, 2)


async def test_a_filter_that_matches_nothing_for_long_does_not_make_the_pull_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("broker_node.delivery.delivery.FILTER_SCAN_MAX", 10)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n, tags=("rare",) if n == 35 else ("common",)) for n in range(40)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        answers = [await client.pull(filters=(TagFilter(1, ("rare",)),), timeout_ms=20_000) for _ in range(4)]
        assert answers == [(-1, []), (-1, []), (-1, []), (0, ids(35))]
        assert loop.time() - began < 20, "it waited although there was more to look at"


async def test_broadcast_numbers_are_the_messages_own(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0), message(1))
        for consumer in ("x", "y"):
            await client.pull(group=consumer, consumer=consumer, broadcast=True)
        await client.send(*(message(n, tags=("t",) if n != 4 else ()) for n in range(2, 7)))
        for consumer in ("x", "y"):
            assert await client.pull(group=consumer, consumer=consumer, broadcast=True) == (2, ids(2, 3, 4, 5, 6))
            assert await client.ack(2, 6, group=consumer, consumer=consumer, broadcast=True) == ResponseCode.SUCCESS
        only = (TagFilter(1, ("t",)),)
        await client.begin(group="z", broadcast=True)
        first = await client.pull(group="z", consumer="z", broadcast=True, filters=only)
        assert first == (2, ids(2, 3))
        assert await client.pull(group="z", consumer="z", broadcast=True, filters=only, last=3) == (5, ids(5, 6))


async def test_a_broadcast_that_was_set_back_keeps_the_numbers_of_its_messages(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin(group="x", broadcast=True)
        await client.send(*(message(n) for n in range(8)))
        assert await client.pull(group="x", consumer="x", broadcast=True, limit=6) == (0, ids(0, 1, 2, 3, 4, 5))
        await client.ack(0, 2, group="x", consumer="x", broadcast=True)
        subject = broker.store.subjects["orders"]
        set_position(broker.store, subject, "x", "sequence", 4, broadcast=True)
        assert await client.pull(group="x", consumer="x", broadcast=True, limit=1, last=5) == (4, ids(4))
        log = subject.groups["x"].progress.consumers["x"].log
        assert (log.acked, log.pulled, log.in_flight) == (3, 5, 2), "what it held below stays with it"
        set_position(broker.store, subject, "x", "sequence", 1, broadcast=True)
        assert await client.pull(group="x", consumer="x", broadcast=True, limit=2, last=4) == (1, ids(1, 2))
        assert await client.pull(group="x", consumer="x", broadcast=True, limit=2, last=2) == (3, ids(3, 4))
        assert await client.pull(group="x", consumer="x", broadcast=True, limit=2, last=2) == (3, ids(3, 4))
        assert await client.ack(1, 4, group="x", consumer="x", broadcast=True) == ResponseCode.SUCCESS
        assert log.in_flight == 0
        assert await client.pull(group="x", consumer="x", broadcast=True, last=4) == (5, ids(5, 6, 7))


SHORT: dict[str, Any] = {"segment_bytes": 1 << 20, "retention_hours": 1.0, "checkpoint_bytes": 1 << 20}


async def fill_two_segments(broker: Broker, client: Client) -> None:
    """Send messages until two segments and their messages are needed for nothing but retention."""
    sent = 0
    # The log is kept from the older of two checkpoints on.
    while broker.checkpoints.floor < 2 << 20:
        assert sent < 240, f"no two checkpoints behind 2 MiB: {broker.checkpoints.floor}"
        await client.send(message(sent, size=30_000), message(1000 + sent, size=30_000))
        sent += 1
        if sent % 20 == 0:
            await broker.checkpoints.finish()


async def test_retention_deletes_whole_segments_and_a_group_left_behind_is_told(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, **SHORT) as broker, connected(broker) as client:
        await client.begin()
        await fill_two_segments(broker, client)
        clock.advance(2 * 3600)
        await client.send(message(7777))
        await run_jobs(broker)
        assert broker.store.log.begin >= 2 << 20
        begin, got = await client.pull(limit=500)
        assert begin == 0
        assert "m0" not in got
        assert "m7777" in got
        assert broker.delivery.counters.fell_behind > 0
    async with running_broker(tmp_path, clock=clock, segment_bytes=1 << 20) as broker, connected(broker) as client:
        # Its end made a checkpoint: a little less may be there than before.
        again = (await client.pull(limit=500))[1]
        assert again
        assert again == got[-len(again) :]


async def test_f25_a_step_of_the_clock_and_time_away_delete_nothing_before_its_time(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, **SHORT) as broker, connected(broker) as client:
        await client.begin()
        await fill_two_segments(broker, client)
        clock.step_wall(2 * 3_600_000)
        await run_jobs(broker)
        await client.send(message(5555))
        await run_jobs(broker)
        assert broker.store.log.begin == 0
        assert [gap.ms for gap in broker.data.retention_clock.gaps()] == [2 * 3_600_000]
    clock.advance(2 * 3600)
    async with running_broker(tmp_path, clock=clock, **SHORT) as broker, connected(broker) as client:
        await run_jobs(broker)
        assert broker.store.log.begin == 0, "a restart knows of the step, and the time away does not count"
        assert "m0" in (await client.pull(limit=500))[1]
        clock.advance(3600)
        await client.send(message(7777))
        await run_jobs(broker)
        assert broker.store.log.begin >= 2 << 20
        assert "m7777" in (await client.pull(limit=500))[1]


async def test_an_idle_broker_that_is_restarted_was_not_away(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock, **SHORT) as broker, connected(broker) as client:
        await client.begin()
        await fill_two_segments(broker, client)
        clock.advance(1800)
        await run_jobs(broker)
    async with running_broker(tmp_path, clock=clock, **SHORT) as broker, connected(broker) as client:
        assert broker.data.retention_clock.gaps() == ()
        clock.advance(1801)
        await client.send(message(7777))
        await run_jobs(broker)
        assert broker.store.log.begin >= 2 << 20


async def test_admin_pages_tell_what_is_there(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(*(message(n, tags=("t",)) for n in range(5)))
        await client.pull(limit=3)
        await client.ack(0, 0)
        _, stats = await get_json(broker, "/stats?subject=orders")
        (subject,) = stats["subjects"]
        (group,) = subject["groups"]
        assert (subject["begin_sequence"], subject["end_sequence"]) == (0, 5)
        assert (group["backlog"], group["in_flight"], group["lag"]) == (2, 2, 4)
        assert group["time_lag_seconds"] is not None
        _, page = await get_json(broker, "/subjects/orders/messages?sequence=1&limit=2")
        assert [m["message_id"] for m in page["messages"]] == ids(1, 2)
        assert page["messages"][0]["properties"]["number"] == "1"
        assert page["next_sequence"] == 3
        _, found = await get_json(broker, "/subjects/orders/messages?message_id=m4")
        assert [m["sequence"] for m in found["messages"]] == [4]
        _, late = await get_json(broker, "/subjects/orders/messages?from_time=2099-01-01T00:00:00Z")
        assert late["messages"] == []
        for path in ("/healthz", "/readyz"):
            status, answer = await get_json(broker, path)
            assert (status, answer["status"]) == (200, "ok")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/subjects/nobody/messages", 404),
        ("/subjects/orders/messages?limit=x", 400),
        ("/subjects/orders/messages?from_time=noon", 400),
    ],
)
async def test_admin_pages_say_what_is_wrong(tmp_path: Path, path: str, status: int) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        assert (await get_json(broker, path))[0] == status
