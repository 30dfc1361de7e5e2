"""What the tests of this folder share: replicated systems, roles of members, comparison of logs, and figures of repeated faults."""

import asyncio
import hashlib
import os
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.replication.load import STOCK_PER_SECOND, store_stock
from tests.support.promises import PromiseBroken
from tests.support.servers.processes import Process
from tests.support.servers.system import System
from tests.support.waiting import FigureAboveLimit, eventually

IS_FULL = os.environ.get("QMQ_FAULTS") == "full"
TURNS = int(os.environ.get("QMQ_FAULTS_TURNS") or (20 if IS_FULL else 1))
"""How often each fault occurs."""
TURN_SECONDS = 90
"""Limit of a test, for each turn."""
PER_SECOND = 2_000 if IS_FULL else 500
"""Sends during faults that name no rate."""
SEGMENT = ("--segment-bytes", str(16 << 20))
NODE_FLAGS = ("--retry-delay-seconds", "0.3", "--copy-bytes-per-second", str(64 << 20), *SEGMENT)
LOOK_SECONDS = 0.05

repeated = pytest.mark.timeout(200 + TURNS * TURN_SECONDS)
"""The limit of a test that repeats a fault TURNS times."""


async def start(system: System, turns: int = TURNS) -> None:
    """Start a system whose subject STOCK is in g1 alone, and wait until all members are in sync."""

    def start_group(group: str) -> None:
        for process in (*system.metas.values(), *system.members(group).values()):
            if not process.is_running:
                process.start(wait=False)
        eventually(lambda: master_of(system, group), what="all members are in sync", every_s=LOOK_SECONDS)

    await asyncio.to_thread(system.prepare_tables)
    await asyncio.to_thread(start_group, "g1")
    await store_stock(system.meta_url, (turns + 1) * 15 * STOCK_PER_SECOND)
    await asyncio.to_thread(system.start)
    for group in groups_of(system):
        await in_sync(system, group)


def set_minimum(system: System) -> None:
    """Let g1 accept sends with one member in sync."""
    system.call_service("members.set_copies", "g1", {"in_sync_min": 1})


def groups_of(system: System) -> list[str]:
    """Return the names of all broker and delay groups."""
    return [*system.brokers, *system.delays]


def report_of(system: System, node: str) -> dict[str, Any]:
    """Return what a node reports of its role; {} while it does not answer."""
    try:
        found: dict[str, Any] = system.admin(node.removesuffix("-a"), "/stats?subject=-")["replication"]
    except (OSError, ValueError):
        return {}
    return found


def role_of(system: System, node: str) -> str:
    """Return a node's role; "" while it does not answer."""
    return str(report_of(system, node).get("role", ""))


def master_of(system: System, group: str) -> str:
    """Return the node that serves a group with all of its members in sync; "" while there is none."""
    for node in system.members(group):
        found = report_of(system, node)
        if found.get("role") == "master" and len(found.get("in_sync") or ()) == len(system.members(group)):
            return node
    return ""


async def in_sync(system: System, group: str, node: str = "") -> str:
    """Wait until a group has all of its members in sync, and return its master, which is `node` if that is given."""

    def found() -> str:
        master = master_of(system, group)
        return master if master == (node or master) else ""

    what = f"all members of {group} are in sync" + (f" with master {node}" if node else "")
    try:
        return await asyncio.to_thread(eventually, found, what=what, every_s=LOOK_SECONDS)
    except AssertionError as error:
        reports = {member: report_of(system, member) for member in system.members(group)}
        raise AssertionError(f"{error}; its members report {reports}") from error


async def becomes(system: System, role: str, *nodes: str) -> str:
    """Wait until one of these nodes has a role, and return it."""

    def found() -> str:
        return next((node for node in nodes if role_of(system, node) == role), "")

    return await asyncio.to_thread(eventually, found, what=f"{role}: one of {nodes}", every_s=LOOK_SECONDS)


def process_of(system: System, node: str) -> Process:
    """Return the process of a node."""
    return system.members(node.rpartition("-")[0])[node]


async def logs_are_equal(system: System) -> None:
    """Wait until the members of each group have the same log, byte by byte, with no clients left.

    Only what all of them still have is compared: each removes old segments by itself.

    Raises:
        PromiseBroken: They end at the same offset and differ.
    """
    for group in groups_of(system):
        await asyncio.to_thread(_logs_are_equal, system, group)


def _logs_are_equal(system: System, group: str) -> None:
    members = system.members(group)

    def ends() -> set[tuple[int, int]]:
        pages = [system.admin(node.removesuffix("-a"), "/stats?subject=-") for node in members]
        return {(page["log"]["synced_end"], page["replication"]["high_watermark"]) for page in pages}

    def common_end() -> int | None:
        found = {end for pair in ends() for end in pair}
        return found.pop() if len(found) == 1 else None

    def digests() -> dict[str, str] | None:
        if (end := common_end()) is None:
            return None
        folders = {node: system.folder / node.removesuffix("-a") / "log" for node in members}
        begin = max(begin_of(folder) for folder in folders.values())
        try:
            found = {node: digest(folder, begin, end) for node, folder in folders.items()}
        except FileNotFoundError:
            return None  # a segment was removed meanwhile
        return found if common_end() == end else None

    found = eventually(digests, what=f"the logs of {group} end at the same offset", every_s=0.2)
    if len(set(found.values())) > 1:
        raise PromiseBroken(f"the members of {group} have different logs: {found}")


def segments_of(folder: Path) -> list[tuple[int, Path]]:
    """Return the segments of a log with their first offsets, in order."""
    return sorted((int(path.name), path) for path in folder.iterdir() if path.name.isdigit())


def begin_of(folder: Path) -> int:
    """Return the first offset of a log."""
    return segments_of(folder)[0][0]


def digest(folder: Path, begin: int, end: int) -> str:
    """Return a digest of a log between two offsets. Raises FileNotFoundError if a segment is removed meanwhile."""
    hashed = hashlib.sha1()
    segments = segments_of(folder)
    ends = [first for first, _ in segments[1:]] + [end]
    for (first, path), next_first in zip(segments, ends, strict=True):
        with open(path, "rb") as file:
            file.seek(max(0, begin - first))
            hashed.update(file.read(max(0, min(end, next_first) - max(begin, first))))
    return hashed.hexdigest()


class Figures:
    """How long things took in each turn; `report` prints `figure: WHAT: median 2.1 s, longest 3.0 s of 20`."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._values: dict[str, list[float]] = defaultdict(list)
        self._limits: dict[str, float] = {}

    def add(self, what: str, seconds: float, limit_s: float) -> None:
        """Add the seconds of one turn; the limit is that of each turn."""
        self._values[what].append(seconds)
        self._limits[what] = limit_s

    async def timed(self, what: str, limit_s: float, condition: Callable[[], Any]) -> Any:
        """Wait in a thread until a condition is true, add the seconds that it took, and return its value."""
        began = time.monotonic()
        found = await asyncio.to_thread(eventually, condition, what=what, every_s=LOOK_SECONDS)
        self.add(what, time.monotonic() - began, limit_s)
        return found

    def report(self) -> None:
        """Print all figures; one above its limit is a warning."""
        for what, values in self._values.items():
            limit_s = self._limits[what]
            line = f"{self._fault}: {what}: median {statistics.median(values):.2f} s, longest {max(values):.2f} s"
            print(f"figure: {line} of {len(values)} (limit {limit_s:g} s)")
            if max(values) > limit_s:
                warnings.warn(f"{line}, the limit is {limit_s:g} s", FigureAboveLimit, stacklevel=2)
