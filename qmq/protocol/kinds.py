"""How a field of a structure is written: as an entry of the map of strings, or at its place behind the map."""

from collections.abc import Mapping, Sequence
from enum import Enum
from struct import Struct
from struct import error as StructError
from typing import Annotated, Any

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol.primitives import I32, U16, Reader, encode_count, encode_str

Part = memoryview | bytes

LABELS = {"b": "i8", "B": "u8", "h": "i16", "i": "i32", "I": "u32", "q": "i64", "Q": "u64", "?": "bool"}
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

    def check_read(self, value: Any) -> None:
        """Raise ProtocolError for a value that was read and is not legal."""

    def check_written(self, value: Any) -> None:
        """Raise LocalProtocolError for a value that may not be written."""

    def read(self, reader: Reader) -> Any:
        value = reader.unpack(self.layout)[0]
        self.check_read(value)
        return value

    def write(self, parts: list[Part], value: Any) -> None:
        self.check_written(value)
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

    def check_read(self, value: Any) -> None:
        if value not in self._values:
            raise ProtocolError(f"{value} is no {self.known.__name__}")


class String(Kind):
    """A string with a 16-bit length."""

    least_bytes = U16.size
    label = "str"

    def read(self, reader: Reader) -> Any:
        found: list[str] = []
        reader.strs(1, found)
        return found[0]

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
        data = reader.bytes_(reader.unpack(I32)[0])
        if len(data) % self.entry_bytes:
            raise ProtocolError(f"{len(data)} bytes of entries, not a multiple of {self.entry_bytes}")
        return bytes(data) if self._is_copied else data

    def write(self, parts: list[Part], value: Any) -> None:
        parts += encode_count(I32, len(value)), value


class Rest(Kind):
    """All bytes up to the end of the body, read as a view. `what` names them; more than `most` are refused."""

    least_bytes = 0

    def __init__(self, what: str, most: int | None = None) -> None:
        self._what = what
        self.most = most
        self.label = f"{what}, to the end" + ("" if most is None else f" (at most {most})")

    def read(self, reader: Reader) -> Any:
        if self.most is not None and reader.remaining > self.most:
            raise ProtocolError(f"{reader.remaining} {self._what}, at most {self.most}")
        return reader.bytes_(reader.remaining)

    def write(self, parts: list[Part], value: Any) -> None:
        if self.most is not None and len(value) > self.most:
            raise LocalProtocolError(f"{len(value)} {self._what}, at most {self.most}")
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


UNSET: Any = object()
"""Stands for a default that a field does not have."""


class MapKind:
    """How a field is written as an entry of the map of strings.

    Args:
        key: the entry's name, when it is not the field's.
        missing: the value when there is no such entry, when it is not the field's default.
        is_optional: the entry is left out when the value is the default.
    """

    label: str
    zero: Any = UNSET
    """The value of a missing entry whose field has no default; none: it must be there."""

    def __init__(self, key: str = "", *, missing: Any = UNSET, is_optional: bool = False) -> None:
        self.key = key
        self.missing = missing
        self.is_optional = is_optional

    def read(self, entries: Mapping[str, str], key: str, missing: Any) -> Any:
        """The value in a map."""
        text = entries.get(key, "")
        return self.parse(key, text) if text or missing is UNSET else missing

    def parse(self, key: str, text: str) -> Any:
        """The value of an entry's text. Raises ProtocolError."""
        raise NotImplementedError

    def entries(self, key: str, value: Any) -> dict[str, str]:
        """The entries that hold the value."""
        return {key: self.text(value)}

    def text(self, value: Any) -> str:
        """The text of an entry."""
        return str(int(value)) if isinstance(value, int) else str(value)


class MapText(MapKind):
    """Text."""

    label = "text"
    zero = ""

    def read(self, entries: Mapping[str, str], key: str, missing: Any) -> Any:
        return entries.get(key, missing)


class MapInt(MapKind):
    """A whole number in decimal digits."""

    label = "integer"
    zero: float = 0
    number: type[float] = int
    legal = "a whole number"

    def parse(self, key: str, text: str) -> Any:
        try:
            return self.number(text)
        except ValueError as error:
            raise ProtocolError(f"{key} is {text[:40]!r}; must be {self.legal}") from error


class MapFloat(MapInt):
    """A number in decimal digits."""

    label = "number"
    zero = 0.0
    number = float
    legal = "a number"


class MapFlag(MapKind):
    """1 for true, everything else is false."""

    label = "1 or 0"
    zero = False

    def parse(self, key: str, text: str) -> Any:
        return text == "1"


class MapWord(MapKind):
    """One of an enumeration's words."""

    def __init__(self, known: type[Enum]) -> None:
        super().__init__()
        self.known = known
        self.label = " or ".join(f"`{item.value}`" for item in known)

    def parse(self, key: str, text: str) -> Any:
        try:
            return self.known(text)
        except ValueError as error:
            known = ", ".join(str(item.value) for item in self.known)
            raise ProtocolError(f"{key} is {text[:40]!r}; must be one of {known}") from error


class MapWords(MapKind):
    """A tuple of words without commas, with commas between them."""

    label = "words, separated by commas"
    zero = ()

    def parse(self, key: str, text: str) -> Any:
        return tuple(word for word in text.split(",") if word)

    def text(self, value: Any) -> str:
        return ",".join(value)


class MapHex(MapKind):
    """A fixed number of bytes in hexadecimal."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.label = f"{size} bytes in hexadecimal"

    def parse(self, key: str, text: str) -> Any:
        try:
            value = bytes.fromhex(text) if len(text) == 2 * self.size else b""
        except ValueError:
            value = b""
        if len(value) != self.size:
            raise ProtocolError(f"{key}: must be {self.size} bytes in hexadecimal")
        return value

    def text(self, value: Any) -> str:
        return str(value.hex())


class MapPrefix(MapKind):
    """A dict whose entries have a prefix before their keys. They are written behind the other entries."""

    label = "texts"
    zero = UNSET

    def read(self, entries: Mapping[str, str], key: str, missing: Any) -> Any:
        return {name.removeprefix(key): text for name, text in entries.items() if name.startswith(key)}

    def entries(self, key: str, value: Any) -> dict[str, str]:
        return {key + name: text for name, text in value.items()}


Text = Annotated[str, MapText()]
Int = Annotated[int, MapInt()]
Float = Annotated[float, MapFloat()]
Flag = Annotated[bool, MapFlag()]
