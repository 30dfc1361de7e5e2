"""`make bench-population`: a metaserver, a broker and a delay node with many subjects; prints a table.

Each subject has GROUPS consumer groups. CLIENTS clients are connected to the metaserver and to the broker; they register
every group and a producer of every subject. Bursts of BURST_MESSAGES go to random subjects, a share of them with a due time;
each group pulls and acks a burst when it is stored. Some groups pull with long polls instead. Frames are the same for each
number of subjects. Nothing here asserts: figures go to docs/performance.md by hand, with the date.
"""

import argparse
import asyncio
import json
import logging
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from benchmarks.population_load import Clients, Load, ensure_groups, group_names, subject_names
from benchmarks.population_report import checkpoint_seconds, pauses, process_usage, storage_flags, table
from tests.support.servers.processes import PROJECT, Process
from tests.support.servers.system import System

SUBJECTS = (10, 1_000, 10_000, 40_000)
SECONDS = 60
RATE = 5_000
WARM_UP_SECONDS = 15.0
"""Longer than the shortest period of the pause metric, so that no pause of the start is counted."""
RESUMED_SECONDS = 10.0
"""Traffic between a restart and the kill that follows."""
SCRAPE_SECONDS = {"10s": 10.0, "1m": 60.0}
"""How often the longest pause of a period is read."""
CHANGE_SECONDS = 10.0
"""For a change of metadata and the metaserver's next reload."""

_CREATE = """
import sys
from metaserver.__main__ import set_up_django
from metaserver.stored.database import migrate
from metaserver.options import MetaOptions
set_up_django(MetaOptions(data_dir=sys.argv[1]))
migrate()
from metaserver.models import ConsumerGroup, Subject, SubjectRoute
subjects, groups = sys.stdin.read().split(" ; ")
rows = Subject.objects.bulk_create([Subject(name=name) for name in subjects.split()], 500)
rows = list(Subject.objects.all())
SubjectRoute.objects.bulk_create(
    [SubjectRoute(subject=row, broker_groups=["g1"], version=1, created_at_ms=1) for row in rows], 500)
ConsumerGroup.objects.bulk_create([ConsumerGroup(subject=row, name=name) for row in rows for name in groups.split()], 500)
"""
_CHANGE = """
import sys
from metaserver.__main__ import set_up_django
from metaserver.options import MetaOptions
set_up_django(MetaOptions(data_dir=sys.argv[1]))
from metaserver.services.changes import Actor
from metaserver.services.subjects import create_subject
create_subject(sys.argv[2], {}, actor=Actor("benchmark"))
"""
_NEW_SUBJECT = "population.new"


def run_in(tree: Path, script: str, *arguments: str, text: str = "") -> None:
    """Run Python with the modules of a source tree."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=tree, input=text, text=True, capture_output=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)


def timed(call: Callable[[], object]) -> float:
    """The seconds that a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def read(url: str) -> bytes:
    """The body behind a URL."""
    with urllib.request.urlopen(url, timeout=120) as answer:
        body: bytes = answer.read()
    return body


