"""Avro's binary encoding of edited JSON, by a parsed schema.

The inverse of what `decode` shows: bytes are base64, times ISO 8601, decimals and UUIDs texts. fastavro's writer would accept
other values too, choose types of unions by itself, and not name the field that does not fit.
"""

import binascii
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from qmq.formats.values import Unencodable, joined

DECIMAL = "qmq-decimal"
"""The logical type of decimals in a parsed schema."""
DECIMAL_BYTES_MAX = 32
"""Longest decimal: 76 digits. Converting one takes time that grows with the square of its length."""
DECIMAL_DIGITS_MAX = 76
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INTEGERS = {"int": 31, "long": 63}
_NUMBERS = {"float": "<f", "double": "<d"}


class Encoding:
    """Encodes values. `named`: the named types of the schema, by their full names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def encoded(self, value: Any, schema: Any, path: str = "") -> bytes:
        """Return a value as bytes. Raises Unencodable, with the path of the field that does not fit."""
        if isinstance(schema, list):
            return self._union(value, schema, path)
        kind, details = (schema, {}) if isinstance(schema, str) else (schema["type"], schema)
        if kind in self._named:
            return self.encoded(value, self._named[kind], path)
        if kind in ("record", "error"):
            return self._record(value, details, path)
        if kind in ("array", "map"):
            return self._several(value, kind, details, path)
        try:
            if kind == "enum":
                return _long(details["symbols"].index(value))
            return _simple(value, kind, details)
        except (ValueError, TypeError, OverflowError, InvalidOperation, struct.error, binascii.Error) as error:
            raise Unencodable(f"must be {_wanted(kind, details)}", path) from error

    def _record(self, value: Any, schema: Mapping[str, Any], path: str) -> bytes:
        if not isinstance(value, dict):
            raise Unencodable("must be an object", path)
        names = [field["name"] for field in schema["fields"]]
        for name in names:
            if name not in value:
                raise Unencodable("is missing", joined(path, name))
        for name in value:
            if name not in names:
                raise Unencodable("is not in the schema", joined(path, name))
        return b"".join(
            self.encoded(value[field["name"]], field["type"], joined(path, field["name"])) for field in schema["fields"]
        )

    def _several(self, value: Any, kind: str, schema: Mapping[str, Any], path: str) -> bytes:
        if kind == "array":
            if not isinstance(value, list):
                raise Unencodable("must be a list", path)
            items = [self.encoded(item, schema["items"], f"{path}[{number}]") for number, item in enumerate(value)]
        else:
            if not isinstance(value, dict):
                raise Unencodable("must be an object", path)
            items = [
                _text(name.encode()) + self.encoded(item, schema["values"], joined(path, name))
                for name, item in value.items()
            ]
        return b"".join([*([_long(len(items))] if items else ()), *items, b"\0"])

    def _union(self, value: Any, types: list[Any], path: str) -> bytes:
        fitting: dict[int, bytes] = {}
        problems = []
        for number, schema in enumerate(types):
            try:
                fitting[number] = self.encoded(value, schema, path)
            except Unencodable as error:
                problems.append((schema, error))
        if isinstance(value, int | float):
            # A whole number is shown as one only if it was one, and a float as what it is. The first of equal values will do.
            whole = [number for number in fitting if _kind(types[number]) in _INTEGERS]
            equal = [
                n for n, data in fitting.items() if _kind(types[n]) != "float" or struct.unpack("<f", data)[0] == value
            ]
            fitting = {number: fitting[number] for number in (whole or equal or list(fitting))[:1]}
        if len(fitting) == 1:
            ((number, data),) = fitting.items()
            return _long(number) + data
        known = ", ".join(map(_kind, types))
        if fitting:
            raise Unencodable(f"fits several types of its union ({known}), and JSON can't say which", path)
        others = [error for schema, error in problems if schema != "null"]
        raise others[0] if len(others) == 1 else Unencodable(f"fits no type of its union ({known})", path)


def _kind(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return str(schema.get("name", schema["type"]))


def _simple(value: Any, kind: str, details: Mapping[str, Any]) -> bytes:
    """The bytes of a value of a primitive type, or a fixed one. Raises ValueError and others for one that does not fit."""
    logical = details.get("logicalType", "")
    if convert := _LOGICAL.get(f"{kind}-{logical}"):
        value = convert(_checked(value, str))
    if kind == "null":
        if value is not None:
            raise TypeError
        return b""
    if kind == "boolean":
        return b"\1" if _checked(value, bool) else b"\0"
    if kind in _INTEGERS:
        return _long(_checked(value, int), _INTEGERS[kind])
    if kind in _NUMBERS:
        if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
            raise ValueError
        return struct.pack(_NUMBERS[kind], float(_checked(value, int | float | str)))
    if kind == "string":
        return _text(_checked(value, str).encode())
    size = details.get("size")
    if logical == DECIMAL:
        data = _decimal(Decimal(_checked(value, str)), details, size)
    else:
        data = b64decode(_checked(value, str), validate=True)
    if size is None:
        return _text(data)
    if len(data) != size:
        raise ValueError
    return data


def _checked(value: Any, types: Any) -> Any:
    # A truth value counts as a number in Python.
    if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
        raise TypeError
    return value


def _long(number: int, bits: int = 63) -> bytes:
    if not -(1 << bits) <= number < 1 << bits:
        raise OverflowError
    rest = number << 1 if number >= 0 else ~(number << 1)
    found = bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def _text(data: bytes) -> bytes:
    return _long(len(data)) + data


def _decimal(value: Decimal, details: Mapping[str, Any], size: int | None) -> bytes:
    sign, digits, exponent = value.as_tuple()
    zeros = int(exponent) + details["scale"]
    if zeros < 0 or len(digits) + zeros > min(details.get("precision", DECIMAL_DIGITS_MAX), DECIMAL_DIGITS_MAX):
        raise ValueError
    number = int("".join(map(str, digits)) + "0" * zeros) * (-1 if sign else 1)
    found = number.to_bytes(size or (number.bit_length() + 8) // 8, "big", signed=True)
    if len(found) > DECIMAL_BYTES_MAX:
        raise OverflowError
    return found


def _whole(span: timedelta, unit: timedelta) -> int:
    number, rest = divmod(span, unit)
    if rest:
        raise ValueError
    return number


_MILLISECOND, _MICROSECOND = timedelta(milliseconds=1), timedelta(microseconds=1)


def _moment(unit: timedelta, *, is_local: bool) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = datetime.fromisoformat(text)
        if (value.tzinfo is None) != is_local:
            raise ValueError
        return _whole((value.replace(tzinfo=UTC) if is_local else value) - _EPOCH, unit)

    return convert


def _time(unit: timedelta) -> Callable[[str], int]:
    def convert(text: str) -> int:
        value = time.fromisoformat(text)
        if value.tzinfo is not None:
            raise ValueError
        return _whole(datetime.combine(_EPOCH, value, UTC) - _EPOCH, unit)

    return convert


_LOGICAL: dict[str, Callable[[str], Any]] = {
    "int-date": lambda text: (date.fromisoformat(text) - _EPOCH.date()).days,
    "int-time-millis": _time(_MILLISECOND),
    "long-time-micros": _time(_MICROSECOND),
    "long-timestamp-millis": _moment(_MILLISECOND, is_local=False),
    "long-timestamp-micros": _moment(_MICROSECOND, is_local=False),
    "long-local-timestamp-millis": _moment(_MILLISECOND, is_local=True),
    "long-local-timestamp-micros": _moment(_MICROSECOND, is_local=True),
    "string-uuid": lambda text: str(UUID(text)),
}
"""From the text of a logical type to the value of its plain type."""
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
        precision = details.get("precision")
        digits = f" and {precision} digits" if precision else ""
        return f'a text with a number of at most {details["scale"]} decimal places{digits}, such as "12.5"'
    if kind == "fixed":
        return f"{details['size']} bytes in base64"
    return _WANTED.get(f"{kind}-{logical}") or _WANTED[kind]
