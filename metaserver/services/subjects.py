"""Subjects: create, describe, limit, archive, delete."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Unpack

from django.utils import timezone

from metaserver.errors import ChangeRefused, Conflict, NotAllowed
from metaserver.models import ClientSeen, Subject, Team
from metaserver.services import audit
from metaserver.services.changes import (
    Actor,
    Change,
    Request,
    VersionedRequest,
    changing,
    check_version,
    control_problem,
    lock,
)
from metaserver.services.fields import Number, Text, Texts, Whole, legal
from metaserver.services.masking import MASKING
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Edit, Resource, check_wire_name
from qmq.formats import SCHEMA_CHARS_MAX, format_problem
from qmq.protocol.names import CONSUMER_ID_CHARS_MAX, check_group, check_new_subject, real_subject, split_subject
from qmq.protocol.reasons import Reason

TEAM_CHARS_MAX = 60
DESCRIPTION = Text(chars_max=500, check=control_problem)
TAGS = Texts(item=Text(chars_min=1, chars_max=50, check=control_problem), items_max=20)
DELETE_SECONDS_MAX = 30.0
"""How long a subject stays marked when the process that deletes it died: longer than nodes take."""
CLIENTS_GONE = timedelta(minutes=10)
"""A client that runs is noted every five minutes; after this time none holds a route of the subject."""


def described(row: Subject) -> dict[str, Any]:
    """What an operator decided about a subject; the form of audit entries and plans."""
    return {
        **{key: getattr(row, key) for key in SUBJECT.fields},
        "owner": _owner(row),
        "archived": row.archived_at is not None,
    }


def _owner(row: Subject) -> str | None:
    return row.owner.name if row.owner is not None else None


SUBJECT: Resource[Subject] = Resource(
    kind="subject",
    noun="subject",
    fields={
        "description": DESCRIPTION,
        "owner": Text(nullable=True, chars_min=1, chars_max=TEAM_CHARS_MAX, help="name of a team"),
        "tags": TAGS,
        "messages_per_second": Whole(nullable=True, minimum=1, maximum=10_000_000, help="on each broker group"),
        "bytes_per_second": Whole(nullable=True, minimum=1, maximum=100 << 30),
        "retention_hours": Number(nullable=True, minimum=0.001, maximum=24 * 366 * 2, unit="hours"),
        "allowed_groups": Texts(
            nullable=True,
            item=Text(chars_min=1, chars_max=CONSUMER_ID_CHARS_MAX, check=legal(check_group)),
            items_max=200,
            help="consumer groups allowed to pull; null: any",
        ),
        "masking": MASKING,
        "body_format": Text(
            chars_min=1,
            chars_max=40,
            pattern="[a-z][a-z0-9_.-]*",
            pattern_problem="must be the name of a format: json, msgpack, avro, or that of a plug-in",
            help="how bodies that are bytes are decoded for display, filters and masks: json, msgpack, avro or a plug-in's",
        ),
        "body_schema": Text(chars_max=SCHEMA_CHARS_MAX, help="the schema of format avro, as JSON"),
    },
    described=described,
    metadata=lambda row: {"subject": row.name},
)


def create_subject(name: str, values: Mapping[str, Any], **request: Unpack[Request]) -> Change:
    """Make a subject known before its first message. Raises ChangeRefused for invalid values, Conflict if it exists."""
    _check_name(name)
    with SUBJECT.creating(Subject(name=name), name, **request) as edit:
        _set(edit, values, request["actor"])
    return edit.change


def update_subject(name: str, values: Mapping[str, Any], **request: Unpack[VersionedRequest]) -> Change:
    """Change what `values` names and nothing else. Raises NotFound, Stale, ChangeRefused."""
    actor = request["actor"]
    with SUBJECT.editing(lambda: locked(name, actor), **request) as edit:
        _set(edit, values, actor)
    return edit.change


def set_archived(name: str, archived: bool, **request: Unpack[VersionedRequest]) -> Change:
    """Archive a subject: it takes no new messages; what it holds can be read until retention takes it. Or take it back."""
    action = "archive" if archived else "restore"
    with SUBJECT.editing(lambda: locked(name, request["actor"]), action=action, **request) as edit:
        if archived != (edit.row.archived_at is not None):
            edit.row.archived_at = timezone.now() if archived else None
        if archived:
            edit.notes = (Reason.of(NoteCode.SENDS_REJECTED),)
    return edit.change


def begin_delete(
    name: str, *, actor: Actor, reason: str = "", expected_version: int | None = None, dry_run: bool = False
) -> Change:
    """Write the audit entry of a deletion and mark the subject: until `end_delete`, every other change of it is refused.

    Raises Conflict for a subject that is not archived, or that clients used in the last minutes.
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
        audit.record(actor, "subject.delete", name, reason=reason, before=before)
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
        audit.record(actor, action, name, reason=reason, after=after, subject="" if failed else name)


def locked(name: str, actor: Actor) -> Subject:
    """A subject's row, locked. Raises NotFound, NotAllowed to members of other teams, or Conflict while it is being deleted."""
    row = SUBJECT.locked(Subject.objects.filter(name=name), name)
    since = row.deleting_since
    if since is not None and timezone.now() - since < timedelta(seconds=DELETE_SECONDS_MAX):
        raise Conflict(f"Subject {name} is being deleted by another request.", code="subject.busy")
    actor.require_owner(f"subject {name}", _owner(row))
    return row


def authorize(subject: str, actor: Actor) -> None:
    """Lock the real subject of a name, and check that the actor may change what it holds. Raises: as `locked`.

    Changes on nodes are checked like this in the transaction of their audit entry, before any node is contacted.
    """
    locked(real_subject(subject), actor)


def _check_name(name: str) -> None:
    check_wire_name(name, check_new_subject, code="subject.name_illegal")
    if split_subject(name).kind != "real" or name.startswith("%"):
        text = "must not start with '%', which is reserved for retry and dead-letter subjects"
        raise ChangeRefused(text, code="subject.name_illegal", fields={"name": text})


def _set(edit: Edit[Subject], values: Mapping[str, Any], actor: Actor) -> None:
    def set_owner(team: str | None) -> str:
        # Locked: a removal of the team at this moment waits, and then sees what the team owns.
        edit.row.owner = None if team is None else lock(Team.objects.filter(name=team))
        if team is not None and edit.row.owner is None:
            return f"team {team!r} not found"
        # A subject can only be given to a team that the actor is in.
        actor.require_owner(f"subject {edit.row.name} with owner {team}", team)
        return ""

    def set_masking(rules: list[dict[str, Any]]) -> str:
        if rules != edit.row.masking and not actor.may_unmask:
            raise NotAllowed(f"{actor.name} can't change the masking rules of {edit.row.name}. Ask an administrator.")
        edit.row.masking = rules
        return ""

    before = (edit.row.body_format, edit.row.body_schema)
    edit.set(values, {"owner": set_owner, "masking": set_masking})
    after = (edit.row.body_format, edit.row.body_schema)
    if after == before:
        return
    if edit.row.masking and not actor.may_unmask:
        # With another schema the values would have other names than the rules.
        raise NotAllowed(
            f"{actor.name} can't change the format of bodies of {edit.row.name}, which has masking rules. Ask an administrator."
        )
    if problem := format_problem(*after):
        field = "body_format" if edit.row.body_format != before[0] and "body_schema" not in values else "body_schema"
        SUBJECT.refuse({field: problem})
