"""`python -m benchmarks.reading`: what a reader in bulk costs a broker's producers, and what it gets; prints a table.

A metaserver and one broker run as processes on free ports, flush=always. Producers send at full rate, by turns without and with
a reader (a process of its own, as an executor is) that streams every index and every history of the broker, over and over, as
fast as it is let. Producers, broker, reader and kernel share the machine. Nothing here asserts: figures go to
docs/performance.md by hand, with the date.
"""

import argparse
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

from benchmarks.load import bench
from qmq.protocol.bulk_read import INDEX_ENTRY_BYTES, PROGRESS_ENTRY_BYTES
from spark_analytics.source.node_reader import NodeReader, find_nodes
from tests.support.servers.system import System

MIB = 1 << 20
RATES_MIB = (16, 32, 64, 128, 0)
"""Values of `read_bytes_per_second` tried, in MiB; 0: no limit."""
LOADS = (
    # size, batch, messages, connections
    (128, 500, 2_000_000, 2),
    (128, 30, 1_200_000, 2),
)
ROWS = 3_000_000
"""Index rows stored before: 96 MB to stream."""
ACKED = 300_000
"""Of them pulled and acked by 50, so that there is a history."""
REPEATS = 5
WAIT_SECONDS = 30.0
READS = "reads"


def address_of(system: System) -> str:
    """Where the one broker is."""
    return find_nodes(system.meta_url).nodes[0].address


def cpu_seconds(system: System) -> float:
    """What the broker's process has used of the processors, all threads, kernel included."""
    fields = Path(f"/proc/{system.brokers['g1'].pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def produce(system: System, subject: str, flags: list[str], count: int) -> tuple[float, float]:
    """One run of producers: messages a second, and the broker's processor time in seconds a million messages."""
    before = cpu_seconds(system)
    rate: float = bench(system, "produce", subject, *flags)["messages_per_s"]
    return rate, (cpu_seconds(system) - before) * 1e6 / count


def stream(address: str, stop_file: Path) -> dict[str, float]:
    """Read everything over and over until the file is there: rows and bytes a second."""
    index_rows = progress_rows = 0
    began = time.perf_counter()
    with NodeReader(address) as reader:
        while not stop_file.exists():
            for subject in reader.ranges():
                for page in reader.index(subject.name, subject.begin, subject.end):
                    if not index_rows:
                        print(READS, flush=True)
                    index_rows += len(page.data) // INDEX_ENTRY_BYTES
                    if stop_file.exists():
                        break
                for group in subject.groups:
                    for page in reader.progress(subject.name, group.name, group.begin, group.end):
                        progress_rows += len(page.data) // PROGRESS_ENTRY_BYTES
    seconds = time.perf_counter() - began
    size = index_rows * INDEX_ENTRY_BYTES + progress_rows * PROGRESS_ENTRY_BYTES
    return {
        "index_rows_per_s": index_rows / seconds,
        "progress_rows_per_s": progress_rows / seconds,
        "mib_per_s": size / seconds / MIB,
    }


def with_reader(
    system: System, address: str, folder: Path, subject: str, flags: list[str], count: int
) -> tuple[tuple[float, float], dict[str, float]]:
    """A run of producers beside a reader: what both got."""
    stop_file = folder / "stop"
    command = [sys.executable, "-m", "benchmarks.reading", "--stream", address, "--stop-file", str(stop_file)]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert reader.stdout is not None
        reader.stdout.readline()  # it reads
        produced = produce(system, subject, flags, count)
        stop_file.touch()
        out, _ = reader.communicate(timeout=WAIT_SECONDS)
    finally:
        reader.kill()
        reader.wait()
        stop_file.unlink(missing_ok=True)
    got: dict[str, float] = json.loads(out)
    return produced, got


def measure(folder: Path, rate_mib: int, repeats: int, scale: float) -> list[str]:
    """Table rows of one value of the rate."""
    flags = ("--segment-bytes", str(1 << 30), "--read-bytes-per-second", str(rate_mib * MIB))
    system = System(folder, groups=1, broker_flags=flags)
    rows = []
    try:
        system.start()
        address = address_of(system)
        bench(system, "produce", "stored", "--count", str(int(ROWS * scale)), "--size", "128", "--batch", "500")
        pulls = ["--count", str(int(ACKED * scale)), "--size", "128", "--batch", "50", "--group", "g"]
        bench(system, "consume", "stored", *pulls)
        for size, batch, count, connections in LOADS:
            load = ["--count", str(int(count * scale)), "--size", str(size), "--batch", str(batch)]
            load += ["--connections", str(connections)]
            alone: list[tuple[float, float]] = []
            beside: list[tuple[float, float]] = []
            reads: list[dict[str, float]] = []
            messages = int(count * scale)
            for i in range(repeats):
                alone.append(produce(system, f"alone{batch}-{i}", load, messages))
                produced, got = with_reader(system, address, folder, f"beside{batch}-{i}", load, messages)
                beside.append(produced)
                reads.append(got)
            middle = {key: statistics.median(got[key] for got in reads) for key in reads[0]}
            # Neighbours in time are compared: the machine's own mood changes from minute to minute.
            lost = sorted(100 * (1 - b[0] / a[0]) for a, b in zip(alone, beside, strict=True))
            busier = statistics.median(b[1] / a[1] for a, b in zip(alone, beside, strict=True))
            quartiles = statistics.quantiles(lost, n=4) if len(lost) > 1 else lost * 3
            rows.append(
                f"| {rate_mib or 'none'} | {size} B, batches of {batch} | {statistics.median(a for a, _ in alone):,.0f}"
                f" | {statistics.median(b for b, _ in beside):,.0f} | {quartiles[1]:.1f} % ({quartiles[0]:.0f} to"
                f" {quartiles[2]:.0f}) | {statistics.median(c for _, c in alone):.2f}"
                f" | {100 * (busier - 1):.1f} % | {middle['index_rows_per_s']:,.0f} | {middle['mib_per_s']:.0f} |"
            )
    finally:
        system.stop()
    return rows


def alone(folder: Path, scale: float) -> str:
    """What a reader gets from a broker that has nothing else to do, and no limit."""
    system = System(folder, groups=1, broker_flags=("--segment-bytes", str(1 << 30), "--read-bytes-per-second", "0"))
    try:
        system.start()
        bench(system, "produce", "stored", "--count", str(int(ROWS * scale)), "--size", "128", "--batch", "500")
        with NodeReader(address_of(system)) as reader:
            began, count = time.perf_counter(), 0
            for page in reader.index("stored", 0, int(ROWS * scale)):
                count += len(page.data) // INDEX_ENTRY_BYTES
            seconds = time.perf_counter() - began
        return f"| none | no producers | | | | | | {count / seconds:,.0f} | {count * INDEX_ENTRY_BYTES / MIB / seconds:.0f} |"
    finally:
        system.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.reading", description=__doc__)
    parser.add_argument("--folder", help="where to write; default: a temporary folder")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual number of messages")
    parser.add_argument("--rates", type=int, nargs="*", default=RATES_MIB, help="MiB a second; 0: no limit")
    parser.add_argument("--stream", help=argparse.SUPPRESS)
    parser.add_argument("--stop-file", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stream:
        print(json.dumps(stream(arguments.stream, arguments.stop_file)))
        return
    folder = Path(tempfile.mkdtemp(prefix="qmq-bench-", dir=arguments.folder))
    try:
        print(
            f"Machine: {os.cpu_count()} cores, {platform.processor() or platform.machine()}, Python {platform.python_version()}\n"
        )
        print(
            "| limit, MiB/s | load | sends/s alone | sends/s beside a reader | lost, median (quartiles) | broker's processor"
            " seconds a million sends, alone | more beside a reader | index rows/s read | MiB/s read |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
        for rate in arguments.rates:
            (folder / str(rate)).mkdir()
            for line in measure(folder / str(rate), rate, arguments.repeats, arguments.scale):
                print(line, flush=True)
            shutil.rmtree(folder / str(rate))
        (folder / "alone").mkdir()
        print(alone(folder / "alone", arguments.scale))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
