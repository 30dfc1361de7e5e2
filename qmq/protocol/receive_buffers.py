"""class ReceiveBuffers: receive buffers of one connection that are used again."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(eq=False, repr=False, slots=True)
class ReceiveBuffers:
    """Keeps used buffers, and returns one when no view of it is left.

    A new buffer is filled with zeros: for a connection that receives nothing but large frames, some 6 % of its processor time.
    """

    bytes_max: int
    """When the kept buffers have more bytes than this together, the oldest are dropped."""
    buffer_bytes: int
    """Size in bytes of a buffer for several large frames."""
    _kept: deque[bytearray] = field(default_factory=deque, init=False)
    kept_bytes: int = field(default=0, init=False)
    """Size of all kept buffers."""

    def keep(self, buffer: bytearray) -> None:
        """Keep a buffer that nothing more is received into. Views of it may be in use."""
        self._kept.append(buffer)
        self.kept_bytes += len(buffer)
        while self.kept_bytes > self.bytes_max:
            self.kept_bytes -= len(self._kept.popleft())

    def take(self, size: int) -> bytearray:
        """Return a buffer of at least `size` bytes, with any content."""
        for index in range(len(self._kept) - 1, -1, -1):
            buffer = self._kept[index]
            if len(buffer) >= size and _is_free(buffer):
                del self._kept[index]
                self.kept_bytes -= len(buffer)
                return buffer
        return bytearray(size)


def _is_free(buffer: bytearray) -> bool:
    """Whether there is no view of a buffer: Python lets nothing change its size while there is one."""
    try:
        buffer.pop()
    except BufferError:
        return False
    buffer.append(0)
    return True
