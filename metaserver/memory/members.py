"""The members of a broker group as operators see them: in sync or not, how far behind, and why one can't be promoted. Pure.

Everything is read from the database: metaservers store what nodes report every 2 s (`metaserver.reports`), so the console, commands
and alerts need no connection to metaservers or nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from metaserver.domain import BrokerGroup, Node
from metaserver.memory.live_groups import EXPIRY_SECONDS, STORED_LEASE_SECONDS
from metaserver.reports import StoredReport, unfit_reason
from qmq.protocol.reasons import Code, Reason, joined
from qmq_node.replication.rules.membership import Membership
from qmq_node.replication.rules.promotion import OTHER_FOLDER

SILENT_MS = round((EXPIRY_SECONDS + STORED_LEASE_SECONDS) * 1000)
"""A node whose stored report is older sends no heartbeats."""


@dataclass(frozen=True, slots=True)
class Member:
    """A node of a broker group, as of its last stored heartbeat. Offsets and sizes are in bytes."""

    node_id: str
    is_member: bool
    """Otherwise it is a spare: a node that registers for a group that does not have it as a member."""
    is_master: bool
    is_in_sync: bool
    is_live: bool
    """Whether its heartbeats arrive."""
    report: StoredReport | None
    """None: it has no replication, or has never registered."""
    node: Node | None
    """None: it has never registered since the database was restored."""
    lag_bytes: int | None
    """How much of the master's log it has not synced; None if that is not known."""
    has_other_folder: bool
    """Whether it is in sync with another data folder than it has: its disk was replaced."""
    problem: Reason
    """Why it can't be promoted; "" if it can."""

    @property
    def role(self) -> str:
        """The role that it reported; "master" for one that serves as the only member, "offline" without heartbeats."""
        if not self.is_live:
            return "offline"
        if self.report is None or self.report.role == "none":
            return "master" if self.is_master else "spare"
        return self.report.role

    @property
    def log_place(self) -> tuple[int, int]:
        """The epoch of its newest commit and the end of its log, as last reported."""
        if self.report is not None:
            return self.report.log_epoch, self.report.log_end
        return self.node.log_place if self.node is not None else (0, 0)

    @property
    def damaged_bytes(self) -> int:
        """Bytes of its log that are damaged, or missing at its end; the group is not known to have lost them."""
        report = self.report
        return 0 if report is None else report.damaged_bytes + max(0, report.lacks_to - report.log_end)

    @property
    def has_lost_data(self) -> bool:
        """Whether its log had reached a higher place than it reported last."""
        return self.node is not None and self.log_place < self.node.log_place


@dataclass(frozen=True, slots=True)
class Stop:
    """A broker group without one of its nodes."""

    problems: list[Reason]
    """What would be lost or unavailable; empty if the node may be stopped."""
    master: str
    """The node that would lead the group; "" if none could."""
    in_sync: int
    """Members in sync that would be left."""
    minimum: int
    """How many of them sends require."""

    @property
    def rejects_sends(self) -> bool:
        """Whether the group would reject sends until the node is back."""
        return not self.master or self.in_sync < self.minimum


