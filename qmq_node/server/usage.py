"""What the connections of one server use together, also for frames of which a part has arrived, and which of them may continue."""

from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.frames import HEADER_BYTES, Frame, FrameReader
from qmq_node.server.server_limits import ServerLimits

ANSWER_SHARE = 8
"""One answer may take this share (1/8) of what is left of `answer_total_bytes_max`."""
ANSWER_BYTES_MIN = 16 << 10
"""An answer may always have this many bytes, also when nothing is left."""
LARGE_FRAME_BYTES = 1 << 20
"""An unfinished frame above this size takes room of `large_frames_bytes_max`; smaller ones are bounded by `connections_max`."""


@dataclass(eq=False, repr=False)
class LargeFrames:
    """Grants room for unfinished large frames, to one connection after the other in the order of their requests.

    Room is granted for the whole frame before its body is read: if connections took room as bytes arrive, many frames could be
    half read at the limit and none of them ever completed.
    """

    _free: int
    """Bytes that are not granted; at first those of all granted frames together."""
    _may_grant: Callable[[], bool]
    """Whether any room may be granted now; the owner calls `grant_waiting` when that becomes true."""
    _granted: dict[Callable[[], None], int] = field(default_factory=dict, init=False)
    _waiting: dict[Callable[[], None], int] = field(default_factory=dict, init=False)

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


@dataclass(eq=False, repr=False)
class ServerUsage:
    """The sums over all connections."""

    limits: ServerLimits
    _call_soon: Callable[[Callable[[], None]], object]
    """Calls a function in the next turn of the event loop."""
    in_flight_bytes: int = field(default=0, init=False)
    """Of requests without an answer."""
    answer_bytes: int = field(default=0, init=False)
    """Of answers that wait for the disk or for a peer that does not read."""
    is_over: bool = field(default=False, init=False)
    """`in_flight_total_bytes_max` was exceeded, and more than half of it is still unanswered."""
    _waiting: dict[Callable[[], None], None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.large_frames = LargeFrames(self.limits.large_frames_bytes_max, lambda: not self.is_over)

    def add_in_flight(self, size: int) -> None:
        """Follow the sum over all connections; when it is back at half of the limit, connections are read again."""
        self.in_flight_bytes += size
        if not self.is_over:
            self.is_over = self.in_flight_bytes > self.limits.in_flight_total_bytes_max
        elif self.in_flight_bytes <= self.limits.in_flight_total_bytes_max // 2:
            self.is_over = False
            self._call_soon(self._resume_waiting)

    def wait_until_under(self, resume: Callable[[], None]) -> None:
        """Call `resume` when enough requests of all connections are answered."""
        self._waiting[resume] = None

    def cancel_wait(self, resume: Callable[[], None]) -> None:
        """The connection of an earlier `wait_until_under` is gone."""
        self._waiting.pop(resume, None)

    def _resume_waiting(self) -> None:
        self.large_frames.grant_waiting()
        waiting, self._waiting = self._waiting, {}
        for resume in waiting:
            resume()


class ConnectionUsage:
    """What one connection uses. The sums over all connections follow when `publish` is called, once a read and once a flush,
    because each frame changes the values twice."""

    __slots__ = ("_published_answers", "_published_in_flight", "answer_bytes", "in_flight_bytes", "requests", "server")

    def __init__(self, server: ServerUsage) -> None:
        self.server = server
        self.requests = 0
        """Without an answer."""
        self.in_flight_bytes = 0
        """Of these requests."""
        self.answer_bytes = 0
        """Of all answers that wait: for the disk, to be written, or in the transport."""
        self._published_in_flight = self._published_answers = 0

    def add(self, request: Frame) -> None:
        """A request arrived that is to be answered."""
        request.unanswered_bytes = size = HEADER_BYTES + len(request.body)
        self.requests += 1
        self.in_flight_bytes += size

    def remove(self, request: Frame) -> bool:
        """It is answered, or will not be; False when it was before, or needs no answer."""
        size = request.unanswered_bytes
        if not size:
            return False
        self.requests -= 1
        self.in_flight_bytes -= size
        self.answer_bytes -= request.held_bytes
        request.unanswered_bytes = request.held_bytes = 0
        return True

    def hold(self, request: Frame, answer_bytes: int) -> None:
        """Its answer is complete in memory and waits for the disk."""
        if request.unanswered_bytes:
            self.answer_bytes += answer_bytes - request.held_bytes
            request.held_bytes = answer_bytes
            self.publish()

    def publish(self) -> None:
        """Bring the sums over all connections up to date."""
        change = self.in_flight_bytes - self._published_in_flight
        if change:
            self._published_in_flight = self.in_flight_bytes
            self.server.add_in_flight(change)
        change = self.answer_bytes - self._published_answers
        if change:
            self._published_answers = self.answer_bytes
            self.server.answer_bytes += change

    def clear(self) -> None:
        """The connection is gone."""
        self.requests = self.in_flight_bytes = self.answer_bytes = 0
        self.publish()

    @property
    def answer_room(self) -> int:
        """The most bytes that an answer made now should have: a share of what is left for the answers of all connections.

        Peers that don't read their answers use that up. Others get smaller answers then, and read them at once.
        """
        free = self.server.limits.answer_total_bytes_max - self._all_answer_bytes
        return max(ANSWER_BYTES_MIN, free // ANSWER_SHARE)

    @property
    def _all_answer_bytes(self) -> int:
        """Of all connections, with those of this read."""
        return self.server.answer_bytes + self.answer_bytes - self._published_answers

    @property
    def _has_no_answer_room(self) -> bool:
        return self.answer_bytes > 0 and self._all_answer_bytes > self.server.limits.answer_total_bytes_max

    @property
    def waits_for_others(self) -> bool:
        """Whether it may not continue before enough requests of all connections are answered."""
        return self.server.is_over and self.requests > 0

    def is_over(self) -> bool:
        """Whether no further request may be handled or read."""
        server, limits = self.server, self.server.limits
        return (
            self.in_flight_bytes > limits.in_flight_bytes_max
            or self.requests > limits.in_flight_requests_max
            or self.answer_bytes > limits.answer_bytes_max
            or (server.is_over and self.requests > 0)
            # The first condition is cheap and counts some bytes twice; the second is exact.
            or (server.answer_bytes + self.answer_bytes > limits.answer_total_bytes_max and self._has_no_answer_room)
        )

    def is_under(self) -> bool:
        """Whether requests may be handled and read again, as far as this connection is concerned."""
        limits = self.server.limits
        return (
            self.answer_bytes <= limits.answer_bytes_max // 2
            and not self._has_no_answer_room
            and self.in_flight_bytes <= limits.in_flight_bytes_max // 2
            and self.requests <= limits.in_flight_requests_max // 2
        )


@dataclass(eq=False, repr=False, slots=True)
class UnfinishedFrame:
    """The frame of one connection that is not complete yet, if there is one."""

    _reader: FrameReader
    _large_frames: LargeFrames
    _clock: Clock
    _on_granted: Callable[[], None]
    _has_room: bool = field(default=False, init=False)
    """It has, or waits for, room of `large_frames`."""
    since: float | None = field(default=None, init=False)
    """Since when it is unfinished; None: there is none."""
    waits_for_room: bool = field(default=False, init=False)
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
