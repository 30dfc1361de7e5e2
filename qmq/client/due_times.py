"""Due times as users give them and as the wire carries them."""

from datetime import UTC, datetime, timedelta

from qmq.clock import SYSTEM_CLOCK, Clock
from qmq.errors import LocalProtocolError

DUE_MS_MAX = 1 << 48
"""A due time beyond this is a mistake (year 10889); the delay nodes' own limit is nearer."""


def due_ms_of(delay: timedelta | None, due: datetime | None, clock: Clock = SYSTEM_CLOCK) -> int:
    """A due time in milliseconds since the epoch. Raises LocalProtocolError unless exactly one valid argument is given."""
    if (delay is None) == (due is None):
        raise LocalProtocolError("specify either delay= or due=")
    if delay is not None:
        if not isinstance(delay, timedelta):
            raise LocalProtocolError(f"delay={delay!r}: must be a timedelta such as timedelta(minutes=5)")
        if delay < timedelta(0):
            raise LocalProtocolError(f"delay={delay}: a delay can't be negative")
        due_ms = clock.wall_ms() + delay // timedelta(milliseconds=1)
    else:
        if not isinstance(due, datetime) or due.tzinfo is None or due.utcoffset() is None:
            raise LocalProtocolError(
                f"due={due!r}: must be a datetime with a time zone such as datetime.now(UTC) + timedelta(hours=1)"
            )
        due_ms = (due - datetime.fromtimestamp(0, UTC)) // timedelta(milliseconds=1)
    if not 0 <= due_ms <= DUE_MS_MAX:
        raise LocalProtocolError(f"due time {due_ms} ms: must be 0 to {DUE_MS_MAX}", code="delay.too_far")
    return due_ms


def moment(milliseconds: int) -> datetime:
    """A time of the wire as a datetime in UTC."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
