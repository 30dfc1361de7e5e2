"""`make bench-delay`: a delay node under load: lateness, ten million pending messages, restart; prints tables.

A metaserver, two brokers and a delay node run as processes on free ports, flush=always. Nothing here asserts: figures go to
docs/performance.md by hand, with the date.
"""

import argparse
import asyncio
import json
import os
import platform
import random
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import disk
from benchmarks.compare import start_in_order
from qmq.cli.bench import encode_batch, percentile
from qmq.net.caller import Caller
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.commands import AckRequest, PullRequest, PullResponse
from qmq.protocol.extensions import EnsureGroupRequest
from qmq.protocol.messages import decode_raws
from tests.support.servers.processes import PROJECT, Process
from tests.support.servers.system import System
from tests.support.waiting import eventually

MIB = 1 << 20
LOOK_SECONDS = 0.05
OVERDUE = 200_000
"""Messages that are overdue when brokers return."""


def resident_mib(process: Process) -> float:
    """Resident memory of a process."""
    with open(f"/proc/{process.pid}/status") as file:
        for line in file:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def pending(system: System, group: str = "d1") -> dict[str, Any]:
    """The delay node's numbers."""
    answer: dict[str, Any] = system.admin(group, "/stats")
    return answer


# --- lateness -------------------------------------------------------------------------------------------------------


