"""Broker groups and nodes as they register, and what operators decide about them."""

from datetime import datetime, timedelta
from typing import Any, Unpack
from uuid import uuid4

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from metaserver import domain, queries
from metaserver.choices import GroupKind, GroupState, OperatorState
from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.memory.members import SILENT_MS
from metaserver.models import BrokerGroup, MetaserverBeat, Node, RemovedGroup, SubjectRoute
from metaserver.reports import StoredReport
from metaserver.services import audit, routes
from metaserver.services.changes import Actor, Change, Request, VersionedRequest, changing, for_change, lock
from metaserver.services.fields import Text
from metaserver.services.memberships import WHY
from metaserver.services.notes import NoteCode, listed
from metaserver.services.resources import Resource
from metaserver.services.subjects import DESCRIPTION
from qmq.protocol.names import hidden_text_problem
from qmq.protocol.reasons import Reason

# --- as nodes register -------------------------------------------------------------------------------------------------


@transaction.atomic
def save_group(group: domain.BrokerGroup, *, actor: Actor, reason: str) -> None:
    """Create a group's row, complete that of a group whose first node registered, or change the state of any other.

    Master, members, in-sync set and epoch of a row that has a master are changed by `services.memberships` only. A
    state of an older epoch is not stored. What operators decided is kept.
    """
    after: dict[str, Any] = {"state": str(group.state)}
    membership = group.membership
    first = {"epoch": membership.epoch, "master": membership.master, "in_sync": list(membership.in_sync)}
    others = {
        "in_sync_version": membership.version,
        "members": list(membership.members),
        "promotion_id": membership.promotion_id or None,
    }
    before: dict[str, Any] | None = None
    row = BrokerGroup.objects.filter(name=group.name).first()
    if row is None:
        action, state = "broker_group.create", group.operator_state
        after |= first
        BrokerGroup.objects.create(
            name=group.name, kind=group.kind, operator_state=state, copies=membership.copies, **others, **after
        )
        if state is OperatorState.UNAPPROVED:
            after["operator_state"] = str(state)
    else:
        action = "broker_group.state"
        same = BrokerGroup.objects.filter(name=group.name, epoch__lte=membership.epoch)
        if row.master:
            others = {}
        else:
            after |= first
            same = same.filter(master="", in_sync_version=row.in_sync_version)
        before = {name: getattr(row, name) for name in after}
        if before == after or not same.update(**others, **after, updated_at=timezone.now()):
            return
    after |= _why(reason)
    audit.record(actor, action, group.name, reason=reason, before=before, after=after, broker_group=group.name)


def _why(reason: str) -> dict[str, Any]:
    """What an audit entry has besides the sentence, for other languages."""
    return {WHY: reason.as_json()} if isinstance(reason, Reason) and reason.code else {}


@transaction.atomic
def save_node(node: domain.Node) -> datetime:
    """Create or update a node's row; the time of its lease. A log end of an older version, or a lower one, is not stored:
    an operator may have accepted a log loss that the metaserver has not read yet.
    """
    leased_at = timezone.now()
    values = {
        name: getattr(node, name) for name in ("role", "address", "admin_address", "version", "sync_address", "rack")
    }
    values["report"] = dict(node.report)
    values |= {"broker_group": BrokerGroup.objects.get(name=node.broker_group), "leased_at": leased_at}
    log_end = {name: getattr(node, name) for name in ("log_end", "log_epoch", "log_end_version")}
    row, is_new = Node.objects.select_for_update().get_or_create(node_id=node.node_id, defaults=values | log_end)
    if is_new:
        return leased_at
    if (row.log_end_version, row.log_epoch, row.log_end) < (node.log_end_version, *node.log_place):
        values |= log_end
    Node.objects.filter(pk=row.pk).update(**values)
    return leased_at


def save_heartbeat(metaserver: str, steady_seconds: float, at: datetime) -> str:
    """Record that at this time a metaserver had run and stored heartbeats without a pause for this long. Return the stored name."""
    name, values = metaserver[:200], {"seen_at": at, "steady_since": at - timedelta(seconds=steady_seconds)}
    MetaserverBeat.objects.update_or_create(name=name, defaults=values)
    return name


@transaction.atomic
def expire_group(name: str, *, silent_seconds: float, actor: Actor, reason: str) -> bool:
    """Mark a group offline whose stored lease has expired; False when it is offline already, or a heartbeat arrived."""
    row = lock(BrokerGroup.objects.filter(name=name))
    if row is None or row.state == GroupState.OFFLINE:
        return False
    limit = timezone.now() - timedelta(seconds=silent_seconds)
    if Node.objects.filter(broker_group=row, node_id=row.master, leased_at__gt=limit).exists():
        return False
    before: dict[str, Any] = {"state": row.state}
    after: dict[str, Any] = {"state": str(GroupState.OFFLINE)}
    row.state = GroupState.OFFLINE
    row.save(update_fields=["state", "updated_at"])
    after |= _why(reason)
    audit.record(actor, "broker_group.expire", name, reason=reason, before=before, after=after, broker_group=name)
    return True


