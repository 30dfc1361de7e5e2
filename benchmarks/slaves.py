"""`python -m benchmarks.slaves --slaves 1`: a broker group with slaves beside one without; prints a table.

As `benchmarks.compare`, with one source tree: each round measures one case on both groups, in turns which goes first. All members
and the load share this machine and its disk, so the rates say what copies cost here; processor time says what they cost anywhere.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.compare import BROKER, CASES, Case, Version
from benchmarks.population_report import process_usage
from tests.support.processes import PROJECT
from tests.support.waiting import eventually

ROUNDS = 5
CASES_USUAL = ("send-500", "send-30", "send-1k-500", "send-1k-30", "send-1", "pull-500")


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


def wait_in_sync(version: Version) -> None:
    """Wait until all slaves are in sync. The first node that registers is the master, which is to be g1-a: it was started first."""
    members = f"in sync: {', '.join(version.system.members(BROKER))}"
    eventually(lambda: members in version.system.meta.log(), what="the slaves are in sync")


def main() -> int:
    """Measure the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slaves", type=int, choices=(1, 2), default=1)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of each case")
    parser.add_argument("--cases", nargs="+", default=list(CASES_USUAL), choices=list(CASES))
    arguments = parser.parse_args()
    print(
        "| what | alone, messages/s | with slaves | ratio | alone, us of the master per message | with slaves | us of a slave |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in arguments.cases:
        folder = Path(tempfile.mkdtemp(prefix="qmq-compare-"))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            alone = stack.enter_context(closing(Version(folder / "alone", PROJECT)))
            replicated = stack.enter_context(closing(Version(folder / "slaves", PROJECT, 1 + arguments.slaves)))
            wait_in_sync(replicated)
            print(row(CASES[name], alone, replicated, arguments.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
