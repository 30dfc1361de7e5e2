"""All routes of the API."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

ARGUMENT = re.compile(r"<(?:(\w+):)?(\w+)>")


OPEN = {"openapi": "the description of the API says nothing about the system"}
"""Views that require no right, with the reason."""


TEAM, FOREIGN_TEAM, SUBJECT = "shop", "warehouse", "orders"


@dataclass(frozen=True)
class Route:
    """An address of the API and what answers there."""

    name: str
    pattern: str
    arguments: tuple[tuple[str, str], ...]
    """Name and kind (str, int) of what the address takes."""
    view: Any


def routes(patterns: list[URLPattern | URLResolver], prefix: str = "") -> Iterator[Route]:
    for item in patterns:
        text = prefix + str(item.pattern)
        if isinstance(item, URLResolver):
            yield from routes(item.url_patterns, text)
        else:
            kinds = tuple((name, kind or "str") for kind, name in ARGUMENT.findall(text))
            yield Route(item.name or text, text, kinds, getattr(item.callback, "cls", item.callback))


ROUTES = [route for route in routes(get_resolver("api.urls").url_patterns) if route.name not in OPEN]


def address(route: Route, known: dict[str, str]) -> str:
    """The route's address with what is there where it is known, and something else of the right kind otherwise."""
    kinds = dict(route.arguments)
    other = {"int": "1", "uuid": "00000000-0000-4000-8000-000000000000"}
    text = ARGUMENT.sub(lambda found: known.get(found[2], other.get(kinds[found[2]], "nothing-here")), route.pattern)
    text = f"/api/v1/{text}"
    assert "<" not in text, f"{text}: an address this test can't fill in"
    return text
