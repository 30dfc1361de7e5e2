"""What makes a subject, and what happens to the one that is too many."""

import asyncio
from pathlib import Path

from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import TagFilter
from qmq.protocol.extensions import LeaveGroupRequest
from qmq.protocol.names import is_subject_refusal
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.waiting import eventually_async

RETRY = "%RETRY%orders%g"


async def test_a_subject_over_the_limit_is_refused_and_the_others_of_its_batch_are_stored(tmp_path: Path) -> None:
    async with running_broker(tmp_path, subjects_max=2) as broker, connected(broker) as client:
        batch = [
            message(n, subject) for n, subject in enumerate(("orders", "mail", "third", "orders", "fourth", "mail"))
        ]
        failures = await client.send(*batch)
        # Not result 4 (official clients would avoid the group) and not 51 (they would repeat what is stored).
        assert {name: failure.result for name, failure in failures.items()} == {
            "m2": SendResult.STORE_ERROR,
            "m4": SendResult.STORE_ERROR,
        }
        assert is_subject_refusal(failures["m2"].remark)
        assert "subjects_max" in failures["m2"].remark
        for subject, expected in (("orders", ["m0", "m3"]), ("mail", ["m1", "m5"])):
            await client.begin(subject)
            assert (await client.pull(subject))[1] == expected
        assert broker.handlers.counters.bad_requests["limit_reached"] == 2
        assert sorted(broker.store.subjects) == ["mail", "orders"]


async def test_retry_subjects_fit_beside_as_many_real_ones(tmp_path: Path) -> None:
    async with running_broker(tmp_path, subjects_max=2) as broker, connected(broker) as client:
        assert not await client.send(message(0, "orders"), message(1, "mail"))
        assert not await client.send(message(2, RETRY), message(3, "%DEAD_RETRY%mail%g"))
        failures = await client.send(message(4, "%RETRY%mail%g"), message(5, RETRY))
        assert list(failures) == ["m4"]
        await client.begin()
        assert (await client.pull(consumer="a"))[1] == ["m0"]
        leave = LeaveGroupRequest("orders", "g", "a").encode()
        assert (await client.raw(Command.LEAVE_GROUP, leave)).code == ResponseCode.SUCCESS
        assert (await client.pull(RETRY, consumer="b"))[1] == ["m2", "m5", "m0"]
    async with running_broker(tmp_path, subjects_max=2) as broker:
        assert (broker.store.real_subjects, len(broker.store.subjects)) == (2, 4)


async def test_a_pull_of_a_retry_subject_makes_nothing_and_the_first_retry_reaches_it(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for number in range(20):
            assert await client.pull(f"%RETRY%orders%g{number}", f"g{number}") == (-1, [])
            assert await client.begin(f"%RETRY%orders%g{number}", f"g{number}") == ResponseCode.SUCCESS
        assert broker.store.subjects == {}
        assert broker.store.log.gather.appended_end == 0
        waiting = asyncio.create_task(client.pull(RETRY, timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        await client.send(message(0, RETRY))
        assert await asyncio.wait_for(waiting, 5) == (0, ["m0"])
        await client.send(message(1, RETRY))
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert await client.pull(RETRY) == (0, ["m0"])
        assert await client.pull(RETRY, last=0) == (1, ["m1"])


async def test_a_retry_stored_while_no_consumer_waits_is_delivered(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert await client.pull(RETRY) == (-1, [])
    # The broker forgot the pull; a retry comes before the consumer is back.
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0, RETRY))
        assert await client.pull(RETRY) == (0, ["m0"])


async def test_a_real_subject_keeps_the_place_of_a_group_that_pulled_before_its_first_message(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert await client.pull() == (-1, [])
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.send(message(0))
        assert await client.pull() == (0, ["m0"])


async def test_versions_above_nine_are_served_as_nine(tmp_path: Path) -> None:
    only_b = (TagFilter(1, ("b",)),)
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0, tags=("a",)), message(1, tags=("b",)))
        assert await client.pull(filters=only_b, version=10) == (0, ["m1"])
        await client.send(message(2, tags=("b",)))
        assert await client.pull(filters=only_b, last=0, version=100) == (1, ["m2"])
        assert "unknown_version" not in broker.handlers.counters.bad_requests
