"""class OutQueue: answers of one connection on their way to the kernel, in order."""

import asyncio
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from qmq_node.server.server_limits import ServerMetrics
from qmq_node.server.usage import ConnectionUsage

Buffer = bytes | bytearray | memoryview
WRITE_BYTES = 256 << 10
"""Answers handed to the transport at a time; the next piece follows when the kernel has taken it."""


@dataclass(eq=False, repr=False, slots=True)
class OutQueue:
    """Answers that the kernel has not taken."""

    _usage: ConnectionUsage
    """Counts their bytes in `answer_bytes` until the kernel has taken them."""
    _metrics: ServerMetrics
    _parts: deque[Buffer] = field(default_factory=deque, init=False)
    queued_bytes: int = field(default=0, init=False)
    """Of answers that the transport has not been handed."""
    _written_bytes: int = field(default=0, init=False)
    """Handed to the transport since the connection was made."""
    _sending_bytes: int = field(default=0, init=False)
    """Bytes of the piece that the transport holds because the kernel has not taken it."""
    stalled_since: float | None = field(default=None, init=False)
    """When the kernel did not take all of a piece; None once it has."""

    def add(self, head: bytes, parts: Iterable[Buffer], size: int) -> None:
        """Queue `head` and `parts`, together `size` bytes."""
        self._parts.append(head)
        self._parts.extend(parts)
        self.queued_bytes += size
        self._usage.answer_bytes += size

    def write(self, transport: asyncio.Transport, *, although_stalled: bool = False) -> None:
        """Hand answers to the kernel, piece by piece, until it takes no more.

        Args:
            although_stalled: hand all to the transport, which keeps what the kernel does not take.
        """
        while self.queued_bytes and (although_stalled or self.stalled_since is None):
            piece = self._take_piece()
            transport.write(piece)
            if self.stalled_since is None:
                self._usage.answer_bytes -= len(piece)
            else:
                self._sending_bytes = len(piece)

    def taken(self) -> None:
        """The kernel has taken the piece that the transport held."""
        self.stalled_since = None
        self._usage.answer_bytes -= self._sending_bytes
        self._sending_bytes = 0

    def _take_piece(self) -> bytes:
        """Remove up to WRITE_BYTES; there must be some."""
        parts = self._parts
        if self.queued_bytes <= WRITE_BYTES:
            piece = b"".join(parts)
            parts.clear()
        else:
            taken, room = [], WRITE_BYTES
            while room:
                part = parts.popleft()
                if len(part) > room:
                    rest = memoryview(part)
                    parts.appendleft(rest[room:])
                    part = rest[:room]
                taken.append(part)
                room -= len(part)
            piece = b"".join(taken)
        self.queued_bytes -= len(piece)
        self._written_bytes += len(piece)
        self._metrics.bytes_out += len(piece)
        return piece

    def clear(self) -> None:
        """The connection is gone."""
        self._parts.clear()
        self.queued_bytes = 0

    @property
    def mark(self) -> int:
        """Bytes of all answers since the connection was made, for `has_unread`."""
        return self._written_bytes + self.queued_bytes

    def has_unread(self, mark: int) -> bool:
        """Whether answers queued at `mark` still wait for the peer to read."""
        return self._written_bytes - self._sending_bytes < mark
