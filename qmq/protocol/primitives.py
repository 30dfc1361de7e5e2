"""Integers and strings of the wire, read within bounds and written. All big-endian and signed, strings of UTF-8.

String lengths are read unsigned: the official writer does not check them, and the official reader's signed reading loses
messages (trap T12).
"""

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError
from typing import Any

from qmq.errors import LocalProtocolError, ProtocolError

I16 = Struct(">h")
U16 = Struct(">H")
I32 = Struct(">i")
I64 = Struct(">q")

STRING_BYTES_MAX = 32767
"""Longest string that every client can read."""

_encode_length = U16.pack
_length_at = U16.unpack_from


class Reader:
    """Reads a body from front to back; anything that does not fit is a ProtocolError."""

    __slots__ = ("_view", "at")

    def __init__(self, view: memoryview | bytes) -> None:
        self._view = memoryview(view)
        self.at = 0
        """The place of the next byte."""

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._view) - self.at

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """The next numbers, as `layout` has them."""
        try:
            values = layout.unpack_from(self._view, self.at)
        except StructError as error:
            raise ProtocolError(f"the body ends at byte {len(self._view)}, inside a number") from error
        self.at += layout.size
        return values

    def bytes_(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        if not 0 <= size <= self.remaining:
            raise ProtocolError(f"{size} bytes announced, {self.remaining} there")
        begin = self.at
        self.at += size
        return self._view[begin : self.at]

    def strs(self, count: int, found: list[Any]) -> None:
        """Append the next `count` strings to `found`."""
        view, at = self._view, self.at
        try:
            for _ in range(count):
                begin = at + 2
                at = begin + _length_at(view, at)[0]
                if at > len(view):
                    raise ProtocolError(f"{at - begin} bytes announced, {len(view) - begin} there")
                found.append(str(view[begin:at], "utf-8"))
        except StructError as error:
            raise ProtocolError(f"the body ends at byte {len(view)}, inside a string's length") from error
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a string is not UTF-8: {error.reason} at byte {error.start}") from error
        self.at = at

    def count(self, value: int, least_bytes: int, what: str) -> int:
        """A count of things of at least `least_bytes` each, refused before anything is allocated for it."""
        if value < 0 or value * least_bytes > self.remaining:
            raise ProtocolError(f"{value} {what} announced, {self.remaining} bytes left for them")
        return value

    def strmap(self) -> dict[str, str]:
        texts: list[str] = []
        self.strs(2 * self.count(self.unpack(I16)[0], 4, "map entries"), texts)
        return dict(zip(texts[::2], texts[1::2], strict=True))


def utf8(text: str, what: str = "a string") -> bytes:
    """The bytes of a text. Raises LocalProtocolError, which names it as `what`, for half a surrogate pair."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"{what} can't be written as UTF-8: {error.reason}") from error


def encode_str(text: str) -> bytes:
    """A string with its length. Raises LocalProtocolError if it is longer than every client can read, or no UTF-8."""
    data = utf8(text)
    if len(data) > STRING_BYTES_MAX:
        raise LocalProtocolError(f"a string of {len(data)} bytes, the wire carries at most {STRING_BYTES_MAX}")
    return _encode_length(len(data)) + data


def encode_count(layout: Struct, count: int) -> bytes:
    """The number of things that follow. Raises LocalProtocolError for more than the wire can count."""
    try:
        return layout.pack(count)
    except StructError as error:
        raise LocalProtocolError(f"{count} parts are more than {layout.size} bytes can count") from error


def encode_strmap(entries: Mapping[str, str]) -> bytes:
    """A map of strings. Raises LocalProtocolError as `encode_str`, or for too many entries."""
    parts = [encode_count(I16, len(entries))]
    for key, value in entries.items():
        parts += encode_str(key), encode_str(value)
    return b"".join(parts)
