"""Changes of a broker group's members: one leaves, or is replaced by another node. Pure.

Each is valid for one version of the membership, and never of the master: that switches over first.
"""

from dataclasses import dataclass, replace

from qmq.protocol.group_memberships import MEMBERS_MAX
from qmq_node.replication.rules.membership import ChangeRejected, Membership, check_place


@dataclass(frozen=True, slots=True)
class RemoveMember:
    """The change after which a node is a member no longer. If one member is left, its next epoch begins.

    The master counts the removed node until it learns that, so it waits for more than the membership says, never for less. The only
    member of a group resumes in its epoch after a restart, possibly without an unsynced tail that the removed node has. So that
    epoch is one of which the removed node has nothing.
    """

    epoch: int
    version: int
    node_id: str
    promotion_id: str
    """Identifies the epoch that begins if one member is left."""

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        check_place(membership, self.epoch, self.version)
        name, node_id = membership.broker_group, self.node_id
        if node_id not in membership.members and node_id != membership.replacement:
            raise ChangeRejected(f"node {node_id!r} is not a member of broker group {name}")
        if node_id == membership.master:
            raise ChangeRejected(f"node {node_id!r} is the master of broker group {name}: switch over first")
        if membership.in_sync == (node_id,):
            raise ChangeRejected(f"node {node_id!r} is the only member of broker group {name} that is in sync")
        changed = membership.without(node_id)
        if not keeps_minimum(membership, changed):
            raise ChangeRejected(
                f"broker group {name} would have {len(changed.in_sync)} members in sync, below its minimum of"
                f" {changed.in_sync_min_in_force}: sends would be rejected"
            )
        if len(changed.members) > 1 or len(membership.members) == 1:
            return changed
        return replace(changed, epoch=membership.epoch + 1, promotion_id=self.promotion_id, master_boot_id="")


@dataclass(frozen=True, slots=True)
class ReplaceMember:
    """The change after which `replacement` is to become a member instead of a node. It is made member by `AddMember`, and the node
    leaves by `RemoveMember` (`leaving`)."""

    epoch: int
    version: int
    node_id: str
    replacement: str

    def applied_to(self, membership: Membership) -> Membership:
        """Return the changed membership. Raises ChangeRejected."""
        check_place(membership, self.epoch, self.version)
        name = membership.broker_group
        if self.node_id not in membership.members:
            raise ChangeRejected(f"node {self.node_id!r} is not a member of broker group {name}")
        if self.replacement in membership.members:
            raise ChangeRejected(f"node {self.replacement!r} is a member of broker group {name} already")
        if membership.replacement:
            raise ChangeRejected(
                f"node {membership.replacement!r} is to replace {membership.replaced!r} in broker group {name}: wait until it has,"
                f" or remove {membership.replacement!r} to cancel that"
            )
        return replace(membership, replaced=self.node_id, replacement=self.replacement, version=membership.version + 1)


def keeps_minimum(membership: Membership, changed: Membership) -> bool:
    """Whether a removal leaves enough members in sync, or none less than before."""
    left = len(changed.in_sync)
    return left == len(membership.in_sync) or left >= changed.in_sync_min_in_force


def leaving(membership: Membership) -> str:
    """Return the member that is replaced once it may leave; "" before, and if there is none. As master it switches over first.

    With one or two other members it leaves when its replacement is in sync. A group that has as many members as it may have has no
    room for another one: there it leaves first, if enough others are in sync.
    """
    old, new = membership.replaced, membership.replacement
    if not old or old not in membership.members:
        return ""
    has_room = len(membership.members) < MEMBERS_MAX
    if new not in membership.in_sync and (new in membership.members or has_room):
        return ""
    changed = membership.without(old)
    return old if changed.in_sync and keeps_minimum(membership, changed) else ""