@dataclass(frozen=True, slots=True)
class Members:
    """All nodes of a broker group."""

    group: BrokerGroup
    nodes: tuple[Member, ...]
    """Members in the order of the membership, then spares."""

    @classmethod
    def of(cls, group: BrokerGroup, nodes: Sequence[Node], now_ms: int) -> "Members":
        """Return the nodes of a group.

        Args:
            nodes: those that have registered for the group.
            now_ms: the present time.
        """
        known = {node.node_id: node for node in nodes}
        members = group.membership.members
        names = [*members, *sorted(known.keys() - set(members))]
        master = known.get(group.membership.master)
        of_master = StoredReport.decode(master.report) if master is not None else None
        return cls(group, tuple(_member(group, name, known.get(name), of_master, now_ms) for name in names))

    def find(self, node_id: str) -> Member | None:
        """Return a node of the group."""
        return next((member for member in self.nodes if member.node_id == node_id), None)

    @property
    def newest_place(self) -> tuple[int, int]:
        """The highest epoch and version of the membership that is known: stored, or of a node or metaserver."""
        reports = [member.report for member in self.nodes if member.report is not None]
        known = [place for report in reports for place in (report.newest_place, (report.epoch, 0))]
        membership = self.group.membership
        return max([membership.place, membership.known_place, *known])

    @property
    def is_restored(self) -> bool:
        """Whether the stored membership is older than one that is known: the database was restored from a backup."""
        return self.group.membership.place < self.newest_place

    @property
    def restored_problem(self) -> Reason:
        """Why no change is made of the group, and what to do, if the membership is restored."""
        epoch, version = self.newest_place
        return Reason.of(Code.RESTORED, epoch=epoch, version=version)

    @property
    def leading(self) -> Member | None:
        """The member that serves as master now."""
        epoch = self.newest_place[0]
        leads = (member for member in self.nodes if member.is_live and member.role == "master")
        return next((member for member in leads if member.report is None or member.report.epoch >= epoch), None)

    def candidates(self, *, without: str = "") -> list[Member]:
        """Return the members that could replace the master, the best first."""
        if self.is_restored:
            return []
        able = [
            member for member in self.nodes if not member.problem and not member.is_master and member.node_id != without
        ]
        preferred = self.group.preferred

        def rank(member: Member) -> tuple[bool, int, int, int, str]:
            place = preferred.index(member.node_id) if member.node_id in preferred else len(preferred)
            is_limited = member.report is not None and bool(member.report.limitations)
            return is_limited, -member.log_place[0], -member.log_place[1], place, member.node_id

        return sorted(able, key=rank)

    @property
    def hand_over_problem(self) -> Reason:
        """Why the master, which another node is to replace, could not switch over to a member yet; "" if it need not, or did."""
        leading = self.leading
        limitations = leading.report.limitations if leading is not None and leading.report is not None else ()
        return next((one for one in limitations if one.code == Code.HANDS_OVER_LATER), Reason())

    @property
    def candidate_problem(self) -> Reason:
        """Why no member could replace the master; "" if one could."""
        if self.is_restored:
            return self.restored_problem
        if self.candidates():
            return Reason()
        others = [member for member in self.nodes if not member.is_master]
        return joined([Reason.of(Code.NODE_WITH, node=one.node_id, why=one.problem) for one in others]) or Reason.of(
            Code.ONE_MEMBER
        )

    def bytes_at_risk(self, node_id: str) -> int:
        """Return how many bytes of acknowledged messages may be lost if a member is promoted.

        That is from the end of its log to the highest end that any member, running or not, ever reported in the newest epoch: the
        log of an older epoch has nothing acknowledged that the master of the next one lacked. A member whose newest commit is
        of an older epoch may have other commits than the newest epoch, so only what is below its high watermark counts as its own.
        What is damaged of its log counts, too, whether another member has it or not.

        The number can't include what a master acknowledged after its last stored heartbeat, some 3 s at most, and what it
        acknowledges if it still runs.
        """
        member = self.find(node_id)
        nodes = [one.node for one in self.nodes if one.node is not None and one.is_member]
        newest = max((node.log_epoch for node in nodes), default=0)
        own = damaged = lacks_to = 0
        if member is not None and (report := member.report) is not None:
            own = max(0, report.log_end if report.log_epoch >= newest else report.high_watermark)
            damaged, lacks_to = report.damaged_bytes, report.lacks_to
        ends = [node.log_end for node in nodes if node.log_epoch == newest]
        return damaged + max([0, *(end - own for end in (*ends, lacks_to))])

    def without(self, node_id: str) -> "Stop":
        """Return what the group would be if a node were stopped now. A spare changes nothing."""
        membership, member = self.group.membership, self.find(node_id)
        in_sync = [name for name in membership.in_sync if name != node_id]
        leading = self.leading
        if leading is not None and leading.node_id != node_id:
            master = leading.node_id
        else:
            master = next((one.node_id for one in self.candidates(without=node_id)), "")
        problems = self._stop_problems(member, in_sync, master) if member is not None and member.is_member else []
        return Stop(problems, master, len(in_sync), membership.in_sync_min_in_force)

    def _stop_problems(self, member: Member, in_sync: Sequence[str], master: str) -> list[Reason]:
        group, membership, node_id = self.group, self.group.membership, member.node_id
        of_group = {"kind": str(group.kind), "group": group.name}
        if len(membership.members) == 1:
            return [Reason.of(Code.ONLY_MEMBER, node=node_id, **of_group)]
        problems: list[Reason] = []
        if self.is_restored:
            problems.append(self.candidate_problem)
        if not in_sync:
            problems.append(Reason.of(Code.ONLY_IN_SYNC, node=node_id, **of_group))
        minimum = membership.in_sync_min_in_force
        if in_sync and len(in_sync) < minimum:
            problems.append(Reason.of(Code.BELOW_MINIMUM, **of_group, in_sync=len(in_sync), minimum=minimum))
        if in_sync and not self.is_restored and not master:
            others = [one for one in self.nodes if one.node_id != node_id and one.problem]
            why = joined([Reason.of(Code.NODE_WITH, node=one.node_id, why=one.problem) for one in others])
            problems.append(Reason.of(Code.NO_OTHER_MASTER, **of_group, why=why))
        elif member in self.candidates() and not self.candidates(without=node_id):
            problems.append(Reason.of(Code.NO_OTHER_CANDIDATE, **of_group, master=membership.master))
        return problems

    @property
    def shared_rack(self) -> str:
        """As `shared_rack`, of the group's members."""
        racks = {one.node_id: one.node.rack for one in self.nodes if one.node is not None}
        return shared_rack(self.group.membership.members, racks)


