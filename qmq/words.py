"""Words of texts that people read. Pure."""

import difflib
import re
from collections.abc import Collection

UNPRINTABLE = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters (C0, DEL, C1), bidirectional characters, line separators and lone surrogates: they act on a terminal, forge
lines of a log, change the order of what is read, or can't be written."""


def printable(text: str) -> str:
    """A text of others as one line for terminals and logs: each character of UNPRINTABLE as \\x1b or \\u202e."""
    return text if text.isprintable() else UNPRINTABLE.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: "1 message", "3 messages". `plural` is for nouns that take more than an "s"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def seconds(number: float) -> str:
    """Returns a time limit, such as "0.75 s", with at most two digits after the point: many are what is left of another one."""
    return f"{round(number, 2):g} s"


def nearest(name: str, known: Collection[str]) -> str:
    """What to do about an unknown name: the nearest known one, or else all known ones."""
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"
