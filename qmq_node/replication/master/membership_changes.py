"""class MembershipChanges: sends a master's requests to change the in-sync set, one at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from qmq.clock import Clock
from qmq.protocol.group_memberships import InSyncChange, MembershipResult
from qmq.protocol.reasons import Reason
from qmq.supervisor import Supervisor
from qmq_node.replication.counters import ReplicationCounters
from qmq_node.replication.master.in_sync_set import InSyncSet
from qmq_node.replication.rules.membership import ChangeInSync, Membership

RETRY_SECONDS_FIRST = 0.2
RETRY_SECONDS_MAX = 2.0
"""Pause after a request that changed nothing, or may not have; it doubles up to the maximum. A request that makes the
membership known ends it."""

RequestChange = Callable[[ChangeInSync, Reason], Awaitable[tuple[MembershipResult, Membership | None]]]
"""Sends a request, with its reason, to a metaserver; the result, and the membership if it is known. It ends in limited time."""

logger = logging.getLogger("qmq_node.replication.rules")


@dataclass(eq=False, repr=False)
class MembershipChanges:
    """Requests what is due until it is done, or something else is due.

    An answer may be lost, so a request may have changed the membership although its result is unknown. The rules count
    a slave whose addition was requested until a newer membership is known; a removal changes nothing before its
    membership is known. Whatever is requested next is valid for the same version: either it is stale, and its answer
    has the newer membership, or it is done, and the request before it can't be done any more.
    """

    _in_sync: InSyncSet
    _request: RequestChange
    _learned: Callable[[Membership], None]
    _clock: Clock
    _supervisor: Supervisor
    _counters: ReplicationCounters
    _database_responds: Callable[[], bool]
    """Whether a metaserver can make a change now. Otherwise no slave is added: it would count for as long as the
    database is unavailable, and nothing could be acknowledged if it failed meanwhile."""
    _running: "asyncio.Task[None] | None" = field(default=None, init=False)
    _pause: float = field(default=0.0, init=False)
    _not_before: float = field(default=0.0, init=False)
    _unknown: tuple[ChangeInSync, Reason] | None = field(default=None, init=False)
    """The last request, if it may have changed the membership."""
    _logged: ChangeInSync | None = field(default=None, init=False)
    _is_stopped: bool = field(default=False, init=False)

    def advance(self) -> None:
        """Send the change that is due, unless a request is under way or a pause has not ended.

        If none is due, repeat one with an unknown outcome, so that the membership becomes known.
        """
        is_running = self._running is not None and not self._running.done()
        if is_running or self._is_stopped or self._clock.monotonic() < self._not_before:
            return
        if self._unknown is not None and not self._in_sync.is_current(self._unknown[0]):
            self._unknown = None
        may_add = self._unknown is None and self._database_responds()
        due = self._in_sync.due_change(may_add=may_add) or self._unknown
        if due is not None:
            self._running = self._supervisor.background("replication_membership_change", self._send(*due))

    async def stop(self) -> None:
        """Send nothing more, and end the request that is under way; it may have changed the membership."""
        self._is_stopped = True
        if self._running is not None:
            await self._supervisor.cancel(self._running)

    async def _send(self, change: ChangeInSync, reason: Reason) -> None:
        self._unknown = change, reason
        membership: Membership | None = None
        what = (
            f"request to {change.change} node {change.member} in epoch {change.epoch}, version {change.in_sync_version}"
        )
        if change != self._logged:
            # Not for each repetition.
            self._logged = change
            level = logging.INFO if change.change is InSyncChange.ADD else logging.WARNING
            logger.log(level, "%s: %s", what, reason)
        try:
            result, membership = await self._request(change, reason)
            self._counters.membership_changes[result] += 1
            if result is not MembershipResult.UNAVAILABLE:
                self._unknown = None
            if result is MembershipResult.REFUSED:
                logger.error("%s was refused", what)
        finally:
            self._running = None
            is_known = membership is not None and membership.place > (change.epoch, change.in_sync_version)
            self._pause = 0.0 if is_known else min(max(2 * self._pause, RETRY_SECONDS_FIRST), RETRY_SECONDS_MAX)
            self._not_before = self._clock.monotonic() + self._pause
        if membership is not None:
            self._learned(membership)
        self.advance()
