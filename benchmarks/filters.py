"""`python -m benchmarks.filters`: searches with filters over stored messages, and what they cost producers; prints tables.

A metaserver and one broker run as processes on free ports, flush=always. Half of the messages have properties and a
text of about 1 KB, the other half a JSON body of about 1 KB. Each search runs step by step to its end, newest first, as the console
runs it. Producers send at full rate, by turns without and with searches, one behind the other. Producers, broker, the
process of searches and kernel share the machine. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import asyncio
import json
import os
import shutil
import statistics
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.load import bench
from qmq.net.caller import Caller
from qmq.node_admin import NodeAdmin, NodeRefused
from qmq.protocol.codes import Command
from qmq.protocol.messages import KEY_CREATED, Message, encode_entry
from tests.support.servers.system import System

BATCH = 500
TEXT_BYTES = 900
REPEATS = 9
PRODUCED = 2_500_000
"""Messages of each run of producers, of 1 KB each. Of more, the kernel has to write the first ones meanwhile, and the disk is
the limit."""
WINDOW_SECONDS = 0.6
START_SECONDS = 0.1
SEARCHED = 200_000
"""Messages of each kind that are searched meanwhile."""
SEGMENTS = ("--segment-bytes", str(1 << 30))
SEARCHES = (
    # what, subject, filter
    ("a property", "plain", "order_id=A-17"),
    ("a property, found in the newest 100,000", "plain", "order_id=A-{near}"),
    ("a word", "plain", "zebra"),
    ("a number of a property", "plain", "int(properties.number) == -1"),
    ("size and time, by the index", "plain", 'size > 100000 && time > now - duration("10h")'),
    ("a text in JSON", "json", 'body.customer.name == "Anna Berg"'),
    ("a number in JSON", "json", "body.amount > 100000.0"),
    ("a list in JSON", "json", 'body.lines.exists(line, line.sku == "A-9999999")'),
    ("everything", "json", "true"),
)


def _plain(number: int) -> Message:
    values = {KEY_CREATED: "1700000000000", "order_id": f"A-{number}", "number": str(number), "data": "x" * TEXT_BYTES}
    return Message("plain", f"260101.000000.{number}", values)


def _json(number: int) -> Message:
    lines = [{"sku": f"A-{number + i}", "price": 19.9, "count": i} for i in range(15)]
    body = {
        "amount": number % 1000,
        "customer": {"name": "Emma Thompson", "id": number},
        "lines": lines,
        "note": "y" * 150,
    }
    return Message("json", f"260101.000001.{number}", {KEY_CREATED: "1700000000000", "data": json.dumps(body)})


async def fill(address: str, count: int) -> None:
    """Store `count` messages of each kind."""
    host, _, port = address.rpartition(":")
    caller = Caller(host, int(port))
    await caller.connect()
    try:
        for begin in range(0, count, BATCH):
            numbers = range(begin, min(count, begin + BATCH))
            for make in (_plain, _json):
                await caller.call(Command.SEND_MESSAGE, b"".join(encode_entry(make(n)) for n in numbers), timeout_s=60)
    finally:
        await caller.close()


def cpu_seconds(broker_pid: int) -> float:
    """What the broker's process of filters has used of the processors; 0 before it is started."""
    used = 0.0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == broker_pid:
                used += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return used


async def search(admin: NodeAdmin, subject: str, text: str) -> dict[str, float]:
    """Run a search to its end: messages a second, seconds until the first hit, steps, and the longest step."""
    began, until, scanned, first, steps = time.perf_counter(), None, 0, 0.0, []
    while True:
        at = time.perf_counter()
        page: dict[str, Any] = await admin.search(subject, filters=[text], until_sequence=until, limit=100)
        steps.append(time.perf_counter() - at)
        scanned += page["scanned"]
        if page["messages"] and not first:
            first = time.perf_counter() - began
        until = page["next_sequence"]
        if until is None or (len(steps) >= 20 and text == "true"):
            break
    seconds = time.perf_counter() - began
    return {
        "scanned": scanned,
        "rate": scanned / seconds,
        "first": first,
        "steps": len(steps),
        "longest": max(steps),
        "seconds": seconds,
    }


