"""How a user wants to see the console: a few choices with a fixed shape, kept with the user."""

from collections.abc import Mapping
from typing import Any

from metaserver.services.fields import Choice, Text, Texts, Values

LANGUAGES = ("en", "zh")
"""What the console's pages can be read in."""
THEMES = ("system", "light", "dark")
_TIME_ZONE = r"[A-Za-z][A-Za-z0-9_+-]{0,29}(/[A-Za-z0-9_+-]{1,30}){0,2}"
"""A name of the IANA's database; which of them there are, the browser knows better than this machine."""
FAVOURITES_MAX = 100
DEFAULTS = {"theme": "system", "time_zone": "local", "favourite_subjects": []}


PREFERENCES = Values(
    fields={
        "theme": Choice(values=THEMES),
        "time_zone": Text(
            chars_max=92,
            pattern=_TIME_ZONE,
            pattern_problem="must be local, UTC or a name such as Europe/Berlin",
            help="local, UTC or a name like Europe/Berlin",
        ),
        "favourite_subjects": Texts(
            item=Text(chars_min=1, chars_max=300, is_trimmed=False),
            items_max=FAVOURITES_MAX,
            help="names of subjects, also of those that do not exist any more",
        ),
    }
)


def shown(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Stored preferences with what was never chosen."""
    return {**DEFAULTS, **stored}
