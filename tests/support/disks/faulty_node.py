"""A broker node with a faulty disk: `python -m tests.support.disks.faulty_node --broker-group g1 ...`.

A file, which the variable QMQ_TEST_SYNCS names, decides what each sync of a log does: "delay SECONDS" is how much longer it takes,
"hang" makes it wait until the file says something else, "fail" makes it fail with EIO, once: the node removes the file. Without the
file syncs are as usual.
"""

import errno
import os
import runpy
import time
from collections.abc import Callable
from pathlib import Path

VARIABLE = "QMQ_TEST_SYNCS"
HANG_LOOK_SECONDS = 0.05


def faulty(sync: Callable[[int], None], control: Path) -> Callable[[int], None]:
    """Return a sync of a file descriptor that does what the file says."""

    def words() -> list[str]:
        try:
            return control.read_text().split()
        except FileNotFoundError:
            return []

    def fdatasync(fd: int) -> None:
        match words():
            case ["delay", seconds]:
                time.sleep(float(seconds))
            case ["hang"]:
                while words() == ["hang"]:
                    time.sleep(HANG_LOOK_SECONDS)
            case ["fail"]:
                control.unlink()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(fd)

    return fdatasync


if __name__ == "__main__":
    os.fdatasync = faulty(os.fdatasync, Path(os.environ[VARIABLE]))
    runpy.run_module("broker_node", run_name="__main__", alter_sys=True)
