"""Consumer groups: create, describe, pause, resume, delete.

Progress lives on the nodes. A request that changes it there marks the group's row first (`begin_progress_change`), and every
other change of the group is refused until `end_progress_change`: nothing can come between the check of a version and the change.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from metaserver.models import ConsumerGroup
from metaserver.services import audit, subjects
from metaserver.services.changes import (
    Actor,
    Change,
    ChangeRefused,
    Conflict,
    NotFound,
    changing,
    check_version,
    lock,
    only_one,
    text_problem,
)
from qmq.errors import IllegalName
from qmq.protocol.names import check_consumer_id, check_new_group

PAUSED_CONSUMERS_MAX = 1_000
PROGRESS_CHANGE_SECONDS_MAX = 30.0
"""How long a group stays marked as changing when the process that marked it died: longer than nodes take for a change."""
FIELDS = ("description", "tags")


def described(row: ConsumerGroup) -> dict[str, Any]:
    """What an operator decided about a group."""
    return {
        "description": row.description,
        "tags": row.tags,
        "is_paused": row.is_paused,
        "paused_consumers": row.paused_consumers,
        "pause_reason": row.pause_reason,
    }


def create_group(
    subject: str, group: str, values: Mapping[str, Any], *, actor: Actor, reason: str = "", dry_run: bool = False
) -> Change:
    """Make a consumer group known before its first consumer.

    Raises:
        NotFound: there is no such subject.
        Conflict: there is such a group.
    """
    _check(group, check_new_group, "name", "group.name_illegal")
    target = f"{subject}/{group}"
    with changing(dry_run=dry_run):
        owner = subjects.locked(subject, actor)
        if ConsumerGroup.objects.filter(subject=owner, name=group).exists():
            raise Conflict(
                f"Consumer group {group!r} of subject {subject} already exists.", code="consumer_group.exists"
            )
        row = ConsumerGroup(subject=owner, name=group)
        _set(row, values)
        with only_one(f"Consumer group {group!r} of subject {subject} already exists.", "consumer_group.exists"):
            row.save()
        after = described(row)
        audit.record(actor=actor, action="consumer_group.create", target=target, reason=reason, after=after)
    return Change(target, None, after, row.version)


def update_group(
    subject: str,
    group: str,
    values: Mapping[str, Any],
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Change what `values` names."""
    with changing(dry_run=dry_run):
        row = locked(subject, group, actor)
        check_version(f"consumer group {group} of {subject}", row.version, expected_version)
        before = described(row)
        _set(row, values)
        return _save(row, before, actor=actor, action="consumer_group.update", reason=reason)


def set_paused(
    subject: str,
    group: str,
    paused: bool,
    *,
    consumer_id: str = "",
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Pause or resume a whole group, or one consumer of it. Pulls are held meanwhile; acks go on.

    Resuming the whole group resumes its single consumers too.
    """
    if consumer_id:
        _check(consumer_id, check_consumer_id, "consumer_id", "consumer_id.illegal")
    with changing(dry_run=dry_run):
        row = locked(subject, group, actor)
        check_version(f"consumer group {group} of {subject}", row.version, expected_version)
        before = described(row)
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
        row.pause_reason = (reason if paused else row.pause_reason)[:500] if row.has_pauses else ""
        action = "consumer_group.pause" if paused else "consumer_group.resume"
        return _save(row, before, actor=actor, action=action, reason=reason)


def delete_group(
    subject: str,
    group: str,
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Delete a group's row. Its next consumer creates it again."""
    with changing(dry_run=dry_run):
        row = locked(subject, group, actor)
        check_version(f"consumer group {group} of {subject}", row.version, expected_version)
        return _delete(row, actor=actor, reason=reason)


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

    Args:
        before: the position on each broker group. `after`: the planned positions; None: the progress is removed.

    Nodes may have progress of a group without a row; then there is nothing to mark.

    Raises:
        NotFound: there is no such subject; or a version is given, and the group has no row.
        NotAllowed: the subject belongs to a team that the actor is not in.
        Stale: the group has another version.
        Conflict: another request changes its progress.
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
            actor=actor,
            action=action,
            target=f"{subject}/{group}",
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
        audit.record(
            actor=actor,
            action=action,
            target=f"{subject}/{group}",
            reason=reason,
            before=dict(before),
            after=dict(after),
        )


def end_forget(subject: str, group: str, *, actor: Actor, reason: str = "") -> Change:
    """Delete the row of a group whose progress was removed from the nodes. Its version was checked before that."""
    with changing(dry_run=False):
        row = lock(ConsumerGroup.objects.filter(subject__name=subject, name=group))
        if row is None:
            # Only when this request took longer than PROGRESS_CHANGE_SECONDS_MAX and another one deleted the row.
            raise NotFound(f"Consumer group {group!r} of subject {subject!r} not found.", code="consumer_group.unknown")
        return _delete(row, actor=actor, reason=reason)


def _delete(row: ConsumerGroup, *, actor: Actor, reason: str) -> Change:
    before, subject, had_pauses = described(row), row.subject.name, row.has_pauses
    target = f"{subject}/{row.name}"
    row.delete()
    audit.record(
        actor=actor,
        action="consumer_group.delete",
        target=target,
        reason=reason,
        before=before,
        subject=subject if had_pauses else "",
    )
    return Change(target, before, None)


def locked(subject: str, group: str, actor: Actor) -> ConsumerGroup:
    """Return a group's row, locked with its subject's until the transaction ends.

    Raises:
        NotFound: there is no such subject or group.
        NotAllowed: the subject belongs to a team that the actor is not in.
        Conflict: its progress is being changed on nodes.
    """
    subjects.locked(subject, actor)
    row = _locked_or_none(subject, group)
    if row is None:
        raise NotFound(f"Consumer group {group!r} of subject {subject!r} not found.", code="consumer_group.unknown")
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


def _save(row: ConsumerGroup, before: dict[str, Any], *, actor: Actor, action: str, reason: str) -> Change:
    after, target = described(row), f"{row.subject.name}/{row.name}"
    if before != after:
        row.version += 1
        row.save()
        audit.record(
            actor=actor,
            action=action,
            target=target,
            reason=reason,
            before=before,
            after=after,
            subject=row.subject.name,
        )
    return Change(target, before, after, row.version)


def _check(name: str, check: Callable[[str], None], field: str, code: str) -> None:
    try:
        check(name)
    except IllegalName as error:
        raise ChangeRefused(str(error), code=error.code, fields={field: str(error)}) from error
    text = text_problem(name)
    if text:
        raise ChangeRefused(f"{name[:80]!r}: {text}", code=code, fields={field: text})


def _set(row: ConsumerGroup, values: Mapping[str, Any]) -> None:
    checks = {"description": subjects.description_problem, "tags": subjects.tags_problem}
    wrong: dict[str, str] = {}
    for key, value in values.items():
        text = checks[key](value) if key in checks else f"unknown; allowed: {', '.join(FIELDS)}"
        if text:
            wrong[key] = text
        else:
            setattr(row, key, sorted(set(value)) if isinstance(value, list) else value)
    if wrong:
        raise ChangeRefused(
            "; ".join(f"{key}: {text}" for key, text in wrong.items()), code="consumer_group.invalid", fields=wrong
        )
