"""Django's cache on Redis with JSON values, so that a value written by an attacker is data and never code.

Django's own serializer is pickle.
"""

import json
import logging
from collections.abc import Iterable
from typing import Any

from django.core.cache.backends.redis import RedisCache

logger = logging.getLogger("qmq.cache")

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse).decode


class UnreadableValue(ValueError):
    """A stored value is not JSON: an earlier version wrote it, or another program."""


class JsonSerializer:
    """Values as JSON. Tuples come back as lists, and keys of dictionaries as strings."""

    def dumps(self, value: Any) -> int | bytes:
        """Encode a value; an integer stays one, because INCR needs it.

        Raises:
            TypeError: JSON has no form for the value.
            ValueError: it contains a number that is not finite.
        """
        if type(value) is int:
            return value
        return _encode(value).encode()

    def loads(self, data: bytes) -> Any:
        """Decode a value.

        Raises:
            UnreadableValue: it is not JSON.
        """
        try:
            return _decode(data.decode())
        except (ValueError, RecursionError) as error:
            raise UnreadableValue(str(error)) from error


class JsonRedisCache(RedisCache):
    """Redis with JsonSerializer, which no option can replace. Unreadable values are logged and count as missing."""

    def __init__(self, server: str | list[str], params: dict[str, Any]) -> None:
        super().__init__(server, {**params, "OPTIONS": {**params.get("OPTIONS", {}), "serializer": JsonSerializer}})

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        """Return the value of a key, or `default`."""
        try:
            return super().get(key, default, version)
        except UnreadableValue as error:
            logger.warning("the cached value of %s is ignored, it is not JSON: %s", key, error)
            return default

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        """Return the values of those keys that have one."""
        wanted = list(keys)
        try:
            return dict(super().get_many(wanted, version))
        except UnreadableValue:
            missing = object()
            found = {key: self.get(key, missing, version) for key in wanted}
            return {key: value for key, value in found.items() if value is not missing}
