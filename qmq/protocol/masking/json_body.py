"""The body of a message as a JSON value, in which values are masked by their paths."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Any

from qmq.errors import BodyUndecodable
from qmq.protocol.content_encoding import ENCODING_BASE64, ENCODING_ZSTD, content_bytes
from qmq.protocol.masking.rules import Step

BODY_BYTES_MAX = 1 << 20
"""Larger bodies are not masked by path but hidden."""
DEPTH_MAX = 100
"""Bodies that are nested deeper are not masked by path but hidden."""
VISITS_MAX = 200_000
"""Values of a body that its paths visit together; a body with more is hidden."""

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


class Why(StrEnum):
    """Why a body is hidden as a whole although rules name paths, or a message with all its properties."""

    NOT_JSON = "not_json"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    COMPRESSED = "compressed"
    """Nothing here decompresses it, or it is in an encoding that is not known here."""


class Unmaskable(Exception):
    """A body whose values can't be masked."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


class JsonBody:
    """A JSON value.

    Args:
        encoding: of `text`, as the property `qmq_contentEncoding` has it.

    Raises:
        Unmaskable: the text is not JSON, or beyond a limit.
    """

    def __init__(self, text: str, encoding: str | None) -> None:
        if len(text) > 2 * BODY_BYTES_MAX:
            raise Unmaskable(Why.TOO_LARGE)
        try:
            text = text if encoding is None else _content(text, encoding).decode()
            if len(text.encode("utf-8", "surrogatepass")) > BODY_BYTES_MAX:
                raise Unmaskable(Why.TOO_LARGE)
            if _depth(text) > DEPTH_MAX:
                raise Unmaskable(Why.TOO_DEEP)
            # In a list, so that also the first step of a path names something in a container.
            self._root = [json.loads(text)]
        except ValueError as error:
            raise Unmaskable(Why.NOT_JSON) from error
        self._visits = 0

    def mask(self, steps: Sequence[Step], masked: Callable[[Any], str]) -> bool:
        """Replace the values at a path; return whether there is one. Raises Unmaskable."""
        return self._mask(self._root, (0, *steps), masked)

    def _mask(self, value: Any, steps: Sequence[Step], masked: Callable[[Any], str]) -> bool:
        step, rest = steps[0], steps[1:]
        keys: Iterable[Any] = ()
        if isinstance(value, list) and not isinstance(step, str):
            keys = range(len(value)) if step is None else (step,) if step < len(value) else ()
        elif isinstance(value, dict) and not isinstance(step, int):
            keys = value.keys() if step is None else (step,) if step in value else ()
        found = False
        for key in keys:
            self._visits += 1
            if self._visits > VISITS_MAX:
                raise Unmaskable(Why.TOO_LARGE)
            if rest:
                found = self._mask(value[key], rest, masked) or found
            else:
                value[key], found = masked(value[key]), True
        return found

    def text(self) -> str:
        """Return it as JSON."""
        text = json.dumps(self._root[0], ensure_ascii=False)
        try:
            text.encode()
        except UnicodeEncodeError:
            return json.dumps(self._root[0])
        return text


def _content(text: str, encoding: str) -> bytes:
    if encoding not in (ENCODING_BASE64, ENCODING_ZSTD):
        raise Unmaskable(Why.COMPRESSED)
    try:
        return content_bytes(text, encoding, bytes_max=BODY_BYTES_MAX)
    except BodyUndecodable as error:
        reasons = {"body.too_large": Why.TOO_LARGE, "body.codec_missing": Why.COMPRESSED}
        raise Unmaskable(reasons.get(error.code, Why.NOT_JSON)) from error


def _depth(text: str) -> int:
    """How deeply a JSON text is nested."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest
