"""What the connections of one server use together, and which of them may go on."""

from collections.abc import Callable

from qmq.net.server_limits import ServerLimits
from qmq.net.unfinished_frame import LargeFrames
from qmq.protocol.frames import HEADER_BYTES, Frame

ANSWER_SHARE = 8
"""One answer may take this share (1/8) of what is left of `answer_total_bytes_max`."""
ANSWER_BYTES_MIN = 16 << 10
"""An answer may always have this many bytes, also when nothing is left."""


class ServerUsage:
    """The sums over all connections.

    Args:
        call_soon: calls a function in the next turn of the event loop.
    """

    def __init__(self, limits: ServerLimits, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self.limits = limits
        self._call_soon = call_soon
        self.large_frames = LargeFrames(limits.large_frames_bytes_max, lambda: not self.is_over)
        self.in_flight_bytes = 0
        """Of requests without an answer."""
        self.answer_bytes = 0
        """Of answers that wait for the disk or for a peer that does not read."""
        self.is_over = False
        """`in_flight_total_bytes_max` was exceeded, and more than half of it is still unanswered."""
        self._waiting: dict[Callable[[], None], None] = {}

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
        """Whether it may not go on before enough requests of all connections are answered."""
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
