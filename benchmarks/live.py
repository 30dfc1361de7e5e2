"""Live feeds: what a beat costs, and how 500 websockets fare on one uvicorn. Prints tables.

    python -m benchmarks.live --clients 500 --subjects 1000 --groups 5

Needs the tests' folder beside it (it starts the same processes as the tests do).
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
os.environ.setdefault("QMQ_SECRET_KEY", "a key for benchmarks only")
django.setup()
# What follows imports models.

from console.cluster.measured import Measured  # noqa: E402
from console.cluster.places import NodePlace  # noqa: E402
from console.collector.messages import messages_of  # noqa: E402
from console.collector.summing import Sums, summed  # noqa: E402
from console.live.consumers import WEBSOCKETS_PER_USER_MAX  # noqa: E402
from console.snapshot.bus import Publisher  # noqa: E402
from console.snapshot.history import STEP_SECONDS, HistoryWriter  # noqa: E402
from console.snapshot.state import delta, empty  # noqa: E402
from console.times import rfc3339  # noqa: E402
from tests.support.console.node_stats import consumer, group_stats, node_stats, subject_stats  # noqa: E402

BEATS = 10
WITHIN_SECONDS = 2.0
RSS_BYTES_MAX = 500 << 20
BROKER_GROUPS = 2


def stats_of(subjects: int, groups: int, beat: int) -> bytes:
    """A node's /stats where everything moved since the last beat: the worst case."""
    consumers = [{**consumer(f"c{number}"), "paused": False} for number in range(2)]
    of_groups = [
        group_stats(
            f"service-{number}", next_sequence=beat, backlog=1_000 + beat, in_flight=50 + beat % 7, lag=1_050 + beat + beat % 7,
            time_lag_seconds=3.5 + beat, pull_rate=90.0 + beat, ack_rate=95.0 + beat, retried=beat, redelivered=beat,
            consumers=consumers,
        )
        for number in range(groups)
    ]  # fmt: skip
    of_subjects = [
        subject_stats(
            f"team.service.events.{number}", 0, 1_000 + beat, *of_groups,
            send_rate=100.0 + beat, send_bytes_rate=10_000.0 + beat,
        )
        for number in range(subjects)
    ]  # fmt: skip
    log = {"begin": 0, "end": beat, "synced_end": beat, "damaged": []}
    page = node_stats(*of_subjects, uptime_seconds=beat, disk_free_bytes=beat, log=log, next_after=None)
    return json.dumps(page).encode()


async def beats(url: str, subjects: int, groups: int) -> None:
    """Time of a beat's parts without the nodes' own time, and its bytes."""
    from redis.asyncio import Redis

    publisher = Publisher(url, "bench")
    history = HistoryWriter(url)
    kept: list[float] = []
    names = ["nodes", "events"]
    listener = Redis.from_url(url)
    pubsub = listener.pubsub()
    await pubsub.subscribe(*(f"qmq:live:{name}" for name in names))
    places = [NodePlace(f"g{i}-a", f"g{i}", "broker", True, "", "") for i in range(BROKER_GROUPS)]
    old, sums = empty(), Sums()
    rows: list[dict[str, float]] = []
    size: dict[str, int] = {}
    for beat in range(1, BEATS + 1):
        page = stats_of(subjects, groups, beat)
        at = [time.perf_counter()]
        answers = {place.node_id: Measured(json.loads(page), None, 0) for place in places}
        at.append(time.perf_counter())
        new = empty() | summed(old, 0, places, answers, {}, sums)
        at.append(time.perf_counter())
        change = delta(old, new)
        at.append(time.perf_counter())
        head = {"stream": "bench", "version": beat, "at": rfc3339(0)}
        messages = messages_of(change, head, await publisher.listened())
        at.append(time.perf_counter())
        write = await publisher.store("bench", beat, new, change)
        await publisher.publish(write, head, 0, "{}", messages)
        at.append(time.perf_counter())
        parts = ("decode", "sum", "compare", "encode", "store, publish")
        began = time.perf_counter()
        await history.note(new, beat * STEP_SECONDS * 1000)
        kept.append(time.perf_counter() - began)
        rows.append(dict(zip(parts, (b - a for a, b in pairwise(at)), strict=True)))
        size = {
            "stats of a node": len(page),
            "stored, compressed": write.bytes_count,
        }
        old = new
    await pubsub.aclose()  # type: ignore[no-untyped-call]
    await listener.aclose()
    await publisher.close()
    await history.close()
    print(
        f"\nA beat: {subjects} subjects x {groups} groups on {BROKER_GROUPS} nodes, everything moving, median of {BEATS}"
    )
    for name in rows[0]:
        print(f"  {name:<18}{statistics.median(row[name] for row in rows) * 1000:9.1f} ms")
    print(f"  {'all':<18}{statistics.median(sum(row.values()) for row in rows) * 1000:9.1f} ms")
    print(f"  {f'history, each {STEP_SECONDS} s':<18}{statistics.median(kept) * 1000:9.1f} ms")
    for name, count in size.items():
        print(f"  {name:<18}{count / 1e6:9.2f} MB")


