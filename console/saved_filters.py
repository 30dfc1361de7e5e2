"""Saved filters of a subject: a user's own, and those that a team shares.

A filter is its team's by the team's name. Those of a deleted team are shown to administrators only, who can delete them; a team
that is created again under that name has them again.
"""

from typing import Any

from django.db.models import Q, QuerySet

from console.models import SavedFilter
from metaserver import queries
from metaserver.errors import ChangeRefused, Conflict, NotFound
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, changing, only_one

NAME_CHARS_MAX = 60
TEXT_CHARS_MAX = 4_000
"""Nodes have the same limit."""
SAVED_FILTERS_MAX = 50
"""Of a user, and of a team, on one subject."""
UNKNOWN = "saved_filter.unknown"


def visible_to(subject: str, username: str, teams: frozenset[str] | None) -> "QuerySet[SavedFilter]":
    """Return the filters of a subject that a user can use: their own, and those of their teams (None: of all)."""
    shared = ~Q(team="") if teams is None else Q(team__in=teams)
    return SavedFilter.objects.filter(Q(username=username, team="") | shared, subject=subject)


def described(row: SavedFilter) -> dict[str, Any]:
    """A filter as audit entries show it, without what is looked for."""
    return {"name": row.name, "team": row.team or None, "characters": len(row.text)}


def save(
    subject: str,
    name: str,
    text: str,
    team: str,
    username: str,
    *,
    actor: Actor,
    reason: str = "",
    dry_run: bool = False,
) -> tuple[Change, SavedFilter]:
    """Save a filter: a user's own, or with a team the team's.

    Raises:
        ChangeRefused: an empty name or text, or a team that does not exist or that the actor is not in.
        Conflict: the name is used, or there are SAVED_FILTERS_MAX.
    """
    wrong = {
        field: f"must be 1 to {most} characters"
        for field, value, most in (("name", name.strip(), NAME_CHARS_MAX), ("filter", text.strip(), TEXT_CHARS_MAX))
        if not 1 <= len(value) <= most
    }
    if team and not queries.teams().filter(name=team).exists():
        wrong["team"] = f"Team {team!r} not found"
    elif team and actor.teams is not None and team not in actor.teams:
        wrong["team"] = f"{actor.name} is not a member of team {team}"
    if wrong:
        text = "; ".join(f"{key}: {value}" for key, value in wrong.items())
        raise ChangeRefused(text, code="saved_filter.invalid", fields=wrong)
    # Of a team's filter it is only who made it.
    mine = {"subject": subject, "team": team, "username": "" if team else username}
    with changing(dry_run=dry_run):
        if SavedFilter.objects.filter(**mine).count() >= SAVED_FILTERS_MAX:
            raise Conflict(
                f"{SAVED_FILTERS_MAX} filters are saved for {subject}, the maximum. Delete one first.",
                code="saved_filter.too_many",
            )
        with only_one(f"A filter {name!r} is saved already. Choose another name.", "saved_filter.exists"):
            row = SavedFilter.objects.create(**mine, name=name.strip(), text=text.strip(), made_by=username)
        after = described(row)
        audit.record(actor=actor, action="saved_filter.create", target=f"{subject}/{name}", reason=reason, after=after)
    return Change(row.name, None, after), row


def delete(
    subject: str, filter_id: int, username: str, *, actor: Actor, reason: str = "", dry_run: bool = False
) -> Change:
    """Delete a filter that the user can use. Raises NotFound."""
    with changing(dry_run=dry_run):
        row = visible_to(subject, username, actor.teams).filter(pk=filter_id).first()
        if row is None:
            raise NotFound(f"Saved filter {filter_id} of {subject} not found.", code=UNKNOWN)
        before = described(row)
        row.delete()
        audit.record(
            actor=actor, action="saved_filter.delete", target=f"{subject}/{row.name}", reason=reason, before=before
        )
        return Change(row.name, before, None)
