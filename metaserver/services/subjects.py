"""Subjects: create, describe, limit, archive."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from metaserver.models import ClientSeen, Subject, SubjectRoute, Team
from metaserver.services import audit
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
from qmq.protocol.names import check_group, check_new_subject, real_subject, split_subject

TAGS_MAX = 20
TAG_CHARS_MAX = 50
DESCRIPTION_CHARS_MAX = 500
ALLOWED_GROUPS_MAX = 200
RETENTION_HOURS_MAX = 24 * 366 * 2
MESSAGES_PER_SECOND_MAX = 10_000_000
BYTES_PER_SECOND_MAX = 100 << 30
DELETE_SECONDS_MAX = 30.0
"""How long a subject stays marked when the process that deletes it died: longer than nodes take."""
CLIENTS_GONE = timedelta(minutes=10)
"""A client that runs is noted every five minutes; after this time none holds a route of the subject."""

FIELDS = (
    "description",
    "owner",
    "tags",
    "messages_per_second",
    "bytes_per_second",
    "retention_hours",
    "allowed_groups",
)
"""What an operator may set."""


def described(row: Subject) -> dict[str, Any]:
    """What an operator decided about a subject; the form of audit entries and plans."""
    return {
        "description": row.description,
        "owner": row.owner.name if row.owner is not None else None,
        "tags": row.tags,
        "messages_per_second": row.messages_per_second,
        "bytes_per_second": row.bytes_per_second,
        "retention_hours": row.retention_hours,
        "allowed_groups": row.allowed_groups,
        "archived": row.archived_at is not None,
    }


def create_subject(
    name: str, values: Mapping[str, Any], *, actor: Actor, reason: str = "", dry_run: bool = False
) -> Change:
    """Make a subject known before its first message. Broker groups are chosen when its first client comes.

    Raises:
        ChangeRefused: the name or a value is not allowed.
        Conflict: there is such a subject.
    """
    _check_name(name)
    with changing(dry_run=dry_run):
        if Subject.objects.filter(name=name).exists():
            raise Conflict(
                f"Subject {name!r} already exists. Choose another name or edit the existing subject.",
                code="subject.exists",
            )
        row = Subject(name=name)
        _set(row, values, actor)
        with only_one(
            f"Subject {name!r} already exists. Choose another name or edit the existing subject.", "subject.exists"
        ):
            row.save()
        after = described(row)
        audit.record(actor=actor, action="subject.create", target=name, reason=reason, after=after, subject=name)
    return Change(name, None, after, row.version)


def update_subject(
    name: str,
    values: Mapping[str, Any],
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Change what `values` names and nothing else. Setting what is there already changes nothing.

    Raises:
        NotFound, Stale, ChangeRefused.
    """
    with changing(dry_run=dry_run):
        row = locked(name, actor)
        check_version(f"subject {name}", row.version, expected_version)
        before = described(row)
        _set(row, values, actor)
        return _save(row, before, actor=actor, action="subject.update", reason=reason)


