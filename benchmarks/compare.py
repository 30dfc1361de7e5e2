"""`make bench-compare ARGS="--tree PATH"`: nodes of another source tree beside those of this one; prints a table.

Each round measures one case on both versions, one after the other, in turns which goes first, with this tree's client. A
figure of a case is the median over the rounds; the difference is the median of the pairs, with its quartiles: a machine
that is slower for a minute is slower for both of a pair. Nothing here asserts: figures go to docs/performance.md by hand.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.load import bench
from benchmarks.population_report import process_usage
from tests.support.servers.processes import PROJECT, Process
from tests.support.servers.system import System
from tests.support.waiting import ASK_SECONDS, eventually

BROKER, DELAY = "g1", "d1"
ROUNDS = 12
BACKLOG = 600_000
"""Messages of each subject that is pulled."""


@dataclass(frozen=True, slots=True)
class Case:
    """One measurement: a kind of `qmq bench` and its flags."""

    kind: str
    size: int
    batch: int
    messages: int
    connections: int
    flags: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """Of the nodes that it uses."""
        return DELAY if self.kind == "delay" else BROKER

    @property
    def name(self) -> str:
        """As the table calls it."""
        batch = f"{self.size} B, {self.batch} a"
        return {
            "produce": f"send {batch} batch",
            "consume": f"pull and ack {batch} pull",
            "delay": f"delayed send {batch} batch, due in {' to '.join(self.flags[1::2])}",
        }[self.kind]


_NEAR = ("--due-from", "20m", "--due-to", "25m")
_FAR = ("--due-from", "2d", "--due-to", "9d")
CASES = {
    "send-500": Case("produce", 128, 500, 1_000_000, 2),
    "send-30": Case("produce", 128, 30, 600_000, 2),
    "send-1": Case("produce", 128, 1, 60_000, 4),
    "send-1k-500": Case("produce", 1024, 500, 300_000, 2),
    "send-1k-30": Case("produce", 1024, 30, 200_000, 2),
    "send-1k-1": Case("produce", 1024, 1, 60_000, 4),
    "pull-500": Case("consume", 128, 500, BACKLOG, 4),
    "pull-50": Case("consume", 128, 50, BACKLOG, 4),
    "pull-1k-500": Case("consume", 1024, 500, BACKLOG // 2, 4),
    "pull-1k-50": Case("consume", 1024, 50, BACKLOG // 2, 4),
    "delay-500": Case("delay", 128, 500, 300_000, 2, _NEAR),
    "delay-far-500": Case("delay", 128, 500, 300_000, 2, _FAR),
    "delay-30": Case("delay", 128, 30, 150_000, 2, _NEAR),
    "delay-far-30": Case("delay", 128, 30, 150_000, 2, _FAR),
}


class Version:
    """A metaserver, a broker group and a delay group of one source tree, with so many members."""

    def __init__(self, folder: Path, tree: Path, *, copies: int = 1, delay_copies: int = 1) -> None:
        folder.mkdir()
        self.system = System(folder, groups=1, copies=copies, delay_copies=delay_copies)
        self.system.add_delay(DELAY)
        start_in_order(self.system, tree)
        self._measured = 0

    def master(self, case: Case) -> Process:
        """The node that clients of a case use."""
        return next(iter(self.system.members(case.group).values()))

    def slaves(self, case: Case) -> list[Process]:
        """The other members of its group."""
        return list(self.system.members(case.group).values())[1:]

    def measure(self, case: Case) -> tuple[float, float]:
        """Messages per second, and processor microseconds of the node per message."""
        self._measured += 1
        subject = f"{case.kind}-{case.size}"
        node = self.master(case)
        flags = ["--count", str(case.messages), "--size", str(case.size), "--batch", str(case.batch), *case.flags,
                 "--connections", str(case.connections)]  # fmt: skip
        if case.kind == "consume":
            flags += ["--group", f"g{self._measured}"]
        before = process_usage(node.pid).cpu_seconds
        result = bench(self.system, case.kind, subject, *flags)
        used = process_usage(node.pid).cpu_seconds - before
        return result["messages_per_s"], used * 1e6 / case.messages

    def close(self) -> None:
        """End the processes."""
        self.system.close()

    def fill(self, case: Case) -> None:
        """Store what a case of pulls reads."""
        bench(self.system, "produce", f"consume-{case.size}", "--count", str(case.messages), "--size", str(case.size))


def start_in_order(system: System, tree: Path = PROJECT) -> None:
    """Start a system without a console, and return when all slaves are in sync. The first member of each group is its
    master: the first one that registers is."""
    slaves = list(system.other_members.values())
    for process in (system.meta, *system.brokers.values(), *system.delays.values()):
        process.run_from(tree)
        process.start()
    groups = [group for group in (*system.brokers, *system.delays) if len(system.members(group)) > 1]
    _wait_in_sync(system, dict.fromkeys(groups, 1))
    for process in slaves:
        process.run_from(tree)
        process.start()
    _wait_in_sync(system, {group: len(system.members(group)) for group in groups})


def _wait_in_sync(system: System, members: dict[str, int]) -> None:
    """Wait until groups have so many members in sync."""

    def are_in_sync() -> bool:
        return all(len(in_sync(system, group)) == count for group, count in members.items())

    eventually(are_in_sync, what=f"members are in sync: {members}", every_s=ASK_SECONDS)


def in_sync(system: System, group: str) -> list[str]:
    """Return the in-sync members of a group that its first member leads; [] if it does not."""
    role = system.admin(group, "/stats?subject=-")["replication"]
    return list(role["in_sync"]) if role["role"] == "master" else []


def compare(case: Case, before: Version, now: Version, rounds: int) -> str:
    """A table row."""
    if case.kind == "consume":
        for version in (before, now):
            version.fill(case)
    for version in (before, now):
        version.measure(case)  # the first run of a process is slower
    pairs: list[tuple[tuple[float, float], tuple[float, float]]] = []
    for number in range(rounds):
        if number % 2:
            second = now.measure(case)
            pairs.append((before.measure(case), second))
        else:
            first = before.measure(case)
            pairs.append((first, now.measure(case)))
    rates, costs = ([(a[i], b[i]) for a, b in pairs] for i in (0, 1))
    return f"| {case.name} | {_medians(rates, ',.0f')} | {_difference(rates)} | {_medians(costs, '.2f')} | {_difference(costs)} |"


def _medians(pairs: list[tuple[float, float]], style: str) -> str:
    return " | ".join(format(statistics.median(pair[i] for pair in pairs), style) for i in (0, 1))


def _difference(pairs: list[tuple[float, float]]) -> str:
    parts = [100 * (now / before - 1) for before, now in pairs if before]
    if len(parts) < 2:
        return "-"
    low, middle, high = statistics.quantiles(parts, n=4, method="inclusive")
    return f"{middle:+.1f} % ({low:+.1f} to {high:+.1f})"


def main() -> int:
    """Measure the cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, required=True, help="source tree of the version to compare with")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="pairs of each case")
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES), help="default: all")
    arguments = parser.parse_args()
    print("| what | before, messages/s | now | difference | before, us of the node per message | now | difference |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in arguments.cases:
        folder = Path(tempfile.mkdtemp(prefix="qmq-compare-"))
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, folder)
            before, now = (
                stack.enter_context(closing(Version(folder / label, tree)))
                for label, tree in (("before", arguments.tree.resolve()), ("now", PROJECT))
            )
            print(compare(CASES[name], before, now, arguments.rounds), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
