"""What a consumer held when it left is moved to the retry subject in records of the log, which have to fit its segments."""

from pathlib import Path

import pytest

from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.extensions import LeaveGroupRequest
from qmq.protocol.names import retry_subject
from tests.support.drivers.in_process import connected, message, running_broker
from tests.support.waiting import eventually_async

SEGMENT_BYTES = 256 << 10


@pytest.mark.parametrize(
    ("count", "size"),
    [
        pytest.param(29, 9_000, id="more-than-a-segment-holds"),
        pytest.param(1_400, 431, id="many-small-ones-with-a-checksum-each"),
    ],
)
async def test_messages_of_a_segment_and_more_are_retried(tmp_path: Path, count: int, size: int) -> None:
    settings = {"segment_bytes": SEGMENT_BYTES, "disk_reserve_bytes": 64 << 10}
    async with running_broker(tmp_path, **settings) as broker, connected(broker) as client:
        await client.begin()
        sent = []
        for number in range(count):
            assert not await client.send(message(number, size=size))
            sent.append(f"m{number}")
        last = -1
        while last < count - 1:
            first, ids = await client.pull(limit=500, last=last)
            last = first + len(ids) - 1
        leave = LeaveGroupRequest("orders", "g", "c1").encode()
        assert (await client.raw(Command.LEAVE_GROUP, leave)).code == ResponseCode.SUCCESS
        subjects, retries = broker.store.subjects, retry_subject("orders", "g")
        await eventually_async(
            lambda: retries in subjects and subjects[retries].visible_end == count, what="all are retried"
        )