class Population:
    """One system with so many subjects; `measure` returns its figures by name."""

    def __init__(self, folder: Path, tree: Path, subjects: int, seconds: float, rate: float) -> None:
        self._tree, self._seconds, self._rate = tree, seconds, rate
        self._names = subject_names(subjects)
        flags = storage_flags(rate, seconds)
        self._system = System(folder, groups=1, broker_flags=flags.broker)
        self._system.add_delay("d1", *flags.delay)
        system = self._system
        self._nodes: dict[str, Process] = {
            "metaserver": system.meta, "broker": system.brokers["g1"], "delay node": system.delays["d1"]
        }  # fmt: skip
        self._admin = {
            "metaserver": f"http://127.0.0.1:{system.http_port}",
            "broker": f"http://127.0.0.1:{system.ports['g1'][1]}",
            "delay node": f"http://127.0.0.1:{system.ports['d1'][1]}",
        }
        self.figures: dict[str, float] = {}

    def measure(self) -> dict[str, float]:
        """Run everything."""
        meta_folder = self._system.folder / "meta"
        meta_folder.mkdir()
        run_in(self._tree, _CREATE, str(meta_folder), text=" ".join(self._names) + " ; " + " ".join(group_names()))
        try:
            for name, process in self._nodes.items():
                process.run_from(self._tree)
                self._start(name, f"{name}: start on an empty folder, s")
            asyncio.run(self._serve())
        finally:
            self._system.close()
        return self.figures

    def _start(self, name: str, figure: str) -> None:
        self.figures[figure] = timed(self._nodes[name].start)

    async def _serve(self) -> None:
        system = self._system
        port, delay_port = (system.ports[group][0] for group in ("g1", "d1"))
        began = time.perf_counter()
        await ensure_groups(port, self._names)
        self.figures["broker: create all groups, s"] = time.perf_counter() - began
        clients = Clients(system.tcp_port, self._names)
        began = time.perf_counter()
        await clients.connect()
        self.figures["metaserver: register all clients, s"] = time.perf_counter() - began
        async with Load(port, delay_port, self._names, self._rate) as load:
            await asyncio.sleep(WARM_UP_SECONDS)
            await self._steady(load)
            await self._pages()
            await self._changes()
            for name in ("broker", "delay node"):
                await self._restart(name, "SIGTERM")
        async with Load(port, delay_port, self._names, self._rate):
            await asyncio.sleep(RESUMED_SECONDS)
            for name in ("broker", "delay node"):
                await self._restart(name, "SIGKILL")
        for number in ("SIGTERM", "SIGKILL"):
            await self._restart("metaserver", number)
        await clients.close()

    async def _steady(self, load: Load) -> None:
        """The phase in which the nodes' processor time and pauses are measured."""
        before = {name: process_usage(process.pid) for name, process in self._nodes.items()}
        load.clear_latencies()
        counts, own_seconds = load.counts(), time.process_time()
        window = "1m" if self._seconds >= SCRAPE_SECONDS["1m"] else "10s"
        began = time.perf_counter()
        longest: dict[str, float] = {}
        while (rest := began + self._seconds - time.perf_counter()) > 0:
            await asyncio.sleep(min(rest, SCRAPE_SECONDS[window]))
            await self._scrape(window, longest)
        seconds = time.perf_counter() - began
        sent, delivered = (now - then for now, then in zip(load.counts(), counts, strict=True))
        self.figures["messages sent, /s"] = sent / seconds
        self.figures["messages delivered to groups, /s"] = delivered / seconds
        self.figures["failed requests"] = load.failures
        self.figures["send: p50, ms"], self.figures["send: p99, ms"] = load.send_percentiles()
        self.figures["load generator: CPU, s/million"] = (time.process_time() - own_seconds) / sent * 1e6
        for name, process in self._nodes.items():
            usage = process_usage(process.pid)
            self.figures[f"{name}: CPU, s/million"] = (usage.cpu_seconds - before[name].cpu_seconds) / sent * 1e6
            self.figures[f"{name}: RSS, MiB"] = usage.rss_mib
        for name, pause in longest.items():
            self.figures[f"{name}: longest pause, ms"] = pause * 1000

    async def _scrape(self, window: str, longest: dict[str, float]) -> None:
        for name, url in self._admin.items():
            pause = pauses((await asyncio.to_thread(read, f"{url}/metrics")).decode()).get(window)
            if pause is not None:
                longest[name] = max(pause, longest.get(name, 0.0))

    async def _pages(self) -> None:
        """All pages of the broker's /stats, and its /metrics, under load."""
        await asyncio.sleep(SCRAPE_SECONDS["10s"] + 5)
        size, seconds, after = 0, 0.0, ""
        while after is not None:
            began = time.perf_counter()
            body = await asyncio.to_thread(read, f"{self._admin['broker']}/stats?after={after}")
            seconds += time.perf_counter() - began
            size += len(body)
            after = json.loads(body)["next_after"]
        self.figures["broker: /stats, all pages, MiB"] = size / (1 << 20)
        self.figures["broker: /stats, all pages, s"] = seconds
        longest: dict[str, float] = {}
        await self._scrape("10s", longest)
        if "broker" in longest:
            self.figures["broker: longest pause beside /stats, ms"] = longest["broker"] * 1000

    async def _changes(self) -> None:
        """What the reload costs after another process created a subject."""
        meta, data_dir = self._nodes["metaserver"], str(self._system.folder / "meta")
        used = [process_usage(meta.pid).cpu_seconds]
        for change in (False, True):
            began = time.perf_counter()
            if change:
                await asyncio.to_thread(run_in, self._tree, _CHANGE, data_dir, _NEW_SUBJECT)
            await asyncio.sleep(began + CHANGE_SECONDS - time.perf_counter())
            used.append(process_usage(meta.pid).cpu_seconds)
        before, idle, changed = used
        self.figures["metaserver: CPU of reloading one subject, ms"] = (changed - idle - (idle - before)) * 1000
        longest: dict[str, float] = {}
        await self._scrape("10s", longest)
        if "metaserver" in longest:
            self.figures["metaserver: longest pause beside a reload, ms"] = longest["metaserver"] * 1000

    async def _restart(self, name: str, number: str) -> None:
        """End a node under load and start it again."""
        process = self._nodes[name]
        if number == "SIGTERM":
            checkpoint = checkpoint_seconds(process.log())
            if checkpoint is not None:
                self.figures[f"{name}: checkpoint, s"] = checkpoint
            self.figures[f"{name}: stop, s"] = await asyncio.to_thread(timed, process.stop)
        else:
            await asyncio.to_thread(process.kill)
        after = "a stop" if number == "SIGTERM" else "kill -9"
        await asyncio.to_thread(self._start, name, f"{name}: start after {after}, s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.population", description=__doc__)
    parser.add_argument("--folder", help="where to write; default: a temporary folder")
    parser.add_argument("--subjects", type=int, nargs="+", default=SUBJECTS, metavar="N")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of the measured phase")
    parser.add_argument("--rate", type=float, default=RATE, help="messages per second")
    parser.add_argument("--json", help="file for the figures")
    parser.add_argument("--quick", action="store_true", help="100 subjects, 5 s, 500 messages per second")
    parser.add_argument("--tree", type=Path, default=PROJECT, help="source tree whose nodes are measured")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.subjects, arguments.seconds, arguments.rate = [100], 5.0, 500.0
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # requests to a node that has just ended are expected
    results: dict[int, dict[str, float]] = {}
    for subjects in arguments.subjects:
        folder = Path(tempfile.mkdtemp(prefix="qmq-bench-", dir=arguments.folder))
        try:
            population = Population(folder, arguments.tree.resolve(), subjects, arguments.seconds, arguments.rate)
            results[subjects] = population.measure()
        finally:
            shutil.rmtree(folder)
        print(table(results), flush=True)
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
