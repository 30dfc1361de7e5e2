"""class SwitchOvers: a slave is promoted while the clients of the master wait, so that none of their requests fails.

Clients' requests are held, not rejected: the official client repeats a rejected send ten times within milliseconds, and then fails
it. Those in progress are answered, which takes until every in-sync member has everything. Then the master resigns.

A resignation without an answer may be executed at any later time, as long as the membership has its version. That is
safe at any time, as every promotion is (docs/failover.md): a successor has everything that was answered, and what this
node writes afterwards is answered only if the successor has confirmed it before it was promoted. So the master serves
again when the outcome has been unknown for OUTCOME_SECONDS: while the database is unavailable, everything that serves
continues. It learns of a promotion as of any other.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from qmq.clock import Clock
from qmq.errors import LogError, QmqError
from qmq.protocol.codes import FollowState
from qmq.protocol.group_memberships import GroupMembership, MembershipResponse, MembershipResult
from qmq.supervisor import Supervisor
from qmq_node.replication.master.leading import Leading
from qmq_node.replication.master.slave_report import SlaveReport
from qmq_node.replication.rules.membership import Membership, Resignation
from qmq_node.requests.handlers import RequestHandlers
from qmq_node.server.server import FrameServer

DRAIN_SECONDS = 2.0
"""How long requests in progress may take once further ones are held."""
OUTCOME_SECONDS = 2.0
"""How long the master requests the outcome of a resignation, with clients held, before it serves again."""
RETRY_SECONDS = 0.2
"""Pause before a resignation with an unknown outcome is requested again. It is valid for the same version, so it is done once."""
LAG_SECONDS_MAX = 1.0
"""A slave that lacks older commits is not promoted, because clients would wait for it."""
SUCCESSOR_SECONDS = 0.5
"""How long a master that stops holds its clients after its resignation. Meanwhile its successor begins to serve, and metaservers
send clients its address."""
STOP_SECONDS_MAX = 5.0
"""How long a master that stops takes to have a slave promoted, at most. It may have to drain, and to repeat its resignation."""
CHECKPOINT_SECONDS = 5.0
"""How long a switch-over that an operator requests waits for a checkpoint before it begins. The checkpoint is completed in any
case."""

RequestResignation = Callable[[Resignation], Awaitable[MembershipResponse]]
"""Sends a resignation to a metaserver. It ends in limited time."""

logger = logging.getLogger("qmq_node.replication.rules")


class SwitchOverRejected(QmqError):
    """The master was not changed, and won't be by this request. It serves as before."""

    code = "switch_over.rejected"
    retriable = True


class SwitchOverUnknown(QmqError):
    """It is unknown whether the master is changed. It serves until it learns that it was."""

    code = "change.unknown"
    retriable = True


