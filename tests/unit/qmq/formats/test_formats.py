"""Bodies in formats other than JSON: what they become, what is refused, and that no body costs more than the limits."""

import json
from base64 import b64encode
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import msgpack
import pytest

from qmq.client.bodies import encode_body
from qmq.formats import BODY_BYTES_MAX, BodyFormat, SchemaError, Undecodable, decode, format_problem, plugins, values
from qmq.protocol.masking import HIDDEN, Decoding, Masks
from qmq.protocol.messages import Message
from qmq_node.filters import Content, compile_filter
from tests.unit.qmq.formats.samples import AVRO, MSGPACK, ORDER, VALUE, avro


def why(body_format: BodyFormat, data: bytes) -> str:
    with pytest.raises(Undecodable) as raised:
        decode(body_format, data)
    return str(raised.value)


def test_avro_becomes_json() -> None:
    assert json.loads(decode(AVRO, avro(VALUE))) == {
        "id": "A-17",
        "total": "12.50",
        "at": "2026-01-01T00:00:00+00:00",
        "lines": [{"sku": "x", "raw": "AAE="}, {"sku": None, "raw": "YWI="}],
        "last": {"sku": "y", "raw": "Y2Q="},
        "kind": "OLD",
        "weights": {"kg": 1.5},
    }


def test_msgpack_becomes_json() -> None:
    value = {
        "a": [1, -(1 << 63), (1 << 64) - 1, 1.5, None, True, "é"],
        "raw": b"\0\xff",
        "at": msgpack.Timestamp(1_767_225_600, 500_000_000),
        "odd": [float("nan"), float("inf")],
        "ext": msgpack.ExtType(5, b"x"),
        7: "a number as key",
        # A key that a dict could not have: keys of bodies are not compared, so their hashes cost nothing.
        (1, 2): "a list as key",
    }
    assert json.loads(decode(MSGPACK, msgpack.packb(value))) == {
        "a": [1, -(1 << 63), (1 << 64) - 1, 1.5, None, True, "é"],
        "raw": "AP8=",
        "at": "2026-01-01T00:00:00.500000+00:00",
        "odd": ["nan", "inf"],
        "ext": {"type": 5, "data": "eA=="},
        "7": "a number as key",
        "[1, 2]": "a list as key",
    }


def test_text_that_is_not_utf8_is_shown_with_replacements() -> None:
    assert json.loads(decode(MSGPACK, b"\xa2a\xff")) == "a\ufffd"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (msgpack.packb({"a": "text"})[:-1], "incomplete"),
        (b"", "incomplete"),
        (msgpack.packb(1) + b"\1", "extra data"),
        (b"\xc1", "ValueError|FormatError"),
        (b"\x91" * 5_000 + b"\1", "StackError"),
        (b"\x91" * (values.DEPTH_MAX + 1) + b"\1", "deeper than 100 levels"),
        (b"\xdd\xff\xff\xff\xff", "exceeds"),
        (b"\xdd" + (values.VALUES_MAX).to_bytes(4, "big") + b"\1" * values.VALUES_MAX, "more than 200,000 values"),
        (b"\0" * (8 << 20), "8,388,608 bytes; at most 1,048,576"),
        (msgpack.packb(msgpack.Timestamp(1 << 40, 0)), "OverflowError|ValueError"),
    ],
    ids=[
        "truncated",
        "empty",
        "more",
        "unused code",
        "bomb",
        "deep",
        "claims 4 billion",
        "wide",
        "8 MiB",
        "year 36812",
    ],
)
def test_bad_msgpack_says_why(data: bytes, reason: str) -> None:
    found = why(MSGPACK, data)
    assert any(part in found for part in reason.split("|")), found


