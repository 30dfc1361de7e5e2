"""Members of broker groups that are removed. For the master, a slave leads the group first."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from console.cluster.switch_over import switch_over
from metaserver.errors import Conflict
from metaserver.services import member_changes
from metaserver.services import members as service
from metaserver.services.changes import Change, VersionedRequest
from metaserver.services.notes import NoteCode
from qmq.protocol.reasons import Reason


def remove_member(name: str, node_id: str, **request: Unpack[VersionedRequest]) -> Change:
    """Remove a member of a broker group; the master switches over first. Raises as both."""
    successor = _switched_over(name, (node_id,), request)
    planned = successor if request.get("dry_run") else ""
    change = member_changes.remove_member(name, node_id, successor=planned, **request)
    return _with_note(change, node_id, successor)


def set_copies(
    name: str, values: Mapping[str, Any], removed: Sequence[str], **request: Unpack[VersionedRequest]
) -> Change:
    """As the service, and remove members; if the master is one of them, it switches over first."""
    successor = _switched_over(name, removed, request)
    planned = successor if request.get("dry_run") else ""
    change = member_changes.set_copies(name, values, removed, successor=planned, **request)
    return _with_note(change, ", ".join(removed), successor)


def _switched_over(name: str, removed: Sequence[str], request: VersionedRequest) -> str:
    """Have another member lead a group whose master is to be removed, or plan that; its node ID, "" if the master stays."""
    found = service.members(name)
    master = found.group.membership.master
    if master not in removed or not master:
        return ""
    able = [member.node_id for member in found.candidates(without=master) if member.node_id not in removed]
    if not able:
        why = found.candidate_problem or "all others are to be removed, too"
        raise Conflict(
            f"Node {master} is the master of broker group {name}, and no other member could be: {why}.",
            code=member_changes.NOT_REMOVED,
        )
    switch_over(name, able[0], **request)
    return able[0]


def _with_note(change: Change, removed: str, successor: str) -> Change:
    if not successor:
        return change
    note = Reason.of(NoteCode.MASTER_FIRST, node=successor, removed=removed)
    return Change(change.target, change.before, change.after, change.version, (note, *change.notes))
