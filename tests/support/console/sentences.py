"""What the console shows in Chinese of the English sentences that the API and nodes send: as `frontend/src/i18n/sentences.ts`."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

_TEXTS = Path(__file__).parents[3] / "frontend/src/i18n"
_PLACE = re.compile(r"\{\w+\}")
_ABOUT = re.compile(r"""(?:[^\s'"]{1,200}(?=: )|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"):? (.+)""", re.S)
"""What a sentence is about, before it: a name with a colon, or a value in quotes."""
_DEPTH_MAX = 4


@cache
def sentences() -> tuple[str, ...]:
    """The English sentences that have a Chinese one, those with the most words first."""
    reasons = json.loads((_TEXTS / "en/reasons.json").read_text())["code"].values()
    all_of_them = {re.sub(r"\{\{(\w+)\}\}", r"{\1}", text) for text in reasons}
    all_of_them |= set(json.loads((_TEXTS / "zh/sentences.json").read_text()))
    literal = {sentence: "".join(_PLACE.split(sentence)) for sentence in all_of_them}
    known = [sentence for sentence in all_of_them if re.search(r"[^\W\d_]", literal[sentence])]
    return tuple(sorted(known, key=lambda sentence: -len(literal[sentence])))


def _values(sentence: str, text: str) -> list[str] | None:
    """The values of a text that has the form of a sentence."""
    first, *others = _PLACE.split(sentence)
    if not others:
        return [] if text == first else None
    if not text.startswith(first):
        return None
    values, begin = [], len(first)
    for literal in others:
        is_last = len(values) == len(others) - 1
        end = len(text) - len(literal) if is_last else text.find(literal, begin)
        if end <= begin or not text.startswith(literal, end):
            return None
        values.append(text[begin:end])
        begin = end + len(literal)
    return values


def _parts(text: str) -> Iterator[Sequence[str]]:
    yield text.split("; ")
    yield re.split(r"(?<=[.?!]) (?=[A-Z])", text)


def _is_known(text: str, depth: int = 0) -> bool:
    if depth > _DEPTH_MAX:
        return False
    if any(len(parts) > 1 and all(_is_known(part, depth + 1) for part in parts) for parts in _parts(text)):
        return True
    if any(_values(sentence, text) is not None for sentence in sentences()):
        return True
    if re.fullmatch(r"[A-Z].*\.", text, re.S) and any(
        _is_known(part, depth + 1) for part in (text[:-1], text[0].lower() + text[1:-1])
    ):
        return True
    about = _ABOUT.fullmatch(text)
    return about is not None and _is_known(about[1], depth + 1)


def has_chinese(text: str) -> bool:
    """Whether the console shows this text in Chinese. Values of it may stay as they are."""
    return text == "" or _is_known(text)
