"""Edited bodies in their formats again: what they become, and what is refused with the field and the reason."""

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any
from uuid import UUID

import msgpack
import pytest

from qmq.formats import BODY_BYTES_MAX, BodyFormat, Unencodable, decode, encode, plugins
from tests.unit.qmq.formats.samples import AVRO, MSGPACK, VALUE, avro

SHOWN: dict[str, Any] = json.loads(decode(AVRO, avro(VALUE)))


def problem(body_format: BodyFormat, value: Any, original: bytes = b"\xc0") -> str:
    with pytest.raises(Unencodable) as raised:
        encode(body_format, value if isinstance(value, str) else json.dumps(value), original)
    return str(raised.value)


def test_what_is_shown_of_an_avro_body_becomes_the_same_bytes() -> None:
    assert encode(AVRO, json.dumps(SHOWN), b"") == avro(VALUE)
    edited = SHOWN | {"total": "-0.07", "lines": [], "last": None, "weights": {"kg": 2, "lb": "nan"}}
    expected = VALUE | {"total": Decimal("-0.07"), "lines": [], "last": None}
    expected["weights"] = {"kg": 2.0, "lb": float("nan")}
    assert encode(AVRO, json.dumps(edited), b"") == avro(expected)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        *(("long", value) for value in (0, -1, 63, 64, -64, -65, (1 << 63) - 1, -(1 << 63))),
        ("int", -(1 << 31)),
        ("boolean", True),
        ("string", "é\n"),
        ("bytes", b"\0\xff"),
        ("float", 0.5),
        ("double", -0.1),
        ("double", float("-inf")),
        (["null", "long", "double"], 7),
        (["double", "long"], 7),
        (["null", "double", "long"], 7.5),
        (["float", "double"], 0.1),
        (["float", "double"], ("float", 0.5)),
        (["boolean", "long"], True),
        ([{"type": "map", "values": "int"}, {"type": "array", "items": "int"}], [1]),
        ({"type": "int", "logicalType": "date"}, date(1969, 12, 31)),
        ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 59, 999_000)),
        ({"type": "long", "logicalType": "time-micros"}, time(0, 0, 0, 1)),
        ({"type": "long", "logicalType": "timestamp-micros"}, datetime(1969, 1, 1, 0, 0, 0, 1, tzinfo=UTC)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime(2026, 1, 1, 12, 0, 0, 7_000)),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, datetime(2026, 1, 1, 12, 0, 0, 7)),
        ({"type": "string", "logicalType": "uuid"}, UUID(int=7)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, Decimal("-99.99")),
        ({"type": "bytes", "logicalType": "decimal"}, (10**76 - 1).to_bytes(32, "big")),
        ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 0}, Decimal(-1)),
        ({"type": "string", "logicalType": "something"}, "x"),
    ],
)  # fmt: skip
def test_each_type_of_avro_is_written_as_its_library_writes_it(schema: Any, value: Any) -> None:
    data = avro(value, schema)
    body_format = BodyFormat("avro", json.dumps(schema))
    assert encode(body_format, decode(body_format, data), data) == data


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"id": 7}, "field id must be a text"),
        ({"total": "1.234"}, 'field total must be a text with a number of at most 2 decimal places and 10 digits, such as "12.5"'),
        ({"total": 1.5}, "field total must be a text with a number"),
        ({"total": "1E+9"}, "field total must be a text with a number"),
        ({"total": "1E+999999999"}, "field total must be a text with a number"),
        ({"total": "many"}, "field total must be a text with a number"),
        ({"at": "2026-01-01T00:00:00"}, "field at must be a time such as 2026-01-31T10:30:00.125+00:00, in milliseconds"),
        ({"at": "2026-01-01T00:00:00.000001+00:00"}, "field at must be a time"),
        ({"at": 17}, "field at must be a time"),
        ({"lines": {}}, "field lines must be a list"),
        ({"lines": [SHOWN["lines"][0], {"sku": "x"}]}, "field lines[1].raw is missing"),
        ({"lines": [{"sku": "x", "raw": "AAE=", "size": 1}]}, "field lines[0].size is not in the schema"),
        ({"lines": [{"sku": "x", "raw": "AA=="}]}, "field lines[0].raw must be 2 bytes in base64"),
        ({"lines": [{"sku": 1, "raw": "AAE="}]}, "field lines[0].sku must be a text"),
        ({"last": 1}, "field last must be an object"),
        ({"kind": "BAD"}, "field kind must be one of NEW, OLD"),
        ({"weights": []}, "field weights must be an object"),
        ({"weights": {"kg": "heavy"}}, 'field weights.kg must be a number, or "nan", "inf" or "-inf"'),
        ({"weights": {"kg": True}}, "field weights.kg must be a number"),
    ],
)  # fmt: skip
def test_what_the_schema_does_not_allow_names_the_field(change: dict[str, Any], reason: str) -> None:
    assert problem(AVRO, SHOWN | change).startswith(reason)


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        ("int", 1 << 31, "the body must be a whole number of 32 bits"),
        ("long", 1 << 63, "the body must be a whole number of 64 bits"),
        ("long", 1.0, "the body must be a whole number of 64 bits"),
        ("long", True, "the body must be a whole number of 64 bits"),
        ("boolean", 1, "the body must be true or false"),
        ("float", 1e300, "the body must be a number"),
        ("bytes", "no base64", "the body must be a text in base64"),
        ("string", "\ud800", "the body must be a text"),
        (["string", "bytes"], "abcd", "the body fits several types of its union (string, bytes), and JSON can't say which"),
        (["null", "int", "string"], [], "the body fits no type of its union (null, int, string)"),
        ({"type": "string", "logicalType": "uuid"}, "x", "the body must be a UUID"),
        ({"type": "bytes", "logicalType": "decimal"}, "9" * 77, "the body must be a text with a number"),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal"}, "128", "the body must be a text with a number"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "2026-01-01T00:00:00+01:00:00.000001", "the body must be a time"),
        ([{"type": "long", "logicalType": "timestamp-millis"}, "long"], 7, "the body has a union with a type twice (long, long)"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_a_type(schema: Any, value: Any, reason: str) -> None:
    assert problem(BodyFormat("avro", json.dumps(schema)), json.dumps(value)).startswith(reason)


def test_an_edited_msgpack_body_has_the_types_of_its_json() -> None:
    original = msgpack.packb({"card": "4111", "total": 5, "rate": 1.0, "tags": ["a", None, True]})
    assert encode(MSGPACK, decode(MSGPACK, original), original) == original
    edited = {"card": "5500", "total": (1 << 64) - 1, "rate": -0.5, "new": {"é": [-(1 << 63)]}}
    assert msgpack.unpackb(encode(MSGPACK, json.dumps(edited), original)) == edited


@pytest.mark.parametrize(
    ("original", "reason"),
    [
        ({"items": [{"photo": b"x"}]}, "field items[0].photo is bytes in the message, which JSON can't state"),
        ({"at": msgpack.Timestamp(1, 0)}, "field at is a time in the message"),
        ({"more": msgpack.ExtType(5, b"x")}, "field more.data is bytes"),
        ({"odd": float("nan")}, "field odd is nan"),
        ({"map": {7: 1}}, "field map has the key '7', which is not text"),
        (b"x", "the body is bytes"),
        (b"\x82\xa1a\1\xa1a\2", "the body has the key 'a', twice"),
        (b"\xa2a\xff", "the body is text that is not UTF-8"),
        (b"\x81\xa1\xff\1", "the body is text that is not UTF-8"),
    ],
)  # fmt: skip
def test_a_msgpack_body_with_values_that_json_cannot_state_is_not_edited(original: Any, reason: str) -> None:
    data = original if isinstance(original, bytes) and original != b"x" else msgpack.packb(original)
    assert problem(MSGPACK, "{}", data).startswith(reason)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "the body is not JSON"),
        ('{"a": {"b": 1, "b": 2}}', "field b occurs twice in its object"),
        ("[NaN]", "the body has NaN, which is no number of JSON"),
        ("[1e999]", "the body has the number 1e999, which is too large"),
        ('{"a": [18446744073709551616]}', "field a[0] must be from -9223372036854775808 to 18446744073709551615"),
        ("[" * 20_000 + "]" * 20_000, "the body is nested too deeply"),
        ("[" * 101 + "]" * 101, "the body can't be encoded: it is nested deeper than 100 levels"),
        (f'"{"x" * BODY_BYTES_MAX}"', "the body can't be encoded: it has 1,048,581 bytes"),
        ('"\\ud800"', "the body can't be encoded: UnicodeEncodeError"),
    ],
)  # fmt: skip
def test_text_that_is_no_body(text: str, reason: str) -> None:
    assert problem(MSGPACK, text).startswith(reason)


