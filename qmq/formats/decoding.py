"""decode: the bytes of a body as JSON, by the plug-in of its format."""

from functools import lru_cache
from typing import Any

from qmq.formats.plugins import (
    BODY_BYTES_MAX,
    FORMAT_JSON,
    PLUGINS_MAX,
    WHY_CHARS_MAX,
    BodyFormat,
    Decoder,
    plugin_of,
)
from qmq.formats.values import SchemaError, Undecodable, json_text


def decode(body_format: BodyFormat, data: bytes) -> str:
    """Return a body as JSON. Takes up to a second for large bodies; for any thread. Raises Undecodable."""
    if len(data) > BODY_BYTES_MAX:
        raise Undecodable(f"it has {len(data):,} bytes; at most {BODY_BYTES_MAX:,} are decoded")
    decoder = _decoder(body_format)
    try:
        return json_text(decoder(data))
    except Undecodable:
        raise
    except EOFError as error:
        raise Undecodable("it ends too early") from error
    except Exception as error:  # plug-ins and their libraries raise whatever they like
        raise Undecodable(f"{type(error).__name__}: {error}"[:WHY_CHARS_MAX]) from error


def format_problem(name: str, schema: str) -> str:
    """Why bodies can't be decoded like this here; "" if they can."""
    if name == FORMAT_JSON:
        return "format json takes no schema" if schema else ""
    try:
        plugin_of(name).decoder(schema)
    except (SchemaError, Undecodable) as error:
        return str(error)
    return ""


@lru_cache(maxsize=PLUGINS_MAX)
def _decoder(body_format: BodyFormat) -> Decoder:
    try:
        return plugin_of(body_format.name).decoder(body_format.schema)
    except (SchemaError, Undecodable) as error:
        return _failing(str(error)[:WHY_CHARS_MAX])


def _failing(why: str) -> Decoder:
    def decoder(_: bytes) -> Any:
        raise Undecodable(why)

    return decoder
