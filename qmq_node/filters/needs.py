"""What a message must have for a filter to match, checked for many messages at once. Pure.

Needs are necessary, not sufficient: a message that meets them is decoded and the filter evaluated, one that does not is no match.
Those of sizes and times are checked with index entries, so that most messages need not be read. Those of texts and numbers are
searched in the bytes of many messages together, which takes a fiftieth to a fifth of the time of decoding each.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np

from qmq.protocol.primitives import U16

Mask = Any
"""A numpy array of truth values, one for each message."""

NUMBER_BYTES_MAX = 30
"""Longer numbers are left to the filter."""
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "_==_": operator.eq,
    "_!=_": operator.ne,
    "_<_": operator.lt,
    "_<=_": operator.le,
    "_>_": operator.gt,
    "_>=_": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Anything:
    """Nothing is known of a message that matches."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """A number of the index entry, `size` or `time` (milliseconds), is from `least` to `most`."""

    name: str
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Texts:
    """At least one of these occurs in the bytes."""

    needles: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Number:
    """The value behind some bytes, converted, compares like this with a constant; or only the filter can convert it."""

    key: bytes
    """A property's, with its length."""
    convert: type[int] | type[float]
    function: str
    value: int | float

    def may_be(self, text: bytes) -> bool:
        """Whether a value may be such a number."""
        if len(text) > NUMBER_BYTES_MAX:
            return True
        try:
            return COMPARISONS[self.function](self.convert(text), self.value)
        except ValueError:
            # CEL may read what Python does not.
            return True


@dataclass(frozen=True, slots=True)
class All:
    """Every part holds."""

    parts: tuple["Need", ...]


@dataclass(frozen=True, slots=True)
class Any_:
    """At least one part holds."""

    parts: tuple["Need", ...]


Need = Anything | Bounds | Texts | Number | All | Any_


@dataclass(frozen=True, slots=True)
class Spans:
    """Messages one behind the other in `data`: message i is data[begins[i]:ends[i]], begins ascending."""

    data: bytes
    begins: Any
    ends: Any
    found: dict[bytes, Mask] = field(default_factory=dict)

    def containing(self, needle: bytes) -> Mask:
        """Return which messages contain these bytes."""
        if needle not in self.found:
            self.found[needle] = self._search(needle)
        return self.found[needle]

    def _search(self, needle: bytes) -> Mask:
        mask = np.zeros(len(self.begins), dtype=bool)
        find, size = self.data.find, len(needle)
        at = find(needle)
        while at >= 0:
            place = int(np.searchsorted(self.begins, at, side="right")) - 1
            end = int(self.ends[place]) if place >= 0 else 0
            if place >= 0 and at + size <= end:
                mask[place] = True
                at = find(needle, end)
            else:
                # Between two messages, or across the end of one.
                at = find(needle, at + 1)
        return mask

    def with_number(self, need: Number) -> Mask:
        """Return which messages have the number, as far as that is known without the filter."""
        mask = np.zeros(len(self.begins), dtype=bool)
        data, begins, ends = self.data, self.begins.tolist(), self.ends.tolist()
        find, key, size = data.find, need.key, len(need.key) + U16.size
        at, place = find(key), 0
        while at >= 0:
            while ends[place] <= at:
                place += 1
                if place == len(ends):
                    return mask
            begin = at + size
            if at >= begins[place] and begin <= ends[place]:
                end = begin + U16.unpack_from(data, begin - U16.size)[0]
                # The same bytes may occur in another value: the next ones count too.
                if end <= ends[place] and need.may_be(data[begin:end]):
                    mask[place] = True
                    at = find(key, ends[place])
                    continue
            at = find(key, at + 1)
        return mask


def by_index(need: Need, sizes: Any, times: Any) -> Mask:
    """Return which messages may match by their index entries, which have these sizes and times."""
    if isinstance(need, Bounds):
        values = sizes if need.name == "size" else times
        return (values >= need.least) & (values <= need.most)
    if isinstance(need, All | Any_):
        parts = [by_index(part, sizes, times) for part in need.parts]
        return reduce(np.logical_and if isinstance(need, All) else np.logical_or, parts)
    return np.ones(len(sizes), dtype=bool)


def by_bytes(need: Need, spans: Spans) -> Mask | None:
    """Return which messages may match by their bytes; None: all."""
    if isinstance(need, Texts):
        return reduce(np.logical_or, map(spans.containing, need.needles))
    if isinstance(need, Number):
        return spans.with_number(need)
    if isinstance(need, All | Any_):
        parts = [by_bytes(part, spans) for part in need.parts]
        known = [part for part in parts if part is not None]
        if isinstance(need, Any_) and len(known) < len(parts):
            return None
        return reduce(np.logical_and if isinstance(need, All) else np.logical_or, known) if known else None
    return None