def shared_rack(members: Sequence[str], racks: Mapping[str, str]) -> str:
    """Return the rack that all members of a broker group are on; "" if there are two, one is not known, or it has one member.

    Args:
        racks: by node ID; "" if the node has none.
    """
    found = {racks.get(name, "") for name in members}
    return found.pop() if len(members) > 1 and len(found) == 1 else ""


def _member(group: BrokerGroup, node_id: str, node: Node | None, of_master: StoredReport | None, now_ms: int) -> Member:
    report = StoredReport.decode(node.report) if node is not None else None
    is_live = node is not None and now_ms - node.reported_at_ms <= SILENT_MS
    membership = group.membership
    is_master, is_in_sync = node_id == membership.master, node_id in membership.in_sync
    other = report is not None and report.incarnation != membership.incarnation_of(node_id)
    has_other_folder = len(membership.members) > 1 and is_in_sync and other
    return Member(
        node_id,
        node_id in membership.members,
        is_master,
        is_in_sync,
        is_live,
        report,
        node,
        0 if is_master else _lag(node_id, report, of_master),
        has_other_folder,
        OTHER_FOLDER if is_live and has_other_folder else _problem(membership, node_id, node, report, is_live=is_live),
    )


def _lag(node_id: str, report: StoredReport | None, of_master: StoredReport | None) -> int | None:
    if report is None or of_master is None:
        return None
    # The master knows it better than the heartbeats of two nodes that were stored at different times.
    end = of_master.slaves.get(node_id, report.log_end)
    return max(0, of_master.log_end - end)


def _problem(
    membership: Membership, node_id: str, node: Node | None, report: StoredReport | None, *, is_live: bool
) -> Reason:
    if node_id not in membership.members:
        if node_id == membership.replacement and is_live and report is not None and report.log_end > 0:
            return Reason.of(Code.SPARE_WITH_DATA, node=node_id, group=membership.broker_group)
        return Reason.of(Code.NOT_MEMBER)
    if node is None or not is_live:
        return Reason.of(Code.NO_HEARTBEATS)
    if report is None:
        return Reason.of(Code.NO_REPLICATION)
    problem = unfit_reason(report.role, report.problems, (report.log_epoch, report.log_end), node.log_place)
    return problem or (Reason() if node_id in membership.in_sync else Reason.of(Code.NOT_IN_SYNC))