@dataclass(eq=False, repr=False)
class SwitchOvers:
    """Switch-overs of one master, one at a time: those that an operator requests, and the one before it stops."""

    _leading: Leading
    _server: FrameServer
    """Of the clients that are held."""
    _handlers: Callable[[], RequestHandlers]
    """Returns those of a node that serves."""
    _request: RequestResignation
    _make_checkpoint: Callable[[], Coroutine[None, None, None]]
    _on_membership: Callable[[GroupMembership], None]
    """Called with the membership that has another master: the node is to follow it."""
    _clock: Clock
    _supervisor: Supervisor
    _is_running: bool = field(default=False, init=False)
    has_resigned: bool = field(default=False, init=False)
    """Whether a slave was promoted."""
    is_done: bool = field(default=False, init=False)
    """Whether a slave was promoted at the request of an operator, after a checkpoint."""

    async def now(self, to: str) -> dict[str, Any]:
        """Have a slave lead the group, and follow it. Clients are disconnected once it was promoted.

        Args:
            to: its node id; "": the slave that has the most.

        Returns:
            For the page: `from` and `to`, node ids; `epoch` of the new master; `held_seconds`, for which clients were held.

        Raises:
            SwitchOverRejected: there is no such slave, requests in progress took too long, or the metaserver refused. Clients are
                served again.
            SwitchOverUnknown: no metaserver has said within OUTCOME_SECONDS what became of it. Clients are served again.
        """
        self._check(to)
        # The successor serves when this node has opened its log again and follows: it is to replay as little as possible.
        checkpoint = self._supervisor.background("switch_over_checkpoint", self._make_checkpoint())
        await asyncio.wait([checkpoint], timeout=CHECKPOINT_SECONDS)
        began = self._clock.monotonic()
        membership = await self._run(to, is_leaving=False)
        self.is_done = True
        self._on_membership(membership)
        held_seconds, node_id = round(self._clock.monotonic() - began, 3), self._leading.node_id
        return {"from": node_id, "to": membership.master, "epoch": membership.epoch, "held_seconds": held_seconds}

    async def before_stop(self, seconds: float) -> None:
        """Have a slave lead the group, if one can, before this node stops.

        Clients are held when it returns, if a slave was promoted.

        Args:
            seconds: time limit for the promotion; it has STOP_SECONDS_MAX at most.
        """
        node_id = self._leading.node_id
        try:
            async with asyncio.timeout(min(seconds, STOP_SECONDS_MAX)):
                await self._run("", is_leaving=True)
        except (SwitchOverRejected, SwitchOverUnknown) as error:
            logger.warning("node %s stops without a successor: %s", node_id, error)
        except TimeoutError:
            logger.warning("node %s stops, and may have no successor: the switch-over takes too long", node_id)
        else:
            await asyncio.sleep(SUCCESSOR_SECONDS)

    def _check(self, to: str) -> None:
        """Raise SwitchOverRejected if no slave can be promoted, or this one can't, or another switch-over is in progress."""
        if self._is_running:
            raise SwitchOverRejected("another switch-over of this node is in progress")
        choose(self._leading.current_membership, self._leading.slaves(), to)

    async def _run(self, to: str, *, is_leaving: bool) -> GroupMembership:
        """Have a slave promoted; its membership. Clients are held from then on. Raises as `now`.

        Args:
            is_leaving: whether this node stops. Otherwise it stays in sync, so it has to follow its successor at once.
        """
        self._check(to)
        self._is_running, began = True, self._clock.monotonic()
        # No further requests are handled, and none in progress waits for messages.
        self._server.hold()
        self._handlers().hold()
        try:
            membership = await self._resigned(to, is_leaving)
            self.has_resigned = True
        except BaseException:
            self._is_running = False
            self._handlers().resume()
            self._server.resume()
            raise
        seconds = self._clock.monotonic() - began
        logger.warning(
            "node %s leads epoch %d, %.3f s after requests were held", membership.master, membership.epoch, seconds
        )
        return membership

    async def _resigned(self, to: str, is_leaving: bool) -> GroupMembership:
        leading, deadline = self._leading, None
        unknown: int | None = None
        while True:
            await self._drain()
            successor = choose(
                leading.current_membership, leading.slaves(), to, has_all_below=leading.log.gather.records_end
            )
            if deadline is None:
                deadline = self._clock.monotonic() + OUTCOME_SECONDS
            membership = leading.current_membership
            resignation = Resignation(
                membership.broker_group, leading.node_id, membership.epoch, membership.promotion_id, membership.version,
                successor.node_id, *self._log_end(), is_leaving,
            )  # fmt: skip
            answer = await self._answer(resignation, deadline)
            if answer.membership is not None:
                if answer.membership.epoch > membership.epoch:
                    if answer.membership.master == leading.node_id:
                        raise SwitchOverRejected("all slaves were removed from the broker group meanwhile")
                    # By this request, or by one before it.
                    return answer.membership
                leading.learned(Membership.of(answer.membership))
            if answer.result is MembershipResult.UNAVAILABLE:
                unknown = membership.version
            may_come = unknown == leading.current_membership.version
            if answer.result is MembershipResult.REFUSED and not may_come:
                raise SwitchOverRejected(answer.reason)
            if self._clock.monotonic() >= deadline:
                if may_come:
                    raise SwitchOverUnknown(f"it is unknown whether the master is changed: {answer.reason}")
                raise SwitchOverRejected(f"the membership has changed meanwhile, try again: {answer.reason}")
            if may_come:
                await asyncio.sleep(RETRY_SECONDS)

    async def _drain(self) -> None:
        """Wait until requests in progress are answered, and every in-sync member has everything."""
        log = self._leading.log
        await self._handlers().drained(DRAIN_SECONDS)
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._server.answered()
                while log.high_watermark < log.gather.records_end:
                    await self._leading.committer.synced(log.gather.records_end - 1)
        except TimeoutError:
            waiting, lacking = self._server.requests_in_progress, log.gather.records_end - log.high_watermark
            raise SwitchOverRejected(
                f"after {DRAIN_SECONDS:g} s {waiting} requests are in progress, and in-sync members lack {lacking} bytes of the log"
            ) from None
        except LogError as error:
            raise SwitchOverRejected(f"this node stops: {error}") from error

    def _log_end(self) -> tuple[int, int]:
        """Where the log ends, which every in-sync member has, and the CRC of the commit there."""
        log = self._leading.log
        # An empty log has no commit, and every member has all of it.
        crc = log.crc_at(log.high_watermark) if log.high_watermark else 0
        assert crc is not None, "the newest commits are known"
        return log.high_watermark, crc

    async def _answer(self, resignation: Resignation, deadline: float) -> MembershipResponse:
        """Request a resignation. A metaserver that waits for its database may take longer than clients are to be held."""
        seconds = deadline - self._clock.monotonic()
        try:
            async with asyncio.timeout(seconds):
                return await self._request(resignation)
        except TimeoutError:
            return MembershipResponse(
                MembershipResult.UNAVAILABLE, f"no metaserver has answered within {seconds:.1f} s"
            )


