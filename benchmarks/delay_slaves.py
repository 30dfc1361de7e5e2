"""`python -m benchmarks.delay_slaves`: delay groups with slaves beside one without; prints tables, and checks limits.

    python -m benchmarks.delay_slaves --tree ../before

Delayed sends at full load, as `benchmarks.slaves`; how far a slave is behind meanwhile; how fast overdue messages are
delivered when brokers are back; how late messages come at 2,000 a second. With `--tree`, nodes of another source tree
are measured too, with one member. All groups are measured in each round, in turns which goes first. Ends with an error
that names what is above its limit.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benchmarks import disk
from benchmarks.compare import DELAY, Case, Version, start_in_order
from benchmarks.delay import OVERDUE, Lateness, drain, lateness
from benchmarks.slaves import RATES_HEAD, Rates, above, finish, full_load, in_turns, medians, on_new_groups, ratio
from qmq.cli.bench import percentile
from tests.support.servers.processes import PROJECT
from tests.support.servers.system import System

ROUNDS = 5
CASES = ("delay-500", "delay-30", "delay-far-500", "delay-far-30")
ONLY = "1"
BEFORE = "1, before"
"""The only member of the other source tree."""
RATE_MIN = {"2": 0.60, "3": 0.45}
"""Of the rate of an only member, by the number of members."""
RATE_MIN_OF_DISK = {"2": 0.45, "3": 0.30}
"""The same if the disk is the limit."""
DISK_SHARE = 0.7
"""The disk is the limit if all members together write so much of what it takes, or more."""
BEFORE_MIN = 0.97
"""Of the version before."""
SLAVE_MAX = 1.0
"""Processor time of a slave, of that of an only member."""
BEHIND_MAX_SECONDS = 2.0
LATENESS_RATE, LATENESS_P99_MAX_MS = 2_000, 25.0
LOOK_SECONDS = 1.0
"""Interval between two reads of /stats of all nodes. A node may answer with a page that is up to 0.8 s old."""
SETTLE_SECONDS = 8.0


class Behind:
    """How far what a slave has applied is behind what its master has committed."""

    def __init__(self) -> None:
        self._committed: list[tuple[float, int]] = []
        """Times, and the high watermark at that time."""
        self.seconds = 0.0
        """The longest so far, and at most the time between two looks more than that."""

    def saw(self, now: float, high_watermark: int, applied_end: int) -> None:
        """Add what the master and the slave report at a time."""
        self._committed.append((now, high_watermark))
        applied = [at for at, end in self._committed if end <= applied_end]
        since = applied[-1] if applied else self._committed[0][0]
        self._committed = [(at, end) for at, end in self._committed if at >= since]
        self.seconds = max(self.seconds, now - since)

    @contextmanager
    def watched(self, system: System, slave: str) -> Iterator[None]:
        """Watch a slave inside the block."""
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(LOOK_SECONDS):
                now = time.monotonic()
                committed, applied = (system.admin(name, "/stats")["replication"] for name in (DELAY, slave))
                self.saw(now, committed["high_watermark"], applied["applied_end"])

        thread = threading.Thread(target=watch)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


def delay_group(folder: Path, *, tree: Path, copies: int) -> Version:
    """Start a broker and a delay group of so many members."""
    return Version(folder, tree, delay_copies=copies)


def sends_above(rates: Rates, name: str, disk_rate: float) -> list[str]:
    """Return which figures of delayed sends are beyond their limits; `disk_rate` in bytes per second."""
    alone, one, what = medians(rates.runs[ONLY]), medians(rates.runs[name]), f"{rates.case.name}, {name} members"
    if name == BEFORE:
        return below(f"{rates.case.name}: rate of the version before", rates.rate_ratio(ONLY, BEFORE)[0], BEFORE_MIN)
    minimum = (RATE_MIN_OF_DISK if one.written >= DISK_SHARE * disk_rate else RATE_MIN)[name]
    return [
        *below(f"{what}: rate of alone", rates.rate_ratio(name, ONLY)[0], minimum),
        *above(f"{what}: a slave of alone", one.slave / alone.master, SLAVE_MAX),
    ]


def below(what: str, figure: float, limit: float) -> list[str]:
    """Return what is below its limit, as a sentence."""
    return [f"{what}: {figure:.2f}, at least {limit:g} is required"] if figure < limit else []


def sends(
    cases: list[str], groups: Mapping[str, Callable[[Path], Version]], rounds: int, disk_rate: float
) -> list[str]:
    """Measure delayed sends and print them; what is beyond its limit."""
    problems: list[str] = []

    def measure(case: Case, folder: Path, versions: Mapping[str, Version]) -> None:
        behind = {name: Behind() for name, one in versions.items() if one.slaves(case)}
        with ExitStack() as stack:
            for name, one in behind.items():
                stack.enter_context(one.watched(versions[name].system, f"{DELAY}-b"))
            rates = full_load(case, folder, versions, rounds)
        print(rates.rows(), flush=True)
        for name in list(versions)[1:]:
            problems.extend(sends_above(rates, name, disk_rate))
        for name, one in behind.items():
            print(f"| {case.name}: applied behind, at most | {name} | {one.seconds:.1f} s | | | | | | |", flush=True)
            problems.extend(above(f"{case.name}, {name} members: seconds behind", one.seconds, BEHIND_MAX_SECONDS))

    print(RATES_HEAD, flush=True)
    on_new_groups(cases, groups, measure)
    return problems


def drains(folder: Path, groups: Mapping[str, tuple[Path, int]], rounds: int, count: int) -> list[str]:
    """Measure how fast overdue messages are delivered and print it; what is beyond its limit."""
    steps = {
        name: partial(drain, folder / "drain", count, copies=copies, tree=tree)
        for name, (tree, copies) in groups.items()
    }
    rates = {name: [one.per_second for one in found] for name, found in in_turns(steps, rounds).items()}
    print("\n| overdue, two brokers back | members | messages/s | of alone |\n|---|---|---|---|")
    problems: list[str] = []
    for name, found in rates.items():
        of_alone, text = ratio(found, rates[ONLY])
        print(f"| {count:,} | {name} | {statistics.median(found):,.0f} | {text} |", flush=True)
        if name in RATE_MIN:
            problems += below(f"{count:,} overdue, {name} members: rate of alone", of_alone, RATE_MIN[name])
        elif name == BEFORE:
            problems += below("overdue: rate of the version before", ratio(rates[ONLY], found)[0], BEFORE_MIN)
    return problems


def latenesses(folder: Path, groups: Mapping[str, tuple[Path, int]], rounds: int, seconds: int) -> list[str]:
    """Measure lateness and print it; what is beyond its limit."""

    def one_run(tree: Path, copies: int) -> Lateness:
        at = folder / "lateness"
        at.mkdir()
        system = System(at, groups=2, delay_copies=copies)
        system.add_delay(DELAY)
        try:
            start_in_order(system, tree)
            return asyncio.run(lateness(system, LATENESS_RATE, seconds, int(SETTLE_SECONDS * 1000)))
        finally:
            system.close()
            shutil.rmtree(at)

    found = in_turns({name: partial(one_run, *group) for name, group in groups.items()}, rounds)
    print(
        "\n| members | due | came | early | p50 ms | p99 ms | p99.9 ms | most ms |\n|---|---|---|---|---|---|---|---|"
    )
    problems: list[str] = []
    p99 = {name: statistics.median(percentile(one.late, 0.99) for one in runs) for name, runs in found.items()}
    for name, runs in found.items():
        for one in runs:
            print(f"| {name} {one.row()}", flush=True)
        if name != BEFORE:
            problems += above(f"lateness, {name} members: p99 ms", p99[name], LATENESS_P99_MAX_MS)
            problems += above(f"lateness, {name} members: early messages", sum(one.early for one in runs), 0)
    if BEFORE in p99:
        problems += below("lateness: p99 of the version before, of ours", p99[BEFORE] / p99[ONLY], BEFORE_MIN)
    return problems


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.delay_slaves", description=__doc__)
    parser.add_argument("--slaves", type=int, nargs="*", choices=(1, 2), default=[1, 2])
    parser.add_argument("--tree", type=Path, help="source tree of the version to compare an only member with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each case and group")
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--overdue", type=int, default=OVERDUE, help="messages; 0: do not measure it")
    parser.add_argument("--seconds", type=int, default=60, help="of each run of lateness; 0: do not measure it")
    arguments = parser.parse_args()
    groups = {str(1 + slaves): (PROJECT, 1 + slaves) for slaves in (0, *sorted(set(arguments.slaves)))}
    if arguments.tree is not None:
        groups[BEFORE] = (arguments.tree.resolve(), 1)
    folder = Path(tempfile.mkdtemp(prefix="qmq-bench-"))
    try:
        disk_rate = disk.measure(str(folder)).sequential_mb_per_s * 1e6
        print(f"Disk: {disk_rate / 1e6:,.0f} MB/s\n")
        starts = {name: partial(delay_group, tree=tree, copies=copies) for name, (tree, copies) in groups.items()}
        problems = sends(arguments.cases, starts, arguments.rounds, disk_rate)
        if arguments.overdue:
            problems += drains(folder, groups, arguments.rounds, arguments.overdue)
        if arguments.seconds:
            problems += latenesses(folder, groups, arguments.rounds, arguments.seconds)
    finally:
        shutil.rmtree(folder)
    return finish(problems)


if __name__ == "__main__":
    sys.exit(main())
