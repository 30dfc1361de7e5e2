"""Lists of subjects and groups and their feed at 100,000 subjects and 20,000 groups; prints tables.

    python -m benchmarks.lists --subjects 100000 --groups 20000

A real uvicorn over SQLite and a Redis in a folder of its own. This process publishes the live numbers once a second as a
collector does (numbers are fabricated; one of a hundred subjects changes in each second) and sends one request every
PAUSE_SECONDS, so every third one or so is the first of the web process after a heartbeat. The last column is processor time of
the web process, which other work of the machine hardly changes. Needs the tests' folder beside it.
"""

import argparse
import asyncio
import http.client
import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from benchmarks.live import cpu_seconds, rss_bytes, stats_of
from console.cluster.measured import Measured
from console.cluster.places import NodePlace
from console.collector.summing import summed
from console.snapshot.bus import Publisher
from console.snapshot.state import State, delta, empty
from console.times import rfc3339
from tests.support.console.live import open_feed
from tests.support.servers.system import Person, System

_SPAWN = multiprocessing.get_context("spawn")
VIEWER = Person("vera", "viewer")
PAUSE_SECONDS = 0.3
TARGET_MS = 200.0
CHANGED_SHARE = 0.01
"""Of the subjects, in each second."""
ROWS = 50
FEED_SECONDS = 20
NAME = "team{team}.service{service}.events.{number}"
_FILL = """
import django, json, sys
django.setup()
from metaserver.models import ConsumerGroup, Subject, SubjectRoute, Team
names, groups = json.load(sys.stdin)
teams = Team.objects.bulk_create([Team(name=f"team{number}") for number in range(50)])
rows = Subject.objects.bulk_create(
    [Subject(name=name, owner=teams[number % 50], tags=["a"]) for number, name in enumerate(names)], 2_000
)
SubjectRoute.objects.bulk_create([SubjectRoute(subject=row, broker_groups=["g1"], version=1) for row in rows], 2_000)
ConsumerGroup.objects.bulk_create([ConsumerGroup(subject=row, name="service-0") for row in rows[:groups]], 2_000)
"""
REQUESTS = (
    ("subjects by name", "subjects/?limit=50"),
    ("subjects by name, 500 rows", "subjects/?limit=500"),
    ("subjects by rate", "subjects/?ordering=-send_rate"),
    ("subjects by highest lag", "subjects/?ordering=-highest_lag"),
    ("subjects by rate, the fifth page", "subjects/?ordering=-send_rate&cursor={cursor}"),
    ("subjects by rate, of a team", "subjects/?ordering=-send_rate&owner=team7"),
    ("subjects by rate, not archived", "subjects/?ordering=-send_rate&is_archived=false"),
    ("subjects by rate, search", "subjects/?ordering=-send_rate&search=service7"),
    ("subjects, search", "subjects/?search=service7+events"),
    ("subjects, search without a match", "subjects/?search=nothing"),
    ("subjects, number of groups", "subjects/?ordering=-consumer_groups"),
    ("subjects, newest change", "subjects/?ordering=-updated_at"),
    ("subjects, a folder of all", "subject-tree/"),
    ("subjects, a folder", "subject-tree/?folder=team7."),
    ("groups by time lag", "lag/?ordering=-time_lag_seconds"),
    ("groups by lag, 500 rows", "lag/?ordering=-lag&limit=500"),
    ("groups by ack rate", "lag/?ordering=-ack_rate"),
    ("groups by lag, a state", "lag/?ordering=-lag&state=growing"),
    ("groups by lag, search", "lag/?ordering=-lag&search=service7"),
    ("groups of one subject", "lag/?subject={subject}"),
)


def names_of(subjects: int) -> list[str]:
    """Names with three levels."""
    return [NAME.format(team=n % 40, service=n // 40 % 25, number=n) for n in range(subjects)]


def state_of(names: list[str], groups: int) -> State:
    """A state as the collector makes it; the first subjects have a group each."""
    randoms = random.Random(52)
    page = json.loads(stats_of(len(names), 1, 1))
    for number, (name, item) in enumerate(zip(names, page["subjects"], strict=True)):
        item["subject"], item["send_rate"] = name, round(randoms.expovariate(0.01), 2)
        item["groups"] = item["groups"] if number < groups else []
        for group in item["groups"]:
            group["lag"] = group["backlog"] = randoms.randrange(100_000)
    places = [NodePlace("g1-a", "g1", "broker", True, "", "")]
    return empty() | summed(empty(), 0, places, {"g1-a": Measured(page, None, 0)}, {})


def changed(state: State, beat: int, also: frozenset[str]) -> State:
    """The state with other numbers of some subjects and their groups, and of these ones."""
    randoms = random.Random(beat)
    names = {name for name in state["subjects"] if name in also or randoms.random() < CHANGED_SHARE}
    subjects = {
        name: {**entry, "send_rate": round(entry["send_rate"] + randoms.random(), 2), "sent_messages": beat}
        if name in names
        else entry
        for name, entry in state["subjects"].items()
    }
    groups = {
        key: {**entry, "lag": entry["lag"] + beat % 3, "ack_rate": round(randoms.random() * 100, 2)}
        if entry["subject"] in names
        else entry
        for key, entry in state["groups"].items()
    }
    return state | {"subjects": subjects, "groups": groups}


class Beats(SpawnProcess):
    """Publishes a state once a second, in a process of its own: requests are not timed beside its work."""

    def __init__(self, url: str, names: list[str], groups: int) -> None:
        super().__init__(daemon=True)
        self._url, self._names, self._groups = url, names, groups
        self.stopping, self.is_stored, self.are_rows_changing = _SPAWN.Event(), _SPAWN.Event(), _SPAWN.Event()
        """The last one: the first ROWS subjects change in each second."""

    def run(self) -> None:
        asyncio.run(self._publish(state_of(self._names, self._groups), frozenset(self._names[:ROWS])))

    async def _publish(self, state: State, rows: frozenset[str]) -> None:
        publisher, before, beat = Publisher(self._url, "bench"), empty(), 0
        while not self.stopping.is_set():
            began = time.monotonic()
            beat, now_ms = beat + 1, time.time_ns() // 1_000_000
            also = rows if self.are_rows_changing.is_set() else frozenset[str]()
            new = state if beat == 1 else changed(before, beat, also)
            change, head = delta(before, new), {"stream": "bench", "version": beat, "at": rfc3339(now_ms)}
            write = await publisher.store("bench", beat, new, change)
            assert await publisher.publish(write, head, now_ms, "{}", [("beat", json.dumps({"type": "beat", **head}))])
            before = new
            self.is_stored.set()
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))
        await publisher.close()


