"""A schema with the kinds of types that Avro has, and a value of it."""

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import fastavro

from qmq.formats import BodyFormat

MSGPACK = BodyFormat("msgpack")
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "shop.Order",
    "doc": "what is not needed is left out",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {
            "name": "lines",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Line",
                    "fields": [
                        {"name": "sku", "type": ["null", "string"]},
                        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
                    ],
                },
            },
        },
        {"name": "last", "type": ["null", "Line"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "weights", "type": {"type": "map", "values": "double"}},
    ],
}
AVRO = BodyFormat("avro", json.dumps(ORDER))
VALUE = {
    "id": "A-17",
    "total": Decimal("12.50"),
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "lines": [{"sku": "x", "raw": b"\0\1"}, {"sku": None, "raw": b"ab"}],
    "last": {"sku": "y", "raw": b"cd"},
    "kind": "OLD",
    "weights": {"kg": 1.5},
}


def avro(value: Any, schema: Any = ORDER) -> bytes:
    """A value as fastavro writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()
