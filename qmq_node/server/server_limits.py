"""What a server of frames takes at most, and what it counts."""

from collections import Counter
from dataclasses import dataclass, field

from qmq.protocol.frames import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What one server takes at most; what happens at a limit stands with it."""

    connections_max: int = 10_000
    """A further connection is closed at once and counted, or another one in its favour, if the server's owner names one."""
    frame_bytes_max: int = FRAME_BYTES_MAX
    """A larger frame closes its connection, by its header alone."""
    large_frames_bytes_max: int = 512 << 20
    """Unfinished large frames of all connections together, by the sizes in their headers. A further one is not read until there is
    room for all of it, in the order of arrival; its connection stays open."""
    in_flight_bytes_max: int = 64 << 20
    """Bytes of unanswered requests of a connection; above it, no further request is handled or read until half is answered."""
    in_flight_requests_max: int = 4096
    """Unanswered requests of a connection; as above."""
    in_flight_total_bytes_max: int = 1 << 30
    """The sum of `in_flight_bytes_max` over all connections; above it, no connection that has unanswered requests is read, and no
    large frame gets room. Connections without either continue: each can add one small frame."""
    half_frame_seconds: float = 30.0
    """A frame that is not complete this long after its first byte closes its connection; the time to receive a large frame at
    `frame_bytes_per_second_min` is added."""
    frame_bytes_per_second_min: int = 1 << 20
    """The slowest rate at which a large frame may arrive."""
    answer_bytes_max: int = 8 << 20
    """Bytes of answers of a connection that wait for the disk or for the peer to read them; above it, no further request is handled
    or read until half is gone. One answer may exceed it."""
    answer_total_bytes_max: int = 64 << 20
    """The sum of those over all connections; above it, a connection with such answers is not read. `Connection.answer_room` makes
    answers small before that, so that connections without any are still served."""
    write_stall_seconds: float = 60.0
    """A peer that takes nothing of its answers for this long is cut off."""


@dataclass(slots=True)
class ServerMetrics:
    """Counts since start."""

    refused: int = 0
    displaced: int = 0
    """Connections closed in favour of others. Only the sync port closes any."""
    bad_frames: Counter[str] = field(default_factory=Counter)
    handler_errors: int = 0
    half_frames: int = 0
    write_stalls: int = 0
    paused: int = 0
    large_frames_waited: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
