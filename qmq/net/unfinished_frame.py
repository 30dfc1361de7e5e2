"""Frames whose bytes have arrived in part: their deadlines, and room for the large ones."""

from collections.abc import Callable

from qmq.clock import Clock
from qmq.net.server_limits import ServerLimits
from qmq.protocol.frames import FrameReader

LARGE_FRAME_BYTES = 1 << 20
"""An unfinished frame above this size takes room of `large_frames_bytes_max`; smaller ones are bounded by `connections_max`."""


class LargeFrames:
    """Grants room for unfinished large frames, to one connection after the other in the order of their requests.

    Room is granted for the whole frame before its body is read: if connections took room as bytes arrive, many frames could be
    half read at the limit and none of them ever completed.

    Args:
        bytes_max: of all granted frames together.
        may_grant: whether any room may be granted now; the owner calls `grant_waiting` when that becomes true.
    """

    def __init__(self, bytes_max: int, may_grant: Callable[[], bool]) -> None:
        self._free = bytes_max
        self._may_grant = may_grant
        self._granted: dict[Callable[[], None], int] = {}
        self._waiting: dict[Callable[[], None], int] = {}

    def request(self, on_granted: Callable[[], None], size: int) -> bool:
        """Ask for room, for a connection that has none yet; False: wait, `on_granted` is called later."""
        if self._waiting or size > self._free or not self._may_grant():
            self._waiting[on_granted] = size
            return False
        self._grant(on_granted, size)
        return True

    def _grant(self, on_granted: Callable[[], None], size: int) -> None:
        self._free -= size
        self._granted[on_granted] = size

    def release(self, on_granted: Callable[[], None]) -> None:
        """The frame that room was asked for is complete, or its connection is gone: give the room to those that wait."""
        self._waiting.pop(on_granted, None)
        self._free += self._granted.pop(on_granted, 0)
        self.grant_waiting()

    def grant_waiting(self) -> None:
        """Give free room to those that wait, in the order of their requests."""
        ready = []
        while self._waiting and self._may_grant():
            following, size = next(iter(self._waiting.items()))
            if size > self._free:
                break
            del self._waiting[following]
            self._grant(following, size)
            ready.append(following)
        for following in ready:
            following()


class UnfinishedFrame:
    """The frame of one connection that is not complete yet, if there is one."""

    __slots__ = ("_clock", "_has_room", "_large_frames", "_on_granted", "_reader", "since", "waits_for_room")

    def __init__(
        self, reader: FrameReader, large_frames: LargeFrames, clock: Clock, on_granted: Callable[[], None]
    ) -> None:
        self._reader = reader
        self._large_frames = large_frames
        self._clock = clock
        self._on_granted = on_granted
        self._has_room = False
        """It has, or waits for, room of `large_frames`."""
        self.since: float | None = None
        """Since when it is unfinished; None: there is none."""
        self.waits_for_room = False
        """No more of it may be read before there is room."""

    def watch(self, *, has_frames: bool) -> bool:
        """Follow a read that completed frames or not; whether a large frame has to wait for room from now on."""
        if not self._reader.pending_bytes:
            self.since = None
        elif has_frames or self.since is None:
            self.since = self._clock.monotonic()
        if self._has_room and has_frames:
            self.release()
        size = self._reader.unfinished_bytes
        if size <= LARGE_FRAME_BYTES or self._has_room:
            return False
        self._has_room = True
        self.waits_for_room = not self._large_frames.request(self._granted, size)
        return self.waits_for_room

    def _granted(self) -> None:
        self.waits_for_room = False
        self._on_granted()

    def release(self) -> None:
        """It is complete, or its connection is gone."""
        self._has_room = False
        self._large_frames.release(self._granted)

    def restart(self) -> None:
        """Its time begins again: it was not read for a while."""
        if self.since is not None:
            self.since = self._clock.monotonic()

    def is_late(self, now: float, limits: ServerLimits) -> bool:
        """Whether it is not complete in time."""
        seconds = limits.half_frame_seconds + self._reader.unfinished_bytes / limits.frame_bytes_per_second_min
        return self.since is not None and now - self.since > seconds
