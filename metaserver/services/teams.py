"""Teams."""

import re
from typing import Any

from metaserver.models import Subject, Team
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
)
from metaserver.services.subjects import description_problem

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")


def described(row: Team) -> dict[str, Any]:
    """A team as audit entries show it."""
    return {"description": row.description}


def create_team(name: str, description: str = "", *, actor: Actor, reason: str = "", dry_run: bool = False) -> Change:
    """Make a team.

    Raises:
        ChangeRefused: the name or description is not allowed.
        Conflict: there is such a team.
    """
    if not _NAME.fullmatch(name):
        text = "must be 1 to 60 characters from a-z, 0-9, '.', '_' and '-', starting with a letter or digit"
        raise ChangeRefused(f"team name: {name[:80]!r} {text}", code="team.name_illegal", fields={"name": text})
    _check(description)
    with changing(dry_run=dry_run):
        if Team.objects.filter(name=name).exists():
            raise Conflict(f"Team {name!r} already exists. Choose another name.", code="team.exists")
        with only_one(f"Team {name!r} already exists. Choose another name.", "team.exists"):
            row = Team.objects.create(name=name, description=description)
        audit.record(actor=actor, action="team.create", target=name, reason=reason, after=described(row))
    return Change(name, None, described(row), row.version)


def update_team(
    name: str,
    description: str,
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Describe a team anew."""
    _check(description)
    with changing(dry_run=dry_run):
        row = locked(name)
        check_version(f"team {name}", row.version, expected_version)
        before = described(row)
        row.description = description
        after = described(row)
        if before != after:
            row.version += 1
            row.save()
            audit.record(actor=actor, action="team.update", target=name, reason=reason, before=before, after=after)
    return Change(name, before, after, row.version)


def delete_team(
    name: str, *, actor: Actor, reason: str = "", expected_version: int | None = None, dry_run: bool = False
) -> Change:
    """Remove a team that owns nothing.

    Raises:
        Conflict: it owns subjects.
    """
    with changing(dry_run=dry_run):
        row = locked(name)
        check_version(f"team {name}", row.version, expected_version)
        owned = list(Subject.objects.filter(owner=row).values_list("name", flat=True)[:5])
        if owned:
            raise Conflict(f"Team {name} owns {', '.join(owned)}. Assign them to another team first.", code="team.owns")
        before = described(row)
        with only_one(f"Team {name} has just been assigned a subject. Assign it to another team first.", "team.owns"):
            row.delete()
        audit.record(actor=actor, action="team.delete", target=name, reason=reason, before=before)
    return Change(name, before, None)


def locked(name: str) -> Team:
    """A team's row, locked until the transaction ends. Raises NotFound."""
    row = lock(Team.objects.filter(name=name))
    if row is None:
        raise NotFound(f"Team {name!r} not found.", code="team.unknown")
    return row


def _check(description: str) -> None:
    text = description_problem(description)
    if text:
        raise ChangeRefused(f"description: {text}", code="team.invalid", fields={"description": text})
