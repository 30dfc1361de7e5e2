"""`python -m benchmarks.slaves --slaves 1`: a broker group with slaves beside one without; prints two tables.

As `benchmarks.compare`, with one source tree: each round measures one case on both groups, in turns which goes first. All
members and the load share this machine and its disk, so the rates say what copies cost here; processor time says what they
cost anywhere.

The second table is measured while each group in turn receives half of the rate that the one with slaves can take: the time of
answers, and the processor time for each message at the same rate. At full load the groups take different rates, and a commit has
more messages the longer it takes.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.compare import BROKER, CASES, Case, Version
from benchmarks.load import bench
from benchmarks.page_cache import fill_page_cache
from benchmarks.population_report import process_usage
from tests.support.servers.processes import PROJECT
from tests.support.waiting import eventually

ROUNDS = 5
CASES_USUAL = ("send-500", "send-30", "send-1k-500", "send-1k-30", "send-1", "pull-500")
HALF_LOAD_USUAL = ("send-500", "send-30", "send-1k-500", "send-1k-30")
BURST_BYTES = 8 << 30
"""Written before the highest rate is measured: a virtual disk may be faster at first."""
OVERHEAD_BYTES = 64
"""Of a message in the log, about."""
PEAK_RUNS = 4
"""The highest rate is that of so many times the messages of a case."""
REST_SECONDS = 20.0
"""After that, the limit of a virtual disk has to recover."""
HALF_LOAD_SECONDS = 5.0
"""How long each round at half load takes."""
RATES_HEAD = (
    "| what | alone, messages/s | with slaves | ratio | alone, us of the master per message | with slaves | us of a slave |\n"
    "|---|---|---|---|---|---|---|"
)
HALF_LOAD_HEAD = (
    "| what, at half load | messages/s | alone, p50 ms | p99 ms | with slaves, p50 ms | p99 ms"
    " | alone, us per message | master with slaves | difference | a slave | of alone |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


def measure(version: Version, case: Case) -> tuple[float, float, float]:
    """Messages per second, and processor microseconds per message of the master and of a slave."""
    before = [process_usage(slave.pid).cpu_seconds for slave in version.slaves]
    rate, master = version.measure(case)
    used = [process_usage(slave.pid).cpu_seconds - start for slave, start in zip(version.slaves, before, strict=True)]
    return rate, master, statistics.mean(used) * 1e6 / case.messages if used else 0.0


def row(case: Case, folder: Path, alone: Version, replicated: Version, rounds: int) -> str:
    """A row of the first table."""
    versions = (alone, replicated)
    fill_page_cache(folder)
    if case.kind == "consume":
        for version in versions:
            version.fill(case)
    for version in versions:
        measure(version, case)  # the first run of a process is slower
    found: list[tuple[tuple[float, float, float], tuple[float, float, float]]] = []
    for number in range(rounds):
        if number % 2:
            second = measure(replicated, case)
            found.append((measure(alone, case), second))
        else:
            first = measure(alone, case)
            found.append((first, measure(replicated, case)))
    ratios = [after[0] / before[0] for before, after in found]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    rates = [statistics.median(pair[i][0] for pair in found) for i in (0, 1)]
    costs = [statistics.median(pair[i][1] for pair in found) for i in (0, 1)]
    slave = statistics.median(pair[1][2] for pair in found)
    cells = (
        f"{rates[0]:,.0f}",
        f"{rates[1]:,.0f}",
        f"{middle:.2f} ({low:.2f} to {high:.2f})",
        f"{costs[0]:.2f}",
        f"{costs[1]:.2f}",
    )
    return f"| {case.name} | {' | '.join(cells)} | {slave:.2f} |"


@dataclass(frozen=True, slots=True)
class AtHalfLoad:
    """What a broker needs at a given rate: milliseconds to answers, and processor microseconds per message."""

    p50_ms: float
    p99_ms: float
    microseconds: float
    slave_microseconds: float
    """Of each slave; 0.0 without."""


def half_load(case: Case, folder: Path, replicated: Version) -> float:
    """Return half of the messages per second that a group with slaves can take for long."""
    copies = 1 + len(replicated.slaves)
    measure(replicated, replace(case, messages=BURST_BYTES // (copies * (case.size + OVERHEAD_BYTES))))
    rate = measure(replicated, replace(case, messages=case.messages * PEAK_RUNS))[0]
    fill_page_cache(folder)
    time.sleep(REST_SECONDS)
    return rate / 2


def alternating(steps: dict[str, Callable[[], AtHalfLoad]], rounds: int) -> dict[str, AtHalfLoad]:
    """Measure each step in each round, in turns which goes first; medians."""
    found: dict[str, list[AtHalfLoad]] = {name: [] for name in steps}
    order = deque(steps)
    for _ in range(rounds):
        for name in order:
            found[name].append(steps[name]())
        order.rotate()
    return {
        name: AtHalfLoad(*(statistics.median(part) for part in zip(*map(astuple, results), strict=True)))
        for name, results in found.items()
    }


def half_load_row(case: Case, folder: Path, alone: Version, replicated: Version, rounds: int) -> str:
    """A row of the second table."""
    rate = half_load(case, folder, replicated)
    steps: dict[str, Callable[[], AtHalfLoad]] = {
        "alone": partial(at_rate, alone, case, rate),
        "slaves": partial(at_rate, replicated, case, rate),
    }
    single, master = alternating(steps, rounds).values()
    times = [f"{part:.1f}" for one in (single, master) for part in (one.p50_ms, one.p99_ms)]
    costs = [
        f"{single.microseconds:.2f}",
        f"{master.microseconds:.2f}",
        f"{100 * (master.microseconds / single.microseconds - 1):+.0f} %",
        f"{master.slave_microseconds:.2f}",
        f"{master.slave_microseconds / single.microseconds:.2f}",
    ]
    return f"| {case.name} | {rate:,.0f} | {' | '.join([*times, *costs])} |"


def at_rate(version: Version, case: Case, rate: float) -> AtHalfLoad:
    """Send so many messages a second; times are from when a frame was to be sent to its answer."""
    flags = {"count": int(rate * HALF_LOAD_SECONDS), "size": case.size, "batch": case.batch, "rate": rate}
    flags["connections"] = case.connections
    nodes = [version.processes["broker"].pid, *(slave.pid for slave in version.slaves)]
    before = [process_usage(node).cpu_seconds for node in nodes]
    result = bench(
        version.system, case.kind, f"{case.kind}-{case.size}", *(f"--{name}={value}" for name, value in flags.items())
    )
    used = [process_usage(node).cpu_seconds - start for node, start in zip(nodes, before, strict=True)]
    master, *slaves = (seconds * 1e6 / flags["count"] for seconds in used)
    return AtHalfLoad(result["p50_ms"], result["p99_ms"], master, statistics.mean(slaves) if slaves else 0.0)


def wait_in_sync(version: Version) -> None:
    """Wait until all slaves are in sync. The first node that registers is the master, which is to be g1-a: it was started first."""
    members = f"in sync: {', '.join(version.system.members(BROKER))}"
    eventually(lambda: members in version.system.meta.log(), what="the slaves are in sync")


def table(head: str, names: list[str], a_row: Callable[..., str], copies: tuple[int, ...]) -> None:
    """Print a table of cases, with new processes for each: groups of so many members."""
    print(head, flush=True)
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix="qmq-compare-"))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            versions = [
                stack.enter_context(closing(Version(folder / f"group-{number}", PROJECT, members)))
                for number, members in enumerate(copies)
            ]
            wait_in_sync(versions[-1])
            print(a_row(CASES[name], folder, *versions), flush=True)


def main() -> int:
    """Measure the cases and print the tables."""
    sends = [name for name, case in CASES.items() if case.kind == "produce"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slaves", type=int, choices=(1, 2), default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of each case")
    parser.add_argument("--cases", nargs="*", default=list(CASES_USUAL), choices=list(CASES))
    parser.add_argument(
        "--half-load", nargs="*", default=list(HALF_LOAD_USUAL), choices=sends, help="cases at half load"
    )
    arguments = parser.parse_args()
    rounds = arguments.rounds
    members = 1 + arguments.slaves
    table(RATES_HEAD, arguments.cases, partial(row, rounds=rounds), (1, members))
    table(f"\n{HALF_LOAD_HEAD}", arguments.half_load, partial(half_load_row, rounds=rounds), (1, members))
    return 0


if __name__ == "__main__":
    sys.exit(main())
