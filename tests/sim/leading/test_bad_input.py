"""Bad input on the sync port is answered or closes its connection, and other slaves continue to follow."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from qmq.errors import ConnectionLost
from qmq.protocol.codes import Command, FollowResult, FollowState, ResponseCode
from qmq.protocol.frames import FLAG_ONE_WAY, encode_request
from qmq.protocol.replication import EPOCHS_MAX, READ_COPY_BYTES_MAX, Confirm
from qmq_node.replication.master import candidates
from qmq_node.replication.master import listener as listener_module
from tests.sim.leading.raw_slaves import raw, with_a_good_slave
from tests.sim.leading.scene import PROMOTION, SEGMENT_BYTES, ScriptedSlave, commit_bytes, leading, membership
from tests.support.drivers.logs import drop_before
from tests.support.waiting import eventually_async

OTHER = "00000000-0000-0000-0000-000000000002"


@pytest.mark.parametrize(
    ("changes", "result", "reason", "is_alarm"),
    [
        ({"broker_group": "g2"}, FollowResult.UNKNOWN_GROUP, "belongs to broker group g1, not g2", False),
        ({"node_id": "stranger"}, FollowResult.NOT_MEMBER, "stranger is no slave of broker group g1", False),
        ({"node_id": "m"}, FollowResult.NOT_MEMBER, "m is no slave of broker group g1", False),
        ({"epoch": 0}, FollowResult.OLDER_EPOCH, "the slave has epoch 0, the master 1", False),
        ({"epoch": 2}, FollowResult.NEWER_EPOCH, "the slave has epoch 2, the master 1", False),
        ({"promotion_id": OTHER}, FollowResult.OTHER_PROMOTION, f"epoch 1 has promotion {PROMOTION} here", True),
        (
            {"end": 1 << 40, "epoch_chain": ((1, 0),)},
            FollowResult.END_BEYOND,
            "in epoch 1 the slave's log ends at 1099511627776",
            True,
        ),
        ({"end": 176, "crc": 7, "epoch_chain": ((1, 0),)}, FollowResult.CRC_DIFFERS, "CRC 0x00000007", True),
        ({"end": 175, "crc": 7, "epoch_chain": ((1, 0),)}, FollowResult.CRC_DIFFERS, "ends at log offset 175", True),
    ],
)
async def test_a_follow_that_is_not_accepted_is_answered_with_the_reason(
    changes: dict[str, Any], result: FollowResult, reason: str, is_alarm: bool
) -> None:
    async with with_a_good_slave() as (scene, _):
        slave = scene.slave("a")
        answer = await slave.ask(**changes)
        assert (answer.result, answer.session, answer.segments) == (result, 0, ())
        assert reason in answer.reason
        counters = scene.leading.counters
        assert counters.rejected_follows == {result.name.lower(): 1}
        assert counters.alarms == is_alarm
        assert scene.newer_epochs == ([2] if result is FollowResult.NEWER_EPOCH else [])
        await eventually_async(lambda: not slave.is_connected, what="the connection is closed")
        assert counters.sessions == 1
        await slave.follow()
        await eventually_async(lambda: slave.in_sync)


async def test_a_slave_that_is_rejected_again_and_again_is_logged_with_a_doubling_pause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with with_a_good_slave() as (scene, _):
        for _ in range(40):
            answer = await scene.slave("a").ask(promotion_id=OTHER)
            assert answer.result is FollowResult.OTHER_PROMOTION
            await scene.wait(1.0)
        assert scene.leading.counters.alarms == 40
    lines = [record for record in caplog.records if "(OTHER_PROMOTION" in record.getMessage()]
    assert [record.levelname for record in lines] == ["ERROR"] * 3, "after 0, 10 and 30 seconds"
    assert "more of this host since the last line" in lines[-1].getMessage()


async def test_a_spare_is_no_member() -> None:
    async with leading(membership(members=("m", "a"))) as scene:
        assert (await scene.slave("b").ask()).result is FollowResult.NOT_MEMBER


async def test_a_slave_behind_the_begin_of_the_log_has_to_copy() -> None:
    async with with_a_good_slave() as (scene, _):
        for _ in range(80):
            await scene.write()
        await asyncio.to_thread(drop_before, scene.log, 9_000)
        answer = await scene.slave("a").ask()
        assert answer.result is FollowResult.TOO_FAR_BEHIND
        assert answer.reason == "the slave's log ends at 0, and the master's begins at 8192"


async def test_a_slave_at_the_begin_of_the_log_follows_as_long_as_the_crc_there_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with leading() as scene:
        slave = await scene.following("a")
        while (room := SEGMENT_BYTES - scene.log.gather.appended_end) > 1_000:
            await scene.write()
        assert await scene.write(room - commit_bytes(0)) == SEGMENT_BYTES
        await eventually_async(lambda: slave.has_all)
        await slave.disconnect()
        await eventually_async(lambda: not slave.in_sync)
        for _ in range(60):
            await scene.write()
        await asyncio.to_thread(drop_before, scene.log, SEGMENT_BYTES)
        assert scene.log.begin == SEGMENT_BYTES
        monkeypatch.setattr(scene.log, "crc_at", lambda _: None)
        assert (await slave.ask()).result is FollowResult.TOO_FAR_BEHIND
        assert scene.leading.counters.alarms == 0
        monkeypatch.undo()
        await slave.follow()
        await eventually_async(lambda: slave.in_sync)
        slave.check_log()


async def test_a_node_that_does_not_lead_accepts_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with leading() as scene:
        await scene.leading.close()
        assert (await scene.slave("a").ask()).result is FollowResult.NOT_MASTER
        monkeypatch.setattr(scene.listener, "_leading", lambda: None)
        slave = scene.slave("b")
        assert (await slave.ask()).result is FollowResult.NOT_MASTER
        caller = await slave.connect()
        caller.send_frame(encode_request(Command.CONFIRM, 0, b"", flag=FLAG_ONE_WAY))
        await eventually_async(lambda: caller.is_closed)


async def test_as_many_slaves_are_examined_at_a_time_as_the_limit_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert candidates.FOLLOWS_MAX == 8
    monkeypatch.setattr(candidates, "FOLLOWS_MAX", 1)
    async with leading(commits_before=5) as scene:
        slave = await scene.following("a")
        await slave.disconnect()
        monkeypatch.setattr(scene.log, "crc_at", lambda _: None)
        other = scene.slave("b")
        first, second = await asyncio.gather(slave.ask(), other.ask(end=112, epoch_chain=((1, 0),)))
        results = {first.result, second.result}
        assert FollowResult.BUSY in results
        assert scene.leading.counters.rejected_follows["busy"] == 1
        await scene.wait(1.0)
        assert (await other.ask()).result is FollowResult.ACCEPTED


Bad = Callable[[ScriptedSlave], object]
CONFIRMATIONS: dict[str, tuple[Bad, str, bool]] = {
    "beyond what was sent": (lambda slave: slave.confirm(synced_end=1 << 40), "no_commit", True),
    "inside a commit": (lambda slave: slave.confirm(synced_end=slave.synced_end + 1), "no_commit", True),
    "with another CRC": (lambda slave: slave.confirm(crc=7), "other_crc", True),
    "below the last": (lambda slave: slave.confirm(synced_end=176), "below_last", True),
    "of another session": (lambda slave: slave.confirm(session=1), "other_session", False),
    "of another epoch": (lambda slave: slave.confirm(epoch=2), "other_epoch", False),
}


@pytest.mark.parametrize("what", CONFIRMATIONS)
@pytest.mark.parametrize("state", [FollowState.FOLLOWING, FollowState.COPYING])
async def test_a_confirmation_that_does_not_count_ends_its_session_only(what: str, state: FollowState) -> None:
    send, reason, is_alarm = CONFIRMATIONS[what]
    async with with_a_good_slave() as (scene, _):
        slave = await scene.following("a")
        high_watermark = scene.committer.high_watermark
        slave.state = state
        send(slave)
        await eventually_async(lambda: not slave.is_connected)
        counters = scene.leading.counters
        assert counters.rejected_confirmations == {reason: 1}
        assert counters.alarms == is_alarm
        assert counters.ended_sessions == {"rejected": 1}
        assert scene.committer.high_watermark == high_watermark
        assert [report.node_id for report in scene.leading.slaves()] == ["b"]


async def test_the_same_confirmation_again_changes_nothing() -> None:
    async with with_a_good_slave() as (scene, good):
        good.confirm()
        good.confirm()
        await scene.wait(0.1)
        assert not scene.leading.counters.rejected_confirmations


async def test_a_second_session_of_a_slave_ends_the_first() -> None:
    async with with_a_good_slave() as (scene, _):
        slave = await scene.following("a")
        first, old = slave.caller, slave.answer
        assert first is not None
        assert old is not None
        answer = await slave.follow()
        assert answer.session == old.session + 1
        await eventually_async(lambda: first.is_closed)
        # A confirmation of the first session on the second connection.
        slave.confirm(session=old.session)
        await eventually_async(lambda: not slave.is_connected)
        assert scene.leading.counters.rejected_confirmations == {"other_session": 1}
        assert scene.leading.counters.ended_sessions == {"replaced": 1, "rejected": 1}


async def test_a_second_follow_on_one_connection_closes_it() -> None:
    async with with_a_good_slave() as (scene, _):
        slave = await scene.following("a")
        assert slave.caller is not None
        with pytest.raises(ConnectionLost):
            await slave.caller.call(Command.FOLLOW, slave.request().encode(), timeout_s=5)
        assert scene.listener.counters.bad_requests == {"second_follow": 1}


async def test_a_confirmation_without_a_session_closes_the_connection() -> None:
    async with with_a_good_slave() as (scene, good):
        caller = await raw(scene)
        assert good.answer is not None
        stolen = Confirm(good.answer.session, 1, good.synced_end, 0, 0, FollowState.FOLLOWING)
        caller.send_frame(encode_request(Command.CONFIRM, 0, stolen.encode(), flag=FLAG_ONE_WAY))
        await eventually_async(lambda: caller.is_closed)
        assert scene.leading.counters.rejected_confirmations == {"no_session": 1}


@pytest.mark.parametrize("command", [Command.COMMITS, Command.SEND_MESSAGE, Command.HEARTBEAT, 999])
async def test_other_commands_are_unknown(command: int) -> None:
    async with with_a_good_slave() as (scene, _):
        caller = await raw(scene)
        assert (await caller.call(command, b"", timeout_s=5)).code == ResponseCode.UNKNOWN_CODE
        await caller.close()


@pytest.mark.parametrize("command", [Command.FOLLOW, Command.CONFIRM])
async def test_a_body_that_can_not_be_read_is_rejected_and_its_connection_closed(command: int) -> None:
    async with with_a_good_slave() as (scene, _):
        caller = await raw(scene)
        assert (await caller.call(command, b"\0", timeout_s=5)).code == ResponseCode.BROKER_ERROR
        await eventually_async(lambda: caller.is_closed)
        assert scene.listener.counters.bad_requests == {"undecodable": 1}


async def test_a_large_frame_closes_its_connection_by_its_header() -> None:
    assert listener_module.REQUEST_BYTES_MAX == 128 << 10 < READ_COPY_BYTES_MAX
    async with with_a_good_slave() as (scene, _):
        caller = await raw(scene)
        caller.send_frame(encode_request(Command.FOLLOW, 1, bytes(listener_module.REQUEST_BYTES_MAX)))
        await eventually_async(lambda: caller.is_closed)
        assert scene.listener.server.metrics.bad_frames == {"protocol.frame_too_large": 1}


async def test_the_largest_follow_is_read() -> None:
    async with leading() as scene:
        largest = {"epoch_chain": tuple((n, n) for n in range(1, EPOCHS_MAX + 1)), "end": 2_000}
        slave = scene.slave("a")
        assert len(slave.request(**largest).encode()) < listener_module.REQUEST_BYTES_MAX // 2
        assert (await slave.ask(**largest)).result is FollowResult.ACCEPTED
