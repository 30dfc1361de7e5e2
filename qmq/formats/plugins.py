"""The plug-ins of formats: msgpack and Avro, and those of packages that are installed beside nodes and console."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Protocol

from qmq.formats.values import Undecodable

FORMAT_JSON = "json"
"""Of bodies that need no decoding."""
ENTRY_POINTS = "qmq.body_formats"
"""The group of entry points that packages declare plug-ins in."""
BODY_BYTES_MAX = 1 << 20
"""Larger bodies are not decoded."""
SCHEMA_CHARS_MAX = 10_000
NAME_CHARS_MAX = 40
PLUGINS_MAX = 64
"""Plug-ins that a process keeps, and decoders, for as many formats with their schemas."""
WHY_CHARS_MAX = 300

Decoder = Callable[[bytes], Any]
Encoder = Callable[[Any, bytes], bytes]
"""From an edited value of JSON, and the body as it was before, to the bytes of the edited body. Raises Unencodable."""

_BUILT_IN = {"msgpack": "qmq.formats.msgpack_format", "avro": "qmq.formats.avro_format"}


class Plugin(Protocol):
    """A format of bodies: a module, or an object, that an entry point of group `qmq.body_formats` names.

    It may have a function `encoder(schema)` that returns an `Encoder`. Without it bodies can't be edited.
    """

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


def plugin_of(name: str) -> Plugin:
    """Return the plug-in of a format. Raises Undecodable: there is none here, or it can't be loaded."""
    try:
        plugin = _loaded(name)
    except ImportError as error:
        hint = " Install pyqmq[formats]." if name in _BUILT_IN else ""
        raise Undecodable(f"format {name} can't be loaded on this machine: {error}.{hint}") from error
    if plugin is None:
        known = ", ".join([FORMAT_JSON, *_BUILT_IN, *sorted(entry_points(group=ENTRY_POINTS).names)])
        raise Undecodable(f"format {name[:NAME_CHARS_MAX]!r} is unknown on this machine; known are {known}")
    found: Plugin = plugin
    return found


@lru_cache(maxsize=PLUGINS_MAX)
def _loaded(name: str) -> Any:
    if name in _BUILT_IN:
        return import_module(_BUILT_IN[name])
    found = next(iter(entry_points(group=ENTRY_POINTS, name=name)), None)
    return None if found is None else found.load()