def rss_bytes(pid: int) -> int:
    """Resident memory of a process."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("VmRSS"))) << 10


def cpu_seconds(pid: int) -> float:
    """Processor time a process took so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))


async def sockets(clients: int) -> bool:
    """Many websockets on one uvicorn, with a real system behind it; whether the targets were met."""
    from tests.support.console.live import LiveClient, open_feed
    from tests.support.servers.system import Person, System

    users = tuple(Person(f"user{number}", "viewer") for number in range(-(-clients // WEBSOCKETS_PER_USER_MAX)))
    with tempfile.TemporaryDirectory() as folder:
        live = System(Path(folder), groups=1, console=True, people=users)
        try:
            live.start()
            pid = live.console.pid
            before = rss_bytes(pid)
            live.qmq("produce", "bench", "-p", "a=b")
            live.qmq("consume", "bench", "readers", "--count", "1", "--from", "earliest", "--timeout", "20")
            async with AsyncExitStack() as stack:
                opened = []
                began = time.perf_counter()
                for number in range(clients):
                    user = f"user{number % len(users)}"
                    opened.append(await stack.enter_async_context(open_feed(live, "/ws/lag/?subject=bench", user)))
                await asyncio.gather(*(client.next() for client in opened))
                joined = time.perf_counter() - began
                delays: list[float] = []
                cpu = cpu_seconds(pid)
                rounds_began = time.perf_counter()
                for round_number in range(1, 6):
                    await asyncio.to_thread(live.qmq, "produce", "bench", "-p", "a=b", "--count", "10")
                    sent_at = time.perf_counter()

                    async def wait(client: LiveClient, lag: int = 10 * round_number, sent: float = sent_at) -> float:
                        await client.until(lambda _: lag_of(client) == lag)
                        client.seen.clear()
                        return max(0.0, time.perf_counter() - sent)

                    delays += await asyncio.gather(*(wait(client) for client in opened))
                busy = (cpu_seconds(pid) - cpu) / (time.perf_counter() - rounds_began)
                rss = rss_bytes(pid)
        finally:
            live.close()
    delays.sort()
    print(f"\n{clients} websockets of {len(users)} users on one uvicorn, 5 sends")
    rows = (
        ("all joined", f"{joined:.2f} s"),
        ("update, median", f"{statistics.median(delays):.2f} s"),
        ("update, 99 %", f"{delays[int(len(delays) * 0.99)]:.2f} s"),
        ("update, last", f"{delays[-1]:.2f} s (at most {WITHIN_SECONDS:g})"),
        ("processor", f"{busy * 100:.0f} % of one core"),
        ("memory before", f"{before / 1e6:.0f} MB"),
        ("memory", f"{rss / 1e6:.0f} MB (at most {RSS_BYTES_MAX / 1e6:.0f})"),
    )
    for name, text in rows:
        print(f"  {name:<18}{text}")
    return delays[-1] <= WITHIN_SECONDS and rss <= RSS_BYTES_MAX


def lag_of(client: Any) -> Any:
    """What a client shows as the lag."""
    return (client.state or {}).get("groups", {}).get("bench\nreaders", {}).get("lag")


async def run(arguments: argparse.Namespace) -> int:
    """Both."""
    from tests.support.servers.services import redis_server

    with redis_server() as redis:
        await beats(redis.url, arguments.subjects, arguments.groups)
    return 0 if await sockets(arguments.clients) else 1


def main() -> int:
    """The exit code: 1 when a target was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--subjects", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=5)
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    raise SystemExit(main())
