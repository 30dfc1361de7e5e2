"""Bad input: the documented answer or a closed connection, a counted metric, a log line without payload; nobody else slowed.

And F13: a full disk refuses sends at once and nothing else.
"""

import asyncio
import contextlib
import errno
import logging
from pathlib import Path

import pytest

from qmq.errors import ConnectionLost
from qmq.protocol import names
from qmq.protocol.codes import Command, ResponseCode, SendResult
from qmq.protocol.commands import PullRequest
from qmq.protocol.frames import encode_request
from qmq.protocol.messages import Message, encode_entry
from qmq.protocol.reasons import Reason
from tests.sim.world.blocking import interleave_jobs, sleep
from tests.sim.world.loop import running_loop
from tests.support.disks.memory_disk import MemoryDisk
from tests.support.drivers.in_process import CREATED, connected, message, running_broker
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async

SECRET = "do-not-log-me"


async def test_unknown_commands_versions_and_bodies_get_their_answers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert (await client.raw(77, b"x")).code == ResponseCode.UNKNOWN_CODE
        assert (await client.raw(Command.SEND_MESSAGE, b"", version=3)).code == ResponseCode.BROKER_ERROR
        entry = bytearray(encode_entry(Message("orders", "m", {**CREATED, "data": SECRET})))
        entry[3] ^= 1
        assert (await client.raw(Command.SEND_MESSAGE, bytes(entry))).code == ResponseCode.BROKER_ERROR
        assert (await client.raw(Command.SEND_MESSAGE, bytes(entry[:-3]))).code == ResponseCode.BROKER_ERROR
        assert (await client.raw(Command.ACK_REQUEST, b"\x00")).code == ResponseCode.BROKER_ERROR
        assert (await client.raw(Command.HEARTBEAT, b"", version=8)).code == Command.HEARTBEAT
        counted = broker.handlers.counters.bad_requests
        assert counted == {"unknown_command": 1, "unknown_version": 1, "bad_crc": 1, "undecodable": 2}
        assert not await client.send(message(1)), "the connection still serves"
        assert SECRET not in caplog.text


async def test_a_client_that_repeats_a_bad_request_is_logged_with_a_back_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:

        async def repeat(count: int) -> list[str]:
            caplog.clear()
            for _ in range(count):
                await client.raw(77, b"x")
            return [line for line in caplog.messages if "command 77" in line]

        (line,) = await repeat(100)
        assert "unknown_command" in line
        await client.raw(Command.ACK_REQUEST, b"\x00")
        assert "undecodable" in caplog.text, "another reason has a line of its own"
        clock.advance(11)
        (line,) = await repeat(100)
        assert "99 more of this host" in line
        assert broker.handlers.counters.bad_requests["unknown_command"] == 200


async def test_pulls_that_can_not_be_served_are_answered_late_with_nothing(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        loop = asyncio.get_running_loop()
        for subject, group, consumer, limit in (
            ("a b", "g", "c", 1),
            ("orders", "g/h", "c", 1),
            ("orders", "g", "", 1),
            ("orders", "g", "c", 0),
        ):
            request = PullRequest(subject, group, consumer, limit, -1, -1, 5000, False).encode()
            began = loop.time()
            assert (await client.raw(Command.PULL_MESSAGE, request)).code == ResponseCode.NO_MESSAGE
            assert loop.time() - began > 0.5, "trap T4: an answer at once makes the client ask again at once"
        assert broker.handlers.counters.bad_requests == {"illegal_name": 3, "illegal_pull": 1}


async def test_a_pull_that_can_not_be_decoded_is_an_error_and_answered_late(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        loop = asyncio.get_running_loop()
        began = loop.time()
        whole = PullRequest("orders", "g", "c", 1, -1, -1, 5000, False).encode()
        assert (await client.raw(Command.PULL_MESSAGE, whole[:-1])).code == ResponseCode.BROKER_ERROR
        assert loop.time() - began > 0.5, "trap T4: 51 at once makes the client ask again at once as well"
        assert broker.handlers.counters.bad_requests == {"undecodable": 1}


async def test_messages_that_would_poison_consumers_are_refused_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        failures = await client.send(
            message(0), Message("or/ders", "m1", CREATED), Message("orders", "m2", {}), message(3)
        )
        assert {k: f.result for k, f in failures.items()} == {
            "m1": SendResult.SUBJECT_NOT_ASSIGNED,
            "m2": SendResult.BLOCK,
        }
        await client.begin()
        assert (await client.pull())[1] == ["m0", "m3"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "protocol.wrong_magic"),
        (b"\x7f\xff\xff\xff" + encode_request(10, 1)[4:], "protocol.frame_too_large"),
        (b"\x00\x00\x00\x01" + encode_request(10, 1)[4:], "protocol.frame_too_short"),
        (encode_request(10, 1)[:4] + b"\x00\x13" + encode_request(10, 1)[6:], "protocol.wrong_header_size"),
    ],
)
async def test_a_stranger_is_disconnected_and_nobody_else_notices(tmp_path: Path, data: bytes, reason: str) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        reader, writer = await asyncio.open_connection(*broker.server.address)
        writer.write(data)
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert broker.server.metrics.bad_frames == {reason: 1}
        assert not await client.send(message(1))


