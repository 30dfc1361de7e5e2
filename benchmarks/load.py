"""`make bench`: one broker on this machine under load, beside the disk's own rates; prints a table.

A metaserver and one broker run as processes on free ports, flush=always. The load comes from `qmq bench`, which encodes
ahead; the real Producer is measured apart. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import disk
from qmq import Limits, Producer
from tests.support.servers.system import System

SENDS = (
    # size, batch, messages, connections
    (128, 500, 1_500_000, 2),
    (128, 30, 900_000, 2),
    (128, 1, 60_000, 4),
    (1024, 500, 400_000, 2),
    (1024, 30, 300_000, 2),
    (1024, 1, 60_000, 4),
)
REPEATS = 3


def bench(system: System, kind: str, subject: str, *flags: str) -> dict[str, Any]:
    """One run of `qmq bench`."""
    done = subprocess.run(
        [sys.executable, "-m", "qmq.cli", "bench", kind, subject, "--json", "--meta", system.meta_url, *flags],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode != 0:
        raise SystemExit(f"bench {kind} failed: {done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def row(name: str, results: list[dict[str, Any]], note: str = "") -> str:
    """A table row: medians, and the spread of the rate."""
    rates = sorted(r["messages_per_s"] for r in results)
    middle = {key: statistics.median(r[key] for r in results) for key in ("mb_per_s", "p50_ms", "p99_ms", "p999_ms")}
    return (
        f"| {name} | {statistics.median(rates):,.0f} | {rates[0]:,.0f} to {rates[-1]:,.0f} | {middle['mb_per_s']:.0f}"
        f" | {middle['p50_ms']:.1f} | {middle['p99_ms']:.1f} | {middle['p999_ms']:.1f} | {note} |"
    )


def sends(system: System, rates: disk.DiskRates, repeats: int, scale: float) -> list[str]:
    """Acked, synced sends."""
    rows = []
    for size, batch, count, connections in SENDS:
        flags = ["--size", str(size), "--batch", str(batch), "--connections", str(connections)]
        results = [
            bench(system, "produce", f"s{size}-{batch}-{i}", "--count", str(int(count * scale)), *flags)
            for i in range(repeats)
        ]
        share = statistics.median(r["mb_per_s"] for r in results) / rates.sequential_mb_per_s
        window = results[0]["window_frames"] * batch * connections
        rows.append(row(f"send {size} B, batches of {batch}", results, f"{share:.2f} of the disk; window {window:,}"))
    for size, batch in ((128, 30), (1024, 30)):
        full = bench(system, "produce", f"h{size}", "--count", "200000", "--size", str(size), "--batch", str(batch))
        half = str(full["messages_per_s"] / 2)
        results = [
            bench(
                system,
                "produce",
                f"h{size}-{i}",
                "--count",
                "300000",
                "--size",
                str(size),
                "--batch",
                str(batch),
                "--rate",
                half,
            )
            for i in range(repeats)
        ]
        rows.append(row(f"send {size} B, batches of {batch}, at half load", results))
    return rows


def pulls(system: System, repeats: int, scale: float) -> list[str]:
    """Pulls with acks from a backlog."""
    rows = []
    for size, batch in ((128, 500), (128, 50), (1024, 500)):
        count = int(1_000_000 * scale) if size == 128 else int(300_000 * scale)
        subject = f"p{size}"
        if batch == 500:
            bench(system, "produce", subject, "--count", str(count), "--size", str(size), "--batch", "500")
        results = [
            bench(system, "consume", subject, "--count", str(count), "--size", str(size), "--batch", str(batch),
                  "--group", f"g{batch}-{i}", "--connections", "4")
            for i in range(repeats)
        ]  # fmt: skip
        rows.append(row(f"pull and ack {size} B, {batch} a pull", results, "4 consumers"))
    return rows


async def producer_rate(meta_url: str, count: int) -> float:
    """Messages a second of the real Producer: objects, encoding, futures and all."""
    limits = Limits(queue_messages=50_000)
    async with Producer(meta_url, app="bench", limits=limits) as producer:
        began = time.perf_counter()
        done = 0
        while done < count:
            futures = [producer.send_soon("producer", {"data": "x" * 128}) for _ in range(10_000)]
            await asyncio.gather(*futures)
            done += len(futures)
        return done / (time.perf_counter() - began)


def restart(folder: Path) -> list[str]:
    """Restart with a million messages: after a graceful stop, after kill -9, and with every derived file made again."""
    system = System(folder, groups=1)
    broker = system.brokers["g1"]
    rows = []
    try:
        system.start()
        bench(system, "produce", "million", "--count", "1000000", "--size", "128", "--batch", "500")
        for name in ("graceful stop", "kill -9", "kill -9, derived files lost"):
            if name == "graceful stop":
                broker.stop()
            else:
                broker.kill()
            if "lost" in name:
                shutil.rmtree(folder / "g1" / "checkpoint")
            began = time.perf_counter()
            broker.start()
            rows.append(f"| restart, 1 million messages, after {name} | {time.perf_counter() - began:.2f} s |")
    finally:
        system.stop()
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.load", description=__doc__)
    parser.add_argument("--folder", help="where to write; default: a temporary folder")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual number of messages")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="qmq-bench-", dir=arguments.folder))
    try:
        rates = disk.measure(str(folder))
        print(
            f"Machine: {os.cpu_count()} cores, {platform.processor() or platform.machine()}, Python {platform.python_version()}\n"
        )
        print(
            f"Disk: {rates.sequential_mb_per_s:.0f} MB/s sequential; write + fdatasync of 4 KB / 64 KB / 1 MB:"
            f" {rates.synced_4k_ms:.2f} / {rates.synced_64k_ms:.2f} / {rates.synced_1m_ms:.2f} ms\n"
        )
        system = System(folder / "load", groups=1, broker_flags=("--segment-bytes", str(1 << 30)))
        (folder / "load").mkdir()
        print(
            "| what | messages/s, median | spread | MB/s | p50 ms | p99 ms | p99.9 ms | |\n|---|---|---|---|---|---|---|---|"
        )
        try:
            system.start()
            for line in sends(system, rates, arguments.repeats, arguments.scale):
                print(line, flush=True)
            for line in pulls(system, arguments.repeats, arguments.scale):
                print(line, flush=True)
            rate = asyncio.run(producer_rate(system.meta_url, 100_000))
            print(f"| the real Producer, 128 B | {rate:,.0f} | | | | | | one process |", flush=True)
        finally:
            system.stop()
        print("\n| what | to serving |\n|---|---|")
        (folder / "restart").mkdir()
        for line in restart(folder / "restart"):
            print(line, flush=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
