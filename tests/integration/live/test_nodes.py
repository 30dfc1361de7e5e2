"""Asking nodes: pages, time limits, bounded answers, so many at once; and the collector's schedule."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from console.live.collector import BEAT_SECONDS, Collector
from console.live.metadata import Metadata
from console.live.state import NodePlace
from console.nodes import PAGES_MAX, READING_SECONDS_MAX, NodeAsker
from qmq.clock import ManualClock
from tests.support.ports import free_port
from tests.support.waiting import promised
from tests.unit.console.live.test_state import subject_stats

Answer = Callable[[str], Awaitable[bytes]]


@contextlib.asynccontextmanager
async def node(answer: Answer, node_id: str = "g1-a") -> AsyncIterator[NodePlace]:
    """An admin port that answers with this."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            target = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            body = await answer(target)
            writer.write(b"HTTP/1.0 200 OK\r\n\r\n" + body)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield NodePlace(node_id, node_id.split("-")[0], "broker", True, "", f"127.0.0.1:{port}")
    finally:
        server.close()


def page(*names: str, after: str | None = None) -> bytes:
    return json.dumps({"subjects": [subject_stats(name, 0, 1) for name in names], "next_after": after}).encode()


async def test_all_pages_of_a_node_are_one() -> None:
    asked = []

    async def answer(target: str) -> bytes:
        asked.append(target)
        return page("a b", after="a b") if len(asked) == 1 else page("c")

    async with node(answer) as place:
        found = (await NodeAsker().stats([place]))[place.node_id]
    assert found.reason is None
    assert found.value is not None
    assert [item["subject"] for item in found.value["subjects"]] == ["a b", "c"]
    assert asked == ["/stats", "/stats?after=a+b"]


async def test_the_numbers_of_a_delay_node_are_one_page() -> None:
    numbers = {"kind": "delay", "subjects": 3, "pending": 7}

    async def answer(_: str) -> bytes:
        return json.dumps(numbers).encode()

    async with node(answer) as place:
        found = (await NodeAsker().stats([place]))[place.node_id]
    assert (found.value, found.reason) == (numbers, None)


async def test_a_node_that_never_ends_its_pages_is_unknown() -> None:
    async def answer(target: str) -> bytes:
        return page("a", after="a")

    async with node(answer) as place:
        asker = NodeAsker(node_seconds=60)
        while True:
            found = (await asker.stats([place]))[place.node_id]
            assert found.value is None
            if "being read" not in (found.reason or ""):
                break
    assert str(PAGES_MAX) in (found.reason or "")


