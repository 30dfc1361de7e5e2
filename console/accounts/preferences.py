"""How a user wants to see the console: a few choices with a fixed shape, kept with the user."""

import re
from collections.abc import Mapping
from typing import Any

LANGUAGES = ("en", "zh")
"""What the console's pages can be read in."""
THEMES = ("system", "light", "dark")
_TIME_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,29}(/[A-Za-z0-9_+-]{1,30}){0,2}")
"""A name of the IANA's database; which of them there are, the browser knows better than this machine."""
DEFAULTS = {"theme": "system", "time_zone": "local"}


def problem(value: Any) -> str:
    """Why these are no preferences, or ""."""
    if not isinstance(value, Mapping):
        return "must be an object"
    if unknown := sorted(str(name)[:40] for name in value.keys() - DEFAULTS.keys()):
        return f"{', '.join(unknown[:5])}: unknown. Allowed: {', '.join(DEFAULTS)}."
    if value.get("theme", THEMES[0]) not in THEMES:
        return f"theme: must be one of {', '.join(THEMES)}"
    zone = value.get("time_zone", "local")
    if not isinstance(zone, str) or not _TIME_ZONE.fullmatch(zone):
        return "time_zone: must be local, UTC or a name such as Europe/Berlin"
    return ""


def shown(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored preferences with what was never chosen."""
    return {**DEFAULTS, **stored}
