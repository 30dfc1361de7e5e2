"""Python values as JSON text and back: single values, and models of msgspec and pydantic; the error of values that do not fit.

The libraries are not imported: a program that has a model has imported its library.
"""

import json
import re
import sys
import types
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache, partial
from typing import Any, cast
from uuid import UUID

SHOWN_CHARS = 60
"""Characters of a value in an error message; the rest is left out."""

EQUAL_HASHES_MAX = 100
"""Different items of a set, or keys of a mapping, with the same hash."""

Convert = Callable[[Any], Any]

_EPOCH = datetime.fromtimestamp(0, UTC)
_KINDS = {str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list", dict: "an object"}


class Mismatch(Exception):
    """A value does not fit an annotation. `field` is the path of the field, such as `lines[3].price`."""

    def __init__(self, reason: str, *, field: str = "", code: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.code = code

    def inside(self, step: str) -> "Mismatch":
        """Put the name of a field, or an index such as `[3]`, before the path."""
        separator = "." if self.field and self.field[0] != "[" else ""
        self.field = f"{step}{separator}{self.field}"
        return self


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}..."


def expected(what: str, value: object) -> Mismatch:
    """The error of a value that is not what an annotation expects."""
    if value is None:
        return Mismatch(f"expected {what}, got null")
    kind = _KINDS.get(type(value), "a value")
    return Mismatch(f"expected {what}, got {kind}: {shown(value)}")


def check_hashes(keys: Sequence[Hashable]) -> None:
    """Raises Mismatch if more than EQUAL_HASHES_MAX different keys have the same hash.

    Multiples of 2^61 - 1, and UUIDs and decimals made of them, have equal hashes: a set or dict of many takes quadratic time.
    """
    if len(keys) <= EQUAL_HASHES_MAX:
        return
    by_hash: dict[int, list[Hashable]] = {}
    for key in keys:
        if type(key) is str:  # its hash is another one in each process
            continue
        same = by_hash.setdefault(hash(key), [])
        if key not in same:
            same.append(key)
            if len(same) > EQUAL_HASHES_MAX:
                raise Mismatch(f"more than {EQUAL_HASHES_MAX} different keys or items have the same hash")


def _exactly(kind: type, what: str) -> Convert:
    def convert(value: Any) -> Any:
        if type(value) is not kind:
            raise expected(what, value)
        return value

    return convert


def _float(value: Any) -> Any:
    if type(value) is float:
        return value
    if type(value) is not int:
        raise expected("a number", value)
    try:
        return float(value)
    except OverflowError:
        raise expected("a number that fits a float", value) from None


def _from(parse: Convert, what: str, *kinds: type) -> Convert:
    """Convert values of some types with a function that raises if they do not fit."""

    def convert(value: Any) -> Any:
        if type(value) not in kinds:
            raise expected(what, value)
        try:
            return parse(value)
        except (ValueError, ArithmeticError):
            raise expected(what, value) from None

    return convert


_BOOLS = {"true": True, "false": False}


def _bool_of_text(text: Any) -> bool:
    found = _BOOLS.get(text.lower())
    if found is None:
        raise expected("true or false", text)
    return found


def datetime_of(value: str | int) -> datetime:
    """A time in ISO 8601, or in milliseconds since the epoch as Java programs write it."""
    if isinstance(value, int) or is_whole(value):
        return _EPOCH + timedelta(milliseconds=int(value))
    return datetime.fromisoformat(value)


def is_whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def _both(convert: Convert) -> tuple[Convert, Convert]:
    return convert, convert


_DATETIME = "a time in ISO 8601 or in milliseconds since 1970"
SCALARS: dict[type, tuple[Convert, Convert]] = {
    str: _both(_exactly(str, "a text")),
    bool: (_exactly(bool, "true or false"), _bool_of_text),
    int: (_exactly(int, "a whole number"), _from(int, "a whole number", str)),
    float: (_float, _from(float, "a number", str)),
    types.NoneType: _both(_exactly(types.NoneType, "null")),
    bytes: _both(_from(partial(b64decode, validate=True), "base64", str)),  # binascii.Error is a ValueError
    Decimal: (
        _from(lambda value: Decimal(str(value)), "a decimal number", str, int, float),
        _from(Decimal, "a decimal number", str),
    ),
    datetime: _both(_from(datetime_of, _DATETIME, str, int)),
    date: _both(_from(date.fromisoformat, "a date in ISO 8601", str)),
    time: _both(_from(time.fromisoformat, "a time of day in ISO 8601", str)),
    UUID: _both(_from(UUID, "a UUID", str)),
}
"""For each type: the conversion from a value of JSON, and from the text of a property."""


_MSGSPEC_PATH = re.compile(r"(.*) - at `\$(?P<path>.*)`", re.S)


def is_struct(hint: Any) -> bool:
    msgspec = sys.modules.get("msgspec")
    return msgspec is not None and isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def is_pydantic(hint: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(hint, type) and issubclass(hint, pydantic.BaseModel)


def with_msgspec(convert: Callable[[Any], Any]) -> Any:
    """Return what a function makes with the module msgspec; its errors become Mismatch."""
    msgspec: Any = sys.modules["msgspec"]
    try:
        return convert(msgspec)
    except (msgspec.DecodeError, RecursionError) as error:
        found = _MSGSPEC_PATH.fullmatch(str(error))
        if found is None:
            raise Mismatch(str(error)) from error
        raise Mismatch(found[1], field=found["path"].lstrip(".")) from error


def with_pydantic(convert: Callable[[], Any]) -> Any:
    """Return what a function makes with pydantic; its errors become Mismatch."""
    pydantic: Any = sys.modules["pydantic"]
    try:
        return convert()
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        mismatch = Mismatch(first["msg"])
        for step in reversed(first["loc"]):
            mismatch.inside(f"[{step}]" if isinstance(step, int) else str(step))
        raise mismatch from error


CLASSES_MAX = 1000
"""Dataclasses whose field names are cached."""


def to_json(value: object) -> str:
    """A value as JSON text without white space. Raises TypeError, ValueError or RecursionError for what JSON can't express."""
    return json.dumps(value, default=_plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def is_dataclass_instance(value: object) -> bool:
    return hasattr(type(value), "__dataclass_fields__")


def _plain(value: Any) -> object:
    """A value that `json` does not know, as one that it knows."""
    if is_dataclass_instance(value):
        return {name: getattr(value, name) for name in names_of(cast(Hashable, type(value)))}
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal | UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode("ascii")
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    if is_struct(type(value)):
        return sys.modules["msgspec"].to_builtins(value)
    if is_pydantic(type(value)):
        return value.model_dump(mode="json", by_alias=True)
    raise TypeError(f"a {type(value).__name__} is not supported")


@lru_cache(maxsize=CLASSES_MAX)
def names_of(cls: Hashable) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cast(Any, cls)))
