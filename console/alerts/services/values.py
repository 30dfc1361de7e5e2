"""Checks of what operators give, shared by rules, silences and channels: each says what is wrong, or ""."""

import math
import re
from collections.abc import Mapping
from typing import Any

from console.alerts.rules import GLOB_CHARS_MAX
from metaserver.queries import teams
from metaserver.services.changes import ChangeRefused, NotFound

NAME_CHARS_MAX = 100
SECONDS_MAX = 7 * 86_400
THRESHOLD_MAX = 1e18
_ID = re.compile(r"[0-9]{1,18}")


def refuse(what: str, wrong: Mapping[str, str]) -> None:
    """Raises ChangeRefused when anything is wrong."""
    if wrong:
        text = "; ".join(f"{key}: {why}" for key, why in wrong.items())
        raise ChangeRefused(text, code=f"{what}.invalid", fields=wrong)


def row_id(what: str, text: str) -> int:
    """An id of an address as a number. Raises NotFound for what can't be one."""
    if not _ID.fullmatch(text):
        raise NotFound(f"{what.replace('_', ' ').capitalize()} {text[:40]!r} not found.", code=f"{what}.unknown")
    return int(text)


def text_problem(value: Any, most: int, least: int = 0) -> str:
    """Why this is no text of one line."""
    if not isinstance(value, str) or not least <= len(value) <= most or not (value.isprintable()):
        return f"must be {least} to {most} printable characters"
    return ""


def name_problem(value: Any) -> str:
    """Why this is no name."""
    if isinstance(value, str) and value != value.strip():
        return "must not start or end with a space"
    return text_problem(value, NAME_CHARS_MAX, 1)


def team_problem(value: Any) -> str:
    """Return why this is not the name of a team, "" if it is."""
    if not isinstance(value, str) or text_problem(value, NAME_CHARS_MAX, 1) or not teams().filter(name=value).exists():
        return f"team {str(value)[:80]!r} not found"
    return ""


def glob_problem(value: Any) -> str:
    """Why this is no pattern."""
    return text_problem(value, GLOB_CHARS_MAX, 1)


def number_problem(value: Any) -> str:
    """Why this is no threshold."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not 0 <= value <= THRESHOLD_MAX:
        return f"must be a number from 0 to {THRESHOLD_MAX:g}"
    return ""


def seconds_problem(value: Any, least: int = 0, most: int = SECONDS_MAX) -> str:
    """Why this is no duration in whole seconds."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        return f"must be a whole number of seconds from {least} to {most}"
    return ""


def flag_problem(value: Any) -> str:
    """Why this is no truth value."""
    return "" if isinstance(value, bool) else "must be true or false"
