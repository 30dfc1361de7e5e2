"""class FollowRetries: when a slave whose session ended connects again, and which errors another session can't solve."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.net.log_limiter import LogLimiter
from qmq_node.replication.slave.follow_outcomes import MasterAlarm, MustCopy, ReplicationAlarm

BACK_OFF_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Pauses after sessions: the first one after a session that brought commits, further ones after consecutive ones that brought none.
The last one repeats. The master removes a slave that has not returned within 1 s."""
KEPT_SECONDS = (0.5, 1.0, 2.0, 5.0, 10.0)
"""Pauses after consecutive answers that would have the log replaced, or the node give up, if the membership confirmed
them. The last one repeats."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class FollowRetries:
    """Counts failures of one follower."""

    _clock: Clock
    why_kept: Callable[[], str]
    """As `SlaveCopy` has it. Nor may the node give up."""
    _failures: int = field(default=0, init=False)
    _kept: int = field(default=0, init=False)
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)

    def problem_of(self, error: Exception) -> str:
        """Return why there is no session. Raises the error if another one would not help."""
        if isinstance(error, MasterAlarm | MustCopy):
            if not (kept := self.why_kept()):
                raise error
            self._kept += 1
            # Offsets in the text may change each time, and other failures may come between two such answers.
            key = type(error), kept, error.result if isinstance(error, MasterAlarm) else None
            self.log(key, f"this log stays as it is, {kept}: {error}")
            return f"{error}: {kept}"
        if isinstance(error, ReplicationAlarm):
            raise error
        self._kept = 0
        return str(error)

    def log(self, key: object, text: str) -> None:
        """Log an error of a session, with a doubling pause between lines with the same key: further sessions may end the same."""
        self._log_limiter.error(logger, key, text, self._clock.monotonic())

    def pause(self, address: str, problem: str, *, has_received: bool) -> float:
        """Return the seconds until the next session.

        Args:
            has_received: whether the last one brought commits.
        """
        self._failures = 0 if has_received else self._failures + 1
        if self._failures == 1:
            logger.warning("no session with the master at %s: %s", address, problem)
        if self._kept and not has_received:
            return _of(KEPT_SECONDS, self._kept)
        self._kept = 0
        return _of(BACK_OFF_SECONDS, max(self._failures, 1))


def _of(pauses: Sequence[float], count: int) -> float:
    return pauses[min(count, len(pauses)) - 1]
