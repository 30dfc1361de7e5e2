"""Which change of a broker group's membership a registration calls for: a new member, or another only member. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from metaserver.choices import OperatorState
from metaserver.domain import BrokerGroup
from qmq.protocol.codes import BrokerRequestType
from qmq.protocol.extensions import NodeRegisterRequest
from qmq.protocol.group_memberships import MEMBERS_MAX
from qmq.protocol.reasons import Code, Reason
from qmq_node.replication.rules.membership import AddMember, ChangeRejected, Membership, check_place

MembershipChange = Callable[[Membership], Membership]
"""Returns the changed membership. Raises ChangeRejected."""


class LogLost(ChangeRejected):
    """A promotion that is not made: what is stored of the node's log says that it had more before."""

    def __init__(self, node_id: str, end: int, stored: tuple[int, int, int]) -> None:
        super().__init__(f"node {node_id}: its log ends at {end}, before the {stored[2]} that is stored of it")
        self.node_id = node_id
        self.stored = stored
        """Version, epoch and end: `Node.log_end_version` and `Node.log_place`."""


@dataclass(frozen=True, slots=True)
class CandidateLog:
    """The log of the node that is to be promoted, as a metaserver knows it from the node's last heartbeat."""

    node_id: str
    place: tuple[int, int]
    """The epoch of its newest commit, and its end."""

    def check(self, stored: tuple[int, int, int] | None) -> None:
        """Raises LogLost if the log had reached a higher place, which another metaserver may have stored."""
        if stored is not None and self.place < stored[1:]:
            raise LogLost(self.node_id, self.place[1], stored)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The change that gives a group of one member to another node, whose log may lack what the old member had.

    It is not a promotion: a group with one copy has no other member that has everything. The metaserver compares the log ends of
    both nodes, and an operator accepts the loss if there is one.
    """

    epoch: int
    version: int
    node_id: str
    new_epoch: int
    promotion_id: str
    copies_max: int
    """Of a group with more copies the node becomes a member instead; an operator may have raised that meanwhile."""

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        check_place(membership, self.epoch, self.version)
        if membership.copies > self.copies_max:
            raise ChangeRejected(
                f"broker group {membership.broker_group} is to have {membership.copies} copies", is_stale=True
            )
        if len(membership.members) > 1:
            raise ChangeRejected(
                f"broker group {membership.broker_group} has {len(membership.members)} members; one of them is promoted"
            )
        if self.new_epoch <= membership.epoch:
            raise ChangeRejected(f"epoch {self.new_epoch} is not above {membership.epoch}")
        node = (self.node_id,)
        return replace(
            membership,
            members=node,
            master=self.node_id,
            in_sync=node,
            epoch=self.new_epoch,
            version=membership.version + 1,
            promotion_id=self.promotion_id,
            master_boot_id="",
            loss_id=self.promotion_id,
            joining=(),
            incarnations=(),
        )


@dataclass(frozen=True, slots=True)
class MembershipWish:
    """A change of a membership, and what the audit log says about it."""

    change: MembershipChange
    action: str
    reason: Reason
    is_recovery: bool = False
    """Whether it may replace a membership that was restored from a backup; all other changes are rejected then."""
    log: CandidateLog | None = None
    """Of the node that a promotion makes the master: compared with what is stored of it when the change is made."""

    def applied_to(
        self,
        membership: Membership,
        newest_place: tuple[int, int],
        stored_log: Callable[[str], tuple[int, int, int] | None],
    ) -> Membership:
        """Return the changed membership. Raises ChangeRejected.

        Args:
            membership: as it is stored.
            newest_place: the highest epoch and version of it that the caller has seen.
            stored_log: returns version, epoch and end of a node's log; None if nothing is stored of the node.
        """
        if not self.is_recovery:
            membership.check_not_restored(newest_place)
        changed = self.change(membership)
        if self.log is not None:
            self.log.check(stored_log(self.log.node_id))
        return changed


def is_replicating(request: NodeRegisterRequest) -> bool:
    """Whether the version of the node has replication. Others serve as soon as their registration is accepted."""
    return request.boot_id != ""


def has_data(request: NodeRegisterRequest) -> bool:
    """Whether the data folder of the node is not empty: it has a log, or was that of a member, which may have been removed."""
    return request.log_end > 0 or bool(request.membership_in_sync)


def may_replace(group: BrokerGroup, request: NodeRegisterRequest) -> bool:
    """Whether the node may replace the only member of the group once the lease of that has expired.

    A node without replication may also where more copies are wanted: the group has none until a node with replication joins. A node
    that was a member may not: what it lacks was acknowledged since. Nor may any while another one is to replace the member.
    """
    return (
        len(group.membership.members) == 1
        and not group.membership.replacement
        and not request.membership_in_sync
        and (group.membership.copies == 1 or not is_replicating(request))
        and request.request_type != BrokerRequestType.OFFLINE
        and group.operator_state is not OperatorState.UNAPPROVED
    )


def replacement(
    group: BrokerGroup, request: NodeRegisterRequest, promotion_id: str, is_silent: Callable[[], bool]
) -> MembershipWish:
    """Return the change that makes the node the only member.

    Args:
        is_silent: whether the old member is silent still, when the change is made; called in the thread of the database.
    """
    before = group.membership
    copies_max = 1 if is_replicating(request) else MEMBERS_MAX
    new_epoch = max(before.epoch, request.epoch) + 1
    change = Replacement(before.epoch, before.version, request.node_id, new_epoch, promotion_id, copies_max)

    def checked(membership: Membership) -> Membership:
        if not is_silent():
            # The request waited for the database.
            raise ChangeRejected(
                f"node {before.master} of broker group {group.name} sends heartbeats again", is_stale=True
            )
        return change.applied_to(membership)

    return MembershipWish(
        checked, "replace_member", Reason.of(Code.REPLACED, node=request.node_id, master=before.master)
    )


def may_join(group: BrokerGroup, request: NodeRegisterRequest) -> bool:
    """Whether the node becomes a member: the group lacks copies, or the node is to replace a member, and it has no data."""
    return (
        is_replicating(request)
        and _has_place(group.membership, request.node_id)
        and not has_data(request)
        and request.request_type != BrokerRequestType.OFFLINE
        and group.operator_state is not OperatorState.UNAPPROVED
    )


def _has_place(membership: Membership, node_id: str) -> bool:
    """Whether the group has room for this node. While a replacement is pending, it has for no other one."""
    if membership.replacement:
        return node_id == membership.replacement and len(membership.members) < MEMBERS_MAX
    return len(membership.members) < membership.copies


def joining(group: BrokerGroup, node_id: str, master_incarnation: str) -> MembershipWish:
    """Return the change that makes the node a member of a group whose master serves with this data folder."""
    before = group.membership
    change = AddMember(before.epoch, before.version, node_id, master_incarnation)
    if before.replacement:
        reason = Reason.of(Code.REPLACES, node=node_id, replaced=before.replaced)
    else:
        reason = Reason.of(Code.COPIES_MISSING, members=len(before.members), copies=before.copies)

    def checked(membership: Membership) -> Membership:
        changed = change.applied_to(membership)
        if not _has_place(membership, node_id):
            # An operator has lowered the number of copies, which this metaserver reads later than it learns the version
            # of the group.
            raise ChangeRejected(
                f"broker group {group.name} has {len(membership.members)} of {membership.copies} copies", is_stale=True
            )
        return changed

    return MembershipWish(checked, "add_member", reason)


def spare_reason(group: BrokerGroup, request: NodeRegisterRequest) -> Reason:
    """Why the node is not a member."""
    node, name = request.node_id, group.name
    membership = group.membership
    if has_data(request):
        return Reason.of(Code.SPARE_WITH_DATA, node=node, group=name)
    if node == membership.replacement and len(membership.members) >= MEMBERS_MAX:
        return Reason.of(Code.SPARE, node=node, group=name, why=Reason.of(Code.LEAVES_FIRST, node=membership.replaced))
    if membership.replacement not in ("", node):
        why = Reason.of(Code.REPLACED_FIRST, node=membership.replacement, replaced=membership.replaced)
        return Reason.of(Code.SPARE, node=node, group=name, why=why)
    if not membership.replacement and len(membership.members) >= membership.copies:
        return Reason.of(Code.SPARE_OF_FULL, node=node, group=name, copies=membership.copies)
    return Reason.of(Code.SPARE, node=node, group=name, why=Reason.of(Code.MEMBERSHIP_NOT_STORED))