class Words:
    """A plug-in that can't encode."""

    @staticmethod
    def decoder(schema: str) -> Any:
        return lambda data: data.decode().split(schema or " ")


class Editable(Words):
    """One that can."""

    @staticmethod
    def encoder(schema: str) -> Any:
        return lambda value, _: (schema or " ").join(value).encode()


@pytest.mark.parametrize("kind", ["Words", "Editable"])
def test_a_plug_in_says_whether_bodies_can_be_edited(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("words", f"{__name__}:{kind}", plugins.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda **given: EntryPoints([point]).select(**given))
    plugins._loaded.cache_clear()
    try:
        if kind == "Editable":
            assert encode(BodyFormat("words", ","), '["a", "b"]', b"a") == b"a,b"
            assert problem(BodyFormat("words"), "[1]").startswith("the body can't be encoded: TypeError")
        else:
            expected = "the body can't be edited: the plug-in of format words has no encoder"
            assert problem(BodyFormat("words"), "[]") == expected
    finally:
        plugins._loaded.cache_clear()


def test_a_format_that_is_not_there_encodes_nothing() -> None:
    assert problem(BodyFormat("nothing"), "{}").startswith("the body can't be encoded: format 'nothing' is unknown")
    assert problem(BodyFormat("avro"), "{}") == "the body can't be encoded: format avro needs a schema"