# --- as operators decide -----------------------------------------------------------------------------------------------


def described(row: BrokerGroup) -> dict[str, Any]:
    """What an operator decided about a broker group."""
    return {
        "kind": row.kind,
        "description": row.description,
        "operator_state": row.operator_state,
        "operator_reason": row.operator_reason,
    }


def _name_problem(name: str) -> str:
    return "must not contain slashes or spaces" if "/" in name or " " in name else hidden_text_problem(name)


NAME = Text(chars_min=1, chars_max=100, is_trimmed=False, check=_name_problem)
BROKER_GROUP: Resource[BrokerGroup] = Resource(
    kind="broker_group",
    noun="broker group",
    fields={"description": DESCRIPTION},
    described=described,
    metadata=lambda row: {"broker_group": row.name},
)


def announce_group(name: str, kind: GroupKind, description: str = "", **request: Unpack[Request]) -> Change:
    """Make a broker group known before its first node registers: it is offline until then. Raises Conflict if it exists."""
    BROKER_GROUP.check_name(name, NAME)
    row = BrokerGroup(name=name, kind=kind, state=GroupState.OFFLINE)
    with BROKER_GROUP.creating(row, name, action="announce", **request) as edit:
        edit.set({"description": description})
        edit.notes = (Reason.of(NoteCode.START_A_NODE, group=name),)
    return edit.change


def describe_group(name: str, description: str, **request: Unpack[VersionedRequest]) -> Change:
    with BROKER_GROUP.editing(lambda: locked(name), **request) as edit:
        edit.set({"description": description})
    return edit.change


def approve_group(name: str, **request: Unpack[VersionedRequest]) -> Change:
    """Let a broker group serve that registered for the first time; one that is approved already is not changed."""
    with BROKER_GROUP.editing(lambda: locked(name), action="approve", **request) as edit:
        row = edit.row
        if row.operator_state == OperatorState.UNAPPROVED:
            row.operator_state, row.operator_since, row.operator_reason = OperatorState.NORMAL, timezone.now(), ""
            # A node may have returned with a data folder of a removed group: it may serve that.
            RemovedGroup.objects.filter(name=name).delete()
            nodes = Node.objects.filter(broker_group=row).order_by("node_id").values_list("node_id", "address")
            edit.notes = tuple(Reason.of(NoteCode.SERVES_NEXT, node=node, address=address) for node, address in nodes)
    return edit.change


def set_operator_state(name: str, state: OperatorState, **request: Unpack[VersionedRequest]) -> Change:
    """Make a group read only, drain it, or let it serve again. Raises Conflict for the last one that accepts messages."""
    rows: dict[str, BrokerGroup] = {}

    def locked_with_others() -> BrokerGroup:
        # All of them: two operators who each take one of the last two away would each see the other's still there.
        rows.update({row.name: row for row in for_change(BrokerGroup.objects.all())})
        if name not in rows:
            raise BROKER_GROUP.unknown(name)
        return rows[name]

    with BROKER_GROUP.editing(locked_with_others, action=str(state), **request) as edit:
        row = edit.row
        if row.operator_state == OperatorState.UNAPPROVED:
            raise Conflict(
                f"Broker group {name} is pending approval. Approve or remove it first.", code="broker_group.unapproved"
            )
        if state != OperatorState.NORMAL and row.operator_state == OperatorState.NORMAL:
            writable = (row.kind, GroupState.READ_WRITE, OperatorState.NORMAL)
            others = [other for other in rows.values() if other.name != name]
            if not any((other.kind, other.state, other.operator_state) == writable for other in others):
                raise Conflict(
                    f"{name} is the only {row.kind} group that accepts messages, so sends would fail. Add another group first.",
                    code="broker_group.last_writable",
                )
        if state is OperatorState.DRAINING:
            count = sum(name in groups for groups in SubjectRoute.objects.values_list("broker_groups", flat=True))
            edit.notes = (Reason.of(NoteCode.SUBJECTS_MOVE, subjects=count),)
        if state is OperatorState.NORMAL and row.operator_state == OperatorState.DRAINING:
            kept = routes.rejoin(name, actor=request["actor"], reason=f"{name} returns to service")
            if kept:
                edit.notes = (Reason.of(NoteCode.SUBJECTS_STAY, subjects=listed(kept)),)
        if row.operator_state != state:
            row.operator_state, row.operator_since = state, timezone.now()
        row.operator_reason = request.get("reason", "")[:500] if state != OperatorState.NORMAL else ""
    return edit.change


