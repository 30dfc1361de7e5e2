"""Answers requests that can't be served, counts them by reason and logs them with a back-off."""

import logging
from collections import Counter
from dataclasses import dataclass, field

from broker_node.store import LimitReached
from qmq.clock import Clock
from qmq.errors import IllegalName, LogError, NoSpace, ProtocolError
from qmq.net.connection import Connection
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import Command, ResponseCode
from qmq.protocol.frames import Frame
from qmq.protocol.scan import BadChecksum
from qmq.supervisor import Supervisor

logger = logging.getLogger("qmq.broker.handlers")

ERROR_HOLD_SECONDS = 1.0
"""A pull refused for its parameters is answered this late: push consumers ask again at once (trap T4)."""

REASONS: dict[type[Exception], str] = {
    BadChecksum: "bad_crc",
    IllegalName: "illegal_name",
    ProtocolError: "undecodable",
    LimitReached: "limit_reached",
    NoSpace: "no_space",
    LogError: "log_failed",
    OSError: "unreadable",
}
"""Errors that a request may meet, and the reason each is counted under. The first that fits counts."""


@dataclass(slots=True)
class HandlerCounters:
    """Counts since start, for metrics."""

    sends: int = 0
    send_failures: Counter[str] = field(default_factory=Counter)
    pulls: int = 0
    acks: int = 0
    bad_requests: Counter[str] = field(default_factory=Counter)
    cold_pulls: int = 0
    policy_refused_messages: Counter[str] = field(default_factory=Counter)
    policy_refused_pulls: int = 0
    paused_pulls: int = 0
    full_pulls: int = 0
    """Pulls of consumers with as many messages in flight as they may have."""


class Rejections:
    """Counts, logs and answers requests that can't be served."""

    def __init__(self, counters: HandlerCounters, clock: Clock, supervisor: Supervisor) -> None:
        self._counters = counters
        self._clock = clock
        self._supervisor = supervisor
        self._log_limiter = LogLimiter()
        self.is_stopping = False
        """Refused pulls are answered at once from now on."""

    def fail(self, connection: Connection, frame: Frame, error: Exception) -> None:
        """Answer a request that raised. The one place for it: a request may fail at once, when woken or when its read ends.

        An error of the request, a limit or the disk is counted by its reason; any other is an error of ours.
        """
        for kind, reason in REASONS.items():
            if isinstance(error, kind):
                self.count(reason, connection, str(error))
                break
        else:
            connection.report(error)
        is_undecodable = isinstance(error, ProtocolError) and not isinstance(error, BadChecksum | IllegalName)
        self.refuse(connection, frame, ResponseCode.BROKER_ERROR if is_undecodable else ResponseCode.NO_MESSAGE)

    def count(self, reason: str, connection: Connection, what: str) -> None:
        """Count a bad request, and log it with a back-off for each reason and host."""
        self._counters.bad_requests[reason] += 1
        self.log(reason, connection, what)

    def log(self, reason: str, connection: Connection, what: str) -> None:
        """Log a rejection with a back-off for each reason and host."""
        self._log_limiter.warning(logger, connection.peer, reason, what, self._clock.monotonic())

    def refuse(self, connection: Connection, frame: Frame, pull_code: ResponseCode = ResponseCode.NO_MESSAGE) -> None:
        """Answer a request that can't be answered: a pull with `pull_code`, and late, because its sender asks again at once."""
        code = pull_code if frame.code == Command.PULL_MESSAGE else ResponseCode.BROKER_ERROR
        if frame.code == Command.PULL_MESSAGE and not self.is_stopping:
            self._supervisor.later(ERROR_HOLD_SECONDS, "held_refusal", lambda: connection.reply(frame, code))
        else:
            connection.reply(frame, code)
