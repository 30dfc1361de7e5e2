"""What operators decide about the members of a broker group: how many copies, and a promotion that accepts data loss."""

from collections.abc import Mapping
from typing import Any, Unpack
from uuid import uuid4

from django.db.models import F
from django.utils import timezone

from metaserver import queries
from metaserver.choices import OperatorState
from metaserver.errors import Conflict, NotFound, Stale
from metaserver.memory.members import Member, Members
from metaserver.memory.membership_wishes import MembershipWish
from metaserver.models import BrokerGroup, Node
from metaserver.services.broker_groups import locked
from metaserver.services.changes import Change, VersionedRequest, changing, check_version
from metaserver.services.fields import Text, Texts, Whole
from metaserver.services.memberships import change_membership
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Resource
from qmq.protocol.group_memberships import MEMBERS_MAX
from qmq.protocol.reasons import Code, Reason, joined
from qmq_node.replication.rules.membership import ChangeRejected, Promotion, UncleanPromotion

NODE_ID = Text(chars_min=1, chars_max=100, is_trimmed=False)
COPIES: Resource[BrokerGroup] = Resource(
    kind="broker_group",
    noun="broker group",
    fields={
        "copies": Whole(minimum=1, maximum=MEMBERS_MAX, help="number of members that the group should have"),
        "in_sync_min": Whole(
            minimum=1, maximum=MEMBERS_MAX, help="number of members that have to be in sync so that sends are accepted"
        ),
        "preferred": Texts(
            item=NODE_ID,
            items_max=MEMBERS_MAX,
            is_set=False,
            help="node IDs; of members with equally long logs, the first is promoted",
        ),
    },
    described=lambda row: {"copies": row.copies, "in_sync_min": row.in_sync_min, "preferred": list(row.preferred)},
    metadata=lambda row: {"broker_group": row.name},
)
"""The part of a broker group that `set_copies` changes."""


def members(name: str) -> Members:
    """Return the members of a broker group. Raises NotFound."""
    found = queries.group_members(name, timezone.now())
    if found is None:
        raise COPIES.unknown(name)
    return found


def set_copies(name: str, values: Mapping[str, Any], **request: Unpack[VersionedRequest]) -> Change:
    """Set how many members a broker group should have, how many of them have to be in sync, and who is promoted first.

    A new member is an empty node that is started with the group's name. Raises ChangeRefused for values that do not fit, and
    Conflict while the database was restored from a backup: another version of the row would hide that.
    """
    with COPIES.editing(lambda: locked(name), action="set_copies", **request) as edit:
        row = edit.row
        check_not_restored(name)
        edit.set(values)
        wrong: dict[str, str] = {}
        if row.copies < (count := _members_after_replacement(row)):
            wrong["copies"] = f"{row.copies} is below the number of members, {count}. State which ones to remove"
        if row.in_sync_min > row.copies and not values.keys().isdisjoint(("copies", "in_sync_min")):
            wrong["in_sync_min"] = f"{row.in_sync_min} is above the number of copies, {row.copies}"
        strangers = [node for node in row.preferred if node not in row.members]
        if strangers and "preferred" in values:
            wrong["preferred"] = f"{', '.join(strangers)}: not a member; members are {', '.join(row.members) or 'none'}"
        COPIES.refuse(wrong)
        if edit.before != COPIES.described(row):
            # The master learns the minimum with the next version, and a metaserver that knows another number of copies can't change
            # the row.
            row.in_sync_version += 1
        missing = row.copies - len(row.members)
        if missing > 0:
            edit.notes = (Reason.of(NoteCode.NODES_TO_START, missing=missing, group=name),)
    return edit.change


def _members_after_replacement(row: BrokerGroup) -> int:
    both = row.replaced in row.members and row.replacement in row.members
    return len(row.members) - both


def check_not_restored(name: str) -> None:
    """Raises Conflict if a newer membership of a broker group is known than the stored one."""
    found = members(name)
    if found.is_restored:
        raise Conflict(f"Broker group {name} can't be changed: {found.restored_problem}.", code="broker_group.restored")


def plan_switch_over(name: str, to: str, expected_version: int | None) -> tuple[Member, Member, int]:
    """Return the master of a broker group, the slave that would replace it, and the version of the group.

    Args:
        to: the node ID of the slave; "": the best.

    Raises NotFound, Conflict if there is no such slave, and Stale.
    """
    version = BrokerGroup.objects.filter(name=name).values_list("version", flat=True).first()
    if version is None:
        raise COPIES.unknown(name)
    check_version(f"broker group {name}", version, expected_version)
    found, code = members(name), "broker_group.no_successor"
    master = found.leading
    if master is None or len(found.group.membership.members) == 1:
        why = "it has one member" if len(found.group.membership.members) == 1 else "no node serves as its master"
        raise Conflict(f"Broker group {name} can't switch over: {why}.", code=code)
    if not to:
        candidates = found.candidates(without=master.node_id)
        if not candidates:
            raise Conflict(f"Broker group {name} can't switch over: {found.candidate_problem}.", code=code)
        return master, candidates[0], version
    successor = _member(found, to)
    if to == master.node_id:
        raise Conflict(f"Node {to} is the master of broker group {name} already.", code=code)
    if found.is_restored or successor.problem:
        problem = found.candidate_problem if found.is_restored else f"node {to}: {successor.problem}"
        raise Conflict(f"Broker group {name} can't switch over: {problem}.", code=code)
    return master, successor, version


def _member(found: Members, node_id: str) -> Member:
    """Return a member. Raises NotFound."""
    member = found.find(node_id)
    if member is None or not member.is_member:
        names = ", ".join(found.group.membership.members) or "none"
        raise NotFound(
            f"Node {node_id!r} is not a member of broker group {found.group.name}; members are {names}.",
            code="node.unknown",
        )
    return member


