"""How a field of a structure is written at its place behind the map: numbers, strings, blocks."""

from collections.abc import Sequence
from enum import Enum
from struct import Struct
from struct import error as StructError
from typing import Annotated, Any

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol.primitives import I32, U16, Reader, encode_count, encode_str

Part = memoryview | bytes

LABELS = {"b": "i8", "B": "u8", "h": "i16", "i": "i32", "q": "i64", "Q": "u64", "?": "bool"}
"""Names of number formats in docs/reference/wire.md, by the codes of the `struct` module."""


class Kind:
    """How a field is written at its place."""

    least_bytes: int
    """What a value takes at the least."""
    label: str
    """The name in docs/reference/wire.md."""

    def read(self, reader: Reader) -> Any:
        """The value that comes next."""
        raise NotImplementedError

    def write(self, parts: list[Part], value: Any) -> None:
        """Append the value's bytes to `parts`."""
        raise NotImplementedError


class Number(Kind):
    """An integer or truth value. `code` is that of the `struct` module."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.layout = Struct(f">{code}")
        self.least_bytes = self.layout.size
        self.label = LABELS[code]

    def read(self, reader: Reader) -> Any:
        return reader.unpack(self.layout)[0]

    def write(self, parts: list[Part], value: Any) -> None:
        try:
            parts.append(self.layout.pack(value))
        except StructError as error:
            raise misfit(self.layout, (value,)) from error


class Choice(Number):
    """A number that must be one of an enumeration's."""

    def __init__(self, code: str, known: type[Enum]) -> None:
        super().__init__(code)
        self.known = known
        self._values = frozenset(int(item.value) for item in known)

    def read(self, reader: Reader) -> Any:
        value = super().read(reader)
        if value not in self._values:
            raise ProtocolError(f"{value} is no {self.known.__name__}")
        return value


class String(Kind):
    """A string with a 16-bit length."""

    least_bytes = U16.size
    label = "str"

    def read(self, reader: Reader) -> Any:
        return reader.str_()

    def write(self, parts: list[Part], value: Any) -> None:
        parts.append(encode_str(value))


class Block(Kind):
    """Bytes behind their 32-bit length, a multiple of `entry_bytes`; read as a view unless `is_copied`."""

    least_bytes = I32.size

    def __init__(self, entry_bytes: int = 1, *, is_copied: bool = False) -> None:
        self.entry_bytes = entry_bytes
        self._is_copied = is_copied
        self.label = "block" if entry_bytes == 1 else f"block of entries of {entry_bytes} bytes"

    def read(self, reader: Reader) -> Any:
        data = reader.bytes_(reader.i32())
        if len(data) % self.entry_bytes:
            raise ProtocolError(f"{len(data)} bytes of entries, not a multiple of {self.entry_bytes}")
        return bytes(data) if self._is_copied else data

    def write(self, parts: list[Part], value: Any) -> None:
        parts += encode_count(I32, len(value)), value


class Rest(Kind):
    """All bytes up to the end of the body, read as a view."""

    least_bytes = 0

    def __init__(self, label: str) -> None:
        self.label = f"{label}, to the end"

    def read(self, reader: Reader) -> Any:
        return reader.rest()

    def write(self, parts: list[Part], value: Any) -> None:
        parts.append(value)


def misfit(layout: Struct, values: Sequence[Any]) -> LocalProtocolError:
    """The error of numbers that do not fit their layout."""
    shown = ", ".join(map(str, values))
    kinds = ", ".join(LABELS[code] for code in layout.format[1:])
    return LocalProtocolError(f"{shown}: does not fit {kinds}")


Str = Annotated[str, String()]
I8Field = Annotated[int, Number("b")]
I16Field = Annotated[int, Number("h")]
I32Field = Annotated[int, Number("i")]
I64Field = Annotated[int, Number("q")]
Bool = Annotated[bool, Number("?")]
