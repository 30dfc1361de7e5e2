"""Consumer groups: create, describe, pause, resume, delete.

Progress lives on the nodes. A request that changes it there marks the group's row first (`begin_progress_change`), and every
other change of the group is refused until `end_progress_change`: nothing can come between the check of a version and the change.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Unpack

from django.utils import timezone

from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.models import ConsumerGroup
from metaserver.services import audit, subjects
from metaserver.services.changes import Actor, Change, Request, VersionedRequest, changing, check_version, lock
from metaserver.services.resources import Resource, check_wire_name
from qmq.protocol.names import check_consumer_id, check_new_group

PAUSED_CONSUMERS_MAX = 1_000
PROGRESS_CHANGE_SECONDS_MAX = 30.0
"""Time for which a group stays marked as changing when the process that marked it has ended: longer than a change on nodes takes.
"""


def described(row: ConsumerGroup) -> dict[str, Any]:
    """What an operator decided about a group."""
    return {
        **{key: getattr(row, key) for key in GROUP.fields},
        "is_paused": row.is_paused,
        "paused_consumers": row.paused_consumers,
        "pause_reason": row.pause_reason,
    }


GROUP: Resource[ConsumerGroup] = Resource(
    kind="consumer_group",
    noun="consumer group",
    fields={"description": subjects.DESCRIPTION, "tags": subjects.TAGS},
    described=described,
    about=lambda row: f"{row.subject.name}/{row.name}",
    metadata=lambda row: {"subject": row.subject.name} if row.has_pauses else {},
)


def check_name(group: str) -> None:
    """Raise ChangeRefused when no consumer group can be created with this name."""
    check_wire_name(group, check_new_group, code="group.name_illegal")


def create_group(subject: str, group: str, values: Mapping[str, Any], **request: Unpack[Request]) -> Change:
    """Make a consumer group known before its first consumer. Raises NotFound without the subject, Conflict if it exists."""
    check_name(group)
    with GROUP.creating(ConsumerGroup(name=group), f"{subject}/{group}", **request) as edit:
        edit.row.subject = subjects.locked(subject, request["actor"])
        edit.set(values)
    return edit.change


def update_group(subject: str, group: str, values: Mapping[str, Any], **request: Unpack[VersionedRequest]) -> Change:
    """Change what `values` names."""
    with GROUP.editing(lambda: locked(subject, group, request["actor"]), **request) as edit:
        edit.set(values)
    return edit.change


def set_paused(
    subject: str, group: str, paused: bool, *, consumer_id: str = "", **request: Unpack[VersionedRequest]
) -> Change:
    """Pause or resume a group, or one consumer of it: pulls return no messages. Resuming a group resumes its consumers."""
    if consumer_id:
        check_wire_name(consumer_id, check_consumer_id, field_name="consumer_id", code="consumer_id.illegal")
    action = "pause" if paused else "resume"
    with GROUP.editing(lambda: locked(subject, group, request["actor"]), action=action, **request) as edit:
        row = edit.row
        if consumer_id:
            chosen = set(row.paused_consumers) - {consumer_id} | ({consumer_id} if paused else set())
            if len(chosen) > PAUSED_CONSUMERS_MAX:
                raise ChangeRefused(
                    f"{PAUSED_CONSUMERS_MAX} consumers of {group} are already paused, the maximum. Pause the whole group instead.",
                    code="consumer_group.paused_consumers_max",
                )
            row.paused_consumers = sorted(chosen)
        else:
            row.is_paused = paused
            row.paused_consumers = row.paused_consumers if paused else []
        row.has_pauses = row.is_paused or bool(row.paused_consumers)
        reason = request.get("reason", "") if paused else row.pause_reason
        row.pause_reason = reason[:500] if row.has_pauses else ""
    return edit.change


def delete_group(subject: str, group: str, **request: Unpack[VersionedRequest]) -> Change:
    """Delete a group's row. Its next consumer creates it again."""
    with GROUP.editing(lambda: locked(subject, group, request["actor"]), action="delete", **request) as edit:
        edit.delete()
    return edit.change


def begin_progress_change(
    subject: str,
    group: str,
    *,
    action: str,
    actor: Actor,
    before: Mapping[str, str],
    after: Mapping[str, str] | None,
    reason: str = "",
    expected_version: int | None = None,
) -> None:
    """Write the audit entry of a change of the group's progress, and mark the group until `end_progress_change`.

    Nodes may have progress of a group without a row; then there is nothing to mark. `before` and `after` are positions by broker
    group; `after` None: the progress is removed. Raises as `locked` and `check_version`; NotFound also for a version without a row.
    """
    with changing(dry_run=False):
        if expected_version is not None:
            row: ConsumerGroup | None = locked(subject, group, actor)
        else:
            subjects.authorize(subject, actor)
            row = _locked_or_none(subject, group)
        if row is not None:
            check_version(f"consumer group {group} of {subject}", row.version, expected_version)
            ConsumerGroup.objects.filter(pk=row.pk).update(progress_changing_since=timezone.now())
        audit.record(
            actor,
            action,
            f"{subject}/{group}",
            reason=reason,
            before=dict(before),
            after=None if after is None else dict(after),
        )


def end_progress_change(
    subject: str,
    group: str,
    *,
    action: str,
    actor: Actor,
    before: Mapping[str, str],
    after: Mapping[str, Any],
    reason: str = "",
) -> None:
    """Write the audit entry of the outcome, and remove the mark."""
    with changing(dry_run=False):
        ConsumerGroup.objects.filter(subject__name=subject, name=group).update(progress_changing_since=None)
        audit.record(actor, action, f"{subject}/{group}", reason=reason, before=dict(before), after=dict(after))


def end_forget(subject: str, group: str, **request: Unpack[Request]) -> Change:
    """Delete the row of a group whose progress was removed from the nodes. Its version was checked before that."""

    rows = ConsumerGroup.objects.filter(subject__name=subject, name=group)
    # It is missing only when this request took longer than PROGRESS_CHANGE_SECONDS_MAX and another one deleted it.
    with GROUP.editing(lambda: GROUP.locked(rows, f"{subject}/{group}"), action="delete", **request) as edit:
        edit.delete()
    return edit.change


def unknown(subject: str, group: str) -> NotFound:
    """The error that a subject has no such group."""
    return GROUP.unknown(f"{subject}/{group}")


def locked(subject: str, group: str, actor: Actor) -> ConsumerGroup:
    """A group's row, locked with its subject's. Raises NotFound, NotAllowed, or Conflict while its progress is changed on nodes."""
    subjects.locked(subject, actor)
    row = _locked_or_none(subject, group)
    if row is None:
        raise unknown(subject, group)
    return row


def _locked_or_none(subject: str, group: str) -> ConsumerGroup | None:
    row = lock(ConsumerGroup.objects.filter(subject__name=subject, name=group))
    since = row.progress_changing_since if row is not None else None
    if since is not None and timezone.now() - since < timedelta(seconds=PROGRESS_CHANGE_SECONDS_MAX):
        raise Conflict(
            f"The progress of {group} on {subject} is being changed by another request. Try again shortly.",
            code="consumer_group.busy",
        )
    return row
