"""The frame server's limits, each with what happens at it."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from qmq.errors import CallTimeout, ConnectionLost, SettingError
from qmq.net.caller import ANSWER_TOO_LARGE, Caller
from qmq.protocol.frames import FLAG_ONE_WAY, FLAG_RESPONSE, Frame, encode_request, request_header
from qmq_node.server.connection import Connection
from qmq_node.server.server import FrameServer
from qmq_node.server.server_limits import ServerLimits
from tests.sim.world.loop import running_loop
from tests.support.drivers.in_process import machine
from tests.support.drivers.peers import Peers
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


@asynccontextmanager
async def serving(
    handler: Callable[[Connection, Frame], None], clock: ManualClock | None = None, **limits: float
) -> AsyncIterator[FrameServer]:
    server = FrameServer(
        "127.0.0.1",
        0,
        handler,
        clock=clock or ManualClock(),
        limits=ServerLimits(**limits),
        listen=machine().listen,  # type: ignore[arg-type]
    )
    await server.start()
    try:
        yield server
    finally:
        await server.close(0)


@asynccontextmanager
async def calling(server: FrameServer) -> AsyncIterator[Caller]:
    caller = Caller(*server.address)
    await caller.connect()
    try:
        yield caller
    finally:
        await caller.close()


async def test_answers_may_come_in_any_order() -> None:
    kept: list[tuple[Connection, Frame]] = []

    def handler(connection: Connection, frame: Frame) -> None:
        kept.append((connection, frame))
        if len(kept) == 3:
            for held, item in reversed(kept):
                held.reply(item, 0, bytes(item.body), b"!")

    async with serving(handler) as server, calling(server) as caller:
        futures = [caller.call_soon(10, b"%d" % n) for n in range(3)]
        assert [bytes((await f).body) for f in futures] == [b"0!", b"1!", b"2!"]


async def test_a_handler_that_fails_answers_51_and_the_connection_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    def handler(connection: Connection, frame: Frame) -> None:
        if frame.code == 11:
            raise RuntimeError("unforeseen")
        connection.reply(frame, 0)

    async with serving(handler) as server, calling(server) as caller:
        assert (await caller.call(11, b"secret", timeout_s=20)).code == 51
        assert (await caller.call(10, b"", timeout_s=20)).code == 0
        assert server.metrics.handler_errors == 1
    assert "secret" not in caplog.text


async def test_one_way_requests_get_no_answer_and_stray_responses_are_ignored() -> None:
    handled: list[int] = []

    def handler(connection: Connection, frame: Frame) -> None:
        handled.append(frame.code)
        connection.reply(frame, 0)

    async with serving(handler) as server, calling(server) as caller:
        caller.send_frame(encode_request(10, 77, b"", flag=FLAG_ONE_WAY))
        caller.send_frame(encode_request(11, 78, b"", flag=FLAG_RESPONSE))
        assert (await caller.call(12, timeout_s=20)).code == 0
        assert handled == [10, 12]


@pytest.mark.parametrize("limits", [{"in_flight_requests_max": 4}, {"in_flight_bytes_max": 400}])
async def test_a_connection_with_too_much_unanswered_is_not_read_until_half_is_answered(
    limits: dict[str, float],
) -> None:
    kept: list[tuple[Connection, Frame]] = []

    def handler(connection: Connection, frame: Frame) -> None:
        if frame.code == 13:
            connection.reply(frame, 0)
        else:
            kept.append((connection, frame))

    async with serving(handler, **limits) as server, calling(server) as caller, calling(server) as other:
        for n in range(6):
            caller.call_soon(10, bytes(76))
            await eventually_async(lambda n=n: len(kept) > n or server.metrics.paused)
        await eventually_async(lambda: server.metrics.paused == 1)
        before = len(kept)
        later = [caller.call_soon(12, b"") for _ in range(3)]
        # They are in the server's socket buffer, and it reads another connection's requests, which were written after them.
        for _ in range(10):
            await other.call(13, timeout_s=20)
        assert len(kept) == before, "a paused connection was read"
        for connection, frame in list(kept):
            connection.reply(frame, 0)
        await eventually_async(lambda: len(kept) == 6 + 3)
        for connection, frame in kept[before:]:
            connection.reply(frame, 0)
        await asyncio.gather(*later)


async def test_a_frame_that_answers_nothing_may_have_many_parts_larger_than_one_write() -> None:
    parts = [bytes([n % 251]) * (1 + 40_000 * (n % 7)) for n in range(40)]
    body = b"".join(parts)

    def handler(connection: Connection, frame: Frame) -> None:
        kinds = [bytes, bytearray, memoryview]
        head = request_header(99, 7, len(body), flag=FLAG_ONE_WAY)
        connection.push(head, *(kinds[n % 3](part) for n, part in enumerate(parts)))
        connection.reply(frame, 0)

    received: list[Frame] = []
    async with serving(handler) as server, calling(server) as caller:
        caller.on_push = received.append
        assert (await caller.call(10, timeout_s=20)).code == 0
        assert [(frame.code, frame.opaque, bytes(frame.body)) for frame in received] == [(99, 7, body)]
        assert server.usage.answer_bytes == 0


async def test_a_peer_that_does_not_read_its_answers_is_cut_off() -> None:
    clock = ManualClock()
    answer = bytes(1 << 20)
    async with serving(
        lambda c, f: c.reply(f, 0, answer), clock, answer_bytes_max=1 << 16, write_stall_seconds=60
    ) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        for n in range(40):
            writer.write(encode_request(10, n))
        await eventually_async(lambda: any(c._out.stalled_since is not None for c in server.connections))
        clock.advance(61)
        server.check()
        await eventually_async(lambda: not server.connections)
        assert server.metrics.write_stalls == 1
        writer.transport.abort()


async def test_a_graceful_close_waits_for_answers_and_cuts_off_what_does_not_come() -> None:
    kept: list[tuple[Connection, Frame]] = []
    async with serving(lambda c, f: kept.append((c, f))) as server, calling(server) as caller:
        waiting = caller.call_soon(10, b"")
        await eventually_async(lambda: bool(kept))
        closing = asyncio.create_task(server.close(10))
        await asyncio.sleep(0)
        connection, frame = kept[0]
        connection.reply(frame, 0, b"late")
        connection.reply(frame, 0, b"twice")
        assert bytes((await waiting).body) == b"late"
        assert await closing == 0
    async with serving(lambda c, f: None) as server, calling(server) as caller:
        waiting = caller.call_soon(10, b"")
        await eventually_async(lambda: any(c.unanswered for c in server.connections))
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await server.close(7) == 1
        assert 7 <= loop.time() - began < 7.1
        with pytest.raises(ConnectionLost):
            await waiting


async def test_a_call_that_is_not_answered_ends_in_time() -> None:
    async with serving(lambda c, f: None) as server, calling(server) as caller:
        loop = asyncio.get_running_loop()
        began = loop.time()
        with pytest.raises(CallTimeout, match=r"5 s"):
            await caller.call(10, timeout_s=5)
        assert loop.time() == began + 5


async def test_nobody_listening_is_said_with_the_address() -> None:
    async with serving(lambda c, f: None) as server:
        host, port = server.address
    with pytest.raises(ConnectionLost, match=f"{host}:{port}"):
        await Caller(host, port).connect()


async def test_an_answer_above_the_limit_fails_its_call_by_name_and_the_others_with_the_connection() -> None:
    kept: list[tuple[Connection, Frame]] = []
    async with serving(lambda c, f: kept.append((c, f))) as server:
        caller = Caller(*server.address, frame_bytes_max=1000)
        await caller.connect()
        other, large = caller.call_soon(10, b""), caller.call_soon(11, b"")
        await eventually_async(lambda: len(kept) == 2)
        kept[1][0].reply(kept[1][1], 0, bytes(2000))
        with pytest.raises(ConnectionLost, match="too large: a frame of 2024 bytes") as raised:
            await large
        assert (raised.value.code, raised.value.retriable) == (ANSWER_TOO_LARGE, False)
        with pytest.raises(ConnectionLost) as raised:
            await other
        assert (raised.value.code, raised.value.retriable) == ("net.connection_lost", True)
        await caller.close()


# --- memory of all connections ---------------------------------------------------------------------------------------

MIB = 1 << 20


def received(server: FrameServer) -> list[int]:
    """Bytes of unfinished frames that each connection holds."""
    return sorted(connection._reader.pending_bytes for connection in server.connections)


async def test_large_frames_beyond_the_budget_wait_unread_and_are_all_handled_in_the_end() -> None:
    handled: list[int] = []

    def handler(connection: Connection, frame: Frame) -> None:
        handled.append(frame.opaque)
        connection.reply(frame, 0)

    limits = {"frame_bytes_max": 4 * MIB, "large_frames_bytes_max": 5 * MIB}
    async with serving(handler, **limits) as server, Peers(server.address) as clients:
        frames = [encode_request(10, 100 + n, bytes(3 * MIB)) for n in range(4)]
        peers = []
        for frame in frames:
            peers.append(await clients.connect())
            peers[-1][1].write(frame[: 2 * MIB])
            await eventually_async(lambda n=len(peers): len([r for r in received(server) if r]) == n)
        # The first has its room and is read on; of the others no more than one read has come in.
        await eventually_async(lambda: received(server)[-1] == 2 * MIB)
        assert server.metrics.large_frames_waited == 3
        assert sum(received(server)[:-1]) < 3 * MIB
        # Small requests of others are not affected.
        async with calling(server) as caller:
            assert (await caller.call(10, timeout_s=20)).code == 0
        for (_, writer), frame in zip(reversed(peers), reversed(frames), strict=True):
            writer.write(frame[2 * MIB :])
        for reader, _ in peers:
            assert await reader.readexactly(24)
        assert [opaque for opaque in handled if opaque >= 100] == [100, 101, 102, 103], (
            "room is given in the order of arrival"
        )


async def test_a_peer_that_is_gone_gives_its_room_back() -> None:
    limits = {"frame_bytes_max": 4 * MIB, "large_frames_bytes_max": 4 * MIB}
    async with serving(lambda c, f: c.reply(f, 0), **limits) as server, Peers(server.address) as clients:
        _, first = await clients.connect()
        first.write(encode_request(10, 1, bytes(3 * MIB))[: 2 * MIB])
        await eventually_async(lambda: received(server) == [2 * MIB])
        reader, second = await clients.connect()
        second.write(encode_request(10, 2, bytes(3 * MIB)))
        await eventually_async(lambda: server.metrics.large_frames_waited == 1)
        first.transport.abort()
        assert await reader.readexactly(24)


async def test_the_time_to_receive_a_large_frame_follows_its_size_and_waiting_does_not_count() -> None:
    clock = ManualClock()
    limits = {
        "frame_bytes_max": 4 * MIB, "large_frames_bytes_max": 4 * MIB, "half_frame_seconds": 30,
        "frame_bytes_per_second_min": MIB // 10,
    }  # fmt: skip
    async with serving(lambda c, f: c.reply(f, 0), clock, **limits) as server, Peers(server.address) as clients:
        _, first = await clients.connect()
        reader, second = await clients.connect()
        first.write(encode_request(10, 1, bytes(3 * MIB))[: 2 * MIB])
        await eventually_async(lambda: received(server) == [0, 2 * MIB])
        second.write(encode_request(10, 2, bytes(3 * MIB)))
        await eventually_async(lambda: server.metrics.large_frames_waited == 1)
        clock.advance(59)
        server.check()
        assert len(server.connections) == 2
        clock.advance(2)
        server.check()  # 30 s, and 30 s for 3 MiB at the slowest rate
        assert await reader.readexactly(24), "it was given the room of the one that was too slow"
        assert server.metrics.half_frames == 1


def test_a_budget_that_the_largest_frame_does_not_fit_in_is_refused() -> None:
    with pytest.raises(SettingError, match="large_frames_bytes_max is 99, below frame_bytes_max"):
        FrameServer("", 0, lambda c, f: None, clock=ManualClock(), limits=ServerLimits(large_frames_bytes_max=99))


async def test_requests_of_one_read_beyond_the_limit_are_handled_once_others_are_answered() -> None:
    """4,096 pulls of 8 MiB fit in one read: all of them handled at once would take 32 GiB."""
    kept: list[tuple[Connection, Frame]] = []

    def handler(connection: Connection, frame: Frame) -> None:
        connection.holds(frame, 1000)
        kept.append((connection, frame))

    async with serving(handler, answer_bytes_max=4999) as server, calling(server) as caller:
        answers = [caller.call_soon(10, b"") for _ in range(40)]
        await eventually_async(lambda: server.metrics.paused == 1)
        assert len(kept) == 5
        at = 0
        while at < 40:
            await eventually_async(lambda at=at: len(kept) > at)
            assert len(kept) - at <= 5
            connection, frame = kept[at]
            connection.reply(frame, 0)
            at += 1
        assert [(await answer).opaque for answer in answers] == [frame.opaque for _, frame in kept]


async def test_a_graceful_close_answers_requests_that_wait_for_others_to_be_answered() -> None:
    kept: list[tuple[Connection, Frame]] = []
    running_loop().network.split_chance = 0.0
    async with (
        serving(lambda c, f: kept.append((c, f)), in_flight_requests_max=4) as server,
        Peers(server.address) as clients,
    ):
        # The server receives all of them in one read.
        reader, _ = await clients.connect(b"".join(encode_request(10, n) for n in range(12)))
        await eventually_async(lambda: server.metrics.paused == 1)
        assert len(kept) == 5, "one above the limit"
        closing = asyncio.create_task(server.close(60))
        for at in range(12):
            await eventually_async(lambda at=at: len(kept) > at)
            connection, frame = kept[at]
            connection.reply(frame, 0)
        assert await closing == 0
        answered = [await reader.readexactly(24) for _ in range(12)]
        assert [int.from_bytes(head[14:18], "big") for head in answered] == list(range(12))


async def test_while_too_much_is_unanswered_no_large_frame_is_read() -> None:
    """Else each connection could add one of 256 MiB."""
    kept: list[tuple[Connection, Frame]] = []
    limits = {"frame_bytes_max": 4 * MIB, "large_frames_bytes_max": 64 * MIB, "in_flight_total_bytes_max": 4 * MIB}
    async with serving(lambda c, f: kept.append((c, f)), **limits) as server, Peers(server.address) as clients:
        peers = []
        for n in range(6):
            peers.append(await clients.connect())
            peers[-1][1].write(encode_request(10, n, bytes(3 * MIB)))
            await eventually_async(lambda n=n: len(kept) + server.metrics.large_frames_waited == n + 1)
        assert [frame.opaque for _, frame in kept] == [0, 1]
        async with calling(server) as caller:
            small = caller.call_soon(11)
            await eventually_async(lambda: len(kept) == 3)
            for at in range(7):
                await eventually_async(lambda at=at: len(kept) > at)
                connection, frame = kept[at]
                connection.reply(frame, 0)
            await small
        for reader, _ in peers:
            assert await reader.readexactly(24)
        assert sorted(frame.opaque for _, frame in kept if frame.code == 10) == list(range(6))


async def test_answers_that_were_not_written_yet_count_as_well() -> None:
    handled = 0

    def handler(connection: Connection, frame: Frame) -> None:
        nonlocal handled
        handled += 1
        most.append(connection._out.queued_bytes)
        connection.reply(frame, 0, bytes(10_000))

    most: list[int] = []
    async with serving(handler, answer_bytes_max=50_000) as server, calling(server) as caller:
        await asyncio.gather(*(caller.call(10, timeout_s=20) for _ in range(200)))
        assert handled == 200
        assert max(most) <= 60_000
        assert server.metrics.write_stalls == 0


async def test_a_peer_that_does_not_read_gets_no_further_request_handled_and_loses_nothing() -> None:
    """300 pulls of 8 MiB, 28 kB of requests, took 4.6 GB before answers were counted (review/security.md, F-1)."""
    handled = 0

    def handler(connection: Connection, frame: Frame) -> None:
        nonlocal handled
        handled += 1
        connection.reply(frame, 0, bytes(MIB))

    async with serving(handler, answer_bytes_max=4 * MIB) as server, Peers(server.address) as clients:
        reader, writer = await clients.connect()
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"".join(encode_request(10, n) for n in range(300)))
        await eventually_async(lambda: server.metrics.paused == 1)
        async with calling(server) as other:
            # Each of its answers proves that the server has had turns to handle more.
            for _ in range(20):
                assert (await other.call(10, timeout_s=20)).code == 0
        # What the kernel's buffers hold of a loopback connection, 2.5 to 6 MB each way, was taken from the answers.
        assert handled - 20 < 30
        assert server.usage.answer_bytes < 6 * MIB
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for n in range(300):
            head = await reader.readexactly(24)
            assert int.from_bytes(head[14:18], "big") == n
            await reader.readexactly(MIB)
        await eventually_async(lambda: server.usage.answer_bytes == 0)


async def test_peers_that_do_not_read_leave_others_small_answers() -> None:
    def handler(connection: Connection, frame: Frame) -> None:
        connection.reply(frame, 0, bytes(min(8 * MIB, connection.answer_room)))

    async with serving(handler, answer_total_bytes_max=64 * MIB) as server, Peers(server.address) as clients:
        most = 0
        for n in range(60):
            reader, writer = await clients.connect()
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"".join(encode_request(10, n) for n in range(60)))
            await eventually_async(lambda n=n: server.metrics.paused >= n + 1)
            most = max(most, server.usage.answer_bytes)
        assert 40 * MIB < most < 64 * MIB + 60 * 17 * 1024
        async with calling(server) as other:
            sizes = [len((await other.call(10, timeout_s=20)).body) for _ in range(5)]
        assert all(16 * 1024 <= size < 8 * MIB for size in sizes)
    assert server.usage.answer_bytes == 0


async def test_the_limit_of_all_connections_together_pauses_those_with_unanswered_requests() -> None:
    kept: list[tuple[Connection, Frame]] = []
    async with serving(lambda c, f: kept.append((c, f)), in_flight_total_bytes_max=1000) as server:
        async with calling(server) as one, calling(server) as two:
            first = one.call_soon(10, bytes(900))
            await eventually_async(lambda: len(kept) == 1)
            second = two.call_soon(10, bytes(900))
            await eventually_async(lambda: len(kept) == 2)
            assert server.usage.is_over
            later = two.call_soon(11, b"")
            # A connection without unanswered requests is still served.
            async with calling(server) as three:
                third = three.call_soon(12, b"")
                await eventually_async(lambda: len(kept) == 3)
                assert [frame.code for _, frame in kept] == [10, 10, 12]
                for connection, frame in kept[:2]:
                    connection.reply(frame, 0)
                await eventually_async(lambda: [frame.code for _, frame in kept] == [10, 10, 12, 11])
                for connection, frame in kept[2:]:
                    connection.reply(frame, 0)
                await asyncio.gather(first, second, third, later)
        await eventually_async(lambda: not server.connections)
        assert server.usage.in_flight_bytes == 0


@pytest.mark.parametrize("seed", range(8))
async def test_random_traffic_at_every_limit_is_answered_and_leaves_nothing_counted(seed: int) -> None:
    """Frames of random sizes, some cut off in the middle; answers in random order, some held, some dropped."""
    rng = random.Random(seed)
    kept: list[tuple[Connection, Frame]] = []

    def handler(connection: Connection, frame: Frame) -> None:
        if rng.random() < 0.3:
            connection.reply(frame, 0, bytes(rng.randrange(5_000)))
        elif rng.random() < 0.1:
            connection.drop(frame)
            connection.push(encode_request(99, frame.opaque))
        else:
            if rng.random() < 0.5:
                connection.holds(frame, rng.randrange(400_000))
            kept.append((connection, frame))

    limits = {
        "frame_bytes_max": 4 * MIB, "large_frames_bytes_max": 4 * MIB, "in_flight_bytes_max": MIB,
        "in_flight_requests_max": 6, "in_flight_total_bytes_max": 2 * MIB, "answer_bytes_max": 20_000,
    }  # fmt: skip

    def answer_some() -> None:
        rng.shuffle(kept)
        for connection, frame in [kept.pop() for _ in range(min(len(kept), rng.randint(1, 3)))]:
            connection.reply(frame, 0, bytes(rng.randrange(5_000)))
            connection.holds(frame, 1 << 30)
            connection.reply(frame, 0)

    async def talk(frames: int, *, is_cut: bool) -> None:
        reader, writer = await clients.connect()
        sizes = [rng.choice((0, 100, 30_000, 300_000, 2 * MIB, 3 * MIB)) for _ in range(frames)]
        data = b"".join(encode_request(10, n, bytes(size)) for n, size in enumerate(sizes))
        if is_cut:
            writer.write(data[: rng.randrange(len(data))])
            await asyncio.sleep(rng.choice((0, 0.01)))
            writer.transport.abort()
            return
        writer.write(data)
        answered = set()
        while len(answered) < frames:
            head = await reader.readexactly(24)
            await reader.readexactly(int.from_bytes(head[:4], "big") - 20)
            answered.add(int.from_bytes(head[14:18], "big"))  # its opaque
        writer.close()

    async with serving(handler, **limits) as server, Peers(server.address) as clients:
        talks = [asyncio.ensure_future(talk(rng.randint(1, 12), is_cut=rng.random() < 0.4)) for _ in range(12)]

        def is_over() -> bool:
            answer_some()
            return all(task.done() for task in talks)

        await eventually_async(is_over, 20)
        await asyncio.gather(*talks)
        await eventually_async(lambda: not server.connections)
        assert server.metrics.large_frames_waited
        assert server.metrics.paused
        assert (server.usage.in_flight_bytes, server.usage.answer_bytes, server.usage.is_over) == (0, 0, False)
        assert server.usage.large_frames._free == limits["large_frames_bytes_max"]
        assert not server.usage.large_frames._waiting


async def test_requests_that_are_held_are_handled_in_order_once_they_no_longer_are() -> None:
    handled: list[bytes] = []
    slow: list[tuple[Connection, Frame]] = []

    def handler(connection: Connection, frame: Frame) -> None:
        handled.append(bytes(frame.body))
        if frame.body == b"slow":
            slow.append((connection, frame))
        else:
            connection.reply(frame, 0)

    async with serving(handler) as server, calling(server) as first, calling(server) as second:
        under_way = asyncio.create_task(first.call(1, b"slow", timeout_s=60))
        await eventually_async(lambda: handled == [b"slow"])
        server.hold()
        held = [
            asyncio.create_task(caller.call(1, b"%d" % number, timeout_s=60))
            for number, caller in enumerate((first, first, second, second, first))
        ]
        answered = asyncio.create_task(server.answered())
        async with calling(server) as later:
            held.append(asyncio.create_task(later.call(1, b"5", timeout_s=60)))
            await asyncio.sleep(5)
            assert (handled, answered.done(), server.requests_in_progress) == ([b"slow"], False, 1)
            connection, frame = slow.pop()
            connection.reply(frame, 0)
            await answered
            assert (await under_way).code == 0
            await asyncio.sleep(5)
            assert (handled, server.requests_in_progress) == ([b"slow"], 0)
            assert not any(task.done() for task in held)
            server.resume()
            assert [(await task).code for task in held] == [0] * 6
        for of_one in ((b"0", b"1", b"4"), (b"2", b"3")):
            assert [body for body in handled if body in of_one] == list(of_one)


async def test_held_requests_use_no_more_memory_than_one_read() -> None:
    async with serving(lambda connection, frame: connection.reply(frame, 0)) as server, calling(server) as caller:
        assert (await caller.call(1, timeout_s=5)).code == 0
        server.hold()
        body = bytes(4096)
        calls = [asyncio.create_task(caller.call(1, body, timeout_s=60)) for _ in range(1_000)]
        await asyncio.sleep(5)
        (connection,) = server.connections
        assert 0 < connection.unanswered < 100
        server.resume()
        assert {(await call).code for call in calls} == {0}


async def test_a_server_that_holds_requests_closes_without_waiting_for_them() -> None:
    handled: list[Frame] = []
    async with serving(lambda connection, frame: handled.append(frame)) as server, calling(server) as caller:
        server.hold()
        held = asyncio.create_task(caller.call(1, timeout_s=60))
        await asyncio.sleep(1)
        began = running_loop().now
        assert await server.close(30.0) == 0
        assert running_loop().now - began < 0.1
        with pytest.raises(ConnectionLost):
            await held
        assert handled == []