def promote(name: str, node_id: str, accept_loss_bytes: int | None, **request: Unpack[VersionedRequest]) -> Change:
    """Make a member the master although it may lack acknowledged messages, or after the database was restored from a backup.

    The other members are not in sync afterwards. The change states how many bytes are at risk (`Members.bytes_at_risk`), also in a
    dry run; it is made only if exactly this number is accepted.

    Raises:
        NotFound: there is no such broker group, or the node is not a member of it.
        Conflict: the node can't lead, a master serves, or another number of bytes is at risk.
        Stale: the group changed since the caller read it.
    """
    dry_run = request.get("dry_run", False)
    with changing(dry_run=dry_run):
        row = locked(name)
        check_version(f"broker group {name}", row.version, request.get("expected_version"))
        found = members(name)
        member = _member(found, node_id)
        _check_promotable(found, member)
        assert member.report is not None
        has_all = member.is_in_sync and not (member.has_other_folder or member.has_lost_data or found.is_restored)
        is_clean = has_all and not member.report.problems
        at_risk = member.damaged_bytes if has_all else found.bytes_at_risk(node_id)
        if not dry_run and accept_loss_bytes != at_risk:
            stated = "none is stated" if accept_loss_bytes is None else f"{accept_loss_bytes} is stated"
            raise Conflict(
                f"Promoting node {node_id} may lose {at_risk} bytes of acknowledged messages; {stated}. State exactly this number"
                " to accept the loss.",
                code="broker_group.loss_not_accepted",
            )
        before = found.group.membership
        promotion: Promotion | UncleanPromotion
        if is_clean:
            promotion = Promotion(
                before.epoch, before.version, node_id, member.report.boot_id, before.epoch + 1, str(uuid4())
            )
        else:
            promotion = UncleanPromotion(
                before.epoch, before.version, node_id, member.report.incarnation, member.report.boot_id, found.newest_place,
                str(uuid4()),
            )  # fmt: skip
        try:
            reason = Reason(request.get("reason", ""))
            wish = MembershipWish(promotion.applied_to, "promote_by_operator", reason, is_recovery=not is_clean)
            accepted = {"accepted_loss_bytes": str(at_risk)}
            changed = change_membership(name, wish, found.newest_place, actor=request["actor"], also=accepted)
        except ChangeRejected as rejected:
            if rejected.is_stale:
                raise Stale(f"Broker group {name} changed in the meantime. Reload it and try again.") from rejected
            raise Conflict(f"{rejected}.", code="broker_group.not_promoted") from rejected
        _accept_log_end(member)
    return Change(
        name,
        {"master": before.master, "epoch": str(before.epoch)},
        {"master": changed.master, "epoch": str(changed.epoch), "bytes_at_risk": str(at_risk)},
        row.version,
        _notes(found, member, at_risk),
    )


def _check_promotable(found: Members, member: Member) -> None:
    """Raises Conflict if an operator can't promote a member."""
    group = found.group
    code = "broker_group.not_promoted"
    if group.operator_state is OperatorState.UNAPPROVED:
        raise Conflict(f"Broker group {group.name} is pending approval. Approve it first.", code=code)
    if not member.is_live or member.report is None:
        raise Conflict(
            f"Node {member.node_id} does not send heartbeats, or its version has no replication. Start it first.",
            code=code,
        )
    if member.role == "copying" or (
        not member.report.is_only_damaged and (member.report.problems or member.role == "failed")
    ):
        problem = joined(member.report.problems) or Reason.of(Code.ROLE, role=member.role)
        raise Conflict(f"Node {member.node_id} can't lead: {problem}.", code=code)
    leading = found.leading
    if leading is not None and leading.node_id != member.node_id:
        raise Conflict(
            f"Node {leading.node_id} serves as master, and would acknowledge messages that node {member.node_id} lacks. Use"
            " switch-over, or stop it first.",
            code="broker_group.has_master",
        )
    if leading is not None and not found.is_restored:
        raise Conflict(f"Node {member.node_id} serves as master already.", code="broker_group.has_master")


def _accept_log_end(member: Member) -> None:
    """Let the end of a promoted node's log be below the highest one that it reported."""
    if member.has_lost_data:
        epoch, end = member.log_place
        Node.objects.filter(node_id=member.node_id).update(
            log_end=end, log_epoch=epoch, log_end_version=F("log_end_version") + 1
        )


def _notes(found: Members, member: Member, at_risk: int) -> tuple[Reason, ...]:
    notes = [Reason.of(NoteCode.BYTES_LOST, count=at_risk) if at_risk else Reason.of(NoteCode.NONE_HAS_MORE)]
    others = [one for one in found.nodes if one.is_member and one.node_id != member.node_id]
    if member.damaged_bytes:
        notes.append(Reason.of(NoteCode.DAMAGE_WITHHELD, count=member.damaged_bytes, node=member.node_id))
    ahead = [one.node_id for one in others if one.log_place > member.log_place]
    if ahead:
        notes.append(Reason.of(NoteCode.OTHERS_AHEAD, nodes=", ".join(ahead), node=member.node_id))
    return (*notes, Reason.of(NoteCode.NOT_INCLUDED))


def members_around(node_id: str) -> Members:
    """Return the members of the broker group that a node has registered for. Raises NotFound."""
    group = Node.objects.filter(node_id=node_id).values_list("broker_group__name", flat=True).first()
    if group is None:
        raise NotFound(f"Node {node_id!r} not found.", code="node.unknown")
    return members(group)
