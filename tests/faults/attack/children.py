"""Processes of a process."""

from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20


GROWTH_MAX = {"broker_node": 200, "delay_node": 150, "metaserver": 100, "console.asgi": 150, "": 64}
"""MiB that a process may grow by, by what its command line contains."""


@dataclass
class Watched:
    """A process of the system."""

    pid: int
    command: str
    before: int = 0

    def field(self, name: str) -> int:
        """Bytes of a line in /proc/PID/status."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(next(line.split()[1] for line in text.splitlines() if line.startswith(f"{name}:"))) << 10

    @property
    def growth_max(self) -> int:
        return next(limit for part, limit in GROWTH_MAX.items() if part in self.command) * MIB


def children(pid: int) -> list[Watched]:
    """The processes that `up` started, without those that they started."""
    pids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [
        Watched(int(each), Path(f"/proc/{each}/cmdline").read_bytes().replace(b"\0", b" ").decode()) for each in pids
    ]
