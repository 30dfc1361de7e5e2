"""Where Spark puts what does not fit memory: a folder for each call, removed with it; after a kill -9 by the next call."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "qmq-analytics-"
LOCK = ".lock"
"""Locked by the process that uses the folder, as long as it runs."""
UNLOCKED_SECONDS = 3_600.0
"""So old a folder without a lock file has to be: one that is made just now has none yet."""


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[Path]:
    """A folder below `parent` (the system's for temporary files); what dead processes left there is removed first.

    Raises:
        OSError: it can't be made.
    """
    place = parent or Path(tempfile.gettempdir())
    for left in place.glob(f"{PREFIX}*"):
        if _is_abandoned(left):
            shutil.rmtree(left, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX, dir=place, ignore_cleanup_errors=True) as folder,
        open(f"{folder}/{LOCK}", "w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(folder)


def _is_abandoned(folder: Path) -> bool:
    # Another user's can't be opened, and is left alone; so is one that goes while we look.
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.geteuid():
            return False
        if not (folder / LOCK).exists():
            return time.time() - folder.stat().st_mtime > UNLOCKED_SECONDS
        with open(folder / LOCK) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    return False
