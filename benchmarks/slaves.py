"""`python -m benchmarks.slaves --slaves 1 2`: groups with slaves beside one without; prints two tables, and checks
limits.

As `benchmarks.compare`, with one source tree: each round measures one case on all groups, in turns which goes first.
All members and the load share this machine and its disk, so the rates say what copies cost here; processor time says
what they cost anywhere.

The second table is measured while each group in turn receives half of the rate that the one with slaves can take: the time of
answers, and the processor time for each message at the same rate. At full load the groups take different rates, and a commit has
more messages the longer it takes.

Ends with an error that names the figures of groups with one slave that are above their limits.
`benchmarks.delay_slaves` measures delay groups.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import astuple, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.compare import CASES, Case, Version
from benchmarks.load import bench
from benchmarks.page_cache import fill_page_cache
from benchmarks.population_report import process_usage
from tests.support.servers.processes import PROJECT

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
MASTER_MORE_MAX = 0.25
"""More processor time of a master with one slave than of an only member, for each message."""
MASTER_MORE_MAX_KB = 0.45
"""The same at full load, for messages of 1 KB."""
SLAVE_MAX, SLAVE_MAX_HALF_LOAD = 0.6, 0.7
"""Processor time of a slave, of that of an only member."""
RATES_HEAD = (
    "| what | members | messages/s | of alone | us of the master per message | of alone | us of a slave | of alone |"
    " written, MB/s |\n|---|---|---|---|---|---|---|---|---|"
)
HALF_LOAD_HEAD = (
    "| what, at half load | messages/s | alone, p50 ms | p99 ms | with slaves, p50 ms | p99 ms"
    " | alone, us per message | master with slaves | difference | a slave | of alone |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of a case, or medians of several."""

    rate: float
    """Messages per second."""
    master: float
    """Processor microseconds per message."""
    slave: float
    """The same, of each slave; 0.0 without."""
    written: float
    """Bytes per second that all members have written."""


def measure(version: Version, case: Case) -> Measured:
    """Run a case once."""
    slaves = version.slaves(case)
    nodes = [version.master(case), *slaves]
    cpu = [process_usage(slave.pid).cpu_seconds for slave in slaves]
    written = sum(written_bytes(node.pid) for node in nodes)
    rate, master = version.measure(case)
    written = sum(written_bytes(node.pid) for node in nodes) - written
    used = [process_usage(slave.pid).cpu_seconds - start for slave, start in zip(slaves, cpu, strict=True)]
    of_slave = statistics.mean(used) * 1e6 / case.messages if used else 0.0
    return Measured(rate, master, of_slave, written * rate / case.messages)


def written_bytes(pid: int) -> int:
    """Return how many bytes a process has written to files."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("write_bytes:"))


def in_turns(steps: Mapping[str, Callable[[], T]], rounds: int) -> dict[str, list[T]]:
    """Do each step in each round, in turns which goes first; the results of each."""
    found: dict[str, list[T]] = {name: [] for name in steps}
    order = deque(steps)
    for _ in range(rounds):
        for name in order:
            found[name].append(steps[name]())
        order.rotate()
    return found


def medians(results: Sequence[Any]) -> Any:
    """Return the medians of the fields of equal dataclasses, as one of them."""
    return type(results[0])(*(statistics.median(part) for part in zip(*map(astuple, results), strict=True)))


def ratio(results: Sequence[float], to: Sequence[float]) -> tuple[float, str]:
    """Return the median ratio of two figures in the same rounds, and the same with its quartiles."""
    ratios = [one / other for one, other in zip(results, to, strict=True)]
    if len(ratios) < 2:
        return ratios[0], f"{ratios[0]:.2f}"
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return middle, f"{middle:.2f} ({low:.2f} to {high:.2f})"


@dataclass(frozen=True, slots=True)
class Rates:
    """The runs of a case at full load, by the name of the group; the first one is alone."""

    case: Case
    runs: Mapping[str, Sequence[Measured]]

    @property
    def alone(self) -> str:
        """The name of the first group."""
        return next(iter(self.runs))

    def rate_ratio(self, name: str, to: str) -> tuple[float, str]:
        """Return the ratio of two groups' messages per second, also as text."""
        return ratio(*([run.rate for run in self.runs[one]] for one in (name, to)))

    def rows(self) -> str:
        """Rows of the first table."""
        alone, rows = medians(self.runs[self.alone]), []
        for name, runs in self.runs.items():
            one = medians(runs)
            cells = [name, f"{one.rate:,.0f}", self.rate_ratio(name, self.alone)[1], f"{one.master:.2f}",
                     f"{one.master / alone.master:.2f}", f"{one.slave:.2f}", f"{one.slave / alone.master:.2f}",
                     f"{one.written / 1e6:,.0f}"]  # fmt: skip
            rows.append(f"| {self.case.name} | {' | '.join(cells)} |")
        return "\n".join(rows)


def full_load(case: Case, folder: Path, versions: Mapping[str, Version], rounds: int) -> Rates:
    """Measure a case on all groups."""
    fill_page_cache(folder)
    for version in versions.values():
        if case.kind == "consume":
            version.fill(case)
        measure(version, case)  # the first run of a process is slower
    return Rates(case, in_turns({name: partial(measure, one, case) for name, one in versions.items()}, rounds))


def above(what: str, figure: float, limit: float) -> list[str]:
    """Return what is above its limit, as a sentence."""
    return [f"{what}: {figure:.2f}, the limit is {limit:g}"] if figure > limit else []


