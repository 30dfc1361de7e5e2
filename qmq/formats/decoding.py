"""decode: the bytes of a body as JSON, by the plug-in of its format."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from qmq.formats.values import SchemaError, Undecodable, json_text

FORMAT_JSON = "json"
"""Of bodies that need no decoding."""
ENTRY_POINTS = "qmq.body_formats"
"""The group of entry points that packages declare plug-ins in."""
BODY_BYTES_MAX = 1 << 20
"""Larger bodies are not decoded."""
SCHEMA_CHARS_MAX = 10_000
NAME_CHARS_MAX = 40
DECODERS_MAX = 64
"""Decoders that a process keeps, for as many formats with their schemas."""
WHY_CHARS_MAX = 300

Decoder = Callable[[bytes], Any]

_BUILT_IN = {"msgpack": "qmq.formats.msgpack_format", "avro": "qmq.formats.avro_format"}


class Plugin(Protocol):
    """A format of bodies: a module, or an object, that an entry point of group `qmq.body_formats` names."""

    def decoder(self, schema: str) -> Decoder:
        """Return what decodes bodies of a schema ("": none is given): from bytes to what `json_text` accepts.

        It must bound its own memory and recursion: bodies come from any producer. What it raises of a body is shown as the reason.

        Raises:
            SchemaError: the schema can't be used.
        """


@dataclass(frozen=True, slots=True)
class BodyFormat:
    """The format of a subject's bodies, and its schema; "" without one."""

    name: str
    schema: str = ""


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
        _plugin(name).decoder(schema)
    except (SchemaError, Undecodable) as error:
        return str(error)
    return ""


@lru_cache(maxsize=DECODERS_MAX)
def _decoder(body_format: BodyFormat) -> Decoder:
    try:
        return _plugin(body_format.name).decoder(body_format.schema)
    except (SchemaError, Undecodable) as error:
        return _failing(str(error)[:WHY_CHARS_MAX])


def _failing(why: str) -> Decoder:
    def decoder(_: bytes) -> Any:
        raise Undecodable(why)

    return decoder


@lru_cache(maxsize=DECODERS_MAX)
def _found(name: str) -> Any:
    if name in _BUILT_IN:
        return import_module(_BUILT_IN[name])
    found = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    return None if found is None else found.load()


def _plugin(name: str) -> Plugin:
    try:
        plugin = _found(name)
    except ImportError as error:
        hint = " Install pyqmq[formats]." if name in _BUILT_IN else ""
        raise Undecodable(f"format {name} can't be loaded on this machine: {error}.{hint}") from error
    if plugin is None:
        known = ", ".join([FORMAT_JSON, *_BUILT_IN, *sorted(entry_points(group=ENTRY_POINTS).names)])
        raise Undecodable(f"format {name[:NAME_CHARS_MAX]!r} is unknown on this machine; known are {known}")
    found: Plugin = plugin
    return found
