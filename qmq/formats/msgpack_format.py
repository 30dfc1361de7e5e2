"""msgpack, a plug-in of formats. Values of extension types other than timestamps become `{"type": 1, "data": "base64"}`."""

from collections.abc import Callable
from datetime import datetime
from math import isfinite
from typing import Any

import msgpack

from qmq.formats.values import Pairs, SchemaError, Unencodable, joined

_INT_MIN, _INT_MAX = -(1 << 63), (1 << 64) - 1


def decoder(schema: str) -> Callable[[bytes], Any]:
    """Return a function that decodes a body. Raises SchemaError: there are no schemas."""
    if schema:
        raise SchemaError("format msgpack takes no schema")
    return _decoded


def encoder(schema: str) -> Callable[[Any, bytes], bytes]:
    """Return a function that encodes an edited body. Raises SchemaError: there are no schemas.

    No schema says which texts of the JSON were bytes or times before. So bodies with such values can't be edited.
    """
    decoder(schema)
    return _encoded


def _decoded(data: bytes) -> Any:
    # Keys are not put into a dict: those of a producer could all have one hash. The library bounds depth and lengths by the data.
    return msgpack.unpackb(
        data,
        raw=False,
        unicode_errors="replace",
        strict_map_key=False,
        object_pairs_hook=Pairs,
        timestamp=3,
        ext_hook=lambda code, content: {"type": code, "data": content},
    )


def _encoded(value: Any, original: bytes) -> bytes:
    _check_stated(_decoded(original), "")
    _check_integers(value, "")
    data: bytes = msgpack.packb(value)
    return data


def _check_stated(value: Any, path: str) -> None:
    """Raise Unencodable for a value of the original that its JSON does not state: a copy would have another one."""
    what = ""
    if isinstance(value, bytes):
        what = "bytes"
    elif isinstance(value, datetime):
        what = "a time"
    elif isinstance(value, float) and not isfinite(value):
        what = str(value)
    elif isinstance(value, str) and "\N{REPLACEMENT CHARACTER}" in value:
        what = "text that is not UTF-8"
    if what:
        raise Unencodable(f"is {what} in the message, which JSON can't state, so an edited copy would differ", path)
    if isinstance(value, list) and not isinstance(value, Pairs):
        for number, item in enumerate(value):
            _check_stated(item, f"{path}[{number}]")
        return
    if isinstance(value, Pairs | dict):
        names = set()
        for key, item in value.items() if isinstance(value, dict) else value:
            if not isinstance(key, str) or key in names:
                what = "twice" if isinstance(key, str) else "which is not text"
                raise Unencodable(f"has the key {str(key)[:40]!r}, {what}: JSON can't state that", path)
            names.add(key)
            _check_stated(key, path)
            _check_stated(item, joined(path, key))


def _check_integers(value: Any, path: str) -> None:
    """Raise Unencodable for an integer that has no form."""
    if isinstance(value, int) and not _INT_MIN <= value <= _INT_MAX:
        raise Unencodable(f"must be from {_INT_MIN} to {_INT_MAX}", path)
    for name, item in value.items() if isinstance(value, dict) else ():
        _check_integers(item, joined(path, name))
    for number, item in enumerate(value) if isinstance(value, list) else ():
        _check_integers(item, f"{path}[{number}]")
