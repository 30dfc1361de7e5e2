"""READ_COPY at a master: the newest checkpoint, piece by piece, for slaves that FOLLOW would accept."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.replication import ReadCopyResponse
from qmq_node.log.checkpoint import Checkpoint, decode_checkpoint
from qmq_node.log.record import Position
from qmq_node.replication.master import state_reads
from qmq_node.replication.master.retention_holds import HOLD_SECONDS
from qmq_node.replication.master.state_reads import STATE_SECONDS
from tests.sim.leading.reading import REQUEST, STATE, connected, read, save
from tests.sim.leading.scene import EPOCH, PROMOTION, leading, membership
from tests.support.drivers.logs import drop_before


async def read_all(caller: Caller, first: ReadCopyResponse) -> bytes:
    """The rest of a checkpoint."""
    data = bytes(first.data)
    while len(data) < first.total_bytes:
        answer = await read(caller, replace(REQUEST, position=first.position, begin=len(data)))
        assert isinstance(answer, ReadCopyResponse)
        assert (answer.position, answer.total_bytes) == (first.position, first.total_bytes)
        data += answer.data
    return data


async def test_a_slave_reads_the_newest_checkpoint_while_newer_ones_are_made() -> None:
    async with leading(membership("m"), commits_before=3) as scene:
        caller = await connected(scene)
        assert await read(caller, REQUEST) == "copy.busy", "there is none yet"
        save(scene, 300)
        save(scene, 400)
        first = await read(caller, REQUEST)
        assert isinstance(first, ReadCopyResponse)
        assert (first.position, len(first.data)) == (400, 400)
        for offset in (500, 600, 700):
            save(scene, offset)
        assert decode_checkpoint(await read_all(caller, first)) == Checkpoint(STATE, Position(400, 7), 400)
        assert isinstance(await read(caller, replace(REQUEST, position=400, begin=100)), ReadCopyResponse)
        newest = await read(caller, REQUEST)
        assert isinstance(newest, ReadCopyResponse)
        assert newest.position == 700
        assert scene.leading.counters.sent_bytes["state"] == first.total_bytes + 2 * 400
        # That of before is not kept any more.
        assert await read(caller, replace(REQUEST, position=400, begin=100)) == "copy.removed"
        await caller.close()


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"broker_group": "g2"}, "copy.forbidden"),
        ({"node_id": "stranger"}, "copy.forbidden"),
        ({"node_id": "m"}, "copy.forbidden"),
        ({"epoch": EPOCH - 1}, "copy.forbidden"),
        ({"promotion_id": PROMOTION[:-1] + "2"}, "copy.forbidden"),
        ({"position": 5}, "copy.removed"),
        ({"begin": 1 << 40}, "copy.removed"),
    ],
    ids=str,
)
async def test_bad_requests_are_refused(changes: dict[str, Any], code: str) -> None:
    async with leading(membership("m"), commits_before=3, secret=None) as scene:
        save(scene, 300)
        caller = await connected(scene)
        assert await read(caller, replace(REQUEST, **changes)) == code
        assert scene.listener.counters.bad_requests[code] == 1
        # Other slaves notice nothing.
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert scene.newer_epochs == []
        await caller.close()


async def test_a_newer_epoch_makes_the_master_step_down() -> None:
    async with leading(membership("m"), secret=None) as scene:
        caller = await connected(scene)
        assert await read(caller, replace(REQUEST, epoch=EPOCH + 3)) == "copy.forbidden"
        assert scene.newer_epochs == [EPOCH + 3]
        await caller.close()


async def test_a_body_that_can_not_be_read_is_answered_and_ends_the_connection() -> None:
    async with leading(membership("m")) as scene:
        caller = await connected(scene)
        frame = await caller.call(Command.READ_COPY, REQUEST.encode()[:-3], timeout_s=5)
        assert frame.code != ResponseCode.SUCCESS
        assert scene.leading.counters.alarms == 0
        await caller.close()


async def test_reads_have_a_limit_and_a_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_reads, "READS_MAX", 2)
    async with leading(membership("m"), commits_before=3, copy_bytes_per_second=400) as scene:
        save(scene, 300)
        caller = await connected(scene)
        began = asyncio.get_running_loop().time()
        first = await read(caller, REQUEST)
        assert isinstance(first, ReadCopyResponse)
        answers = await asyncio.gather(*(read(caller, replace(REQUEST, position=300, begin=400)) for _ in range(3)))
        assert sorted(answer if isinstance(answer, str) else "data" for answer in answers) == [
            "copy.busy",
            "data",
            "data",
        ]
        assert asyncio.get_running_loop().time() - began >= 2.0
        await caller.close()


async def test_a_checkpoint_without_readers_is_closed_and_the_log_is_held_for_who_reads_it() -> None:
    async with leading(membership("m"), commits_before=40) as scene:
        high_watermark = scene.committer.high_watermark
        assert scene.leading.retained_from == high_watermark
        save(scene, 300)
        caller = await connected(scene)
        assert isinstance(await read(caller, REQUEST), ReadCopyResponse)
        assert scene.leading.retained_from == 300
        await scene.wait(STATE_SECONDS - 5)
        # A connection without FOLLOW is closed after some time, also one that has read.
        assert caller.is_closed
        caller = await connected(scene)
        assert isinstance(await read(caller, replace(REQUEST, position=300, begin=400)), ReadCopyResponse)
        await scene.wait(STATE_SECONDS + 1)
        caller = await connected(scene)
        assert await read(caller, replace(REQUEST, position=300, begin=400)) == "copy.removed"
        await scene.wait(HOLD_SECONDS)
        assert scene.leading.retained_from == high_watermark
        await caller.close()


async def test_a_slave_that_has_the_state_follows_from_the_begin_of_the_log_on() -> None:
    async with leading(membership("m"), commits_before=120) as scene:
        await asyncio.to_thread(drop_before, scene.log, 9_000)
        assert scene.log.begin == 8_192
        slave = scene.slave("a")
        for state_offset in (0, 8_191, 1 << 40):
            answer = await slave.ask(state_offset=state_offset)
            assert answer.result.name == "TOO_FAR_BEHIND"
        answer = await slave.ask(state_offset=9_500)
        assert (answer.result.name, answer.keep_to, answer.begin) == ("ACCEPTED", 8_192, 8_192)
        assert answer.keep_to_crc == scene.log.stored.read_previous_crc(8_192) != 0
        await slave.disconnect()


async def test_a_node_that_does_not_lead_has_no_state() -> None:
    async with leading(membership("m"), commits_before=3, secret=None) as scene:
        save(scene, 300)
        leads, scene.leading = scene.leading, None  # type: ignore[assignment]
        caller = await connected(scene)
        assert await read(caller, REQUEST) == "copy.forbidden"
        scene.leading = leads
        await caller.close()
        # Nor one that has stepped down.
        await leads.close()
        caller = await connected(scene)
        assert await read(caller, REQUEST) == "copy.forbidden"
        await caller.close()
