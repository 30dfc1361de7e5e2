"""Kinds of fields whose values have limits. Reading a value beyond them raises ProtocolError, writing one LocalProtocolError; only
notes are cut instead when they are written.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, Any

from qmq.errors import LocalProtocolError, ProtocolError
from qmq.protocol.kinds import LABELS, UNSET, Kind, MapInt, MapKind, Number, Part, String
from qmq.protocol.primitives import Reader

NAME_CHARS_MAX = 100
"""Longest name of a broker group, node, process or rack, and longest address. The database has columns of this size."""
NOTE_CHARS_MAX = 500
"""Longest reason or description of a problem. The database has columns of this size."""
U32_MAX = (1 << 32) - 1
I64_MAX = (1 << 63) - 1
UUID_BYTES = 16

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)
_INCARNATION = re.compile(r"(?:[0-9a-f]{16})?", re.ASCII)
_ADDRESS = re.compile(rf"[^,]{{0,{NAME_CHARS_MAX}}}")
_NO_UUID = bytes(UUID_BYTES)


# --- numbers --------------------------------------------------------------------------------------------------------


class Ranged(Number):
    """An integer from `least` to `most`. `code` is that of the `struct` module."""

    def __init__(self, code: str, least: int, most: int) -> None:
        super().__init__(code)
        self.least, self.most = least, most
        self.label = f"{LABELS[code]} ({_range_text(least, most)})"

    def check_read(self, value: Any) -> None:
        if not self.least <= value <= self.most:
            raise ProtocolError(f"{value}; must be {_range_text(self.least, self.most)}")

    def check_written(self, value: Any) -> None:
        if not self.least <= value <= self.most:
            raise LocalProtocolError(f"{value}: must be {_range_text(self.least, self.most)}")


class MapRange(MapInt):
    """A whole number from `least` to `most`; the entry must be there unless the field has a default."""

    zero = UNSET

    def __init__(self, least: int, most: int, *, is_optional: bool = False) -> None:
        super().__init__(is_optional=is_optional)
        self.least, self.most = least, most
        self.legal = f"a whole number, {_range_text(least, most)}"
        self.label = f"integer ({_range_text(least, most)})"

    def parse(self, key: str, text: str) -> Any:
        value = super().parse(key, text)
        if not self.least <= value <= self.most:
            raise ProtocolError(f"{key} is {text[:40]}; must be {self.legal}")
        return value

    def text(self, value: Any) -> str:
        if not self.least <= value <= self.most:
            raise LocalProtocolError(f"{value}: must be {self.legal}")
        return super().text(value)


class MapChoice(MapInt):
    """The number of one of an enumeration's members, in decimal digits."""

    zero = UNSET

    def __init__(self, known: type[IntEnum]) -> None:
        super().__init__()
        self.known = known
        self.label = f"number of a `{known.__name__}`"

    def parse(self, key: str, text: str) -> Any:
        value = super().parse(key, text)
        try:
            return self.known(value)
        except ValueError as error:
            raise ProtocolError(f"{key} is {text[:40]}; must be the number of a {self.known.__name__}") from error


def _range_text(least: int, most: int) -> str:
    return f"{least} or more" if most == I64_MAX else f"{least} to {most}"


Count = Annotated[int, Ranged("q", 0, I64_MAX)]
"""An i64 that can't be negative: an offset, epoch, version or number of bytes."""
MapCount = Annotated[int, MapRange(0, I64_MAX)]
"""As `Count`, an entry of the map that must be there."""
Crc = Annotated[int, Number("I")]
MapCrc = Annotated[int, MapRange(0, U32_MAX)]


# --- texts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    chars_max: int
    may_be_empty: bool = False

    @property
    def label(self) -> str:
        return f"{0 if self.may_be_empty else 1} to {self.chars_max} characters"

    def check(self, text: str, error: type[ProtocolError | LocalProtocolError], key: str = "") -> str:
        """Return the text. Raises `error` if it is too long, or empty and may not be."""
        if len(text) > self.chars_max or not (text or self.may_be_empty):
            prefix = f"{key}: " if key else ""
            raise error(f"{prefix}{text[:40]!r} has {len(text)} characters; must be {self.label}")
        return text

    def cut(self, text: str) -> str:
        """Return the first `chars_max` characters of the text. Half a surrogate pair, which names of files may contain and the wire
        can't carry, becomes an escape sequence."""
        return text.encode("utf-8", "backslashreplace").decode()[: self.chars_max]


