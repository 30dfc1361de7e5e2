"""class HandleCache: what all derived files of a node share: open files, and which were written and not synced."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq_node.log.disk import Disk, File
from qmq_node.log.unreadable_pages import UnreadablePages

OPEN_FILES_MAX = 256
"""Index files open at a time, over all indexes of a node."""
SYNC_ONE_BY_ONE_MAX = 500
"""Above this many files the whole file system is synced at once: a sync of one small file costs 0.5 ms."""


class HandleCache:
    """Open files by path, the longest unused dropped first. A dropped file is closed by its last user. For any thread.

    Files are opened outside the lock: a slow open of one file holds up no use of another.
    """

    def __init__(self, disk: Disk, open_files_max: int = OPEN_FILES_MAX, clock: Clock = SYSTEM_CLOCK) -> None:
        self.disk = disk
        self.unreadable = UnreadablePages(clock)
        self.unsynced: set[str] = set()
        """Files written since `sync` last took them. Any thread may add one."""
        self.on_unreadable: Callable[[str, int, int], None] = lambda path, begin, end: None
        """Called from any thread when bytes [begin, end) of an `AppendFile` could not be read, or were lost because of that."""
        self._most = open_files_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._drops = 0
        """Calls of `drop` so far: a file opened before one may be the one that was removed, and is not kept."""
        self._lock = threading.Lock()

    def get(self, path: str, *, create: bool = False) -> File:
        """The file, opened when it is not. Raises OSError."""
        drops = self._drops
        if (known := self.opened(path)) is not None:
            return known
        file = self.open(path, create=create)
        with self._lock:
            if self._drops != drops:
                return file
            kept = self._open.setdefault(path, file)
            if len(self._open) > self._most:
                self._open.popitem(last=False)
            return kept

    def opened(self, path: str) -> File | None:
        """The file if it is open; never waits for the disk."""
        with self._lock:
            file = self._open.get(path)
            if file is not None:
                self._open.move_to_end(path)
            return file

    def open(self, path: str, *, create: bool) -> File:
        """Open a file that the caller closes. Raises OSError."""
        try:
            return self.disk.open(path, writable=True)
        except FileNotFoundError:
            if not create:
                raise
        try:
            return self.disk.create(path, 0)
        except FileExistsError:
            # Another thread made it in between.
            return self.disk.open(path, writable=True)

    def drop(self, path: str) -> None:
        """Let go of a file that is about to be removed."""
        with self._lock:
            self._drops += 1
            self._open.pop(path, None)
        self.unsynced.discard(path)
        self.unreadable.forget(path)

    def sync(self, root: str) -> None:
        """Make the files written so far durable, with all folders above them up to `root`; from a thread that may wait.

        The folders may be new; also one that was there, because a process that was killed may have made it a moment before.
        Files deleted meanwhile are passed over. After OSError the next call tries all of them again.
        """
        paths = sorted(self.unsynced.pop() for _ in range(len(self.unsynced)))
        try:
            if len(paths) > SYNC_ONE_BY_ONE_MAX and self.disk.sync_file_system(root):
                return
            folders: dict[str, None] = {}
            for path in paths:
                try:
                    file = self.disk.open(path, writable=True)
                except FileNotFoundError:
                    continue
                with closing(file):
                    file.datasync()
                while path != root:
                    path = path.rpartition("/")[0]
                    folders[path] = None
            for folder in folders:
                self.disk.sync_dir(folder)
        except BaseException:
            self.unsynced.update(paths)
            raise
