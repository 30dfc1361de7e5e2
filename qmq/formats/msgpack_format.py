"""msgpack, a plug-in of formats. Values of extension types other than timestamps become `{"type": 1, "data": "base64"}`."""

from collections.abc import Callable
from typing import Any

import msgpack

from qmq.formats.values import Pairs, SchemaError


def decoder(schema: str) -> Callable[[bytes], Any]:
    """Return a function that decodes a body. Raises SchemaError: there are no schemas."""
    if schema:
        raise SchemaError("format msgpack takes no schema")
    return _decoded


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