def choose(membership: Membership, slaves: Sequence[SlaveReport], to: str, *, has_all_below: int = 0) -> SlaveReport:
    """Return the slave to promote: of those that can be, the one that has the most.

    Args:
        slaves: those that follow.
        to: node id of the only one that may; "": any.
        has_all_below: the log offset up to which it must have confirmed everything.

    Raises SwitchOverRejected: none can; the reason for each.
    """
    others = [member for member in membership.members if member != membership.master]
    if to and to not in others:
        names = f"its slaves are {', '.join(others)}" if others else "it has no slave"
        raise SwitchOverRejected(f"node {to[:100]} is no slave of broker group {membership.broker_group}: {names}")
    reports = {slave.node_id: slave for slave in slaves}
    wanted = [to] if to else others
    problems = {name: _problem(membership, name, reports.get(name), has_all_below) for name in wanted}
    able = [reports[name] for name, problem in problems.items() if not problem]
    if not able:
        reasons = "; ".join(f"node {name} {problem}" for name, problem in problems.items())
        raise SwitchOverRejected(reasons or f"broker group {membership.broker_group} has no slave")
    return max(able, key=lambda slave: (slave.confirmed_end, slave.applied_end))


def _problem(membership: Membership, name: str, slave: SlaveReport | None, has_all_below: int) -> str:
    """Return why a slave can't be promoted now; "" if it can."""
    if slave is None:
        return "is not connected"
    if name not in membership.in_sync:
        return "is not in sync"
    if slave.state is not FollowState.FOLLOWING:
        return "has confirmed nothing yet" if slave.state is None else f"is {slave.state.name.lower()}"
    if slave.confirmed_end < has_all_below:
        return f"lacks {has_all_below - slave.confirmed_end} bytes of the log"
    if slave.lag_seconds is None:
        return f"lacks {slave.lag_bytes} bytes of the log, some of them older than the commits that the master has in memory"
    if slave.lag_seconds > LAG_SECONDS_MAX:
        return f"lacks {slave.lag_bytes} bytes of the log, some for {slave.lag_seconds:.1f} s, more than {LAG_SECONDS_MAX:g} s"
    return ""
