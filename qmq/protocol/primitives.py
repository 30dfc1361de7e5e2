"""Integers and strings of the wire, read within bounds and written. All big-endian and signed, strings of UTF-8.

String lengths are read unsigned: the official writer does not check them, and the official reader's signed reading loses
messages (trap T12).
"""

from collections.abc import Mapping
from struct import Struct
from struct import error as StructError

from qmq.errors import LocalProtocolError, ProtocolError

I8 = Struct(">b")
I16 = Struct(">h")
U16 = Struct(">H")
I32 = Struct(">i")
I64 = Struct(">q")

STRING_BYTES_MAX = 32767
"""Longest string that every client can read."""


class Reader:
    """Reads a body from front to back; anything that does not fit is a ProtocolError."""

    __slots__ = ("_at", "_view")

    def __init__(self, view: memoryview | bytes) -> None:
        self._view = memoryview(view)
        self._at = 0

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._view) - self._at

    def _take(self, layout: Struct) -> int:
        try:
            value: int = layout.unpack_from(self._view, self._at)[0]
        except StructError as error:
            raise ProtocolError(f"the body ends at byte {len(self._view)}, inside a number") from error
        self._at += layout.size
        return value

    def i8(self) -> int:
        return self._take(I8)

    def i16(self) -> int:
        return self._take(I16)

    def i32(self) -> int:
        return self._take(I32)

    def i64(self) -> int:
        return self._take(I64)

    def bool_(self) -> bool:
        return self._take(I8) != 0

    def bytes_(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        if not 0 <= size <= self.remaining:
            raise ProtocolError(f"{size} bytes announced, {self.remaining} there")
        begin = self._at
        self._at += size
        return self._view[begin : self._at]

    def str_(self) -> str:
        data = self.bytes_(self._take(U16))
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"a string is not UTF-8: {error.reason} at byte {error.start}") from error

    def count(self, value: int, least_bytes: int, what: str) -> int:
        """A count of things of at least `least_bytes` each, refused before anything is allocated for it."""
        if value < 0 or value * least_bytes > self.remaining:
            raise ProtocolError(f"{value} {what} announced, {self.remaining} bytes left for them")
        return value

    def strmap(self) -> dict[str, str]:
        entries = self.count(self.i16(), 4, "map entries")
        return {self.str_(): self.str_() for _ in range(entries)}

    def rest(self) -> memoryview:
        """Everything not read yet."""
        return self.bytes_(self.remaining)

    def expect_end(self) -> None:
        """Refuse bytes behind the last field."""
        if self.remaining:
            raise ProtocolError(f"{self.remaining} bytes behind the end of the body")


class Writer:
    """Collects a body's parts."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def _put(self, layout: Struct, value: int, what: str) -> "Writer":
        try:
            self._parts.append(layout.pack(value))
        except StructError as error:
            raise LocalProtocolError(f"{value} does not fit {what}") from error
        return self

    def i8(self, value: int) -> "Writer":
        return self._put(I8, value, "one byte")

    def i16(self, value: int) -> "Writer":
        return self._put(I16, value, "two bytes")

    def i32(self, value: int) -> "Writer":
        return self._put(I32, value, "four bytes")

    def i64(self, value: int) -> "Writer":
        return self._put(I64, value, "eight bytes")

    def str_(self, text: str) -> "Writer":
        self._parts.append(encode_str(text))
        return self

    def strmap(self, entries: Mapping[str, str]) -> "Writer":
        self.i16(len(entries))
        for key, value in entries.items():
            self.str_(key).str_(value)
        return self

    def raw(self, data: bytes | memoryview) -> "Writer":
        self._parts.append(bytes(data))
        return self

    def done(self) -> bytes:
        """The body."""
        return b"".join(self._parts)


def encode_str(text: str) -> bytes:
    """A string with its length.

    Raises:
        LocalProtocolError: it is longer than every client can read, or holds half a surrogate pair.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise LocalProtocolError(f"a string can't be written as UTF-8: {error.reason}") from error
    if len(data) > STRING_BYTES_MAX:
        raise LocalProtocolError(f"a string of {len(data)} bytes, the wire carries at most {STRING_BYTES_MAX}")
    return U16.pack(len(data)) + data