async def test_half_a_frame_and_silence_closes_that_connection_only(tmp_path: Path) -> None:
    clock = ManualClock()
    async with running_broker(tmp_path, clock=clock) as broker, connected(broker) as client:
        reader, writer = await asyncio.open_connection(*broker.server.address)
        writer.write(encode_request(10, 1, b"x" * 100)[:60])
        await eventually_async(lambda: any(c._unfinished.since is not None for c in broker.server.connections))
        clock.advance(31)
        broker.server.check()
        assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert broker.server.metrics.half_frames == 1
        assert not await client.send(message(1))


async def test_connections_over_the_limit_are_closed_at_once(tmp_path: Path) -> None:
    async with running_broker(tmp_path, connections_max=1) as broker, connected(broker) as client:
        reader, writer = await asyncio.open_connection(*broker.server.address)
        with contextlib.suppress(ConnectionError):  # an end of file, or a reset
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()
        assert broker.server.metrics.refused == 1
        assert not await client.send(message(1))


async def test_a_broker_told_to_be_read_only_refuses_sends_and_nothing_else(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        await client.send(message(0))
        broker.registration.operator_read_only = Reason("maintenance")
        failures = await client.send(message(1))
        # Not result 4: official clients would avoid this group for good (trap T2).
        assert failures["m1"].result == SendResult.STORE_ERROR
        assert "maintenance" in failures["m1"].remark
        assert await client.pull() == (0, ["m0"])
        assert await client.ack(0, 0) == ResponseCode.SUCCESS


async def test_f13_a_full_disk_refuses_sends_at_once_while_acks_and_pulls_go_on(tmp_path: Path) -> None:
    disk = MemoryDisk()
    disk.capacity_bytes = 12 << 20
    async with (
        running_broker(
            tmp_path, disk=disk, segment_bytes=4 << 20, disk_reserve_bytes=2 << 20, checkpoint_bytes=1 << 20
        ) as broker,
        connected(broker) as client,
    ):
        await client.begin()
        stored = 0
        failures: dict[str, object] = {}
        for n in range(1000):
            failures = await client.send(message(n, size=30_000))
            if failures:
                break
            stored += 1
        (failure,) = failures.values()
        assert failure.result == SendResult.STORE_ERROR  # type: ignore[attr-defined]
        assert "no space" in failure.remark  # type: ignore[attr-defined]
        assert stored > 100
        last, taken = -1, 0
        while taken < stored:
            begin, got = await client.pull(limit=20, last=last)
            assert got, f"{taken} of {stored} were pulled"
            taken += len(got)
            last = begin + len(got) - 1
            assert await client.ack(begin, last) == ResponseCode.SUCCESS
        assert broker.readiness() == ""
        disk.capacity_bytes = 64 << 20
        await eventually_async(
            lambda: not broker.registration.refuse_sends(), 5, "sends are taken again without a restart"
        )
        assert not await client.send(message(5000))


async def test_f13_while_the_next_segment_is_being_made_sends_leave_the_reserve_to_acks(tmp_path: Path) -> None:
    """A disk may turn out to be full only when it has been written to for a while."""
    disk = MemoryDisk()
    loop, tried_at = running_loop(), []
    interleave_jobs()

    def creates_slowly(what: str, path: str) -> OSError | None:
        if what != "create" or "/log/" not in path or not disk.capacity_bytes:
            return None
        tried_at.append(loop.time())
        if len(tried_at) == 1:
            sleep(30)
        return OSError(errno.ENOSPC, "no space", path)

    disk.fail = creates_slowly
    async with (
        running_broker(tmp_path, disk=disk, segment_bytes=4 << 20, disk_reserve_bytes=1 << 20) as broker,
        connected(broker) as client,
    ):
        await client.begin()
        assert not await client.send(message(1000))
        await eventually_async(lambda: broker.log.gather.prepared_bytes > 0, 5, "the second segment is there")
        disk.capacity_bytes = 64 << 20
        stored = 0
        while not (failures := await client.send(message(stored, size=30_000))):
            stored += 1
        began_at = tried_at[0]
        assert loop.time() < began_at + 30
        (failure,) = failures.values()
        assert failure.result == SendResult.STORE_ERROR
        assert "the next segment is not created yet: " in failure.remark
        assert broker.log.gather.room_bytes > 800_000
        begin, got = await client.pull(limit=stored + 1)
        assert len(got) == stored + 1
        assert await client.ack(begin, begin + stored) == ResponseCode.SUCCESS
        await asyncio.sleep(began_at + 29.9 - loop.time())
        assert "no space" not in broker.registration.refuse_sends()
        await asyncio.sleep(0.2)
        assert "no space" in broker.registration.refuse_sends(), "the reason is reported"
        disk.capacity_bytes = None
        await eventually_async(
            lambda: not broker.registration.refuse_sends(), 5, "sends are taken again without a restart"
        )
        assert not await client.send(message(5000))


async def test_f15_a_failed_sync_answers_nobody_and_ends_the_node(tmp_path: Path) -> None:
    disk = MemoryDisk()
    with_logging = logging.getLogger("qmq.broker")
    with_logging.setLevel(logging.CRITICAL + 1)
    try:
        async with running_broker(tmp_path, disk=disk) as broker, connected(broker) as client:
            await client.send(message(0))
            failures = iter([OSError(5, "injected")])
            await eventually_async(lambda: broker.log.gather.prepared_bytes > 0, 5, "no segment is being created")
            disk.fail = lambda what, path: next(failures, None) if what == "sync" and "/log/" in path else None
            with pytest.raises(ConnectionLost):
                await client.send(message(1))
            with pytest.raises(OSError, match="injected"):
                await asyncio.wait_for(broker.serve(asyncio.Event()), 2)
            assert "failed" in broker.health()
    finally:
        with_logging.setLevel(logging.NOTSET)


async def test_a_graceful_stop_answers_what_is_under_way(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin()
        held = asyncio.create_task(client.pull(timeout_ms=20_000))
        await eventually_async(lambda: broker.handlers.polls.held == 1)
        sends = [asyncio.create_task(client.send(message(n))) for n in range(20)]
        await asyncio.sleep(0)
        await broker.close()
        results = await asyncio.gather(*sends, return_exceptions=True)
        answered = [r for r in results if r == {}]
        (_, got) = await held
        assert len(answered) + len([r for r in results if isinstance(r, ConnectionLost)]) == 20
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        await client.begin(group="all")
        found = (await client.pull(group="all"))[1]
        assert len(found) >= len(answered)
        assert set(got) <= set(found)


def large(n: int, size: int) -> Message:
    """A message of about `size` bytes, in properties as long as official consumers read."""
    properties = {f"part{i}": "x" * 31_000 for i in range(size // 31_000)}
    return Message("orders", f"large{n}", {**CREATED, **properties})


@pytest.mark.slow
async def test_thirty_large_messages_in_one_frame_are_stored(tmp_path: Path) -> None:
    """The official producer sends 30 messages at a time, whatever their size, and has no way to send fewer."""
    async with running_broker(tmp_path, segment_bytes=64 << 20) as broker, connected(broker) as client:
        await client.begin()
        assert not await client.send(*(large(n, 2_500_000) for n in range(30)))
        got: list[str] = []
        while len(got) < 30:
            begin, ids = await client.pull(limit=30, last=len(got) - 1)
            assert begin == len(got)
            got += ids
        assert got == [f"large{n}" for n in range(30)]
        assert not broker.server.metrics.bad_frames


async def test_a_message_that_is_too_large_is_refused_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path, message_bytes_max=1_000_000) as broker, connected(broker) as client:
        await client.begin()
        failures = await client.send(message(0), large(1, 1_100_000), message(2), large(3, 900_000))
        assert {key: failure.result for key, failure in failures.items()} == {"large1": SendResult.BLOCK}
        assert "the limit of one message is 1000000 (message_bytes_max)" in failures["large1"].remark
        assert (await client.pull())[1] == ["m0", "m2", "large3"]


async def test_a_refused_send_is_answered_while_others_wait_for_the_disk(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        broker.committer.when_synced(1 << 60, lambda: None)
        broker.registration.operator_read_only = Reason("read only: for this test")
        failures = await client.send(message(1))
        assert failures["m1"].remark == "read only: for this test"


async def test_a_message_that_no_segment_can_hold_is_refused_alone(tmp_path: Path) -> None:
    async with running_broker(tmp_path, segment_bytes=1 << 20) as broker, connected(broker) as client:
        await client.begin()
        failures = await client.send(large(0, 1_100_000), *(large(n, 400_000) for n in range(1, 5)))
        assert {key: failure.result for key, failure in failures.items()} == {"large0": SendResult.BLOCK}
        assert (await client.pull())[1] == [f"large{n}" for n in range(1, 5)]


HIDDEN = ("or\u202eders", "orders\xa0", "orders\x05", "orde\u0301")


async def test_a_new_subject_or_group_with_a_hidden_character_is_refused(tmp_path: Path) -> None:
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert not await client.send(message(0))
        for name in HIDDEN:
            assert (await client.send(message(1, name)))["m1"].result == SendResult.SUBJECT_NOT_ASSIGNED, ascii(name)
            assert (await client.send(message(2, f"%RETRY%orders%{name}")))["m2"].result
            assert await client.begin("orders", name) != ResponseCode.SUCCESS
            assert await client.begin(name) != ResponseCode.SUCCESS
        assert (await client.pull(group=HIDDEN[0]))[1] == []
        assert (await client.pull(HIDDEN[0]))[1] == []
        assert set(broker.store.subjects) == {"orders"}
        assert not broker.store.subjects["orders"].groups
        assert not await client.send(message(3), message(4)), "the connection still serves"


async def test_a_subject_and_a_group_stored_with_a_hidden_character_keep_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, group, retry = "or\u202eders", "bill\xa0ing", "%RETRY%or\u202eders%bill\xa0ing"
    with monkeypatch.context() as older:
        older.setattr("qmq.protocol.names.hidden_text_problem", lambda _: "")
        async with running_broker(tmp_path) as broker, connected(broker) as client:
            await client.begin(name, group)
            assert not await client.send(message(0, name))
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        assert not await client.send(message(1, name), message(2, name), message(3, retry))
        assert (await client.pull(name, group=group))[1] == ["m0", "m1", "m2"]
        assert (await client.pull(retry, group=group))[1] == ["m3"]


async def test_names_are_checked_once_for_each_new_subject_and_not_for_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[str] = []
    original = names.hidden_text_problem
    monkeypatch.setattr(names, "hidden_text_problem", lambda text: checked.append(text) or original(text))
    async with running_broker(tmp_path) as broker, connected(broker) as client:
        for _ in range(3):
            assert not await client.send(*(message(n, ("orders", "mail")[n % 2]) for n in range(100)))
    assert sorted(checked) == ["mail", "orders"]