def set_archived(
    name: str,
    archived: bool,
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Archive a subject: it takes no new messages; what it holds can be read until retention takes it. Or take it back."""
    with changing(dry_run=dry_run):
        row = locked(name, actor)
        check_version(f"subject {name}", row.version, expected_version)
        before = described(row)
        if archived != (row.archived_at is not None):
            row.archived_at = timezone.now() if archived else None
        action = "subject.archive" if archived else "subject.restore"
        notes = ("Sends are rejected from now on. Stored messages can still be read.",) if archived else ()
        return _save(row, before, actor=actor, action=action, reason=reason, notes=notes)


def begin_delete(
    name: str, *, actor: Actor, reason: str = "", expected_version: int | None = None, dry_run: bool = False
) -> Change:
    """Write the audit entry of a deletion and mark the subject: until `end_delete`, every other change of it is refused.

    Raises:
        Conflict: it is not archived, so producers may send to it; or clients used it in the last minutes.
    """
    with changing(dry_run=dry_run):
        row = locked(name, actor)
        check_version(f"subject {name}", row.version, expected_version)
        if row.archived_at is None:
            raise Conflict(
                f"Subject {name} is not archived. Archive it first, so that it receives no more messages.",
                code="subject.not_archived",
            )
        since = timezone.now() - CLIENTS_GONE
        if ClientSeen.objects.filter(subject=name, last_seen_at__gt=since).exists():
            minutes = round(CLIENTS_GONE.total_seconds() / 60)
            raise Conflict(
                f"Clients of subject {name} registered in the last {minutes} minutes. Stop them first.",
                code="subject.in_use",
            )
        before = described(row)
        Subject.objects.filter(pk=row.pk).update(deleting_since=timezone.now())
        audit.record(actor=actor, action="subject.delete", target=name, reason=reason, before=before)
    return Change(name, before, None)


def end_delete(
    name: str, *, actor: Actor, reason: str = "", done: Sequence[str] = (), failed: Mapping[str, str] | None = None
) -> None:
    """Delete the row with its route and consumer groups, or when broker groups failed remove the mark; write the outcome.

    Args:
        done, failed: the broker groups that deleted the subject, and those that did not with the reason.
    """
    after: dict[str, Any] = {"done": list(done)}
    with changing(dry_run=False):
        rows = Subject.objects.filter(name=name)
        if failed:
            rows.update(deleting_since=None)
            after["failed"] = dict(failed)
        else:
            rows.delete()
            ClientSeen.objects.filter(subject=name).delete()
        action = "subject.delete_failed" if failed else "subject.deleted"
        audit.record(
            actor=actor, action=action, target=name, reason=reason, after=after, subject="" if failed else name
        )


def locked(name: str, actor: Actor) -> Subject:
    """Return a subject's row, locked until the transaction ends.

    Raises:
        NotFound: there is no such subject.
        NotAllowed: it belongs to a team that the actor is not in.
        Conflict: it is being deleted.
    """
    row = lock(Subject.objects.filter(name=name))
    if row is None:
        raise NotFound(f"Subject {name!r} not found.", code="subject.unknown")
    since = row.deleting_since
    if since is not None and timezone.now() - since < timedelta(seconds=DELETE_SECONDS_MAX):
        raise Conflict(f"Subject {name} is being deleted by another request.", code="subject.busy")
    actor.require_owner(f"subject {name}", row.owner.name if row.owner is not None else None)
    return row


def authorize(subject: str, actor: Actor) -> None:
    """Lock the real subject of a name, and check that the actor may change what it holds.

    What is changed on nodes is checked like this in the transaction of its audit entry, before any node is asked.

    Raises:
        as `locked`.
    """
    locked(real_subject(subject), actor)


def has_route(name: str) -> bool:
    """Whether broker groups serve the subject."""
    return SubjectRoute.objects.filter(subject__name=name).exists()


def _save(
    row: Subject, before: dict[str, Any], *, actor: Actor, action: str, reason: str, notes: tuple[str, ...] = ()
) -> Change:
    after = described(row)
    if before != after:
        row.version += 1
        row.save()
        audit.record(
            actor=actor, action=action, target=row.name, reason=reason, before=before, after=after, subject=row.name
        )
    return Change(row.name, before, after, row.version, notes)


def _check_name(name: str) -> None:
    try:
        check_new_subject(name)
    except IllegalName as error:
        raise ChangeRefused(str(error), code=error.code, fields={"name": str(error)}) from error
    text = text_problem(name)
    if text:
        raise ChangeRefused(f"subject name: {name[:80]!r} {text}", code="subject.name_illegal", fields={"name": text})
    if split_subject(name).kind != "real" or name.startswith("%"):
        text = "must not start with '%', which is reserved for retry and dead-letter subjects"
        raise ChangeRefused(text, code="subject.name_illegal", fields={"name": text})


def _set(row: Subject, values: Mapping[str, Any], actor: Actor) -> None:
    wrong: dict[str, str] = {}
    for key, value in values.items():
        if key not in FIELDS:
            wrong[key] = f"unknown; allowed: {', '.join(FIELDS)}"
        elif key == "owner":
            if value is None:
                row.owner = None
            elif not isinstance(value, str) or text_problem(value):
                wrong[key] = "must be null or the name of a team"
            # Locked: whoever removes the team at this moment waits, and then sees what it owns.
            elif (team := lock(Team.objects.filter(name=value))) is not None:
                # A subject can only be given to a team that the actor is in.
                actor.require_owner(f"subject {row.name} with owner {value}", value)
                row.owner = team
            else:
                wrong[key] = f"team {value[:80]!r} not found"
        else:
            text = _CHECKS[key](value)
            if text:
                wrong[key] = text
            else:
                setattr(row, key, sorted(set(value)) if isinstance(value, list) else value)
    if wrong:
        raise ChangeRefused(
            "; ".join(f"{key}: {text}" for key, text in wrong.items()), code="subject.invalid", fields=wrong
        )


def description_problem(value: Any) -> str:
    """Why this is no description, or ""."""
    if not isinstance(value, str) or len(value) > DESCRIPTION_CHARS_MAX:
        return f"must be text of at most {DESCRIPTION_CHARS_MAX} characters"
    return text_problem(value)


def tags_problem(value: Any) -> str:
    """Why this is no list of tags, or ""."""
    if not isinstance(value, list) or len(value) > TAGS_MAX:
        return f"must be a list of at most {TAGS_MAX} tags"
    for tag in value:
        if not isinstance(tag, str) or not tag or len(tag) > TAG_CHARS_MAX or text_problem(tag):
            return f"{str(tag)[:80]!r} is not a valid tag; must be 1 to {TAG_CHARS_MAX} characters"
    return ""


def _groups_problem(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, list) or len(value) > ALLOWED_GROUPS_MAX:
        return f"must be null (any group) or a list of at most {ALLOWED_GROUPS_MAX} consumer groups"
    for group in value:
        try:
            if not isinstance(group, str):
                return f"{str(group)[:80]!r} is not a valid consumer group name"
            check_group(group)
        except IllegalName as error:
            return str(error)
        text = text_problem(group)
        if text:
            return f"{group[:80]!r}: {text}"
    return ""


def _number_problem(value: Any, most: int, unit: str, *, whole: bool = True) -> str:
    if value is None:
        return ""
    is_number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= most:
        return f"{str(value)[:80]}: must be null (no limit) or a number above 0 and at most {most} {unit}"
    return ""


_CHECKS: dict[str, Callable[[Any], str]] = {
    "description": description_problem,
    "tags": tags_problem,
    "allowed_groups": _groups_problem,
    "messages_per_second": lambda value: _number_problem(value, MESSAGES_PER_SECOND_MAX, "messages per second"),
    "bytes_per_second": lambda value: _number_problem(value, BYTES_PER_SECOND_MAX, "bytes per second"),
    "retention_hours": lambda value: _number_problem(value, RETENTION_HOURS_MAX, "hours", whole=False),
}