def producers(folder: Path, repeats: int, text: str) -> str:
    """A row of the table of producers: messages a second without and with a search, and what is lost.

    Each run has a broker of its own and one flow of messages; searches begin and end in it every WINDOW_SECONDS, since runs
    differ by more than a search costs. A window with a search is compared with the mean of the windows on both sides.
    """
    alone, beside, lost = [], [], []
    for _ in range(repeats):
        system = System(folder / "producers", groups=1, broker_flags=SEGMENTS)
        try:
            system.start()
            asyncio.run(fill(f"127.0.0.1:{system.ports['g1'][0]}", SEARCHED))
            # What was filled is on the disk, as it is where messages are searched.
            os.sync()
            rates = asyncio.run(by_turns(system, text))
        finally:
            system.stop()
            shutil.rmtree(folder / "producers")
        alone += rates[::2]
        beside += rates[1::2]
        lost += [100 * (1 - 2 * rates[i] / (rates[i - 1] + rates[i + 1])) for i in range(1, len(rates) - 1, 2)]
    quarters = statistics.quantiles(lost, n=4)
    return (
        f"| `{text}` | {statistics.median(alone):,.0f} | {statistics.median(beside):,.0f} | {statistics.median(lost):.1f} % "
        f"({quarters[0]:.0f} to {quarters[2]:.0f}) | {len(lost)} |"
    )


async def by_turns(system: System, text: str) -> list[float]:
    """Messages a second of two producers in windows without a search (the first, the third ...) and with one."""
    admin = NodeAdmin(f"127.0.0.1:{system.ports['g1'][1]}", timeout_seconds=20)
    # Starts the process, as the console does for the first of many steps.
    await admin.search("json", filters=[text], limit=100)
    flags = ("--count", str(PRODUCED), "--size", "1000", "--batch", "100", "--connections", "2")
    producing = asyncio.create_task(asyncio.to_thread(bench, system, "produce", "flow", *flags))
    while await window(admin, "", START_SECONDS) == 0.0:
        pass
    rates: list[float] = []
    while not producing.done():
        rates.append(await window(admin, text if len(rates) % 2 else "", WINDOW_SECONDS))
    await producing
    # The producers ended in the last window.
    return rates[:-1]


async def window(admin: NodeAdmin, text: str, seconds: float) -> float:
    """Messages a second of the producers in that time, with searches for `text` one behind the other unless it is ""."""
    count, began = await stored(admin), time.perf_counter()
    until, next_sequence = began + seconds, None
    while text and time.perf_counter() < until:
        next_sequence = (await admin.search("json", filters=[text], until_sequence=next_sequence, limit=100))[
            "next_sequence"
        ]
    await asyncio.sleep(max(0.0, until - time.perf_counter()))
    return (await stored(admin) - count) / (time.perf_counter() - began)


async def stored(admin: NodeAdmin) -> int:
    """How many messages the producers have stored; 0 before the first."""
    with suppress(NodeRefused):
        return int((await admin.newest_messages("flow", limit=1))["end_sequence"])
    return 0


def searches(folder: Path, count: int) -> None:
    """Store `count` messages of each kind, run every search, and print the table."""
    system = System(folder / "system", groups=1, broker_flags=SEGMENTS)
    try:
        system.start()
        address, admin_address = (f"127.0.0.1:{port}" for port in system.ports["g1"])
        began = time.perf_counter()
        asyncio.run(fill(address, count))
        print(f"{count:,} messages of each kind stored in {time.perf_counter() - began:.0f} s", flush=True)
        admin = NodeAdmin(admin_address, timeout_seconds=20)
        pid = system.brokers["g1"].pid
        # Starts the process.
        asyncio.run(search(admin, "plain", "sequence == 0 && size < 0"))
        print("| search | filter | messages/s | by processor time | first hit | steps | longest step |")
        print("|---|---|---|---|---|---|---|")
        for what, subject, text in SEARCHES:
            wanted = text.format(near=count - 90_000) if "{near}" in text else text
            used = cpu_seconds(pid)
            found = asyncio.run(search(admin, subject, wanted))
            used = max(cpu_seconds(pid) - used, 0.01)
            first = f"{found['first']:.2f} s" if found["first"] else "-"
            print(
                f"| {what} | `{wanted}` | {found['rate']:,.0f} | {found['scanned'] / used:,.0f} | {first} "
                f"| {found['steps']} | {found['longest']:.2f} s |",
                flush=True,
            )
    finally:
        system.stop()
        shutil.rmtree(folder / "system")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000, help="stored in all; 0: no searches")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.messages:
            searches(Path(name), options.messages // 2)
        print(
            "| search meanwhile | producers alone | beside it | lost (half of the windows) | windows |\n|---|---|---|---|---|"
        )
        for text in ("body.amount > 100000.0", 'body.customer.name == "Anna Berg"'):
            print(producers(Path(name), options.repeats, text), flush=True)


if __name__ == "__main__":
    main()