class Name(String):
    """A string of 1 to NAME_CHARS_MAX characters."""

    limit = _Limit(NAME_CHARS_MAX)
    label = f"str ({limit.label})"

    def read(self, reader: Reader) -> Any:
        return self.limit.check(super().read(reader), ProtocolError)

    def write(self, parts: list[Part], value: Any) -> None:
        super().write(parts, self.limit.check(value, LocalProtocolError))


class Note(Name):
    """A text for people. It is cut to NOTE_CHARS_MAX characters when it is written: a long reason must not prevent a report."""

    limit = _Limit(NOTE_CHARS_MAX, may_be_empty=True)
    label = f"str ({limit.label})"

    def write(self, parts: list[Part], value: Any) -> None:
        super().write(parts, self.limit.cut(value))


class MapName(MapKind):
    """A text of at most `chars_max` characters. The entry must be there unless the text may be empty."""

    def __init__(self, chars_max: int = NAME_CHARS_MAX, *, may_be_empty: bool = False) -> None:
        super().__init__(missing="" if may_be_empty else UNSET)
        self.limit = _Limit(chars_max, may_be_empty)
        self.label = f"text ({self.limit.label})"

    def parse(self, key: str, text: str) -> Any:
        return self.limit.check(text, ProtocolError, key)

    def text(self, value: Any) -> str:
        return self.limit.check(value, LocalProtocolError)


class MapNote(MapName):
    """A `Note` in the map."""

    def __init__(self) -> None:
        super().__init__(NOTE_CHARS_MAX, may_be_empty=True)

    def text(self, value: Any) -> str:
        return self.limit.cut(value)


# --- data folders ---------------------------------------------------------------------------------------------------


class _MapList(MapKind):
    """Up to `most` texts of a fixed form, separated by commas; "" where one is not known."""

    pattern: re.Pattern[str]
    form: str

    def __init__(self, most: int) -> None:
        super().__init__(missing=())
        self.most = most
        self.legal = f"up to {most} times {self.form} or nothing, separated by commas"
        self.label = f"text ({self.legal})"

    def parse(self, key: str, text: str) -> Any:
        return self._checked(tuple(text.split(",")), ProtocolError, f"{key} is {text[:60]!r}")

    def text(self, value: Any) -> str:
        return ",".join(self._checked(value, LocalProtocolError, f"{value!r:.60}"))

    def _checked(
        self, values: tuple[str, ...], error: type[ProtocolError | LocalProtocolError], what: str
    ) -> tuple[str, ...]:
        if len(values) > self.most or not all(self.pattern.fullmatch(one) for one in values):
            raise error(f"{what}; must be {self.legal}")
        return values


class MapIncarnations(_MapList):
    """The incarnations of data folders."""

    pattern = _INCARNATION
    form = "16 hexadecimal digits in lower case"


class MapAddresses(_MapList):
    """Addresses."""

    pattern = _ADDRESS
    form = f"at most {NAME_CHARS_MAX} characters without a comma"


class _MapPattern(MapKind):
    """A text of a fixed form, or nothing."""

    zero = ""
    pattern: re.Pattern[str]
    legal: str

    def parse(self, key: str, text: str) -> Any:
        if not self.pattern.fullmatch(text):
            raise ProtocolError(f"{key} is {text[:40]!r}; must be {self.legal}, or empty")
        return text

    def text(self, value: Any) -> str:
        if value and not self.pattern.fullmatch(value):
            raise LocalProtocolError(f"{value[:40]!r}: must be {self.legal}, or empty")
        return str(value)


class MapIncarnation(_MapPattern):
    """The incarnation of a data folder, or nothing."""

    label = "16 hexadecimal digits or empty"
    pattern = _INCARNATION
    legal = "16 hexadecimal digits in lower case"


class MapLogId(MapIncarnation):
    """The ID of a broker group's log, or nothing."""


# --- UUIDs ----------------------------------------------------------------------------------------------------------


class Uuid(Kind):
    """A UUID as 16 bytes, as text in our code; "" is written as 16 zeros."""

    least_bytes = UUID_BYTES
    label = "16 bytes, a UUID or zeros"

    def read(self, reader: Reader) -> Any:
        data = reader.bytes_(UUID_BYTES)
        digits = data.hex()
        if data == _NO_UUID:
            return ""
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def write(self, parts: list[Part], value: Any) -> None:
        if value and not _UUID.fullmatch(value):
            raise LocalProtocolError(f"{value[:40]!r}: must be a UUID in lower case, or empty")
        parts.append(bytes.fromhex(value.replace("-", "")) if value else _NO_UUID)


class MapUuid(_MapPattern):
    """A UUID in lower case with hyphens, or nothing."""

    label = "UUID or empty"
    pattern = _UUID
    legal = "a UUID in lower case"
