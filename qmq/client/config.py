"""Small frozen values instead of many arguments. All durations in seconds."""

from dataclasses import dataclass

from qmq.protocol.frames import FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long single steps may take."""

    connect: float = 5.0
    send: float = 5.0
    """One SEND; the brokers answer within it or the batch is tried elsewhere."""
    ack: float = 10.0
    delivery: float = 60.0
    """From when a message has room in the queue until it fails: all attempts together. A message whose last attempt shares a batch
    with newer ones fails when that attempt ends."""
    route: float = 10.0
    """The first answer about a subject."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Growing pauses: first, first x factor, ... never longer than `longest`."""

    first: float = 0.05
    factor: float = 2.0
    longest: float = 2.0

    def pause(self, failures: int) -> float:
        """The pause after this many failures in a row (from 1)."""
        return min(self.longest, self.first * self.factor ** min(failures - 1, 30))


@dataclass(frozen=True, slots=True)
class Limits:
    """What a producer or consumer keeps at most."""

    queue_messages: int = 10_000
    queue_bytes: int = 64 << 20
    batch_messages: int = 500
    batch_bytes: int = 1 << 20
    batches_in_flight: int = 16
    prefetch_messages: int = 500
    """Messages pulled and not yet settled, over all broker groups."""
    pull_messages: int = 100
    """Messages of one pull."""
    pull_bytes: int = 32 << 20
    """Bytes that one pull's answer should hold: a broker that does not bound its answers is asked for fewer messages when they are
    large."""
    answer_bytes: int = FRAME_BYTES_MAX
    """A larger answer closes the connection; the pull is repeated for half as many messages. A single message above it fails the
    consumer."""


DEFAULT_TIMEOUTS = Timeouts()
DEFAULT_BACKOFF = Backoff()
DEFAULT_LIMITS = Limits()
