"""Saved filters of a subject: a user's own, and those that a team shares.

A filter is its team's by the team's name. Those of a deleted team are shown to administrators only, who can delete them or give
them to another team; a team that is created again under that name has them again.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, Unpack

from django.db.models import Exists, OuterRef, Q, QuerySet

from console.models import SavedFilter
from console.resource_fields import TEAM, spaces_problem, team_problem
from console.sealing import fingerprint
from metaserver import queries
from metaserver.services.changes import Actor, Change, Request, VersionedRequest
from metaserver.services.fields import Text
from metaserver.services.resources import Edit, Resource

FILTER_CHARS_MAX = 4_000
"""Nodes have the same limit."""
SAVED_FILTERS_MAX = 50
"""Of a user, and of a team, on one subject."""


def described(row: SavedFilter) -> dict[str, Any]:
    """A filter as audit entries show it: what is searched for may be as private as what is found."""
    mark = fingerprint(b"saved filter", row.filter)
    return {
        "name": row.name,
        "team": row.team or None,
        "filter": f"{len(row.filter)} characters, fingerprint {mark}",
    }


SAVED_FILTER: Resource[SavedFilter] = Resource(
    kind="saved_filter",
    noun="saved filter",
    fields={
        "name": Text(chars_min=1, chars_max=60, is_line=True, check=spaces_problem),
        "filter": Text(chars_min=1, chars_max=FILTER_CHARS_MAX, help="as the parameter `filter` of a search"),
        "team": TEAM,
    },
    described=described,
    about=lambda row: f"{row.subject}/{row.name}",
    target=attrgetter("name"),
)


def visible_to(subject: str, username: str, teams: frozenset[str] | None) -> "QuerySet[SavedFilter]":
    """Return the filters of a subject that a user can use: their own, and those of their teams (None: of all)."""
    shared = ~Q(team="") if teams is None else Q(team__in=teams)
    has_team = Exists(queries.teams().filter(name=OuterRef("team")))
    return SavedFilter.objects.filter(Q(username=username, team="") | shared, subject=subject).annotate(
        is_team_deleted=~Q(team="") & ~has_team
    )


def save(
    subject: str, values: Mapping[str, Any], username: str, **request: Unpack[Request]
) -> tuple[Change, SavedFilter]:
    """Save a filter: a user's own, or with a team the team's.

    Raises:
        ChangeRefused: a value is not allowed, the team does not exist or the actor is not in it, or there are SAVED_FILTERS_MAX.
        Conflict: the name is used.
    """
    row = SavedFilter(subject=subject, made_by=username, username=username)
    with SAVED_FILTER.creating(row, values["name"], **request) as edit:
        _set(edit, values, username, request["actor"])
    return edit.change, row


def update(
    subject: str, filter_id: int, values: Mapping[str, Any], username: str, **request: Unpack[VersionedRequest]
) -> Change:
    """Change what `values` names of a filter that the user can use. `team` None makes it the user's own.

    Raises:
        NotFound, Stale, and as `save`.
    """
    with SAVED_FILTER.editing(lambda: _locked(subject, filter_id, username, request["actor"]), **request) as edit:
        _set(edit, values, username, request["actor"])
    return edit.change


def delete(subject: str, filter_id: int, username: str, **request: Unpack[VersionedRequest]) -> Change:
    """Delete a filter that the user can use. Raises NotFound, Stale."""
    found = SAVED_FILTER.editing(
        lambda: _locked(subject, filter_id, username, request["actor"]), action="delete", **request
    )
    with found as edit:
        edit.delete()
    return edit.change


def _locked(subject: str, filter_id: int, username: str, actor: Actor) -> SavedFilter:
    return SAVED_FILTER.locked(visible_to(subject, username, actor.teams).filter(pk=filter_id), str(filter_id))


def _set(edit: Edit[SavedFilter], values: Mapping[str, Any], username: str, actor: Actor) -> None:
    row = edit.row

    def set_team(value: str | None) -> str:
        row.team, row.username = value or "", "" if value else username
        if value and actor.teams is not None and value not in actor.teams:
            return f"{actor.name} is not a member of team {value}"
        return team_problem(value)

    whose = (row.team, row.username)
    edit.set(values, {"team": set_team})
    others = SavedFilter.objects.filter(subject=row.subject, team=row.team, username=row.username).exclude(pk=row.pk)
    if others.filter(name=row.name).exists():
        raise SAVED_FILTER.exists(row.name)
    is_added = row.pk is None or whose != (row.team, row.username)
    if is_added and others.count() >= SAVED_FILTERS_MAX:
        raise SAVED_FILTER.too_many(SAVED_FILTERS_MAX)
