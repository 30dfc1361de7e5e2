"""Teams."""

import re
from typing import Any, Unpack

from metaserver.errors import Conflict
from metaserver.models import Subject, Team
from metaserver.services.changes import Change, Request, VersionedRequest, only_one
from metaserver.services.fields import Text
from metaserver.services.resources import Resource
from metaserver.services.subjects import DESCRIPTION, TEAM_CHARS_MAX


def _name_problem(name: str) -> str:
    is_legal = re.fullmatch("[a-z0-9][a-z0-9._-]*", name) is not None
    return "" if is_legal else "must be of a-z, 0-9, '.', '_' and '-', starting with a letter or digit"


NAME = Text(chars_min=1, chars_max=TEAM_CHARS_MAX, check=_name_problem)


def described(row: Team) -> dict[str, Any]:
    return {"description": row.description}


TEAM: Resource[Team] = Resource(
    kind="team",
    noun="team",
    fields={"description": DESCRIPTION},
    described=described,
)


def create_team(name: str, description: str = "", **request: Unpack[Request]) -> Change:
    """Create a team. Raises ChangeRefused for an invalid name or description, Conflict if it exists."""
    TEAM.check_name(name, NAME)
    with TEAM.creating(Team(name=name), name, **request) as edit:
        edit.set({"description": description})
    return edit.change


def update_team(name: str, description: str, **request: Unpack[VersionedRequest]) -> Change:
    with TEAM.editing(lambda: locked(name), **request) as edit:
        edit.set({"description": description})
    return edit.change


def delete_team(name: str, **request: Unpack[VersionedRequest]) -> Change:
    """Delete a team. Raises Conflict if it owns subjects."""
    with TEAM.editing(lambda: locked(name), action="delete", **request) as edit:
        owned = list(Subject.objects.filter(owner=edit.row).values_list("name", flat=True)[:5])
        if owned:
            raise Conflict(f"Team {name} owns {', '.join(owned)}. Assign them to another team first.", code="team.owns")
        with only_one(f"Team {name} has just been assigned a subject. Assign it to another team first.", "team.owns"):
            edit.delete()
    return edit.change


def locked(name: str) -> Team:
    """A team's row, locked until the transaction ends. Raises NotFound."""
    return TEAM.locked(Team.objects.filter(name=name), name)
