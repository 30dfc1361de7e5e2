"""Promotions of slaves: when a broker group's master is gone, and who replaces it.

A promotion is safe at any time, also that of a healthy group (docs/failover.md). What is decided here is only when one is useful.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from metaserver.choices import OperatorState
from metaserver.domain import Node
from metaserver.memory.group_table import GroupTable
from metaserver.memory.live_groups import EXPIRY_SECONDS, LEASE_SECONDS, PEER_EXPIRY_SECONDS, LiveGroup, NodeReport
from metaserver.memory.membership_wishes import CandidateLog, MembershipWish
from metaserver.reports import unfit_reason
from qmq.protocol.codes import ReplicaRole
from qmq.protocol.reasons import Code, Reason, joined
from qmq_node.replication.rules.promotion import Blocked, MemberReport, choose

logger = logging.getLogger("qmq.meta.promotions")

PROMOTIONS_MAX = 4
"""Broker groups whose membership is being changed by a promotion at a time; others follow."""
RECONNECT_SECONDS = 1.0
"""How long a master has to connect again, and slaves must not have received anything of it, before one of them is promoted."""
SILENT_SECONDS = 2.0
"""A slave that has received something of a master for this long, while the metaserver has not, keeps it in its role."""
LEARN_SECONDS = 1.0
"""A report that arrives within this time after its node became the master may be from before: it does not end the epoch."""
STORED_SECONDS = PEER_EXPIRY_SECONDS - EXPIRY_SECONDS
"""After this time at most, the heartbeat that another metaserver received is stored there and read here."""


@dataclass(frozen=True, slots=True)
class Due:
    """Why a group needs another master."""

    reason: Reason
    silent_seconds: float
    """A slave that received something of the master within this time is not promoted."""
    includes_master: bool = False
    """Whether the master itself may be promoted again."""
    is_conclusion: bool = True
    """Whether it follows from what did not arrive. Otherwise the master reports it."""
    is_cut_off: bool = False
    """Whether the master leads, but can't reach its slaves."""


def is_due(live: LiveGroup, now: float) -> Due | None:
    """Return why a group needs another master, or None if it does not.

    Args:
        now: monotonic seconds.
    """
    group, master = live.group, live.membership.master
    if not live.is_replicated or not master or group.operator_state is OperatorState.UNAPPROVED:
        return None
    report = live.reports.get(master)
    if report is not None and report.is_live(now) and report.received_at >= live.lease_began_at + LEARN_SECONDS:
        if reason := _why_it_does_not_lead(report, live):
            return Due(reason, 0.0, is_conclusion=False)
        if _waits(report, live):
            reason = Reason.of(Code.MASTER_RESTARTED, master=master)
            return Due(reason, 0.0, includes_master=True, is_conclusion=False)
        if reason := _why_it_is_cut_off(live, report, now):
            return Due(reason, 0.0, is_conclusion=False, is_cut_off=True)
    if _is_received_by_peer(live, report, now):
        return None
    last = max(live.lease_began_at, report.received_at if report is not None else 0.0)
    if now - last > EXPIRY_SECONDS:
        return Due(Reason.of(Code.MASTER_SILENT, master=master, seconds=round(now - last, 1)), SILENT_SECONDS)
    lost_at = live.disconnected_at.get(master)
    if lost_at is None or now - lost_at < RECONNECT_SECONDS:
        return None
    slaves = [live.reports[name] for name in live.membership.in_sync if name != master and name in live.reports]
    if any(
        _receives(slave, RECONNECT_SECONDS) or slave.received_at < lost_at for slave in slaves if slave.is_live(now)
    ):
        return None
    return Due(Reason.of(Code.MASTER_DISCONNECTED, master=master), RECONNECT_SECONDS)


def decide(
    live: LiveGroup, due: Due, newest_place: tuple[int, int], nodes: Mapping[str, Node], now: float, promotion_id: str
) -> MembershipWish | Blocked:
    """Return the promotion of the best member, or why there is none.

    Args:
        newest_place: `GroupTable.newest_place` of the group.
        nodes: by node id, with the highest place that each log had.
    """
    reports = {
        name: _member_report(live, report, nodes.get(name), due, now)
        for name, report in live.reports.items()
        if name in live.membership.members
        and report.is_live(now)
        # One whose connection has ended may have restarted, with less than it reported.
        and name not in live.disconnected_at
        and (name != live.membership.master or due.includes_master)
    }
    choice = choose(live.membership, newest_place, reports, promotion_id, live.group.preferred)
    if isinstance(choice, Blocked):
        return choice
    best = reports[choice.candidate]
    log = CandidateLog(choice.candidate, (best.log_epoch, best.synced_end))
    reason = Reason.of(Code.PROMOTED, why=due.reason, node=choice.candidate)
    return MembershipWish(choice.applied_to, "promote", reason, log=log)


def _member_report(live: LiveGroup, report: NodeReport, node: Node | None, due: Due, now: float) -> MemberReport:
    request, name = report.request, report.request.node_id
    place = max(1, request.log_epoch), request.log_end
    highest = node.log_place if node is not None else place
    problem = unfit_reason(request.replica_role.name.lower(), request.problems, place, highest)
    receives = name != live.membership.master and _receives(report, due.silent_seconds)
    return MemberReport(
        request.epoch, *place, request.incarnation, request.boot_id,
        problem or live.fitness.problem(name, now), receives,
        objections=2 * bool(request.limitations) + live.fitness.is_avoided(name, now),
    )  # fmt: skip


