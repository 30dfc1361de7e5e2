"""Time limits and back-off of clients. Durations are in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits of single steps."""

    connect: float = 5.0
    """Opening a connection."""
    send: float = 5.0
    """One request to send a batch; after that the batch is sent to another broker group."""
    ack: float = 10.0
    """One request to acknowledge messages; then it is repeated."""
    delivery: float = 60.0
    """All attempts of a message together, from the moment it is in the queue. A message whose last attempt shares a batch
    with newer ones fails when that attempt ends."""
    route: float = 10.0
    """The first response of the metaserver about a subject."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off: `first`, `first` x `factor`, ..., at most `longest`."""

    first: float = 0.05
    factor: float = 2.0
    longest: float = 2.0

    def pause(self, failures: int) -> float:
        """The pause after this many failures in a row (from 1)."""
        return min(self.longest, self.first * self.factor ** min(failures - 1, 30))


DEFAULT_TIMEOUTS = Timeouts()
DEFAULT_BACKOFF = Backoff()