def remove_group(name: str, **request: Unpack[VersionedRequest]) -> Change:
    """Delete an offline group that serves no subject. Raises Conflict for any other."""
    with BROKER_GROUP.editing(lambda: locked(name), action="remove", **request) as edit:
        row = edit.row
        served = [r.subject.name for r in SubjectRoute.objects.select_related("subject") if name in r.broker_groups]
        if served:
            more = f" and {len(served) - 3} more" if len(served) > 3 else ""
            raise Conflict(
                f"Broker group {name} still serves {', '.join(served[:3])}{more}. Drain it and wait until it is empty, or, if its"
                f" nodes are lost, accept the loss: qmq broker-groups remove {name} --accept-loss.",
                code="broker_group.not_empty",
            )
        if row.state != GroupState.OFFLINE:
            raise Conflict(
                f"Node {row.master} of broker group {name} is running. Stop it first.", code="broker_group.live"
            )
        recently = timezone.now() - timedelta(milliseconds=SILENT_MS)
        running = Node.objects.filter(broker_group=row, leased_at__gt=recently).exclude(node_id=row.master)
        if len(row.members) > 1 and (slave := running.order_by("node_id").first()) is not None:
            # It would register the group again, with itself as the only member, whatever it lacks.
            raise Conflict(
                f"Node {slave.node_id} of broker group {name} is running. Stop it first, and wait some seconds.",
                code="broker_group.live",
            )
        if row.operator_state != OperatorState.UNAPPROVED and (pending := pending_messages(row) or 0):
            raise Conflict(
                f"Broker group {name} has {pending} delayed messages that are not delivered. Start its nodes and wait until it has"
                f" none, or accept the loss: qmq broker-groups remove {name} --accept-loss.",
                code="broker_group.not_empty",
            )
        Node.objects.filter(broker_group=row).delete()
        edit.delete()
    return edit.change


def pending_messages(row: BrokerGroup) -> int | None:
    """Return how many delayed messages a delay group has that are not delivered, as its nodes last reported; None: none did."""
    reports = [StoredReport.decode(found) for found in row.nodes.values_list("report", flat=True)]
    pending = [report.pending_messages for report in reports if report is not None and report.pending_messages >= 0]
    return max(pending, default=None) if row.kind == GroupKind.DELAY else None


def locked(name: str) -> BrokerGroup:
    """A broker group's row, locked until the transaction ends. Raises NotFound."""
    return BROKER_GROUP.locked(BrokerGroup.objects.filter(name=name), name)


def accept_log_loss(node_id: str, *, log_end: int, actor: Actor, reason: str, dry_run: bool = False) -> Change:
    """Accept the data loss of a node whose log ends earlier than it had reported; applied to its next heartbeat.

    Raises:
        NotFound: there is no such node.
        ChangeRefused: its log never reached this offset, so the node would still not serve.
        Conflict: it is one of several members of its group, and could be promoted although others have what it lost; or the
            group's membership was restored from a backup, which another version of it would hide.
    """
    with changing(dry_run=dry_run):
        row = lock(Node.objects.filter(node_id=node_id))
        if row is None:
            raise NotFound(f"Node {node_id!r} not found.", code="node.unknown")
        if log_end > row.log_end:
            text = f"must be at most {row.log_end}, the highest end of the log"
            raise ChangeRefused(f"log_end: {log_end} {text}", code="node.log_end_invalid", fields={"log_end": text})
        members = row.broker_group.members
        if len(members) > 1 and node_id in members:
            raise Conflict(
                f"Node {node_id} is one of {len(members)} members of broker group {row.broker_group.name}. Let it copy the log of"
                " the master, or promote it and accept the loss of the group.",
                code="node.has_other_members",
            )
        found = queries.group_members(row.broker_group.name, timezone.now())
        if found is not None and found.is_restored:
            raise Conflict(
                f"The log loss of node {node_id} can't be accepted: {found.restored_problem}.",
                code="broker_group.restored",
            )
        before, after = {"log_end": str(row.log_end)}, {"log_end": str(log_end)}
        names_folder = members == [node_id] and bool(row.broker_group.incarnations)
        if before != after or names_folder:
            group = row.broker_group.name
            change = {
                "loss_id": str(uuid4()),
                "in_sync_version": F("in_sync_version") + 1,
                "updated_at": timezone.now(),
            }
            if names_folder:
                # The group was reduced to one member, and names the data folder that had everything. From now on it is any.
                change["incarnations"] = []
            # Before the node: a metaserver that reads the accepted end reads the loss with it.
            BrokerGroup.objects.filter(name=group).update(**change)
            Node.objects.filter(node_id=node_id).update(
                log_end=log_end, log_epoch=1, log_end_version=F("log_end_version") + 1
            )
            audit.record(
                actor, "node.accept_log_loss", node_id, reason=reason, before=before, after=after, broker_group=group
            )
    return Change(node_id, before, after)
