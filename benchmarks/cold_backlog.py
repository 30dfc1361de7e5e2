"""`python -m benchmarks.cold_backlog`: what a consumer of a cold backlog costs other clients of its broker; prints a table.

A subject has a backlog that is not in the page cache. Bursts of 10 messages go to ten other subjects, and three consumer
groups of each pull and ack them. Phases by turns: without the reader; with one of a backlog in the page cache; with one of
a backlog that was dropped from it. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.load import bench
from benchmarks.population_load import Load, ensure_groups, subject_names
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System

MESSAGES = 10_000_000
RATE = 2_000
ROUNDS = 3
ALONE_SECONDS = 20.0
WARM_UP_SECONDS = 5.0
SUBJECT = "backlog"
PHASES = ("no reader", "reader, page cache", "reader, cold")


def drop_page_cache(folder: Path) -> None:
    """Write what is dirty and drop the pages of all files of a folder from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fdatasync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


async def read_backlog(system: System, group: str, messages: int) -> None:
    """Read all of it, in a process of its own."""
    command = [sys.executable, "-m", "qmq.cli", "bench", "consume", SUBJECT, "--count", str(messages), "--group", group,
               "--connections", "1", "--json", "--meta", system.meta_url]  # fmt: skip
    reader = await asyncio.create_subprocess_exec(*command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    if await reader.wait():
        raise SystemExit("the reader failed")


async def measure(system: System, messages: int, rate: float, rounds: int) -> dict[str, list[Sequence[float]]]:
    """For each phase and round: p50 and p99 of sends, p50 and p99 of pulls, in milliseconds, and seconds."""
    subjects = subject_names(10)
    port, delay_port = system.ports["g1"][0], system.ports["d1"][0]
    await ensure_groups(port, subjects)
    found: dict[str, list[Sequence[float]]] = {phase: [] for phase in PHASES}
    clock = asyncio.get_running_loop().time
    async with Load(port, delay_port, subjects, rate) as load:
        await asyncio.sleep(WARM_UP_SECONDS)
        for number in range(rounds):
            for phase in PHASES:
                if phase == PHASES[2]:
                    await asyncio.to_thread(drop_page_cache, system.folder / "g1")
                    await asyncio.sleep(WARM_UP_SECONDS)
                load.clear_latencies()
                began = clock()
                if phase == PHASES[0]:
                    await asyncio.sleep(ALONE_SECONDS)
                else:
                    await read_backlog(system, f"reader-{phase[-4:]}-{number}", messages)
                found[phase].append((*load.send_percentiles(), *load.pull_percentiles(), clock() - began))
        if load.failures:
            raise SystemExit(f"{load.failures} requests of other clients failed")
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="of the backlog")
    parser.add_argument("--rate", type=float, default=RATE, help="messages per second of the other clients")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tree", type=Path, default=PROJECT, help="source tree whose nodes are measured")
    parser.add_argument("--folder", help="where to write; default: a temporary folder")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="qmq-cold-", dir=arguments.folder))
    system = System(folder, groups=1, broker_flags=("--segment-bytes", str(256 << 20)))
    system.add_delay("d1")
    try:
        for process in (system.meta, system.brokers["g1"], system.delays["d1"]):
            process.run_from(arguments.tree.resolve())
            process.start()
        bench(system, "produce", SUBJECT, "--count", str(arguments.messages))
        found = asyncio.run(measure(system, arguments.messages, arguments.rate, arguments.rounds))
    finally:
        system.close()
        shutil.rmtree(folder)
    print("| | send p50 ms | send p99 ms | pull p50 ms | pull p99 ms | seconds |\n|---|---|---|---|---|---|")
    for phase, rows in found.items():
        columns = (sorted(column) for column in zip(*rows, strict=True))
        cells = (f"{statistics.median(column):.1f} ({column[0]:.1f} to {column[-1]:.1f})" for column in columns)
        print(f"| {phase} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
