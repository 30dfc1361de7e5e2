"""Avro, a plug-in of formats: one value in binary encoding, without a header, by the subject's schema (JSON).

The library reads as many values as a body says, and recurses as deeply as it nests. So a schema must bound both: it may not refer
to itself, and each type takes at least one byte. Then a body has no more values than bytes, times the levels of its schema.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import fastavro.read
from fastavro.schema import SchemaParseException

from qmq.formats.avro_encoding import DECIMAL, DECIMAL_BYTES_MAX, DECIMAL_DIGITS_MAX, Conversion
from qmq.formats.values import DEPTH_MAX, SchemaError, Undecodable

SCALE_MAX = 76
TYPES_MAX = 1_000
"""Types of a schema, each counted wherever it is used."""

_TIMES = frozenset(
    {
        "date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros",
        "local-timestamp-millis", "local-timestamp-micros", "uuid",
    }
)  # fmt: skip
"""Logical types whose values are bounded. Of others the plain value is shown."""
_PRIMITIVES = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})


def decoder(schema: str) -> Callable[[bytes], Any]:
    """Return a function that decodes bodies. Raises SchemaError."""
    parsed, _ = _parsed(schema)

    def decoded(data: bytes) -> Any:
        stream = BytesIO(data)
        value = fastavro.schemaless_reader(stream, parsed, None)
        if left := len(data) - stream.tell():
            raise Undecodable(f"{left} bytes are left behind the value: it was written with another schema")
        return value

    return decoded


def encoder(schema: str) -> Callable[[Any, bytes], bytes]:
    """Return a function that encodes edited bodies. Raises SchemaError."""
    parsed, named = _parsed(schema)
    conversion = Conversion(named)

    def encoded(value: Any, _: bytes) -> bytes:
        stream = BytesIO()
        fastavro.schemaless_writer(stream, parsed, conversion.converted(value, parsed))
        return stream.getvalue()

    return encoded


def _parsed(schema: str) -> tuple[Any, dict[str, Any]]:
    """The schema, and its named types by their full names. Raises SchemaError."""
    if not schema:
        raise SchemaError("format avro needs a schema")
    named: dict[str, Any] = {}
    try:
        return fastavro.parse_schema(_Schema().bounded(json.loads(schema)), named), named
    except SchemaError:
        raise
    except RecursionError as error:
        raise SchemaError("the schema is nested too deeply") from error
    except (ValueError, TypeError, AttributeError, KeyError, SchemaParseException) as error:
        raise SchemaError(f"the schema is not an Avro schema: {error}") from error


def _decimal(data: bytes, writer_schema: Any = None, reader_schema: Any = None) -> Decimal:
    if len(data) > DECIMAL_BYTES_MAX:
        raise Undecodable(f"it has a decimal of {len(data)} bytes; at most {DECIMAL_BYTES_MAX} are decoded")
    # Arithmetic would round it to the digits of the thread's context.
    return Decimal(f"{int.from_bytes(data, 'big', signed=True)}E-{writer_schema['scale']}")


fastavro.read.LOGICAL_READERS[f"bytes-{DECIMAL}"] = _decimal
fastavro.read.LOGICAL_READERS[f"fixed-{DECIMAL}"] = _decimal


class _Schema:
    """Copies a schema, and checks that what it describes is bounded."""

    def __init__(self) -> None:
        self._named: dict[str, int] = {}
        """Named types that are complete, and how many types each contains."""
        self._open: set[str] = set()
        """Those that are being read."""

    def bounded(self, schema: Any) -> Any:
        """Return the schema with the logical types that are shown. Raises SchemaError."""
        copied, _ = self._copy(schema, "", 1, in_union=False)
        return copied

    def _copy(self, schema: Any, namespace: str, depth: int, *, in_union: bool) -> tuple[Any, int]:
        """A copy, and how many types it contains."""
        if depth > DEPTH_MAX:
            raise SchemaError(f"the schema is nested deeper than {DEPTH_MAX} levels")
        if isinstance(schema, str):
            return schema, self._size(schema, namespace, in_union=in_union)
        if isinstance(schema, list):
            if not schema:
                raise SchemaError("the schema has a union without types")
            return self._several(schema, namespace, depth, in_union=True)
        if not isinstance(schema, Mapping):
            raise SchemaError(f"the schema has {json.dumps(schema)[:60]} where a type belongs")
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self._copy(kind, namespace, depth + 1, in_union=in_union)
        if kind in ("record", "error", "enum", "fixed"):
            return self._copy_named(schema, kind, namespace, depth)
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            copied, size = self._copy(schema.get(inner), namespace, depth + 1, in_union=False)
            return {"type": kind, inner: copied}, self._counted(size + 1)
        return {"type": kind, **_logical(schema)}, self._size(kind, namespace, in_union=in_union)

    def _copy_named(self, schema: Mapping[str, Any], kind: str, namespace: str, depth: int) -> tuple[Any, int]:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"the schema has a type {kind} without a name")
        namespace = schema.get("namespace", namespace) if "." not in name else name.rpartition(".")[0]
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        kept = {key: schema[key] for key in ("type", "name", "namespace", "size", "symbols") if key in schema}
        if kind == "enum":
            self._named[full] = 1
            return kept, 1
        if kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or not size > 0:
                raise SchemaError(f"type {full} has size {size!r}; must be at least 1")
            self._named[full] = 1
            return {**kept, **_logical(schema)}, 1
        fields = schema.get("fields")
        if not isinstance(fields, list) or not fields or not all(isinstance(field, Mapping) for field in fields):
            raise SchemaError(f"record {full} has no fields")
        self._open.add(full)
        types, size = self._several([field.get("type") for field in fields], namespace, depth, in_union=False)
        self._open.discard(full)
        self._named[full] = size
        named = [{"name": field.get("name"), "type": type_} for field, type_ in zip(fields, types, strict=True)]
        return {**kept, "fields": named}, size

    def _several(self, types: list[Any], namespace: str, depth: int, *, in_union: bool) -> tuple[list[Any], int]:
        copied, total = [], 1
        for type_ in types:
            one, size = self._copy(type_, namespace, depth + 1, in_union=in_union)
            copied.append(one)
            total = self._counted(total + size)
        return copied, total

    def _size(self, name: str, namespace: str, *, in_union: bool) -> int:
        if name == "null":
            if not in_union:
                raise SchemaError('type "null" stands outside of a union: it takes no bytes')
            return 1
        if name in _PRIMITIVES:
            return 1
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        if full in self._open or name in self._open:
            raise SchemaError(f"type {full} refers to itself: such bodies could be nested without a limit")
        found = self._named.get(full) or self._named.get(name)
        if found is None:
            raise SchemaError(f"type {name[:60]!r} is unknown, or is used before it is defined")
        return found

    @staticmethod
    def _counted(size: int) -> int:
        if size > TYPES_MAX:
            raise SchemaError(f"the schema describes more than {TYPES_MAX:,} types")
        return size


def _logical(schema: Mapping[str, Any]) -> dict[str, Any]:
    logical = schema.get("logicalType")
    if logical == "decimal":
        scale = schema.get("scale", 0)
        if isinstance(scale, int) and 0 <= scale <= SCALE_MAX:
            precision = schema.get("precision")
            digits = min(precision, DECIMAL_DIGITS_MAX) if isinstance(precision, int) else DECIMAL_DIGITS_MAX
            return {"logicalType": DECIMAL, "scale": scale, "precision": digits}
    return {"logicalType": logical} if logical in _TIMES else {}
