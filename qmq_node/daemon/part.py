"""class Part: one of the things that a daemon consists of."""

from math import inf

from qmq.net.open_files import FileBudget
from qmq.protocol.reasons import NO_REASON, Reason


class Part:
    """The daemon calls these methods of all its parts, one phase after the other and in the order of its parts, on its event loop.

    A part overrides those in which it has something to do.
    """

    async def open(self, budget: FileBudget) -> None:
        """Open the data, in threads. No port is bound. Raises SettingError, LogError or OSError."""

    async def start(self) -> None:
        """Start what stores changes. Handlers exist, no client is connected."""

    async def prepare(self) -> None:
        """Work before clients can connect, which may store changes."""

    def run(self) -> None:
        """Work by itself from now on: periodic jobs, registrations. Clients can connect."""

    async def before_stop(self) -> None:
        """Work while clients are still served. Not after a failure."""

    async def stop(self) -> None:
        """Stop what works by itself: parked requests, deliveries. Clients' connections are still open."""

    @property
    def drain_seconds_max(self) -> float:
        """How long a stop may wait for unanswered requests."""
        return inf

    async def finish(self) -> None:
        """Write what is pending. No client is connected any more."""

    async def release(self) -> None:
        """Release files and locks, also after a start that failed at any point."""

    def health(self) -> str:
        """Why the process can't continue; "" when it can."""
        return ""

    def not_ready(self) -> Reason:
        """Why the daemon does not serve; "" when this part is no reason."""
        return NO_REASON

    def restrictions(self) -> dict[str, str]:
        """What the daemon does not do although it serves, with the reasons; `/readyz` includes them."""
        return {}