def rates_above(rates: Rates, name: str) -> list[str]:
    """Return which figures of a broker group with one slave are above their limits at full load."""
    alone, one = medians(rates.runs[rates.alone]), medians(rates.runs[name])
    more_max = MASTER_MORE_MAX_KB if rates.case.size >= 1024 else MASTER_MORE_MAX
    return [
        *above(f"{rates.case.name}: the master of alone", one.master / alone.master, 1 + more_max),
        *above(f"{rates.case.name}: a slave of alone", one.slave / alone.master, SLAVE_MAX),
    ]


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
    copies = 1 + len(replicated.slaves(case))
    measure(replicated, replace(case, messages=BURST_BYTES // (copies * (case.size + OVERHEAD_BYTES))))
    rate = measure(replicated, replace(case, messages=case.messages * PEAK_RUNS)).rate
    fill_page_cache(folder)
    time.sleep(REST_SECONDS)
    return rate / 2


def half_load_row(case: Case, rate: float, single: AtHalfLoad, master: AtHalfLoad) -> str:
    """A row of the second table."""
    times = [f"{part:.1f}" for one in (single, master) for part in (one.p50_ms, one.p99_ms)]
    costs = [
        f"{single.microseconds:.2f}",
        f"{master.microseconds:.2f}",
        f"{100 * (master.microseconds / single.microseconds - 1):+.0f} %",
        f"{master.slave_microseconds:.2f}",
        f"{master.slave_microseconds / single.microseconds:.2f}",
    ]
    return f"| {case.name} | {rate:,.0f} | {' | '.join([*times, *costs])} |"


def half_load_above(case: Case, single: AtHalfLoad, master: AtHalfLoad) -> list[str]:
    """As `rates_above`, at half load."""
    what = f"{case.name}, at half load"
    return [
        *above(f"{what}: the master of alone", master.microseconds / single.microseconds, 1 + MASTER_MORE_MAX),
        *above(f"{what}: a slave of alone", master.slave_microseconds / single.microseconds, SLAVE_MAX_HALF_LOAD),
    ]


def at_rate(version: Version, case: Case, rate: float) -> AtHalfLoad:
    """Send so many messages a second; times are from when a frame was to be sent to its answer."""
    flags = {"count": int(rate * HALF_LOAD_SECONDS), "size": case.size, "batch": case.batch, "rate": rate}
    flags["connections"] = case.connections
    nodes = [version.master(case).pid, *(slave.pid for slave in version.slaves(case))]
    before = [process_usage(node).cpu_seconds for node in nodes]
    result = bench(
        version.system, case.kind, f"{case.kind}-{case.size}", *case.flags,
        *(f"--{name}={value}" for name, value in flags.items()),
    )  # fmt: skip
    used = [process_usage(node).cpu_seconds - start for node, start in zip(nodes, before, strict=True)]
    master, *slaves = (seconds * 1e6 / flags["count"] for seconds in used)
    return AtHalfLoad(result["p50_ms"], result["p99_ms"], master, statistics.mean(slaves) if slaves else 0.0)


def on_new_groups(
    names: Sequence[str], groups: Mapping[str, Callable[[Path], Version]], step: Callable[..., None]
) -> None:
    """Call a step for each case, with new processes of all groups: case, folder, groups by name."""
    for name in names:
        folder = Path(tempfile.mkdtemp(prefix="qmq-compare-"))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            versions = {
                group: stack.enter_context(closing(create(folder / f"group-{number}")))
                for number, (group, create) in enumerate(groups.items())
            }
            step(CASES[name], folder, versions)


def broker_group(folder: Path, *, copies: int) -> Version:
    """Start a broker group of so many members."""
    return Version(folder, PROJECT, copies=copies)


def finish(problems: list[str]) -> int:
    """Print what is above its limit; the exit code."""
    for problem in problems:
        print(f"above its limit: {problem}", file=sys.stderr)
    return 1 if problems else 0


def main() -> int:
    """Measure the cases and print the tables."""
    sends = [name for name, case in CASES.items() if case.kind == "produce"]
    of_brokers = [name for name, case in CASES.items() if case.kind != "delay"]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slaves", type=int, nargs="+", choices=(1, 2), default=[1])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="runs of each case and group")
    parser.add_argument("--cases", nargs="*", default=list(CASES_USUAL), choices=of_brokers)
    parser.add_argument(
        "--half-load", nargs="*", default=list(HALF_LOAD_USUAL), choices=sends, help="cases at half load"
    )
    arguments = parser.parse_args()
    counts = sorted(set(arguments.slaves))
    groups = {str(1 + slaves): partial(broker_group, copies=1 + slaves) for slaves in (0, *counts)}
    problems: list[str] = []

    def full(case: Case, folder: Path, versions: Mapping[str, Version]) -> None:
        rates = full_load(case, folder, versions, arguments.rounds)
        print(rates.rows(), flush=True)
        if 1 in counts:
            problems.extend(rates_above(rates, "2"))

    def half(case: Case, folder: Path, versions: Mapping[str, Version]) -> None:
        alone, replicated = versions.values()
        rate = half_load(case, folder, replicated)
        steps = {"alone": partial(at_rate, alone, case, rate), "slaves": partial(at_rate, replicated, case, rate)}
        single, master = map(medians, in_turns(steps, arguments.rounds).values())
        print(half_load_row(case, rate, single, master), flush=True)
        if len(replicated.slaves(case)) == 1:
            problems.extend(half_load_above(case, single, master))

    print(RATES_HEAD, flush=True)
    on_new_groups(arguments.cases, groups, full)
    for slaves in counts:
        print(f"\n{1 + slaves} members:\n\n{HALF_LOAD_HEAD}", flush=True)
        on_new_groups(arguments.half_load, {name: groups[name] for name in ("1", str(1 + slaves))}, half)
    return finish(problems)


if __name__ == "__main__":
    sys.exit(main())
