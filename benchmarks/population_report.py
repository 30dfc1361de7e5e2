"""What `benchmarks.population` reads from processes, and the table it prints."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
MESSAGE_BYTES = 400
"""Of log for each message, with the actions of its consumer groups."""
ROLLS = 6
"""Segments that a broker fills in the measured phase."""
RETENTION_SEGMENTS = 3
"""Filled segments that are kept."""
CHECKPOINTS = 3
"""Checkpoints that each node makes in the measured phase by time."""
FIGURES = (
    "messages sent, /s",
    "messages delivered to groups, /s",
    "failed requests",
    "send: p50, ms",
    "send: p99, ms",
    "load generator: CPU, s/million",
    *(
        f"{name}: {figure}"
        for figure in (
            "CPU, s/million", "RSS, MiB", "longest pause, ms", "checkpoint, s", "start on an empty folder, s",
            "stop, s", "start after a stop, s", "start after kill -9, s",
        )
        for name in ("broker", "delay node", "metaserver")
        if (name, figure) != ("metaserver", "checkpoint, s")
    ),
    "broker: create all groups, s",
    "broker: /stats, all pages, MiB",
    "broker: /stats, all pages, s",
    "broker: longest pause beside /stats, ms",
    "metaserver: register all clients, s",
    "metaserver: CPU of reloading one subject, ms",
    "metaserver: longest pause beside a reload, ms",
)  # fmt: skip
"""Rows of the table, in order."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time and resident memory of a process."""

    cpu_seconds: float
    rss_mib: float


def process_usage(pid: int) -> Usage:
    """Return what a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks, pages = int(fields[11]) + int(fields[12]), int(fields[21])
    return Usage(ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE") / MIB)


@dataclass(frozen=True, slots=True)
class StorageFlags:
    """Flags of nodes."""

    broker: tuple[str, ...]
    delay: tuple[str, ...]


def storage_flags(rate: float, seconds: float) -> StorageFlags:
    """Return flags with which a run of so many seconds includes checkpoints, rolls of segments, and retention."""
    segment = max(MIB, int(rate * seconds * MESSAGE_BYTES / ROLLS))
    checkpoint = f"{max(1.0, seconds / CHECKPOINTS):g}"
    shared = "--segment-bytes", str(segment), "--checkpoint-seconds", checkpoint
    return StorageFlags((*shared, "--retention-bytes", str(RETENTION_SEGMENTS * segment)), shared)


def pauses(metrics: str) -> dict[str, float]:
    """Return the longest pauses of the event loop, in seconds by period, from /metrics; empty if they are not measured."""
    found = re.findall(r'^qmq_event_loop_longest_pause_seconds\{window="(\w+)"\} (\S+)$', metrics, re.MULTILINE)
    return {window: float(value) for window, value in found}


def checkpoint_seconds(log: str) -> float | None:
    """Return the time of the slowest checkpoint in a node's log; None if the log does not say it."""
    found = re.findall(r"checkpoint at log offset \d+, \d+ bytes, ([\d.]+) s$", log, re.MULTILINE)
    return max(map(float, found), default=None)


def table(results: Mapping[int, Mapping[str, float]]) -> str:
    """Return a Markdown table: a column for each number of subjects; "-" for what was not measured."""
    lines = [
        "| | " + " | ".join(f"{subjects:,} subjects" for subjects in results) + " |",
        "|---" * (len(results) + 1) + "|",
    ]
    for name in FIGURES:
        cells = (f"{figures[name]:,.4g}" if name in figures else "-" for figures in results.values())
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)
