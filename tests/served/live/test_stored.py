"""The stored snapshot: a beat stores, and a process that shows it reads and parses, what changed and not what exists."""

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import redis

from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.cluster.stats import NodeAsker
from console.collector.collector import Collector
from console.collector.metadata import Metadata
from console.snapshot import bus, chunks
from console.snapshot.bus import SNAPSHOT_KEY, StoredReader
from console.snapshot.state import group_key
from tests.support.console.node_stats import group_stats, subject_stats
from tests.support.manual_clock import ManualClock
from tests.support.servers.services import RedisServer, Server, named_databases
from tests.support.servers.shared import server_for_tests
from tests.unit.console.live.stats import place, stats

SUBJECTS = 2_000


class Asker(NodeAsker):
    """One node with many subjects; one of them has a lag that a test sets."""

    def __init__(self) -> None:
        self.lag = 0
        self.rest = [subject_stats(f"s{n}", 0, 9, group_stats()) for n in range(1, SUBJECTS)]

    async def stats(self, places: Any) -> dict[str, Measured[dict[str, Any]]]:
        return {"g1-a": stats(subject_stats("s0", 0, 9, group_stats(lag=self.lag)), *self.rest)}


class Beats:
    """A collector whose beats a test makes."""

    def __init__(self, url: str) -> None:
        self.asker, self.clock = Asker(), ManualClock()
        self.collector = Collector(url, self.clock, asker=self.asker)
        places: tuple[NodePlace, ...] = (place("g1"),)
        self.collector.metadata.now = Metadata(places, reason=None)

    async def beat(self, lag: int) -> int:
        """The bytes that it wrote."""
        self.asker.lag = lag
        self.clock.advance(1)
        await self.collector.run_cycle()
        assert self.collector.health.last_error is None
        return self.collector.health.published_bytes


MakeBeats = Callable[[str], Beats]


@pytest.fixture
async def beats_of() -> AsyncIterator[MakeBeats]:
    """Makes collectors, and closes them at the end."""
    found: list[Beats] = []

    def make(url: str) -> Beats:
        found.append(Beats(url))
        return found[-1]

    yield make
    for one in found:
        await one.collector.close()


@pytest.fixture(scope="module")
def own_redis() -> Iterator[Server]:
    """A Redis that no other collector uses: that of the live system would act as soon as a test's collector does not."""
    yield from server_for_tests(RedisServer, is_required=bool(named_databases()))


@pytest.fixture
def empty_redis(own_redis: Server) -> Server:
    with redis.Redis.from_url(own_redis.url) as client:
        client.flushall()
    return own_redis


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The length of each JSON text that is parsed."""
    found: list[int] = []
    original = json.loads

    def counting(text: Any, **options: Any) -> Any:
        found.append(len(text))
        return original(text, **options)

    monkeypatch.setattr(json, "loads", counting)
    return found


def lag_of(read: tuple[dict[str, Any] | None, Any]) -> Any:
    snapshot, health = read
    assert snapshot is not None
    assert health is not None
    assert len(snapshot["state"]["groups"]) == SUBJECTS
    return snapshot["state"]["groups"][group_key("s0", "g")]["lag"]


async def test_a_beat_writes_and_a_reader_parses_what_changed(
    empty_redis: Server, beats_of: MakeBeats, parsed: list[int]
) -> None:
    beats, reader = beats_of(empty_redis.url), StoredReader(empty_redis.url)
    assert reader.read() == (None, None)
    whole = await beats.beat(0)
    assert lag_of(reader.read()) == 0
    of_whole = sum(parsed)
    parsed.clear()
    part = await beats.beat(7)
    assert lag_of(reader.read()) == 7
    assert part * 20 < whole
    assert sum(parsed) * 20 < of_whole
    # Between two beats a request parses no entry.
    parsed.clear()
    threads = [threading.Thread(target=reader.read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lag_of(reader.read()) == 7
    assert max(parsed) < 2_000, "the health"


async def test_entries_that_did_not_change_stay_the_same_objects(empty_redis: Server, beats_of: MakeBeats) -> None:
    beats, reader = beats_of(empty_redis.url), StoredReader(empty_redis.url)
    found = []
    for lag in (1, 2):
        await beats.beat(lag)
        snapshot, _ = reader.read()
        assert snapshot is not None
        found.append((beats.collector.state["groups"], snapshot["state"]["groups"]))
    for before, now in zip(*found, strict=True):
        assert [key for key in now if now[key] is not before[key]] == [group_key("s0", "g")]


async def test_an_emptied_redis_costs_one_beat_and_another_collector_starts_over(
    empty_redis: Server, beats_of: MakeBeats
) -> None:
    beats, reader = beats_of(empty_redis.url), StoredReader(empty_redis.url)
    await beats.beat(1)
    assert lag_of(reader.read()) == 1
    with redis.Redis.from_url(empty_redis.url) as client:
        client.flushall()
        assert reader.read() == (None, None)
        await beats.beat(2)
        assert lag_of(reader.read()) == 2
        # A part is evicted: what is left of the snapshot is not shown as the whole, and the next beat stores it again.
        (key,) = list(client.scan_iter(f"{SNAPSHOT_KEY}:*:1:*", count=1_000))
        client.delete(key)
        assert StoredReader(empty_redis.url).read()[0] is None
        await beats.beat(3)
        assert lag_of(reader.read()) == 3
        client.delete(bus.LOCK_KEY)
    other = beats_of(empty_redis.url)
    await other.beat(4)
    assert lag_of(reader.read()) == 4
    assert await beats.beat(5) > 0
    assert lag_of(reader.read()) == 4, "one collector acts"


async def test_chunks_outlive_the_snapshot_and_replaced_ones_expire_with_it(
    empty_redis: Server, beats_of: MakeBeats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "GROWTH_BYTES_MIN", 0)
    beats, reader = beats_of(empty_redis.url), StoredReader(empty_redis.url)
    with redis.Redis.from_url(empty_redis.url) as client:

        def expire_in() -> list[int]:
            return [client.pttl(key) for key in client.scan_iter(f"{SNAPSHOT_KEY}:*", count=1_000)]

        await beats.beat(1)
        assert all(bus.SNAPSHOT_MS < left <= bus.CHUNK_MS for left in expire_in())
        assert len(expire_in()) == chunks.CHUNKS + 1
        # The chunk of the one subject that changes outgrows its base again and again.
        lag = 1
        while len(expire_in()) == chunks.CHUNKS + 1:
            lag += 1
            await beats.beat(lag)
        assert sorted(left <= bus.SNAPSHOT_MS for left in expire_in()) == [False] * (chunks.CHUNKS + 1) + [True]
        assert lag_of(reader.read()) == lag
        client.delete(SNAPSHOT_KEY)
    assert reader.read()[0] is None, "an expired snapshot is not shown"


@pytest.mark.parametrize("head", ["", "{", "[]", "1", '{"format":1}', "\xff"])
def test_a_head_that_is_none_is_no_snapshot(empty_redis: Server, head: str) -> None:
    reader = StoredReader(empty_redis.url)
    with redis.Redis.from_url(empty_redis.url) as client:
        client.set(SNAPSHOT_KEY, head)
        assert reader.read() == (None, None)