@contextmanager
def console(folder: Path, names: list[str], groups: int) -> Iterator[tuple[System, Beats]]:
    """A console over these subjects, and the numbers that are published of them."""
    with System(folder, groups=0, console=True, collectors=0, people=(VIEWER,)) as found:
        found.prepare()
        (folder / "names.json").write_text(json.dumps([names, groups]))
        found.python("-c", _FILL.replace("sys.stdin", f"open({str(folder / 'names.json')!r})"))
        beats = Beats(found.redis.url, names, groups)
        beats.start()
        beats.is_stored.wait()
        found.console.start()
        try:
            yield found, beats
        finally:
            beats.stopping.set()
            beats.join()


def lists(system: System, names: list[str], times: int, only: str) -> None:
    """The time of each request; prints."""
    connection = http.client.HTTPConnection("127.0.0.1", system.port, timeout=60)
    headers = {"Authorization": f"Bearer {system.credentials[VIEWER.name]['token']}"}

    def ask(path: str) -> tuple[float, Any]:
        began = time.perf_counter()
        connection.request("GET", f"/api/v1/{path}", headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        took = (time.perf_counter() - began) * 1000
        assert answer.status == 200, (path, text[:300])
        return took, json.loads(text)

    cursor = ""
    for _ in range(4):
        cursor = ask(f"subjects/?ordering=-send_rate&cursor={cursor}")[1]["next"]
    print("| request | p50 ms | p95 ms | longest ms | p95 below 200 ms | processor ms |\n|---|---|---|---|---|---|")
    for name, path in REQUESTS:
        if not name.startswith(only):
            continue
        found, cpu = [], 0.0
        for number in range(times + 2):
            if number == 2:
                cpu = cpu_seconds(system.console.pid)
            took, _ = ask(path.format(cursor=cursor, subject=names[7]))
            if number >= 2:
                found.append(took)
            time.sleep(PAUSE_SECONDS)
        used = (cpu_seconds(system.console.pid) - cpu) * 1000 / times
        found.sort()
        p95 = found[min(len(found) - 1, int(len(found) * 0.95))]
        good = "yes" if p95 < TARGET_MS else "no"
        print(
            f"| {name} | {statistics.median(found):.0f} | {p95:.0f} | {found[-1]:.0f} | {good} | {used:.0f} |",
            flush=True,
        )


async def feed(system: System, beats: Beats, names: list[str], groups: int) -> None:
    """Bytes of the feed with some rows shown, and what the web process needs for it; prints."""
    print("\n| feed of rows | bytes/s | processor of the web process |\n|---|---|---|")
    shown = names[:ROWS]
    keys = [f"{name}\nservice-0" for name in shown[:groups]]
    for what, rows in (
        (f"{ROWS} subjects, 1 % of all subjects change each second", {"subjects": shown}),
        (f"{ROWS} subjects, all of them change each second", {"subjects": shown}),
        (f"{ROWS} groups, all of them change each second", {"groups": keys}),
    ):
        async with open_feed(system, "/ws/lag/", VIEWER.name) as client:
            await client.show(**rows)
            await client.next()
            began, cpu, size = time.monotonic(), cpu_seconds(system.console.pid), 0
            while time.monotonic() < began + FEED_SECONDS:
                size += len(await client.socket.recv())
            seconds = time.monotonic() - began
            share = (cpu_seconds(system.console.pid) - cpu) / seconds
        beats.are_rows_changing.set()
        print(f"| {what} | {size / seconds:,.0f} | {share * 100:.1f} % of a core |", flush=True)
    print(f"\nmemory of the web process: {rss_bytes(system.console.pid) / 1e6:.0f} MB")


def main() -> None:
    """Both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subjects", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=20_000, help="one each of the first subjects")
    parser.add_argument("--times", type=int, default=40, help="requests of each list")
    parser.add_argument("--only", default="", help="requests whose name begins with this")
    given = parser.parse_args()
    names = names_of(given.subjects)
    with tempfile.TemporaryDirectory() as place, console(Path(place), names, given.groups) as (system, beats):
        lists(system, names, given.times, given.only)
        asyncio.run(feed(system, beats, names, given.groups))


if __name__ == "__main__":
    main()
