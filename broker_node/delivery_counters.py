"""What pulls and acks count."""

from dataclasses import dataclass


@dataclass(slots=True)
class DeliveryCounters:
    """Counts since start, for metrics."""

    pulled: int = 0
    redelivered: int = 0
    acked: int = 0
    settled: int = 0
    """Messages moved to their retry subject because their consumer left, fell silent or jumped over them."""
    duplicate_acks: int = 0
    lost_acks: int = 0
    fell_behind: int = 0