def _waits(report: NodeReport, live: LiveGroup) -> bool:
    """Whether the master restarted: it does not lead an epoch that is on its disk, or that another process of it was to lead."""
    request, membership = report.request, live.membership
    return (
        not report.has_left
        and request.replica_role is ReplicaRole.WAITING
        and (
            (request.epoch, request.promotion_id) == (membership.epoch, membership.promotion_id)
            or request.boot_id != membership.master_boot_id
        )
    )


def _why_it_does_not_lead(report: NodeReport, live: LiveGroup) -> Reason:
    """Return why a master that runs will not lead again by itself; "" if it may."""
    role, master = report.request.replica_role, live.membership.master
    is_other_folder = report.request.incarnation != live.membership.incarnation_of(master)
    if role is ReplicaRole.WAITING and (report.has_lost_data or is_other_folder):
        return Reason.of(Code.MASTER_LOST_DATA, master=master)
    why = joined(report.request.problems)
    if role is ReplicaRole.WAITING and why:
        return Reason.of(Code.MASTER_WAITS, master=master, why=why)
    if role in (ReplicaRole.FAILED, ReplicaRole.SPARE):
        why = why or Reason.of(Code.ROLE, role=role.name.lower())
        return Reason.of(Code.MASTER_DOES_NOT_LEAD, master=master, why=why)
    if (stuck := report.request.stuck_ms / 1000) > LEASE_SECONDS:
        return Reason.of(Code.MASTER_STUCK, master=master, seconds=round(stuck, 1))
    return Reason()


def _why_it_is_cut_off(live: LiveGroup, report: NodeReport, now: float) -> Reason:
    """Return why a master that can't reach its slaves is to be replaced; "" if it is not.

    Without it, as many members as the minimum requires have to be able to lead or to follow: otherwise another master would not
    accept sends either. One of them has to be in sync.
    """
    unreachable, membership = report.request.unreachable, live.membership
    if not unreachable or not live.fitness.may_replace_cut_off(now):
        return Reason()
    able = [
        name
        for name in membership.members
        if name != membership.master
        and name not in live.disconnected_at
        and (slave := live.reports.get(name)) is not None
        and slave.is_live(now)
        and now - slave.received_at <= SILENT_SECONDS
        and not slave.request.problems
        and slave.request.replica_role in (ReplicaRole.IN_SYNC, ReplicaRole.FOLLOWING)
    ]
    if len(able) < membership.in_sync_min_in_force or not set(able) & set(membership.in_sync):
        return Reason()
    return Reason.of(
        Code.MASTER_CUT_OFF, master=membership.master, slaves=", ".join(unreachable), running=", ".join(able)
    )


def _receives(report: NodeReport, seconds: float) -> bool:
    """Whether a slave received something of its master within this time before its report."""
    return 0 <= report.request.master_silent_ms < seconds * 1000


def _is_received_by_peer(live: LiveGroup, report: NodeReport | None, now: float) -> bool:
    """Whether another metaserver stored a heartbeat of the master that is newer than the last one that arrived here."""
    if not live.is_live_at_peer(now) or live.peer_heartbeat_at is None:
        return False
    return report is None or live.peer_heartbeat_at > report.received_at + STORED_SECONDS


@dataclass(eq=False, repr=False)
class Promotions:
    """Starts promotions, at most PROMOTIONS_MAX at a time. One with an unknown outcome is tried again with the
    membership that is read."""

    _groups: GroupTable
    _start: Callable[[str, MembershipWish, Callable[[str], None]], None]
    """Changes the membership of a group, then calls the third argument: "" if it was changed, else why it was not or is
    not known."""
    _running: set[str] = field(default_factory=set, init=False)
    _failed: dict[str, str] = field(default_factory=dict, init=False)
    """By broker group, why its last promotion was not made."""
    blocked: dict[str, str] = field(default_factory=dict, init=False)
    """By broker group that needs another master: why no member is promoted."""

    def check(self, now: float) -> None:
        """Promote slaves of groups whose master is gone. To be called every half second.

        After a start or a pause of this metaserver heartbeats may be missing that nodes sent, and while the database can't be read,
        those that other metaservers receive: then only masters are replaced that report that they do not lead, and not before all
        members that run have reported, because one may know that the database was restored from a backup.
        """
        is_steady, has_reports = self._groups.is_steady(now), self._groups.has_reports(now)
        blocked = {}
        self._failed = {name: problem for name, problem in self._failed.items() if name in self._groups.groups}
        for name, live in self._groups.groups.items():
            due = is_due(live, now)
            if due is not None and not (is_steady if due.is_conclusion else has_reports):
                continue
            if due is None:
                self._failed.pop(name, None)
                continue
            if name in self._failed:
                blocked[name] = self._failed[name]
            if name in self._running:
                continue
            if len(self._running) >= PROMOTIONS_MAX:
                blocked[name] = f"{len(self._running)} other promotions are in progress"
                continue
            live.fitness.could_not_lead(now)
            place, promotion_id = self._groups.newest_place(name), self._groups.new_promotion_id()
            wish = decide(live, due, place, self._groups.nodes, now, promotion_id)
            if isinstance(wish, Blocked):
                blocked[name] = wish.reason
                if self.blocked.get(name) != wish.reason:
                    logger.error("no node of broker group %s can be promoted (%s): %s", name, due.reason, wish.reason)
                continue
            if name not in self._failed:
                logger.warning("broker group %s: %s", name, wish.reason)
            self._running.add(name)
            self._start(name, wish, partial(self._ended, name, due))
        self.blocked = blocked

    def _ended(self, name: str, due: Due, problem: str) -> None:
        self._running.discard(name)
        self._failed.pop(name, None)
        if problem:
            self._failed[name] = problem
        elif due.is_cut_off and name in self._groups.groups:
            self._groups.groups[name].fitness.cut_off(self._groups.now)