@pytest.mark.parametrize(
    ("data", "schema", "reason"),
    [
        (avro(VALUE)[:-1], ORDER, "ends too early"),
        (b"", ORDER, "ends too early"),
        (avro(VALUE) + b"\0", ORDER, "1 bytes are left"),
        (avro("text", "string"), ORDER, ""),
        (avro(VALUE), "string", "left behind"),
        # 2^62 elements that are not there, and a negative number of them.
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f", {"type": "array", "items": "int"}, "ends too early"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f\0", {"type": "array", "items": "int"}, "ends too early"),
        (b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7fabc", "string", "Expected|ends too early"),
        (b"\0" * (8 << 20), ORDER, "at most 1,048,576"),
        (b"\x80\x80\x10" + b"\1" * (128 << 10), {"type": "bytes", "logicalType": "decimal"}, "131072 bytes|left"),
        (avro(1 << 60, "long"), {"type": "long", "logicalType": "timestamp-millis"}, "OverflowError"),
    ],
    ids=["cut", "empty", "more", "other", "wrong schema", "2^62", "negative", "long text", "8 MiB", "decimal", "time"],
)
def test_bad_avro_says_why(data: bytes, schema: Any, reason: str) -> None:
    found = why(BodyFormat("avro", json.dumps(schema)), data)
    assert found
    assert any(part in found for part in reason.split("|")), found


def doubling(levels: int) -> Any:
    """A record that contains each of the records before it twice."""
    schema: Any = {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


def nested(levels: int) -> Any:
    schema: Any = "int"
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("", "needs a schema"),
        ("{", "not an Avro schema"),
        ("[" * 5_000, "nested too deeply|not an Avro schema"),  # too deep up to Python 3.12
        ('"order"', "'order' is unknown"),
        ("5", "where a type belongs"),
        ("[]", "union without types"),
        ('"null"', "takes no bytes"),
        ('{"type": "array", "items": "null"}', "takes no bytes"),
        ('{"type": "array", "items": {"type": "fixed", "name": "f", "size": 0}}', "size 0"),
        ('{"type": "record", "name": "r", "fields": []}', "has no fields"),
        ('{"type": "record", "fields": [{"name": "a", "type": "int"}]}', "without a name"),
        ('{"type": "record", "name": "r", "fields": [{"name": "r", "type": ["null", "r"]}]}', "r refers to itself"),
        (
            '{"type": "record", "name": "n.r", "fields": [{"name": "a", "type": {"type": "array", "items": "r"}}]}',
            "n.r refers to itself",
        ),
        (json.dumps(doubling(10)), "more than 1,000 types"),
        (json.dumps(nested(values.DEPTH_MAX)), "deeper than 100 levels"),
    ],
)
def test_a_schema_that_does_not_bound_its_bodies_is_refused(schema: str, problem: str) -> None:
    found = format_problem("avro", schema)
    assert any(part in found for part in problem.split("|")), found
    assert why(BodyFormat("avro", schema), b"\0") == found


def test_formats_that_are_not_there_say_which_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (
        format_problem("json", "") == format_problem("msgpack", "") == format_problem("avro", json.dumps(ORDER)) == ""
    )
    assert format_problem("msgpack", "{}") == "format msgpack takes no schema"
    assert format_problem("json", "{}") == "format json takes no schema"
    assert "'cbor' is unknown on this machine; known are json, msgpack, avro" in format_problem("cbor", "")
    monkeypatch.setitem(plugins._BUILT_IN, "avro", "qmq.formats.nothing")
    plugins._loaded.cache_clear()
    assert "Install pyqmq[formats]." in format_problem("avro", "{}")
    plugins._loaded.cache_clear()


class Words:
    """A plug-in as the documentation has it: words, separated as the schema says."""

    @staticmethod
    def decoder(schema: str) -> Any:
        if len(schema) > 1:
            raise SchemaError("the schema is the separator, one character")
        return lambda data: data.decode().split(schema or " ")


