"""How a field of a structure is written as an entry of its map of strings."""

from collections.abc import Mapping
from enum import Enum
from typing import Annotated, Any

from qmq.errors import ProtocolError

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
        text = entries.get(key)
        if not text:
            if missing is not UNSET:
                return missing
            text = ""
        return self.parse(key, text)

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
    zero = 0

    def parse(self, key: str, text: str) -> Any:
        try:
            return int(text)
        except ValueError as error:
            raise ProtocolError(f"{key} is {text[:40]!r}; must be a whole number") from error


class MapFloat(MapKind):
    """A number in decimal digits."""

    label = "number"
    zero = 0.0

    def parse(self, key: str, text: str) -> Any:
        try:
            return float(text)
        except ValueError as error:
            raise ProtocolError(f"{key} is {text[:40]!r}; must be a number") from error


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
        text: str = value.hex()
        return text


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
