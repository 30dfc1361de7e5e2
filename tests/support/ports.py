"""Ports for the processes of tests: no port is given out twice, neither in one process nor in two that run at once.

A process locks each port it has drawn: one byte of a file that all processes of the user share. The kernel releases the locks when
the process ends, however it ends.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

PORTS = range(10_000, 30_000)
"""Below those that the kernel assigns to outgoing connections (from 32,768): no connection takes one in the meantime."""
LOCK_PATH = Path(tempfile.gettempdir()) / f"qmq-test-ports-{os.getuid()}"


class NoFreePort(Exception):
    """Every port of the range is in use or was given out to a process that is still running."""


class PortPool:
    """Gives out the ports of a range, each once in the life of this process."""

    def __init__(self, ports: range = PORTS, lock_path: Path = LOCK_PATH) -> None:
        self._ports = ports
        self._drawn: set[int] = set()
        self._next = random.randrange(len(ports))
        # Never closed: closing any descriptor of this file would release the process's locks.
        self._lock_fd = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def draw(self, count: int = 1) -> int:
        """Return the first of `count` consecutive ports that no process listens on and no other process has drawn.

        Raises:
            NoFreePort: The range has no such ports left.
        """
        for _ in range(len(self._ports)):
            first = self._ports[self._next]
            self._next = (self._next + 1) % len(self._ports)
            if first + count <= self._ports.stop and all(self._take(port) for port in range(first, first + count)):
                return first
        raise NoFreePort(
            f"no {count} consecutive free ports in {self._ports.start}-{self._ports.stop - 1}: this process has drawn "
            f"{len(self._drawn)}; the others are in use or drawn by other test processes"
        )

    def _take(self, port: int) -> bool:
        """Draw one port. A port that is in use stays drawn: it is not tried again."""
        if port in self._drawn:
            return False
        try:
            fcntl.lockf(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except OSError:
            return False
        self._drawn.add(port)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
        return True


_pool: PortPool | None = None


def free_ports(count: int) -> int:
    """Return the first of `count` consecutive ports for processes of this test run."""
    global _pool
    if _pool is None:
        _pool = PortPool()
    return _pool.draw(count)


def free_port() -> int:
    """Return a port for a process of this test run."""
    return free_ports(1)