def test_a_package_adds_a_format(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("words", f"{__name__}:Words", plugins.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda **given: EntryPoints([point]).select(**given))
    plugins._loaded.cache_clear()
    assert format_problem("words", "ab") == "the schema is the separator, one character"
    assert decode(BodyFormat("words", ","), b"a,b") == '["a","b"]'
    assert "UnicodeDecodeError" in why(BodyFormat("words"), b"\xff")
    plugins._loaded.cache_clear()


def shown(body: Any, masks: Masks) -> tuple[dict[str, str], Decoding | None]:
    found = masks.apply(encode_body(body))
    return found.properties, found.decoding


BODY = msgpack.packb({"card": "4111111111111111", "total": 5})


def test_bytes_are_decoded_before_they_are_masked() -> None:
    masks = Masks.of([{"properties": [], "json_paths": ["card"], "how": "hide"}], body_format=MSGPACK)
    found, decoded = shown(BODY, masks)
    assert json.loads(found["data"]) == {"card": HIDDEN, "total": 5}
    assert (found["qmq_contentType"], "qmq_contentEncoding" in found) == ("application/json", False)
    assert decoded == Decoding("msgpack", None)
    content = Content(0, Message("s", "m", encode_body(BODY), (), 0, 0, 0), 10, 0, masks)
    for text, matches in (("body.total > 4", True), (f'body.card == "{HIDDEN}"', True), ("4111111111111111", False)):
        assert compile_filter(text, 0).matches(content) is matches, text


def test_a_body_that_does_not_decode_is_shown_as_it_is_or_hidden_where_paths_are_masked() -> None:
    found, decoded = shown(b"\xc1", Masks(body_format=MSGPACK))
    assert (found["data"], found["qmq_contentEncoding"]) == (b64encode(b"\xc1").decode(), "base64")
    assert decoded is not None
    assert decoded.problem
    masks = Masks.of([{"properties": [], "json_paths": ["card"], "how": "hide"}], body_format=MSGPACK)
    found, decoded = shown(b"\xc1", masks)
    assert found["data"] == HIDDEN


def test_a_compressed_body_is_decompressed_before_it_is_decoded() -> None:
    large = msgpack.packb({"card": "4111111111111111", "note": "x" * 10_000})
    packed = encode_body(large, compress_above=100)
    assert packed["qmq_contentEncoding"] == "zstd+base64"
    masks = Masks.of([{"properties": [], "json_paths": ["card"], "how": "hide"}], body_format=MSGPACK)
    found = masks.apply(packed)
    assert json.loads(found.properties["data"]) == {"card": HIDDEN, "note": "x" * 10_000}
    assert "qmq_contentEncoding" not in found.properties
    assert found.decoding == Decoding("msgpack", None)


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        (
            encode_body(bytes(BODY_BYTES_MAX + 1), compress_above=100),
            f"decompresses to more than {BODY_BYTES_MAX} bytes",
        ),
        ({"data": "KLUv", "qmq_contentEncoding": "zstd+base64"}, "damaged"),
        ({"data": "%", "qmq_contentEncoding": "base64"}, "it is not base64"),
        ({"data": "AAAA", "qmq_contentEncoding": "br"}, "unknown encoding 'br'"),
    ],
)
def test_a_body_that_its_encoding_does_not_fit_is_shown_as_it_is(properties: dict[str, str], reason: str) -> None:
    found = Masks(body_format=MSGPACK).apply(properties)
    assert found.properties == properties
    assert found.decoding is not None
    assert reason in (found.decoding.problem or "")


def test_texts_and_json_are_left_as_they_are() -> None:
    for properties in (
        encode_body("text"),
        encode_body({"a": 1}),
        {"data": "{}", "qmq_contentType": "application/json"},
    ):
        assert Masks(body_format=MSGPACK).apply(properties) == (properties, [], None)
    packed = {"data": "KLUv", "qmq_contentEncoding": "zstd+base64", "qmq_contentType": "application/json"}
    assert Masks(body_format=MSGPACK).apply(packed).decoding is None


def test_a_body_in_parts_is_decoded() -> None:
    found, decoded = shown(msgpack.packb(["x" * 100_000]), Masks(body_format=MSGPACK))
    assert (decoded, json.loads(found["data"])) == (Decoding("msgpack", None), ["x" * 100_000])


def test_requests_contain_the_format() -> None:
    masks = Masks.of([], b"", AVRO)
    text = masks.encode()
    assert text is not None
    assert Masks.decode(text) == masks
    for wrong, problem in (
        ({"name": "avro"}, "name and schema"),
        ({"name": 1, "schema": ""}, "name and schema"),
        ({"name": "avro", "schema": "x" * 10_001}, "10001 characters"),
        ([], "key and rules|name and schema"),
    ):
        with pytest.raises(ValueError, match=problem):
            Masks.decode(json.dumps({"key": "", "rules": [], "body_format": wrong}))
