"""Bad frames on every port: each is counted, and a host that repeats them fills no log."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq_node.server.server import FrameServer
from tests.support.drivers.in_process import SmallSystem, small_system
from tests.support.waiting import eventually_async

BAD_FRAMES = 60
GARBAGE = b"\x00\x00\x00\x40" + b"\xff" * 64


def servers(system: SmallSystem) -> dict[str, tuple[FrameServer, Callable[[], int]]]:
    """By name: a port, and how many bad requests it counted."""
    broker, delay, meta = system.brokers["g1"], system.delay, system.meta
    return {
        "broker": (broker.server, lambda: broker.handlers.counters.bad_requests.total()),
        "delay": (delay.server, lambda: delay.handlers.counters.bad_requests.total()),
        "metaserver": (meta.server, lambda: meta.handlers.counters.bad_requests.total()),
    }


@pytest.mark.parametrize("name", ["broker", "delay", "metaserver"])
async def test_bad_frames_of_one_host_are_counted_and_few_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async with small_system(tmp_path) as system:
        server, bad_requests = servers(system)[name]
        before, frames_before = bad_requests(), server.metrics.bad_frames.total()
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            for _ in range(BAD_FRAMES):
                reader, writer = await asyncio.open_connection(*server.address)
                writer.write(GARBAGE)
                await reader.read()
                writer.close()
            caller = Caller(*server.address)
            await caller.connect()
            register = Command.CLIENT_REGISTER if name == "metaserver" else Command.SEND_MESSAGE
            for _ in range(BAD_FRAMES):
                assert (await caller.call(77, b"x", timeout_s=20)).code == ResponseCode.UNKNOWN_CODE
                assert (await caller.call(register, b"\xff" * 9, timeout_s=20)).code == ResponseCode.BROKER_ERROR
            await caller.close()
            assert server.metrics.bad_frames.total() - frames_before == BAD_FRAMES
            assert bad_requests() - before == 2 * BAD_FRAMES
        lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert 1 <= len(lines) <= 9, "three reasons, each with a back-off"


@pytest.mark.parametrize("name", ["broker", "delay", "metaserver"])
async def test_reads_with_a_wrong_token_are_counted_and_few_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    async with small_system(tmp_path) as system:
        server, _ = servers(system)[name]
        gates: dict[str, Any] = {
            "broker": system.brokers["g1"].bulk_reads, "delay": system.delay.bulk_reads, "metaserver": system.meta.bulk_reads
        }  # fmt: skip
        monkeypatch.setattr(gates[name], "_token", b"secret")
        codes = {"broker": Command.LIST_RANGES, "delay": Command.LIST_HOURS, "metaserver": Command.LIST_NODES}
        caller = Caller(*server.address)
        await caller.connect()
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            for _ in range(BAD_FRAMES):
                assert (await caller.call(codes[name], b"\0\0", timeout_s=20)).code == ResponseCode.PARAM_ERROR
            await caller.close()
        await eventually_async(lambda: gates[name].counters.refused.total() == BAD_FRAMES)
        lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert 1 <= len(lines) <= 3
