"""Bytes that only grow: what was added since they were last written is in memory, and readable like the rest.

One thread (the event loop) appends, `take`s and calls `written`; any thread reads; one thread at a time writes. Readers
look at one tuple that is replaced whole, never changed, so they need no lock.
"""

import logging
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing

from qmq.errors import LogError
from qmq_node.log.disk import Buffer
from qmq_node.log.handles import HandleCache
from qmq_node.log.whole_pages import end_file

logger = logging.getLogger("qmq_node.log.append_file")

ROOM_BYTES_MIN = 256
"""First room for what waits to be written."""
PIECE_BYTES = 1 << 20
"""From here on what waits gets another room beside the first: moving 30 MB to a larger one held up the event loop for 0.1 s."""


_Parts = tuple[int, int, tuple[memoryview, ...], tuple[int, ...], bytearray | None]
"""Bytes in files, how many of the pieces are being written, pieces, the end of each, room behind them, of which a part is used."""


class Tail:
    """The end of what grows: bytes [written_end, end) are in memory only.

    Args:
        end: how much is in files.
    """

    __slots__ = ("_parts", "_replaced", "_used", "end", "number", "saved_end")

    def __init__(self, end: int = 0) -> None:
        self.end = end
        """Bytes in all."""
        self.number = 0
        """By which a `TailsFile` knows those in memory; 0 for none."""
        self.saved_end = end
        """Up to here that file has them."""
        self._used = 0
        """Of the room."""
        self._parts: _Parts = (end, 0, (), (), None)
        self._replaced: list[tuple[int, bytes]] = []
        """Place and bytes of what was replaced while it was being written."""

    @property
    def written_end(self) -> int:
        return self._parts[0]

    @property
    def memory_bytes(self) -> int:
        """Bytes in memory only."""
        return self.end - self._parts[0]

    @property
    def taken(self) -> tuple[int, Sequence[Buffer]]:
        """What was taken to be written: where it begins, and the bytes in pieces as they were appended, none of them cut."""
        written, count, pieces, _, _ = self._parts
        return written, pieces[:count]

    def append(self, data: Buffer) -> None:
        """Add bytes at the end."""
        room, used = self._parts[4], self._used
        stop = used + len(data)
        if room is None or stop > len(room):
            room = self._more_room(len(data))
            used, stop = self._used, self._used + len(data)
        room[used:stop] = data
        self._used = stop
        self.end += stop - used

    def _more_room(self, size: int) -> bytearray:
        written, taken, pieces, ends, room = self._parts
        used = self._used
        # By half, and not by bytearray's own eighth: that would copy each byte eight times over.
        more = bytearray(
            max(size, PIECE_BYTES) if used >= PIECE_BYTES else max(used + size, used * 3 // 2, ROOM_BYTES_MIN)
        )
        if room is not None and used >= PIECE_BYTES:
            pieces, ends, self._used = (*pieces, memoryview(room)[:used]), (*ends, self.end), 0
        elif room is not None:
            more[:used] = memoryview(room)[:used]
        self._parts = (written, taken, pieces, ends, more)
        return more

    def memory(self, begin: int, end: int) -> tuple[int, list[Buffer]]:
        """Where memory begins, and what of [begin, end) is in it; `end` is not above `self.end`. From any thread."""
        written, _, pieces, ends, room = self._parts
        found: list[Buffer] = []
        number = bisect_right(ends, begin)
        at = ends[number - 1] if number else written
        while at < end and number < len(pieces):
            found.append(pieces[number][max(0, begin - at) : end - at])
            at = ends[number]
            number += 1
        if at < end and room is not None:
            found.append(room[max(0, begin - at) : end - at])
        return written, found

    def replace(self, at: int, data: Buffer) -> None:
        """Replace bytes that are in memory."""
        begin, taken, pieces, ends, room = self._parts
        self.saved_end = min(self.saved_end, at)
        if taken and at < ends[taken - 1]:
            self._replaced.append((at, bytes(data)))
        for piece in (*pieces, room):
            if piece is not None and at >= begin:
                part = piece[at - begin : at - begin + len(data)]
                piece[at - begin : at - begin + len(part)] = data[: len(part)]
                at, data = at + len(part), data[len(part) :]
            begin += len(piece or b"")

    def take(self) -> bool:
        """Set aside what is in memory, to be written; whether there is anything."""
        written, _, pieces, ends, room = self._parts
        self.number = 0
        if room is not None and self._used:
            pieces, ends, room = (*pieces, memoryview(room)[: self._used]), (*ends, self.end), None
            self._used = 0
        self._parts = (written, len(pieces), pieces, ends, room)
        return bool(pieces)

    def written(self) -> Sequence[tuple[int, bytes]]:
        """What was taken is in files now. Return place and bytes of what was replaced of it meanwhile, which may not be there."""
        written, count, pieces, ends, room = self._parts
        self._parts = (ends[count - 1] if count else written, 0, pieces[count:], ends[count:], room)
        replaced, self._replaced = self._replaced, []
        return replaced


class AppendFile(Tail):
    """Bytes [0, end) of one file; those below `written_end` are in it.

    Args:
        path: where it is, or will be; a function, because most files of a node are at rest.
        end: how many bytes of the file count; those behind are from before a crash and are overwritten.
    """

    __slots__ = ("_handles", "path")

    def __init__(self, handles: HandleCache, path: Callable[[], str], end: int = 0) -> None:
        super().__init__(end)
        self._handles = handles
        self.path = path

    def read(self, begin: int, end: int, *, is_check: bool = False) -> bytes:
        """Bytes [begin, end), zeros where the file is too short: such entries fail their check. Raises LogError.

        Args:
            is_check: an error is not reported to `HandleCache.on_unreadable`.
        """
        written, parts = self.memory(begin, end)
        if begin < written:
            stop = min(end, written)
            try:
                data = self._handles.get(self.path()).pread(stop - begin, begin)
            except FileNotFoundError:
                data = b""
            except OSError as error:
                if not is_check:
                    self._handles.on_unreadable(self.path(), begin, stop)
                raise LogError(f"{self.path()}: {error}", code="log.unreadable") from error
            parts.insert(0, data.ljust(stop - begin, b"\0"))
        return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)

    def write(self) -> None:
        """Write what was taken; in another thread. `HandleCache.sync` makes it durable. After OSError it can be tried again.

        If the disk can't read the page that the file ends in, what was in it is lost and named in the log; the rest is written.
        """
        written, taken = self.taken
        if not taken:
            return
        path = self.path()
        # Not kept open: most hours are written once in a while, and read late.
        with closing(self._handles.open(path, create=True)) as file:
            try:
                file.pwritev(taken, written)
            except OSError as error:
                if lost := end_file(file, taken, written, error):
                    logger.error(
                        "%s: bytes [%d, %d) can't be read and are lost; their page was written whole, with zeros in their place",
                        path, written - lost, written,
                    )  # fmt: skip
                    self._handles.on_unreadable(path, written - lost, written)
        self._handles.unsynced.add(path)

    def forget(self) -> None:
        """Let go of the file's handle; it is about to be removed."""
        self._handles.drop(self.path())
