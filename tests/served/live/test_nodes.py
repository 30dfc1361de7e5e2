"""Asking nodes: pages, time limits, bounded answers, so many at once; and the collector's schedule."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from console.cluster.limits import READING_SECONDS_MAX
from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.cluster.stats import PAGES_MAX, NodeAsker
from console.collector.collector import CYCLE_SECONDS, Collector
from console.collector.metadata import Metadata
from tests.support.console.node_stats import subject_stats
from tests.support.manual_clock import ManualClock
from tests.support.servers.ports import free_port

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


@pytest.mark.parametrize(
    ("names", "reason"), [(lambda _: "a", "do not advance"), (lambda number: f"s{number:03d}", f"more than {PAGES_MAX} pages")]
)  # fmt: skip
async def test_a_node_that_never_ends_its_pages_is_unknown(names: Callable[[int], str], reason: str) -> None:
    asked = 0

    async def answer(target: str) -> bytes:
        nonlocal asked
        asked += 1
        return page(names(asked), after=names(asked))

    async with node(answer) as place:
        asker = NodeAsker(node_seconds=60)
        while (found := (await asker.stats([place]))[place.node_id]).value is not None:
            assert found.value["subjects_reason"] == "node g1-a: its subjects are being read"
    assert reason in (found.reason or "")
    assert asked <= PAGES_MAX


@pytest.mark.parametrize(
    "answer",
    [{"subjects": 1}, {"subjects": [1]}, {"subjects": [{}]}, {"subjects": [{"subject": 1}]}, {}, {"subjects": [], "next_after": 1}],
)  # fmt: skip
async def test_pages_that_are_none_make_their_node_unknown(answer: dict[str, Any]) -> None:
    async def serve(_: str) -> bytes:
        return json.dumps({"next_after": None, **answer}).encode()

    async with node(serve) as place:
        found = (await NodeAsker().stats([place]))[place.node_id]
    assert (found.value, "a page has no list" in (found.reason or "") or "advance" in (found.reason or "")) == (
        None,
        True,
    )


class ManyPages:
    """A node with 60 pages, each of which takes 0.1 s of a clock; `beat` numbers what it answers."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.beat, self.asked = 0, 0
        self.count = 60
        self.is_failing = False

    async def answer(self, target: str) -> bytes:
        self.asked += 1
        self.clock.advance(0.1)
        if self.is_failing and self.asked == 3:
            return b"nonsense"
        number = int(target.partition("after=s")[2] or 0) + 1
        name = f"s{number:03d}"
        subjects = [subject_stats(name, 0, self.beat)]
        after = name if number < self.count else None
        return json.dumps({"subjects": subjects, "next_after": after, "beat": self.beat}).encode()

    async def ask(self, asker: NodeAsker, place: NodePlace) -> Measured[dict[str, Any]]:
        """One beat."""
        self.beat, self.asked = self.beat + 1, 0
        return (await asker.stats([place]))[place.node_id]


async def test_a_node_of_60000_subjects_is_read_over_several_beats_and_is_known_from_the_first() -> None:
    many = ManyPages()
    async with node(many.answer) as place:
        asker = NodeAsker(clock=many.clock)
        known: list[int] = []
        for _ in range(30):
            found = await many.ask(asker, place)
            assert many.asked <= 8, "a beat is not held up"
            assert found.value is not None
            assert found.value["beat"] == many.beat, "the node's own numbers are new"
            known.append(len(found.value["subjects"]))
            reason = found.value["subjects_reason"]
            assert found.value["are_subjects_overdue"] is None
            assert reason == (None if known[-1] == 60 else "node g1-a: its subjects are being read")
        assert known == [8, 16, 24, 32, 40, 48, 56] + [60] * 23
        names = [item["subject"] for item in found.value["subjects"]]
        assert names == sorted(set(names))
        beats = [item["end_sequence"] for item in found.value["subjects"]]
        assert min(beats) > many.beat - 9, "numbers are as old as one reading"


async def test_a_page_that_fails_costs_its_beat_and_not_the_reading() -> None:
    many = ManyPages()
    async with node(many.answer) as place:
        asker = NodeAsker(clock=many.clock)
        for _ in range(8):
            await many.ask(asker, place)
        many.is_failing = True
        assert (await many.ask(asker, place)).value is None
        many.is_failing = False
        found = await many.ask(asker, place)
        assert found.value is not None
        assert (len(found.value["subjects"]), found.value["subjects_reason"]) == (60, None)


async def test_a_subject_that_its_node_no_longer_has_is_gone_after_the_next_reading() -> None:
    many = ManyPages()
    async with node(many.answer) as place:
        asker = NodeAsker(clock=many.clock)
        for _ in range(8):
            await many.ask(asker, place)
        many.count = 30
        for _ in range(4):
            found = await many.ask(asker, place)
        assert found.value is not None
        assert (len(found.value["subjects"]), found.value["subjects_reason"]) == (30, None)


async def test_only_subjects_whose_page_was_read_too_long_ago_are_unknown() -> None:
    many = ManyPages()
    async with node(many.answer) as place:
        asker = NodeAsker(clock=many.clock)
        for _ in range(8):
            await many.ask(asker, place)
        many.clock.advance(READING_SECONDS_MAX)
        found = await many.ask(asker, place)
        assert found.value is not None
        assert len(found.value["subjects"]) == 8
        assert "not read in 30 s" in found.value["subjects_reason"]
        assert found.value["are_subjects_overdue"]


