"""Removal of a broker group whose nodes are lost, with the loss of what they had."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Unpack

from django.utils import timezone

from metaserver import queries
from metaserver.errors import Conflict
from metaserver.models import BrokerGroup, Node, RemovedGroup
from metaserver.reports import StoredReport
from metaserver.services import audit, routes
from metaserver.services.broker_groups import described, locked, pending_messages
from metaserver.services.changes import Change, VersionedRequest, changing, check_version, delete_some
from metaserver.services.notes import NoteCode, listed
from qmq.protocol.reasons import Reason

SILENT_SECONDS = 60.0
"""No node of the group may have sent a heartbeat for so long."""
REMOVED_GROUPS_MAX = 1_000
"""Removed groups whose data folders are remembered, the newest ones."""
_LOSSES = {"delayed messages": NoteCode.MESSAGES_LOST_UNLESS, "bytes of messages": NoteCode.BYTES_LOST_UNLESS}
"""What a note says of a loss, by its unit."""


def remove_lost_group(name: str, accept_loss: int | None, **request: Unpack[VersionedRequest]) -> Change:
    """Delete a broker group whose nodes don't run, although it serves subjects or has messages.

    Its subjects leave it at once, those that no other group serves when another one has joined. The change states the loss, also in
    a dry run: of a delay group the pending messages that it reported, of a broker group the bytes of the longest log. It is made
    only if exactly this number is accepted. A node that returns with one of the group's data folders waits for approval.

    Raises:
        NotFound: there is no such broker group.
        Conflict: a node of it may run, or another number is accepted.
        Stale: the group changed since the caller read it.
    """
    dry_run, reason = request.get("dry_run", False), request.get("reason", "")
    with changing(dry_run=dry_run):
        row = locked(name)
        check_version(f"broker group {name}", row.version, request.get("expected_version"))
        nodes = list(Node.objects.filter(broker_group=row).order_by("node_id"))
        _check_silent(name, nodes)
        loss, unit = _loss(row, nodes)
        if not dry_run and accept_loss != loss:
            stated = "none is stated" if accept_loss is None else f"{accept_loss} is stated"
            raise Conflict(
                f"Removing broker group {name} loses up to {loss} {unit}; {stated}. State exactly this number to accept the loss.",
                code="broker_group.loss_not_accepted",
            )
        left, kept = routes.leave_lost(name, actor=request["actor"], reason=f"broker group {name} is lost")
        _remember(row, nodes)
        Node.objects.filter(broker_group=row).delete()
        before = described(row)
        row.delete()
        after = {"at_risk": str(loss), "unit": unit, "subjects_left": left, "subjects_waiting": len(kept)}
        audit.record(
            request["actor"], "broker_group.remove_lost", name, reason=reason, before=before, after=after, broker_group=name
        )  # fmt: skip
    return Change(name, before, after, notes=_notes(name, loss, unit, left, kept))


def _check_silent(name: str, nodes: Sequence[Node]) -> None:
    """Raises Conflict if a node of the group sent a heartbeat within SILENT_SECONDS, or may have."""
    now = timezone.now()
    limit = now - timedelta(seconds=SILENT_SECONDS)
    for node in nodes:
        if node.leased_at is not None and node.leased_at > limit:
            seconds = max(0.0, (now - node.leased_at).total_seconds())
            raise Conflict(
                f"Node {node.node_id} of broker group {name} sent a heartbeat {seconds:.0f} s ago. A group is removed with a loss"
                f" only if none of its nodes has sent one for {SILENT_SECONDS:.0f} s.",
                code="broker_group.live",
            )
    since = queries.hearing_since(now, queries.METASERVER_FRESH_SECONDS)
    if since is None or since > limit:
        raise Conflict(
            f"Nodes of broker group {name} may run: no metaserver has received heartbeats without a pause for"
            f" {SILENT_SECONDS:.0f} s. Try again when one has.",
            code="broker_group.live",
        )


def _loss(row: BrokerGroup, nodes: Sequence[Node]) -> tuple[int, str]:
    """Return how much is lost with the group, and in which unit."""
    if (pending := pending_messages(row)) is not None:
        return pending, "delayed messages"
    return max((node.log_end for node in nodes), default=0), "bytes of messages"


def _remember(row: BrokerGroup, nodes: Sequence[Node]) -> None:
    reports = [StoredReport.decode(node.report) for node in nodes]
    folders = {*row.incarnations, *(report.incarnation for report in reports if report is not None)}
    RemovedGroup.objects.create(name=row.name, incarnations=sorted(folders - {""}))
    delete_some(RemovedGroup.objects.order_by("id"), max(0, RemovedGroup.objects.count() - REMOVED_GROUPS_MAX))


def _notes(name: str, loss: int, unit: str, left: int, kept: Sequence[str]) -> tuple[Reason, ...]:
    notes = [Reason.of(_LOSSES[unit], count=loss)]
    if left:
        notes.append(Reason.of(NoteCode.SUBJECTS_LEAVE, subjects=left))
    if kept:
        notes.append(Reason.of(NoteCode.NO_OTHER_SERVES, subjects=listed(kept), group=name))
    return tuple(notes)
