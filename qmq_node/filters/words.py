"""Plain words: `order 17` and `region=eu` as expressions of the filter language. Pure."""

import json
import re

VARIABLES = ("body", "properties", "tags", "text", "size", "time", "created", "id", "sequence", "now")
"""What a filter can name."""
KEYWORDS = frozenset({"true", "false", "null", "in", "?", ":", "+", "-", "*", "/", "%"})
"""Tokens that make a text an expression."""

_QUOTED = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(
    rf"""(?P<key>[^\s=!<>()\[\]{{}}"'&|]+)=(?P<value>{_QUOTED}|[^\s=()\[\]{{}}"'&|<>]+)(?=\s|$)"""
    rf"""|(?P<quoted>{_QUOTED})(?=\s|$)"""
    rf"""|(?P<word>[^\s=!<>()\[\]{{}}"'&|]+)(?=\s|$)"""
)
_FIELD = re.compile(rf"(?:{'|'.join(VARIABLES)})\.")
_SPACE = re.compile(r"\s*")


def terms_of(text: str) -> list[str] | None:
    """Return a filter in plain words as expressions that must all hold; None if it is an expression itself.

    A word means that a property or the body contains it, `key=value` that the property has this value.
    """
    terms: list[str] = []
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            return None
        if token["key"] is not None:
            if token["value"] == '""':
                return None
            terms.append(f"properties[{_literal(token['key'])}] == {_literal(_plain(token['value']))}")
        else:
            word = token["word"]
            if word is not None and (word in KEYWORDS or _FIELD.match(word)):
                return None
            terms.append(f"text.contains({_literal(word if word is not None else _plain(token['quoted']))})")
        at = _SPACE.match(text, token.end()).end()  # type: ignore[union-attr]
    return terms


def _plain(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1])


def _literal(value: str) -> str:
    # The escapes of JSON are escapes of CEL, too, except for surrogate pairs, which are not written with ensure_ascii=False.
    return json.dumps(value, ensure_ascii=False)
