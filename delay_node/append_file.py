"""A file that only grows: what was added since it was last written is in memory, and readable like the rest.

One thread (the event loop) appends, `take`s and calls `written`; any thread reads; one thread at a time writes. Readers
look at one tuple that is replaced whole, never changed, so they need no lock.
"""

from collections.abc import Callable

from qmq.errors import LogError
from qmq.log.disk import Disk
from qmq.log.index import HandleCache

ROOM_BYTES_MIN = 256
"""First room for what waits to be written."""


class AppendFile:
    """Bytes [0, end); those below `written_end` are in the file.

    Args:
        path: where it is, or will be; a function, because most files of a node are at rest.
        end: how much of the file counts; what stands behind is from before a crash and is written anew.
    """

    __slots__ = ("_handles", "_parts", "end", "path")

    def __init__(self, handles: HandleCache, path: Callable[[], str], end: int = 0) -> None:
        self._handles = handles
        self.path = path
        self.end = end
        """Bytes in all."""
        self._parts: tuple[int, memoryview | None, bytearray | None] = (end, None, None)
        """(bytes in the file, those being written, room for those that came since, of which the first are used)."""

    @property
    def written_end(self) -> int:
        return self._parts[0]

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory only."""
        return self.end - self._parts[0]

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes at the end."""
        written, taken, tail = self._parts
        used = self.end - written - (len(taken) if taken is not None else 0)
        size = len(data)
        if tail is None or used + size > len(tail):
            # By half, and not by bytearray's own eighth: that would copy each byte eight times over.
            room = bytearray(max(used + size, used + (used >> 1), ROOM_BYTES_MIN))
            if used and tail is not None:
                room[:used] = memoryview(tail)[:used]
            self._parts = (written, taken, room)
            tail = room
        tail[used : used + size] = data
        self.end += size

    def read(self, begin: int, end: int) -> bytes:
        """Bytes [begin, end), zeros where the file is shorter than it should be: such entries fail their check.

        Raises:
            LogError: the disk could not give them.
        """
        written, taken, tail = self._parts
        parts: list[bytes | bytearray | memoryview] = []
        if begin < written:
            stop = min(end, written)
            try:
                data = self._handles.get(self.path()).pread(stop - begin, begin)
            except FileNotFoundError:
                data = b""
            except OSError as error:
                raise LogError(f"{self.path()}: {error}", code="log.unreadable") from error
            parts.append(data.ljust(stop - begin, b"\0"))
        at = written
        for piece in (taken, tail):
            if piece is not None:
                parts.append(piece[max(0, begin - at) : max(0, end - at)])
                at += len(piece)
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def take(self) -> bool:
        """Set aside what is in memory, to be written; whether there is anything."""
        written, taken, tail = self._parts
        used = self.end - written - (len(taken) if taken is not None else 0)
        if tail is not None and used:
            fresh = memoryview(tail)[:used]
            self._parts = (written, fresh if taken is None else memoryview(bytes(taken) + bytes(fresh)), None)
        return self._parts[1] is not None

    def write(self, disk: Disk) -> str | None:
        """Write what was set aside; in another thread, which syncs the file afterwards: its path, None for nothing to write.

        Raises:
            OSError: it can be tried again.
        """
        written, taken, _ = self._parts
        if taken is None:
            return None
        path = self.path()
        try:
            file = disk.open(path, writable=True)
        except FileNotFoundError:
            file = disk.create(path, 0)
        try:
            file.pwritev([taken], written)
        finally:
            file.close()
        return path

    def written(self) -> None:
        """What was set aside is in the file now."""
        written, taken, tail = self._parts
        if taken is not None:
            self._parts = (written + len(taken), None, tail)

    def forget(self) -> None:
        """Let go of the file's handle; it is about to be removed."""
        self._handles.drop(self.path())
