"""class ServerSettings: what a test can change about its nodes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Settings of the nodes of one test. The defaults are those of a production system, except for `syncs`."""

    retry_delay_seconds: float = 5.0
    """Delay before a retried message is delivered; 0: immediately."""
    consumer_lease_seconds: float = 180.0
    """Time without requests after which the unacknowledged messages of a consumer are retried."""
    delay_max_days: float = 730.0
    """Maximum delay of a message."""
    syncs: bool = False
    """Whether nodes sync their files and reserve space for them, as they do in production. Without, files and answers are the same,
    and only a power failure or a full disk makes a difference; with it, each start and each send waits for the disk."""
