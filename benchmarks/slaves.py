"""`python -m benchmarks.slaves --slaves 1`: a broker group with slaves beside one without; prints two tables.

As `benchmarks.compare`, with one source tree: each round measures one case on both groups, in turns which goes first. All members
and the load share this machine and its disk, so the rates say what copies cost here; processor time says what they cost anywhere.
The second table has the time of answers while both groups receive half of the rate that the one with slaves can take.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

from benchmarks.compare import BROKER, CASES, Case, Version
from benchmarks.load import bench
from benchmarks.population_report import process_usage
from tests.support.processes import PROJECT
from tests.support.waiting import eventually

ROUNDS = 5
CASES_USUAL = ("send-500", "send-30", "send-1k-500", "send-1k-30", "send-1", "pull-500")
ANSWERS_USUAL = ("send-500", "send-30", "send-1k-30")
HALF_LOAD_SECONDS = 5.0
"""How long each round at half load takes."""
RATES_HEAD = (
    "| what | alone, messages/s | with slaves | ratio | alone, us of the master per message | with slaves | us of a slave |\n"
    "|---|---|---|---|---|---|---|"
)
ANSWERS_HEAD = (
    "| what, at half load | messages/s | alone, p50 ms | p99 ms | with slaves, p50 ms | p99 ms |\n"
    "|---|---|---|---|---|---|"
)


def measure(version: Version, case: Case) -> tuple[float, float, float]:
    """Messages per second, and processor microseconds per message of the master and of a slave."""
    before = [process_usage(slave.pid).cpu_seconds for slave in version.slaves]
    rate, master = version.measure(case)
    used = [process_usage(slave.pid).cpu_seconds - start for slave, start in zip(version.slaves, before, strict=True)]
    return rate, master, statistics.mean(used) * 1e6 / case.messages if used else 0.0


def row(case: Case, alone: Version, replicated: Version, rounds: int) -> str:
    """A table row."""
    versions = (alone, replicated)
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


def answer_row(case: Case, alone: Version, replicated: Version, rounds: int) -> str:
    """A row of the table of answers."""
    measure(replicated, case)  # the first run of a process is slower
    half = statistics.median(measure(replicated, case)[0] for _ in range(rounds)) / 2
    found: list[list[dict[str, float]]] = []
    for number in range(rounds):
        pair = (alone, replicated) if number % 2 else (replicated, alone)
        results = [answers(version, case, half) for version in pair]
        found.append(results if number % 2 else results[::-1])
    cells = [f"{half:,.0f}"]
    for i in (0, 1):
        cells += [f"{statistics.median(pair[i][part] for pair in found):.1f}" for part in ("p50_ms", "p99_ms")]
    return f"| {case.name} | {' | '.join(cells)} |"


def answers(version: Version, case: Case, rate: float) -> dict[str, float]:
    """Percentiles of the time from when a frame was to be sent to its answer, while so many messages a second are sent."""
    flags = {"count": int(rate * HALF_LOAD_SECONDS), "size": case.size, "batch": case.batch, "rate": rate}
    flags["connections"] = case.connections
    return bench(
        version.system, case.kind, f"{case.kind}-{case.size}", *(f"--{name}={value}" for name, value in flags.items())
    )


def wait_in_sync(version: Version) -> None:
    """Wait until all slaves are in sync. The first node that registers is the master, which is to be g1-a: it was started first."""
    members = f"in sync: {', '.join(version.system.members(BROKER))}"
    eventually(lambda: members in version.system.meta.log(), what="the slaves are in sync")


def table(head: str, names: list[str], slaves: int, a_row: Callable[[Case, Version, Version], str]) -> None:
    """Print a table of cases, with new processes for each."""
    print(head, flush=True)
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix="qmq-compare-"))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            alone = stack.enter_context(closing(Version(folder / "alone", PROJECT)))
            replicated = stack.enter_context(closing(Version(folder / "slaves", PROJECT, 1 + slaves)))
            wait_in_sync(replicated)
            print(a_row(CASES[name], alone, replicated), flush=True)


def main() -> int:
    """Measure the cases and print the tables."""
    sends = [name for name, case in CASES.items() if case.kind == "produce"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slaves", type=int, choices=(1, 2), default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of each case")
    parser.add_argument("--cases", nargs="*", default=list(CASES_USUAL), choices=list(CASES))
    parser.add_argument("--answers", nargs="*", default=list(ANSWERS_USUAL), choices=sends, help="cases at half load")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    table(RATES_HEAD, arguments.cases, arguments.slaves, partial(row, rounds=rounds))
    table(f"\n{ANSWERS_HEAD}", arguments.answers, arguments.slaves, partial(answer_row, rounds=rounds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
