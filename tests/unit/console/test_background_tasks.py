"""Tasks that run beside the requests of the console's processes: none of them ends silently."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator

import pytest

from console.accounts.roles import Right
from console.launcher.child import Child, GaveUp
from console.launcher.programs import Program
from console.live import access, consumers, hub
from console.live.audiences import NOTHING_SHOWN, Shown
from console.live.consumers import LiveApp
from console.live.hub import Hub
from console.live.sockets import Request, Socket
from console.snapshot.feeds import Feed
from tests.support.manual_clock import ManualClock
from tests.support.waiting import eventually_async


class _SilentRedis:
    """A Redis that answers, and brings nothing."""

    channels: tuple[bytes, ...] = ()

    @contextlib.asynccontextmanager
    async def pubsub(self) -> AsyncIterator["_SilentRedis"]:
        yield self

    async def subscribe(self, *_: str) -> None:
        pass

    async def get_message(self, timeout: float) -> None:
        await asyncio.sleep(0)

    async def ping(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class _Client:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def offer(self, text: str, shown: Shown = NOTHING_SHOWN) -> None:
        self.texts.append(text)


async def test_a_hub_whose_watch_for_silence_fails_says_so_and_starts_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0)
    monkeypatch.setattr(hub, "RECONNECT_LONGEST_SECONDS", 0)
    clock = ManualClock()
    live = Hub("redis://127.0.0.1:1/0", clock)
    await live._redis.aclose()
    monkeypatch.setattr(live, "_redis", _SilentRedis())
    became_stale, failures = live._became_stale, [ValueError("odd")]

    def fails_once(reason: str) -> None:
        if failures:
            raise failures.pop()
        became_stale(reason)

    monkeypatch.setattr(live, "_became_stale", fails_once)
    client = _Client()
    live.join(Feed("nodes"), client)
    first = live._task
    clock.advance(2 * hub.SILENT_SECONDS)
    await eventually_async(lambda: any("the live hub of this process failed" in text for text in client.texts))
    await eventually_async(lambda: live._task not in (None, first))
    assert "the live hub failed and starts again" in caplog.text
    await live.close()


async def test_an_unforeseen_error_does_not_end_the_checks_of_signed_in_accounts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(consumers, "RECHECK_SECONDS", 0)
    clock = ManualClock()
    app = LiveApp(clock)
    socket = Socket(Request(Right.READ, Feed("nodes")), access.Credential(), "viewer")
    socket.checked_at = clock.monotonic()
    looks = 0

    def find(_: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            raise RuntimeError("odd")

    monkeypatch.setattr(access, "find", find)
    app._sockets.add(socket)
    checking = asyncio.ensure_future(app._check_again())
    code, _ = await socket._closing
    assert code is consumers.Close.NOT_SIGNED_IN
    assert "accounts can't be checked again" in caplog.text
    app._sockets.clear()
    await checking


async def test_a_child_whose_output_can_not_be_shown_ends_the_launcher() -> None:
    def say(_: str, __: str) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    program = Program("talker", (sys.executable, "-c", "import time; print('x', flush=True); time.sleep(600)"), "")
    child = Child(program, say)
    await child.start()
    with pytest.raises(GaveUp, match=r"the output of talker can't be shown: .*Broken pipe"):
        await child.watch()
    await child.stop()
