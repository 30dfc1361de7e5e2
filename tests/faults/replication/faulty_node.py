"""A broker node with a faulty disk: `python -m tests.faults.replication.faulty_node --group g1 ...`.

A file, which the variable QMQ_TEST_SYNCS names, decides what each sync of a log does: "delay SECONDS" is how much longer it takes,
"fail" makes it fail with EIO, once: the node removes the file. Without the file syncs are as usual.
"""

import errno
import os
import runpy
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.system import System

VARIABLE = "QMQ_TEST_SYNCS"
MODULE = "tests.faults.replication.faulty_node"


def faulty(sync: Callable[[int], None], control: Path) -> Callable[[int], None]:
    """Return a sync of a file descriptor that does what the file says."""

    def fdatasync(fd: int) -> None:
        try:
            words = control.read_text().split()
        except FileNotFoundError:
            words = []
        match words:
            case ["delay", seconds]:
                time.sleep(float(seconds))
            case ["fail"]:
                control.unlink()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    return fdatasync


class Disks:
    """The disks of the broker nodes of a system whose `broker_module` is MODULE."""

    def __init__(self, system: System) -> None:
        self._folder = system.folder
        for group in system.brokers:
            for node, process in system.members(group).items():
                process.set_environment(**{VARIABLE: str(self._control(node))})

    def _control(self, node: str) -> Path:
        return self._folder / f"{node}.syncs"

    def _set(self, node: str, text: str) -> None:
        # Renamed, so that a node never reads a part of it.
        new = self._control(node).with_suffix(".new")
        new.write_text(text)
        new.rename(self._control(node))

    def delay(self, node: str, seconds: float) -> None:
        """Make each sync of a node take so much longer from now on; 0: as usual."""
        self._set(node, f"delay {seconds}")

    def fail(self, node: str) -> None:
        """Make the next sync of a node fail."""
        self._set(node, "fail")

    def has_failed(self, node: str) -> bool:
        """Whether the sync of a node has failed since `fail`."""
        return not self._control(node).exists()


if __name__ == "__main__":
    os.fdatasync = faulty(os.fdatasync, Path(os.environ[VARIABLE]))
    runpy.run_module("broker_node", run_name="__main__", alter_sys=True)
