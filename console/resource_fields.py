"""Fields that resources of the console share, and rows by the ID in an address."""

import re
from typing import TypeVar

from django.db.models import Model, QuerySet

from metaserver.queries import teams
from metaserver.services.fields import Text
from metaserver.services.subjects import TEAM_CHARS_MAX

M = TypeVar("M", bound=Model)
_ID = re.compile(r"[0-9]{1,18}")


def spaces_problem(name: str) -> str:
    return "" if name == name.strip() else "must not start or end with a space"


def team_problem(name: str | None) -> str:
    """Why this is not the name of a team, "" if it is, or null."""
    return "" if name is None or teams().filter(name=name).exists() else f"team {name!r} not found"


NAME = Text(chars_min=1, chars_max=100, is_line=True, check=spaces_problem)
TEAM = Text(nullable=True, chars_min=1, chars_max=TEAM_CHARS_MAX)


def with_id(rows: "QuerySet[M]", text: str) -> "QuerySet[M]":
    """The row with an id of an address; none for what can't be one."""
    return rows.filter(pk=int(text)) if _ID.fullmatch(text) else rows.none()
