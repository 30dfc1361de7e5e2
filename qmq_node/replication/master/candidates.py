"""class Candidates: slaves that connect to a master, before their sessions begin."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.net.log_limiter import LogLimiter
from qmq.protocol.codes import FollowResult
from qmq.protocol.replication import FollowRequest
from qmq_node.log.record import Position
from qmq_node.replication.counters import ReplicationCounters
from qmq_node.replication.master.following_slaves import ALARMS, FollowRejected, FollowRules
from qmq_node.replication.slave_claim import SlaveClaim
from qmq_node.server.connection import Connection

FOLLOWS_MAX = 8
"""FOLLOW requests that are examined at a time; further ones are answered with BUSY."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class Candidates:
    """Examines claims and FOLLOW requests, and counts and logs those that are rejected."""

    _rules: FollowRules
    _counters: ReplicationCounters
    _clock: Clock
    _on_newer_epoch: Callable[[int], None]
    """Called when a slave knows a newer epoch."""
    _examined: int = field(default=0, init=False)
    """Requests that are being examined."""
    _log_limiter: LogLimiter = field(default_factory=LogLimiter, init=False)

    async def place(self, connection: Connection, request: FollowRequest) -> Position:
        """Return where the slave's log is truncated, as `FollowRules.place`. Raises FollowRejected."""
        try:
            if self._examined >= FOLLOWS_MAX:
                raise FollowRejected(FollowResult.BUSY, f"{FOLLOWS_MAX} slaves are being examined")
            keep_to = await self._examine(request)
            if connection.is_closed:
                raise FollowRejected(FollowResult.BUSY, "its connection ended meanwhile")
        except FollowRejected as rejected:
            self._rejected(connection, request, rejected)
            raise
        return keep_to

    def problem_of(self, connection: Connection, claim: SlaveClaim) -> str:
        """Return why a node that proves this may not follow; "" if it may ask to."""
        try:
            self._rules.check_claim(claim)
        except FollowRejected as rejected:
            self._rejected(connection, claim, rejected)
            return f"{rejected.result.name}: {rejected}"
        return ""

    async def _examine(self, request: FollowRequest) -> Position:
        self._examined += 1
        try:
            self._rules.check_sender(request)
            return await self._rules.place(request)
        finally:
            self._examined -= 1

    def _rejected(self, connection: Connection, request: FollowRequest | SlaveClaim, rejected: FollowRejected) -> None:
        result = rejected.result
        self._counters.rejected_follows[result.name.lower()] += 1
        what = f"node {request.node_id} may not follow: {rejected}"
        level = logging.WARNING
        if result in ALARMS:
            self._counters.alarms += 1
            level = logging.ERROR
        # A rejected slave asks again every few seconds.
        now = self._clock.monotonic()
        self._log_limiter.warning(logger, connection.peer, result.name, what, now, level=level)
        if result is FollowResult.NEWER_EPOCH:
            self._on_newer_epoch(request.epoch)
