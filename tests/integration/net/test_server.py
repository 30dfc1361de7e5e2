"""The frame server's limits, each with what happens at it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from qmq.clock import ManualClock
from qmq.errors import CallTimeout, ConnectionLost
from qmq.net.caller import Caller
from qmq.net.server import Connection, FrameServer, ServerLimits
from qmq.protocol.frames import FLAG_ONE_WAY, FLAG_RESPONSE, Frame, encode_request
from tests.support.waiting import eventually_async


@asynccontextmanager
async def serving(
    handler: Callable[[Connection, Frame], None], clock: ManualClock | None = None, **limits: float
) -> AsyncIterator[FrameServer]:
    server = FrameServer("127.0.0.1", 0, handler, clock=clock or ManualClock(), limits=ServerLimits(**limits))  # type: ignore[arg-type]
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


def test_both_ends_work_on_the_loop_that_uvicorn_runs_the_console_on() -> None:
    async def ask() -> bytes:
        async with (
            serving(lambda connection, frame: connection.reply(frame, 0, b"!")) as server,
            calling(server) as caller,
        ):
            return bytes((await caller.call(10, b"", timeout_s=20)).body)

    assert uvloop.run(ask()) == b"!"


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
    async with serving(lambda connection, frame: connection.reply(frame, 0)) as server, calling(server) as caller:
        caller.tell(encode_request(10, 77, b"", flag=FLAG_ONE_WAY))
        caller.tell(encode_request(10, 78, b"", flag=FLAG_RESPONSE))
        assert (await caller.call(10, timeout_s=20)).code == 0
        assert server.metrics.ignored_responses == 1


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


async def test_a_peer_that_does_not_read_its_answers_is_cut_off() -> None:
    clock = ManualClock()
    answer = bytes(1 << 20)
    async with serving(
        lambda c, f: c.reply(f, 0, answer), clock, write_buffer_bytes_max=1 << 16, write_stall_seconds=60
    ) as server:
        reader, writer = await asyncio.open_connection(*server.address)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        for n in range(40):
            writer.write(encode_request(10, n))
        await eventually_async(lambda: any(c._stalled_since is not None for c in server.connections))
        clock.advance(61)
        server._check()
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
        assert await server.close(0.05) == 1
        with pytest.raises(ConnectionLost):
            await waiting


async def test_a_call_that_is_not_answered_ends_in_time() -> None:
    async with serving(lambda c, f: None) as server, calling(server) as caller:
        with pytest.raises(CallTimeout, match=r"0\.05 s"):
            await caller.call(10, timeout_s=0.05)


async def test_nobody_listening_is_said_with_the_address() -> None:
    async with serving(lambda c, f: None) as server:
        host, port = server.address
    with pytest.raises(ConnectionLost, match=f"{host}:{port}"):
        await Caller(host, port).connect()
