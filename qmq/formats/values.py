"""Decoded values as JSON, within limits."""

import json
from base64 import b64encode
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

from qmq.words import printable

DEPTH_MAX = 100
"""Most levels of a decoded body."""
VALUES_MAX = 200_000
"""Most values of a decoded body."""


class SchemaError(ValueError):
    """A schema that can't be used; says what is wrong."""


class Undecodable(Exception):
    """A body that is not what its format says, or that exceeds a limit; says why."""


class Unencodable(Exception):
    """An edited body that its format can't state; names the field, a path such as `items[0].price`, and says why."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"field {printable(path[:200])} {why}" if path else f"the body {why}")


class Pairs(list[tuple[Any, Any]]):
    """An object as its keys and values: unlike keys of a dict, these keys are not compared, and can be of any type."""


def joined(path: str, name: str) -> str:
    """The path of a field of the object at a path."""
    return f"{path}.{name}" if path else name


def json_text(value: Any) -> str:
    """Return a decoded value as JSON. Raises Undecodable.

    Bytes become base64, times ISO 8601, decimals and UUIDs texts, NaN and infinities their names. Keys that are not texts become
    their JSON.
    """
    return json.dumps(_Conversion().plain(value, 1), ensure_ascii=False, separators=(",", ":"))


class _Conversion:
    def __init__(self) -> None:
        self._values = 0

    def plain(self, value: Any, depth: int) -> Any:
        self._values += 1
        if self._values > VALUES_MAX:
            raise Undecodable(f"it has more than {VALUES_MAX:,} values")
        if value is None or isinstance(value, str | bool | int):
            return value
        if isinstance(value, float):
            return value if isfinite(value) else str(value)
        if isinstance(value, bytes):
            return b64encode(value).decode("ascii")
        if isinstance(value, datetime | date | time):
            return value.isoformat()
        if isinstance(value, Decimal | UUID | timedelta):
            return str(value)
        if depth > DEPTH_MAX:
            raise Undecodable(f"it is nested deeper than {DEPTH_MAX} levels")
        if isinstance(value, dict | Pairs):
            items = value.items() if isinstance(value, dict) else value
            return {self._key(key, depth + 1): self.plain(item, depth + 1) for key, item in items}
        if isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        raise Undecodable(f"it has a value of type {type(value).__name__}, which can't be shown as JSON")

    def _key(self, key: Any, depth: int) -> str:
        return key if isinstance(key, str) else json.dumps(self.plain(key, depth), ensure_ascii=False)
