"""What operators decide about who is a member of a broker group: members are removed, or replaced by another node."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack
from uuid import uuid4

from django.db.models import F

from metaserver.choices import OperatorState
from metaserver.errors import ChangeRefused, Conflict, Stale
from metaserver.memory.members import Member, Members
from metaserver.memory.membership_wishes import MembershipChange, MembershipWish
from metaserver.models import BrokerGroup, Node
from metaserver.services import members as members_of_groups
from metaserver.services.broker_groups import locked
from metaserver.services.changes import Actor, Change, VersionedRequest, changing, check_version
from metaserver.services.members import NODE_ID, check_not_restored, members
from metaserver.services.memberships import change_membership
from metaserver.services.notes import NoteCode
from qmq.protocol.reasons import Reason, joined
from qmq_node.replication.rules.members import RemoveMember, ReplaceMember
from qmq_node.replication.rules.membership import ChangeRejected, Membership

NOT_REMOVED = "broker_group.not_removed"
NOT_REPLACED = "broker_group.not_replaced"


def remove_member(name: str, node_id: str, *, successor: str = "", **request: Unpack[VersionedRequest]) -> Change:
    """Remove a member of a broker group, or cancel the replacement of a member by this node. Its data folder stays.

    Args:
        successor: in a dry run, the member that has become the master when the change is made; "": the present one stays.

    Raises:
        NotFound: there is no such broker group.
        Conflict: the node is no member, or the master; or what was acknowledged would not be safe, or sends would be rejected.
        Stale: the group changed since the caller read it.
    """
    with changing(dry_run=request.get("dry_run", False)):
        found, version = _found(name, request.get("expected_version"), NOT_REMOVED)
        before = found.group.membership
        if node_id in before.members:
            _check_master(found, successor)
        change = RemoveMember(before.epoch, before.version, node_id, str(uuid4()))

        def changed(membership: Membership) -> Membership:
            led = membership.with_master(successor) if successor else membership
            return change.applied_to(led)

        after = _change(found, changed, "remove_member", request, NOT_REMOVED)
    notes = list[Reason]()
    if node_id in before.members:
        notes.append(Reason.of(NoteCode.BECOMES_SPARE, node=node_id))
        if after.copies > len(after.members) and not after.replacement:
            notes.append(Reason.of(NoteCode.COPIES_LEFT, members=len(after.members), copies=after.copies))
    return Change(name, described(before), described(after), version + 1, tuple(notes))


def replace_member(name: str, node_id: str, replacement: str, **request: Unpack[VersionedRequest]) -> Change:
    """Have a member of a broker group replaced by another node. Metaservers complete it while the group serves.

    Raises:
        NotFound: there is no such broker group.
        ChangeRefused: the replacement is no node ID.
        Conflict: the node is no member, the replacement is one, has data, or belongs to another group, or another replacement is
            pending.
        Stale: the group changed since the caller read it.
    """
    if text := NODE_ID.problem(replacement):
        raise ChangeRefused(f"replacement: {text}", code="broker_group.invalid", fields={"replacement": text})
    with changing(dry_run=request.get("dry_run", False)):
        found, version = _found(name, request.get("expected_version"), NOT_REPLACED)
        before = found.group.membership
        change = ReplaceMember(before.epoch, before.version, node_id, replacement)
        after = _change(found, change.applied_to, "request_replacement", request, NOT_REPLACED)
        node = found.find(replacement)
        _check_replacement(name, replacement, node)
    notes = [Reason.of(NoteCode.MEMBER_REPLACED, replacement=replacement, node=node_id)]
    if node is None or not node.is_live:
        notes.append(Reason.of(NoteCode.START_REPLACEMENT, node=replacement, group=name))
    if node_id == before.master:
        notes.append(Reason.of(NoteCode.MASTER_REPLACED, node=node_id))
    return Change(name, described(before), described(after), version + 1, tuple(notes))


def set_copies(
    name: str,
    values: Mapping[str, Any],
    removed: Sequence[str],
    *,
    successor: str = "",
    **request: Unpack[VersionedRequest],
) -> Change:
    """Remove members and set the copies of a broker group, all or nothing. Raises as `remove_member` and `members.set_copies`.

    Args:
        successor: as in `remove_member`.
    """
    if not removed:
        return members_of_groups.set_copies(name, values, **request)
    of_each: VersionedRequest = {**request, "dry_run": False, "expected_version": None}
    with changing(dry_run=request.get("dry_run", False)):
        check_version(f"broker group {name}", locked(name).version, request.get("expected_version"))
        changes = [remove_member(name, node_id, successor=successor, **of_each) for node_id in removed]
        copies = members_of_groups.set_copies(name, values, **of_each)
    before, after = changes[0].before or {}, changes[-1].after or {}
    notes = tuple(note for change in changes for note in change.notes[:1])
    return Change(
        name,
        {**before, **(copies.before or {})},
        {**after, **(copies.after or {})},
        copies.version,
        (*notes, *copies.notes),
    )


def described(membership: Membership) -> dict[str, object]:
    """Return the members of a group for a `Change`."""
    return {
        "members": list(membership.members),
        "in_sync": list(membership.in_sync),
        "master": membership.master,
        "epoch": str(membership.epoch),
        "replaced": membership.replaced,
        "replacement": membership.replacement,
    }


def _found(name: str, expected_version: int | None, code: str) -> tuple[Members, int]:
    """Return the members and the version of a group, which is locked until the transaction ends."""
    row = locked(name)
    check_version(f"broker group {name}", row.version, expected_version)
    check_not_restored(name)
    if row.operator_state == OperatorState.UNAPPROVED:
        raise Conflict(f"Broker group {name} is pending approval. Approve it first.", code=code)
    return members(name), row.version


def _check_master(found: Members, successor: str) -> None:
    """Raises Conflict unless the master runs with all that was acknowledged: it may be the only member that is left."""
    master = found.find(successor or found.group.membership.master)
    if master is None:
        return
    problem = ""
    if not master.is_live or master.report is None:
        problem = "it does not send heartbeats"
    elif master.has_other_folder:
        problem = "its data folder is not the one that was in sync"
    elif master.has_lost_data:
        problem = "its log ends before what it had reported"
    elif master.report.problems:
        problem = str(joined(master.report.problems))
    if problem:
        raise Conflict(
            f"No member of broker group {found.group.name} can be removed while master {master.node_id} may lack acknowledged"
            f" messages: {problem}.",
            code=NOT_REMOVED,
        )


def _check_replacement(name: str, node_id: str, node: Member | None) -> None:
    """Raises Conflict if a node can't become a member of a group."""
    if node is None:
        other = Node.objects.filter(node_id=node_id).values_list("broker_group__name", flat=True).first()
        if other is not None:
            raise Conflict(
                f"Node {node_id} belongs to broker group {other}. Start an empty node with --broker-group {name}, or name another"
                " one.",
                code=NOT_REPLACED,
            )
    elif node.log_place[1]:
        raise Conflict(
            f"The data folder of node {node_id} is not empty. Stop the node, empty its data folder, and start it again.",
            code=NOT_REPLACED,
        )


def _change(found: Members, change: MembershipChange, action: str, request: VersionedRequest, code: str) -> Membership:
    """Change the membership, and raise the version of the group."""
    name, actor = found.group.name, request["actor"]
    assert isinstance(actor, Actor)
    wish = MembershipWish(change, action, Reason(request.get("reason", "")))
    try:
        changed = change_membership(name, wish, found.newest_place, actor=actor, also={})
    except ChangeRejected as rejected:
        if rejected.is_stale:
            raise Stale(f"Broker group {name} changed in the meantime. Reload it and try again.") from rejected
        text = str(rejected)
        raise Conflict(f"{text[:1].upper()}{text[1:]}.", code=code) from rejected
    BrokerGroup.objects.filter(name=name).update(version=F("version") + 1)
    return changed
