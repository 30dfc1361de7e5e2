"""Edited JSON as the values that fastavro writes, by a parsed schema.

The inverse of what `decode` shows: bytes are base64, times ISO 8601, decimals and UUIDs texts. fastavro's writer alone would
accept other values too, choose types of unions by itself, and not name the field that does not fit.
"""

import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

from fastavro.validation import validate

from qmq.formats.values import Unencodable, joined

DECIMAL = "qmq-decimal"
"""The logical type of decimals in a parsed schema. fastavro does not know it, and takes their bytes."""
DECIMAL_BYTES_MAX = 32
"""Longest decimal: 76 digits. Converting one takes time that grows with the square of its length."""
DECIMAL_DIGITS_MAX = 76


class Conversion:
    """Converts values. `named`: the named types of the schema, by their full names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def converted(self, value: Any, schema: Any, path: str = "") -> Any:
        """Return what fastavro writes for a value. Raises Unencodable, with the path of the field that does not fit."""
        if isinstance(schema, list):
            return self._union(value, schema, path)
        kind, details = (schema, {}) if isinstance(schema, str) else (schema["type"], schema)
        if kind in self._named:
            return self.converted(value, self._named[kind], path)
        if kind in ("record", "error"):
            return self._record(value, details, path)
        if kind in ("array", "map"):
            return self._several(value, kind, details, path)
        try:
            return _simple(value, kind, details)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Unencodable(f"must be {_wanted(kind, details)}", path) from error

    def _record(self, value: Any, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Unencodable("must be an object", path)
        types = {field["name"]: field["type"] for field in schema["fields"]}
        for name in types:
            if name not in value:
                raise Unencodable("is missing", joined(path, name))
        for name in value:
            if name not in types:
                raise Unencodable("is not in the schema", joined(path, name))
        return {name: self.converted(value[name], type_, joined(path, name)) for name, type_ in types.items()}

    def _several(self, value: Any, kind: str, schema: Mapping[str, Any], path: str) -> Any:
        if kind == "array":
            if not isinstance(value, list):
                raise Unencodable("must be a list", path)
            return [self.converted(item, schema["items"], f"{path}[{number}]") for number, item in enumerate(value)]
        if not isinstance(value, dict):
            raise Unencodable("must be an object", path)
        return {name: self.converted(item, schema["values"], joined(path, name)) for name, item in value.items()}

    def _union(self, value: Any, types: list[Any], path: str) -> tuple[str, Any]:
        """The name of the type that is written, and the value: so fastavro does not choose."""
        named = {_kind(schema): schema for schema in types}
        known = ", ".join(map(_kind, types))
        if len(named) < len(types):
            raise Unencodable(f"has a union with a type twice ({known}), which Avro does not allow", path)
        fitting = {}
        problems = {}
        for kind, schema in named.items():
            try:
                fitting[kind] = self.converted(value, schema, path)
            except Unencodable as error:
                problems[kind] = error
        if isinstance(value, int | float):
            # A whole number is shown as one only if it was one, and a float as what it is. The first of equal values will do.
            whole = [kind for kind in fitting if kind in ("int", "long")]
            equal = [kind for kind, number in fitting.items() if number == float(value)]
            fitting = {kind: fitting[kind] for kind in (whole or equal or list(fitting))[:1]}
        if len(fitting) == 1:
            return fitting.popitem()
        if fitting:
            raise Unencodable(f"fits several types of its union ({known}), and JSON can't say which", path)
        others = [error for kind, error in problems.items() if kind != "null"]
        raise others[0] if len(others) == 1 else Unencodable(f"fits no type of its union ({known})", path)


def _kind(schema: Any) -> str:
    """The name of a type in its union, as fastavro compares it."""
    if isinstance(schema, Mapping):
        return str(schema.get("name", schema["type"]))
    return "union" if isinstance(schema, list) else str(schema)


def _simple(value: Any, kind: str, details: Mapping[str, Any]) -> Any:
    """A value of a type without parts. Raises ValueError and others for one that does not fit."""
    if convert := _LOGICAL.get(f"{kind}-{details.get('logicalType')}"):
        return convert(_checked(value, str))
    if kind in ("float", "double"):
        if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
            raise ValueError
        number = float(_checked(value, int | float | str))
        # fastavro would write a number that is too large for 32 bits as an infinity.
        return struct.unpack("<f", struct.pack("<f", number))[0] if kind == "float" else number
    if kind in ("bytes", "fixed"):
        return _bytes(_checked(value, str), details)
    if not (value in details["symbols"] if kind == "enum" else validate(value, kind, raise_errors=False)):
        raise ValueError
    if kind == "string":
        value.encode()  # A text that is no Unicode raises ValueError.
    return value


def _checked(value: Any, types: Any) -> Any:
    """A value of a type, which is not bool. Raises TypeError."""
    if not isinstance(value, types) or isinstance(value, bool):
        raise TypeError
    return value


def _bytes(text: str, details: Mapping[str, Any]) -> bytes:
    size = details.get("size")
    is_decimal = details.get("logicalType") == DECIMAL
    data = _decimal(Decimal(text), details, size) if is_decimal else b64decode(text, validate=True)
    if size is not None and len(data) != size:
        raise ValueError
    return data


def _decimal(value: Decimal, details: Mapping[str, Any], size: int | None) -> bytes:
    sign, digits, exponent = value.as_tuple()
    zeros = int(exponent) + details["scale"]
    if zeros < 0 or len(digits) + zeros > details["precision"]:
        raise ValueError
    number = int(Decimal((sign, digits, zeros)))
    found = number.to_bytes(size or (number.bit_length() + 8) // 8, "big", signed=True)
    if len(found) > DECIMAL_BYTES_MAX:
        raise OverflowError
    return found


def _read(read: Callable[[str], Any], *, step: int, has_zone: bool = False) -> Callable[[str], Any]:
    """What reads a time in multiples of `step` microseconds: fastavro would cut the rest off, and take any zone."""

    def convert(text: str) -> Any:
        value = read(text)
        if (value.tzinfo is not None) != has_zone:
            raise ValueError
        value = value.astimezone(UTC) if has_zone else value
        if value.microsecond % step:
            raise ValueError
        return value

    return convert


_LOGICAL: dict[str, Callable[[str], Any]] = {
    "int-date": date.fromisoformat,
    "int-time-millis": _read(time.fromisoformat, step=1_000),
    "long-time-micros": _read(time.fromisoformat, step=1),
    "long-timestamp-millis": _read(datetime.fromisoformat, step=1_000, has_zone=True),
    "long-timestamp-micros": _read(datetime.fromisoformat, step=1, has_zone=True),
    "long-local-timestamp-millis": _read(datetime.fromisoformat, step=1_000),
    "long-local-timestamp-micros": _read(datetime.fromisoformat, step=1),
    "string-uuid": UUID,
}
"""From the text of a logical type to its value."""
_WANTED = {
    "null": "null",
    "boolean": "true or false",
    "int": "a whole number of 32 bits",
    "long": "a whole number of 64 bits",
    "float": 'a number, or "nan", "inf" or "-inf"',
    "double": 'a number, or "nan", "inf" or "-inf"',
    "string": "a text",
    "bytes": "a text in base64",
    "int-date": "a date such as 2026-01-31",
    "int-time-millis": "a time such as 10:30:00.125, in milliseconds",
    "long-time-micros": "a time such as 10:30:00.000125",
    "long-timestamp-millis": "a time such as 2026-01-31T10:30:00.125+00:00, in milliseconds",
    "long-timestamp-micros": "a time such as 2026-01-31T10:30:00.000125+00:00",
    "long-local-timestamp-millis": "a time without a zone such as 2026-01-31T10:30:00.125, in milliseconds",
    "long-local-timestamp-micros": "a time without a zone such as 2026-01-31T10:30:00.000125",
    "string-uuid": "a UUID",
}


def _wanted(kind: str, details: Mapping[str, Any]) -> str:
    """What a value of a type must be."""
    logical = details.get("logicalType", "")
    if kind == "enum":
        return f"one of {', '.join(details['symbols'])}"[:300]
    if logical == DECIMAL:
        scale, precision = details["scale"], details["precision"]
        return f'a text with a number of at most {scale} decimal places and {precision} digits, such as "12.5"'
    if kind == "fixed":
        return f"{details['size']} bytes in base64"
    return _WANTED.get(f"{kind}-{logical}") or _WANTED[kind]