class Changing:
    """A node with two pages that answers changes; `changes` is what the next request for them is answered with."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.changes: list[dict[str, Any]] = []
        self.boot = 1
        self.at_ms = 10_000

    async def answer(self, target: str) -> bytes:
        query = target.partition("?")[2]
        self.asked.append(query)
        if query.startswith(f"since={self.boot}-") and self.changes:
            change = self.changes.pop(0)
            head = {"since": "x", "removed": [], "has_more": False, "complete_to_ms": self.at_ms, "next_after": None}
            return json.dumps(
                {"subjects": [], "at_ms": self.at_ms, "cursor": f"{self.boot}-9", **head, **change}
            ).encode()
        is_last = query.startswith("after=")
        found = json.loads(page("b", "c") if is_last else page("a", after="a"))
        cursor = f"{self.boot}-{len(self.asked)}"
        return json.dumps({**found, "cursor": cursor, "at_ms": self.at_ms}).encode()


async def subjects_of(asker: NodeAsker, place: NodePlace) -> dict[str, dict[str, Any]]:
    found = (await asker.stats([place]))[place.node_id]
    assert found.value is not None, found.reason
    return {item["subject"]: item for item in found.value["subjects"]}


async def test_after_all_pages_only_changes_are_requested() -> None:
    changing = Changing()
    async with node(changing.answer) as place:
        asker = NodeAsker()
        first = await subjects_of(asker, place)
        changing.changes = [
            {"subjects": [subject_stats("b", 0, 7)], "removed": ["a"], "cursor": "1-7", "has_more": True},
            {"subjects": [subject_stats("d", 0, 3)]},
        ]
        second = await subjects_of(asker, place)
    assert changing.asked == ["", "after=a", "since=1-1", "since=1-7"], "the cursor of the first page counts"
    assert {name: item["end_sequence"] for name, item in second.items()} == {"b": 7, "c": 1, "d": 3}
    assert second["c"] is first["c"], "what did not change stays the same object"


async def test_a_node_that_restarted_is_read_again_and_known_meanwhile() -> None:
    changing, clock = Changing(), ManualClock()
    async with node(changing.answer) as place:
        asker = NodeAsker(clock=clock)
        await subjects_of(asker, place)
        changing.boot, changing.asked = 2, []
        assert set(await subjects_of(asker, place)) == {"a", "b", "c"}
        assert changing.asked == ["since=1-1", "after=a"]
        changing.changes = [{"removed": ["c"]}]
        assert set(await subjects_of(asker, place)) == {"a", "b"}


async def test_a_time_lag_grows_without_a_change() -> None:
    changing = Changing()
    async with node(changing.answer) as place:
        asker = NodeAsker()
        await subjects_of(asker, place)
        group = {"group": "g", "oldest_stored_at_ms": 8_000, "time_lag_seconds": 2.0}
        changing.changes = [{"subjects": [{"subject": "b", "groups": [group]}]}, {}]
        assert (await subjects_of(asker, place))["b"]["groups"][0]["time_lag_seconds"] == 2.0
        changing.at_ms = 15_000
        assert (await subjects_of(asker, place))["b"]["groups"][0]["time_lag_seconds"] == 7.0


async def test_changes_that_fall_behind_make_subjects_unknown() -> None:
    changing = Changing()
    async with node(changing.answer) as place:
        asker = NodeAsker()
        await subjects_of(asker, place)
        changing.at_ms = 100_000
        changing.changes = [{"complete_to_ms": 100_000 - int(READING_SECONDS_MAX * 1000) - 1}]
        found = (await asker.stats([place]))[place.node_id].value
    assert found is not None
    assert (found["subjects"], found["are_subjects_overdue"]) == ([], True)


@pytest.mark.parametrize(
    "change",
    [{"removed": 1}, {"removed": [1]}, {"subjects": [1]}, {"cursor": ""}, {"has_more": 0}, {"complete_to_ms": ""}, {"at_ms": ""}],
)  # fmt: skip
async def test_changes_that_are_none_make_their_node_unknown(change: dict[str, Any]) -> None:
    changing = Changing()
    async with node(changing.answer) as place:
        asker = NodeAsker()
        await subjects_of(asker, place)
        changing.changes = [change]
        found = (await asker.stats([place]))[place.node_id]
        assert (found.value, "a page of changes" in (found.reason or "")) == (None, True)
        assert set(await subjects_of(asker, place)) == {"a", "b", "c"}, "then it is read from the beginning"


async def test_one_that_hangs_costs_its_own_time_only() -> None:
    forever = asyncio.Event()

    async def hang(target: str) -> bytes:
        await forever.wait()
        return b""

    async def answer(target: str) -> bytes:
        return page("a")

    async with node(hang, "g1-a") as slow, node(answer, "g2-a") as quick:
        found = await NodeAsker(page_seconds=0.3).stats([slow, quick])
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

    async def run_cycle(self) -> None:
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
    assert collector.began == [number * CYCLE_SECONDS for number in range(50)]
    assert collector.health.overruns == 0


async def test_an_overrun_leaves_beats_out_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    collector = await beats([0.1, 2.5, 0.1, 1.0, 0.1])
    assert collector.began == [0.0, 1.0, 4.0, 5.0, 6.0]
    assert collector.health.overruns == 2
    assert "a cycle took 2.50 s: 2 left out" in caplog.text


async def test_without_redis_it_goes_on_and_counts() -> None:
    clock = ManualClock()
    collector = Collector(f"redis://127.0.0.1:{free_port()}/0", clock)
    for number in range(1, 4):
        await collector.run_cycle()
        assert collector.health.errors == number
    assert collector.health.beats == 0
    assert collector.health.last_error