class ManyPages:
    """A node with 100,000 subjects in 100 pages, each of which takes 0.1 s of a clock; `beat` numbers what it answers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.beat, self.asked = 0, 0

    async def answer(self, target: str) -> bytes:
        self.asked += 1
        self.clock.advance(0.1)
        number = int(target.partition("after=")[2] or 0) + 1
        after = str(number) if number < 100 else None
        subjects = [subject_stats(f"s{number}", 0, 1)]
        return json.dumps({"subjects": subjects, "next_after": after, "beat": self.beat}).encode()


async def test_a_node_of_100000_subjects_is_read_over_several_beats_and_stays_known() -> None:
    many = ManyPages()
    async with node(many.answer) as place:
        asker = NodeAsker(clock=many.clock)
        known_at = []
        for beat in range(40):
            many.beat, many.asked = beat, 0
            found = (await asker.stats([place]))[place.node_id]
            assert many.asked <= 8, "a beat is not held up"
            if found.value is not None:
                known_at.append(beat)
                assert len(found.value["subjects"]) == 100
                assert found.value["beat"] == beat, "the node's own numbers are new"
            else:
                assert "being read" in (found.reason or "")
        first = known_at[0]
        assert first <= 13
        assert known_at == list(range(first, 40)), "once it is known it stays known"


async def test_subjects_of_a_node_whose_reading_takes_too_long_are_unknown() -> None:
    many = ManyPages()
    async with node(many.answer) as place:
        asker = NodeAsker(clock=many.clock)
        while (await asker.stats([place]))[place.node_id].value is None:
            pass
        many.clock.advance(READING_SECONDS_MAX)
        found = (await asker.stats([place]))[place.node_id]
        assert found.value is None


async def test_one_that_hangs_costs_its_own_time_only() -> None:
    forever = asyncio.Event()

    async def hang(target: str) -> bytes:
        await forever.wait()
        return b""

    async def answer(target: str) -> bytes:
        return page("a")

    async with node(hang, "g1-a") as slow, node(answer, "g2-a") as quick:
        began = asyncio.get_running_loop().time()
        found = await NodeAsker(page_seconds=0.3).stats([slow, quick])
        assert asyncio.get_running_loop().time() - began < promised(1)
        forever.set()
    assert found["g2-a"].value is not None
    assert (found["g1-a"].value, "0.3 s" in (found["g1-a"].reason or "")) == (None, True)


@pytest.mark.parametrize(
    ("body", "reason"),
    [(b"x" * 2_000, "more than 1000 bytes"), (b"nonsense", "no JSON"), (b"[]", "no JSON object"), (b"", "no JSON")],
)
async def test_answers_that_are_none(body: bytes, reason: str) -> None:
    async def answer(target: str) -> bytes:
        return body

    async with node(answer) as place:
        found = (await NodeAsker(page_bytes=1_000).stats([place]))[place.node_id]
    assert found.value is None
    assert reason in (found.reason or "")


@pytest.mark.parametrize("address", ["", "nowhere", "127.0.0.1:0"])
async def test_a_node_without_a_usable_address_is_unknown(address: str) -> None:
    place = NodePlace("g1-a", "g1", "broker", True, "", address)
    found = (await NodeAsker().stats([place]))["g1-a"]
    assert found.value is None
    assert found.reason


async def test_only_so_many_are_asked_at_once() -> None:
    running, most, release = 0, 0, asyncio.Event()

    async def answer(target: str) -> bytes:
        nonlocal running, most
        running += 1
        most = max(most, running)
        if running == 2:
            release.set()
        await release.wait()
        running -= 1
        return page("a")

    async with contextlib.AsyncExitStack() as stack:
        places = [await stack.enter_async_context(node(answer, f"g{number}-a")) for number in range(6)]
        found = await NodeAsker(at_once=2).stats(places)
    assert most == 2
    assert all(one.value is not None for one in found.values())


# --- the schedule -----------------------------------------------------------------------------------------------------


class Beating(Collector):
    """A collector whose beats take a given time and do nothing."""

    def __init__(self, clock: ManualClock, takes: list[float], stop: asyncio.Event) -> None:
        async def sleep(seconds: float) -> None:
            clock.advance(seconds)

        super().__init__(f"redis://127.0.0.1:{free_port()}/0", clock, sleep=sleep)
        self._manual, self._takes, self._stop = clock, takes, stop
        self.began: list[float] = []

        async def read() -> None:
            self.metadata.now = Metadata(reason=None)

        self.metadata.read = read  # type: ignore[method-assign]

    async def beat(self) -> None:
        self.began.append(round(self._manual.monotonic() - 1_000, 6))
        self._manual.advance(self._takes.pop(0))
        if not self._takes:
            self._stop.set()


async def beats(takes: list[float]) -> Beating:
    stop = asyncio.Event()
    collector = Beating(ManualClock(monotonic=1_000.0), takes, stop)
    async with asyncio.timeout(10):
        await collector.run(stop)
    return collector


async def test_beats_do_not_drift() -> None:
    collector = await beats([0.3] * 50)
    assert collector.began == [number * BEAT_SECONDS for number in range(50)]
    assert collector.health.overruns == 0


async def test_an_overrun_leaves_beats_out_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    collector = await beats([0.1, 2.5, 0.1, 1.0, 0.1])
    assert collector.began == [0.0, 1.0, 4.0, 5.0, 6.0]
    assert collector.health.overruns == 2
    assert "a beat took 2.50 s: 2 left out" in caplog.text


async def test_without_redis_it_goes_on_and_counts() -> None:
    clock = ManualClock()
    collector = Collector(f"redis://127.0.0.1:{free_port()}/0", clock)
    for number in range(1, 4):
        await collector.beat()
        assert collector.health.errors == number
    assert collector.health.beats == 0
    assert collector.health.last_error
