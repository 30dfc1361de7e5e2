"""Consumer groups: make known, describe, pause, resume. Progress lives on the brokers and is not changed here."""

from collections.abc import Callable, Mapping
from typing import Any

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
from qmq.protocol.names import check_consumer_id, check_group

PAUSED_CONSUMERS_MAX = 1_000
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
    _check(group, check_group, "name", "group.name_illegal")
    target = f"{subject}/{group}"
    with changing(dry_run=dry_run):
        owner = subjects.locked(subject, actor)
        if ConsumerGroup.objects.filter(subject=owner, name=group).exists():
            raise Conflict(f"consumer group {group!r} of {subject} exists", code="consumer_group.exists")
        row = ConsumerGroup(subject=owner, name=group)
        _set(row, values)
        with only_one(f"consumer group {group!r} of {subject} exists", "consumer_group.exists"):
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
                    f"{PAUSED_CONSUMERS_MAX} consumers of {group} are paused, the limit; pause the whole group",
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
    """Forget a group's row; a consumer that comes again makes it again."""
    with changing(dry_run=dry_run):
        row = locked(subject, group, actor)
        check_version(f"consumer group {group} of {subject}", row.version, expected_version)
        before, target = described(row), f"{subject}/{group}"
        row.delete()
        audit.record(actor=actor, action="consumer_group.delete", target=target, reason=reason, before=before)
    return Change(target, before, None)


def locked(subject: str, group: str, actor: Actor) -> ConsumerGroup:
    """Return a group's row, locked with its subject's until the transaction ends.

    Raises:
        NotFound: there is no such subject or group.
        NotAllowed: the subject belongs to a team that the actor is not in.
    """
    subjects.locked(subject, actor)
    row = lock(ConsumerGroup.objects.filter(subject__name=subject, name=group))
    if row is None:
        raise NotFound(f"subject {subject!r} has no consumer group {group!r}", code="consumer_group.unknown")
    return row


def _save(row: ConsumerGroup, before: dict[str, Any], *, actor: Actor, action: str, reason: str) -> Change:
    after, target = described(row), f"{row.subject.name}/{row.name}"
    if before != after:
        row.version += 1
        row.save()
        audit.record(actor=actor, action=action, target=target, reason=reason, before=before, after=after)
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
        text = checks[key](value) if key in checks else f"unknown; known are {', '.join(FIELDS)}"
        if text:
            wrong[key] = text
        else:
            setattr(row, key, sorted(set(value)) if isinstance(value, list) else value)
    if wrong:
        raise ChangeRefused(
            "; ".join(f"{key}: {text}" for key, text in wrong.items()), code="consumer_group.invalid", fields=wrong
        )