async def consume(
    port: int, subject: str, consumer: str, seen: list[float], early: list[float], stop: asyncio.Event
) -> None:
    """Pull and ack from one broker; notes how late each message came, in seconds."""
    caller = Caller("127.0.0.1", port)
    await caller.connect()
    last = -1
    while not stop.is_set():
        request = PullRequest(subject, "g", consumer, 500, -1, last, 500, False)
        frame = await caller.call(Command.PULL_MESSAGE, request.encode(), timeout_s=10)
        now = time.time()
        if frame.code != ResponseCode.SUCCESS:
            continue
        answer = PullResponse.decode(frame.body)
        messages = decode_raws(answer.raws)
        for message in messages:
            late = now - message.time_ms / 1000
            (seen if late >= 0 else early).append(late)
        last = answer.pull_begin + len(messages) - 1
        ack = AckRequest(subject, "g", consumer, answer.pull_begin, last, False)
        await caller.call(Command.ACK_REQUEST, ack.encode(), timeout_s=10)
    await caller.close()


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late messages came."""

    rate: int
    seconds: int
    late: list[float]
    """Seconds from the due time to the consumer, in order, of all that were not early."""
    early: int

    def row(self) -> str:
        """A row of the table."""
        count = self.rate * self.seconds
        p50, p99, p999 = (percentile(self.late, share) for share in (0.5, 0.99, 0.999))
        return (
            f"| {self.rate:,}/s for {self.seconds} s | {len(self.late):,} of {count:,} | {self.early} | {p50:.1f}"
            f" | {p99:.1f} | {p999:.1f} | {self.late[-1] * 1000:.0f} |"
        )


async def lateness(system: System, rate: int, seconds: int, kept_ms: int = 6_000, *, subject: str = "") -> Lateness:
    """`rate` messages a second fall due for so long; from due to pulled by a consumer."""
    subject = subject or f"lateness-{rate}"
    for group in system.brokers:
        caller = Caller("127.0.0.1", system.ports[group][0])
        await caller.connect()
        ensure = EnsureGroupRequest(subject, "g", "earliest", 0, False, False)
        await caller.call(Command.ENSURE_GROUP, ensure.encode(), timeout_s=10)
        await caller.close()
    rng, count = random.Random(7), rate * seconds
    begin = time.time_ns() // 1_000_000 + kept_ms
    dues = [begin + rng.randrange(seconds * 1000) for _ in range(count)]
    caller = Caller("127.0.0.1", system.ports["d1"][0])
    await caller.connect()
    for at in range(0, count, 500):
        body = encode_batch(subject, 128, len(dues[at : at + 500]), dues[at : at + 500])
        frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=10)
        assert frame.code == ResponseCode.SUCCESS
        assert not frame.body
    sent_after = time.time_ns() // 1_000_000 - begin
    assert sent_after < 0, f"sending took {sent_after} ms longer than planned"
    seen: list[float] = []
    early: list[float] = []
    stop = asyncio.Event()
    pullers = [
        asyncio.create_task(consume(system.ports[group][0], subject, f"c@@{group}", seen, early, stop))
        for group in system.brokers
    ]
    deadline = time.monotonic() + seconds + 60
    while len(seen) + len(early) < count and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.2)
    stop.set()
    await asyncio.gather(*pullers)
    await caller.close()
    return Lateness(rate, seconds, sorted(seen), len(early))


@dataclass(frozen=True, slots=True)
class Drained:
    """How fast overdue messages went."""

    per_second: float
    resident_mib: float
    """Of the delay node, before."""


def drain(folder: Path, count: int, *, copies: int = 1, tree: Path = PROJECT) -> Drained:
    """All brokers down while messages fall due: how fast the backlog goes once they are back.

    Args:
        copies: members of the delay group.
        tree: the source tree of the nodes.
    """
    folder.mkdir()
    system = System(folder, groups=2, delay_copies=copies)
    node = system.add_delay("d1")
    try:
        start_in_order(system, tree)
        for _ in range(2):
            fill_for_drain(system, 1)  # the route is known before the brokers go
        eventually(lambda: pending(system)["pending"] == 0, what="the first messages are delivered")
        for broker in system.brokers.values():
            broker.stop()
        fill_for_drain(system, count)
        eventually(lambda: pending(system)["overdue"] >= count, what="everything is overdue")
        memory = resident_mib(node)
        for broker in system.brokers.values():
            broker.start(wait=False)
        eventually(lambda: left(system) < count, what="the backlog moves", every_s=LOOK_SECONDS)
        began, before = time.monotonic(), left(system)
        eventually(lambda: left(system) == 0, what="the backlog is gone", every_s=LOOK_SECONDS)
        seconds = time.monotonic() - began
        return Drained(before / seconds, memory)
    finally:
        system.close()
        shutil.rmtree(folder)


def left(system: System) -> int:
    """Return the number of messages that are not delivered, from /calendar: the node counts them for each request, while
    /stats may be 0.8 s old."""
    return sum(hour["pending"] for hour in system.admin("d1", "/calendar")["hours"])


def fill_for_drain(system: System, count: int) -> None:
    """Messages that fall due at once, straight to the delay node."""

    async def send() -> None:
        caller = Caller("127.0.0.1", system.ports["d1"][0])
        await caller.connect()
        now_ms = time.time_ns() // 1_000_000
        for at in range(0, count, 500):
            size = min(500, count - at)
            body = encode_batch("drain", 128, size, [now_ms + 2_000 + at // 100] * size)
            frame = await caller.call(Command.SEND_MESSAGE, body, timeout_s=10)
            assert frame.code == ResponseCode.SUCCESS
        await caller.close()

    asyncio.run(send())


# --- many pending ---------------------------------------------------------------------------------------------------


def fill(system: System, count: int, due_from: str, due_to: str, rate: int) -> dict[str, Any]:
    """Send delayed messages in batches of 500; `rate` 0: as fast as it goes."""
    done = system.qmq(
        "bench", "delay", "pending", "--count", str(count), "--due-from", due_from, "--due-to", due_to,
        "--batch", "500", "--json", *(("--rate", str(rate)) if rate else ()), timeout=1200,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"bench delay failed: {done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def many(folder: Path, name: str, count: int, due_from: str, due_to: str, rate: int) -> list[str]:
    """Fill a node in steps, then restart it."""
    folder.mkdir()
    system = System(folder, groups=1)
    node = system.add_delay("d1")
    lines = []
    try:
        system.start()
        empty = resident_mib(node)
        steps = 4
        after_first = 0.0
        for step in range(1, steps + 1):
            result = fill(system, count // steps, due_from, due_to, rate)
            stats = pending(system)
            memory = stats["wheel"]["memory_bytes"] + stats["hours_memory_bytes"]
            now = resident_mib(node)
            after_first = after_first or now
            added = count // steps * (step - 1)
            slope = f"{(now - after_first) * MIB / added:.0f}" if added else ""
            lines.append(
                f"| {name} | {stats['pending']:,} | {result['messages_per_s']:,.0f} | {result['p99_ms']:.0f}"
                f" | {stats['wheel']['messages']:,} | {memory / max(1, stats['wheel']['messages']):.1f}"
                f" | {now:.0f} (empty {empty:.0f}) | {slope} | |"
            )
            print(lines[-1], flush=True)
        node.kill()
        began = time.monotonic()
        node.start()
        serving = time.monotonic() - began
        is_near = name == "near"

        def has_loaded() -> bool:
            stats = pending(system)
            return not stats["is_loading"] and (stats["wheel"]["messages"] > 0 or not is_near)

        eventually(has_loaded, what="the near hours are loaded")
        stats = pending(system)
        loaded = time.monotonic() - began
        print(
            f"| {name}, after kill -9 | {stats['pending']:,} | | | {stats['wheel']['messages']:,} | | {resident_mib(node):.0f}"
            f" | | serves after {serving:.1f} s, near hours loaded after {loaded:.1f} s |",
            flush=True,
        )
    finally:
        system.stop()
        shutil.rmtree(folder)
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.delay", description=__doc__)
    parser.add_argument("--folder", help="where to write; default: a temporary folder")
    parser.add_argument("--count", type=int, default=10_000_000, help="pending messages")
    parser.add_argument("--seconds", type=int, default=60, help="how long messages fall due")
    parser.add_argument("--only", choices=("lateness", "drain", "pending"), help="one part")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="qmq-bench-", dir=arguments.folder))
    try:
        rates = disk.measure(str(folder))
        print(
            f"Machine: {os.cpu_count()} cores, Python {platform.python_version()}; disk {rates.sequential_mb_per_s:.0f} MB/s\n"
        )
        if arguments.only in (None, "lateness"):
            print("| due | came | early | p50 ms | p99 ms | p99.9 ms | most ms |\n|---|---|---|---|---|---|---|")
            (folder / "lateness").mkdir()
            system = System(folder / "lateness", groups=2)
            system.add_delay("d1")
            try:
                system.start()
                for rate in (200, 2_000, 10_000):
                    print(asyncio.run(lateness(system, rate, arguments.seconds, 8_000 + rate)).row(), flush=True)
            finally:
                system.stop()
        if arguments.only in (None, "drain"):
            print("\n| what | drained | |\n|---|---|---|")
            drained = drain(folder / "drain", OVERDUE)
            print(
                f"| {OVERDUE:,} overdue, two brokers back | {drained.per_second:,.0f}/s"
                f" | resident {drained.resident_mib:.0f} MiB before |",
                flush=True,
            )
        if arguments.only in (None, "pending"):
            print(
                "\n| due | pending | sends/s | p99 ms | in the wheel | bytes each, wheel and states | resident MiB"
                " | resident bytes a message, after the first step | |\n|---|---|---|---|---|---|---|---|---|"
            )
            for name, due_from, due_to, rate in (
                ("near", "20m", "25m", 0),
                ("2 to 9 days", "2d", "9d", 0),
                # Each message in an hour of its own: the first checkpoint makes 35,000 files.
                ("2 days to 2 years, at 50,000/s", "2d", "729d", 50_000),
            ):
                many(folder / name.split(",")[0].replace(" ", "-"), name, arguments.count, due_from, due_to, rate)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
