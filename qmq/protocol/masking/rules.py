"""The form of masking rules: what properties and paths may be, and the limits of both."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from qmq.protocol.messages import RESERVED_KEYS

RULES_MAX = 20
"""Rules of a subject."""
PATTERNS_MAX = 50
"""Properties of a rule, and paths of a rule."""
PATTERN_CHARS_MAX = 200
STEPS_MAX = 20
"""Steps of a path."""
RULES_BYTES_MAX = 2_048
"""A subject's rules as JSON: requests to nodes contain them in their address."""
KEY_DATA = "data"
READER_ROLES = ("operator", "admin")
"""Roles that can read messages, so that a rule can exempt them."""

_STEP = re.compile(r'\.([^.\[\]*"\x00-\x1f]+)|\.(\*)|\[([0-9]{1,6})\]|\[(\*)\]|\["([^"\x00-\x1f]+)"\]')

Step = str | int | None
"""Of a path: the name of a member, the index of an element; None: each of them."""


class How(StrEnum):
    """What is shown instead of a value."""

    HIDE = "hide"
    LAST4 = "last4"
    """Its last four characters."""
    HASH = "hash"
    """A keyed hash: equal values of a subject are shown alike."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Which values are masked, and how."""

    properties: tuple[str, ...]
    json_paths: tuple[str, ...]
    how: How

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Rule":
        """A rule from its JSON form."""
        return cls(tuple(values["properties"]), tuple(values["json_paths"]), How(values["how"]))

    def patterns_for(self, name: str) -> Iterator[str]:
        """The patterns that match the name of a property."""
        return (pattern for pattern in self.properties if _matches(pattern, name))


def property_problem(pattern: str) -> str:
    """Why this can't be a name of properties to mask; "" if it can."""
    if pattern in RESERVED_KEYS:
        return f"{pattern} belongs to the protocol and is never masked"
    return ""


def path_problem(path: str) -> str:
    """Why this is not a path into a JSON body; "" if it is."""
    try:
        steps_of(path)
    except ValueError as error:
        return str(error)
    return ""


@lru_cache(maxsize=1_000)
def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of a path. Raises ValueError with what is wrong."""
    text = path[1:] if path.startswith("$") else path if path.startswith("[") else f".{path}"
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise ValueError(
                f'wrong at {text[at : at + 20]!r}; use name, [0], [*], .* and ["name"], as in items[*].price'
            )
        name, _, index, _, quoted = match.groups()
        steps.append(int(index) if index else name or quoted)
        at = match.end()
    if not steps:
        raise ValueError(f"names the whole body; mask the property {KEY_DATA!r} instead")
    if len(steps) > STEPS_MAX:
        raise ValueError(f"has {len(steps)} steps; at most {STEPS_MAX} are allowed")
    return tuple(steps)


def _matches(pattern: str, name: str) -> bool:
    """Whether a pattern with `*` is this name. In linear time, unlike a regular expression with several `.*`."""
    first, *others = pattern.split("*")
    if not others:
        return pattern == name
    *middle, last = others
    if not name.startswith(first):
        return False
    at = len(first)
    for text in middle:
        at = name.find(text, at)
        if at < 0:
            return False
        at += len(text)
    return len(name) - len(last) >= at and name.endswith(last)
