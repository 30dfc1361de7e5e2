"""Bodies of edited copies: the form of the message that was edited."""

import json
from collections.abc import Mapping
from typing import Any

import msgpack
import pytest

from console.cluster.edited_bodies import as_stored
from metaserver.errors import ChangeRefused
from qmq.client.bodies import Json, body_bytes, encode_body
from qmq.formats import BodyFormat
from qmq.protocol.messages import KEY_CONTENT_ENCODING, KEY_CONTENT_TYPE

MSGPACK = BodyFormat("msgpack")
ORDER = msgpack.packb({"id": "A-17", "total": 5})
COMPRESSED = encode_body(msgpack.packb({"id": "A-17", "note": "x" * 5_000}), compress_above=100)


def edited(
    before: Mapping[str, str], change: Mapping[str, str], body_format: BodyFormat | None = None
) -> dict[str, str]:
    properties, form = as_stored(change, {"properties": dict(before) | {"qmq_times": "1", "n": "1"}}, body_format)
    assert not properties.keys() & form.keys()
    return properties | form


def problem(before: Mapping[str, str], text: str, body_format: BodyFormat | None = None) -> Any:
    with pytest.raises(ChangeRefused) as refused:
        edited(before, {"data": text}, body_format)
    assert refused.value.code == "message.invalid"
    return refused.value.fields["properties"]


def test_an_edited_body_is_in_the_format_again() -> None:
    found = edited(encode_body(ORDER), {"data": '{"id": "A-18", "total": 5}', "n": "2"}, MSGPACK)
    assert msgpack.unpackb(body_bytes(found) or b"") == {"id": "A-18", "total": 5}
    assert found.pop("data")
    assert found == {"n": "2", KEY_CONTENT_TYPE: "application/octet-stream", KEY_CONTENT_ENCODING: "base64"}


def test_a_body_that_was_not_changed_keeps_its_bytes() -> None:
    for before in (encode_body(ORDER), COMPRESSED, encode_body(msgpack.packb({"bytes": b"x"}))):
        shown = json.dumps(_plain(msgpack.unpackb(body_bytes(before) or b"")), separators=(",", ":"))
        assert edited(before, {"data": shown, "n": "2"}, MSGPACK) == before | {"n": "2"}


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    return {key: "eA==" if item == b"x" else item for key, item in value.items()}


def test_a_compressed_body_is_encoded_in_parts_and_without_compression() -> None:
    found = edited(COMPRESSED, {"data": json.dumps({"id": "A-18", "note": "y" * 20_000})}, MSGPACK)
    assert found[KEY_CONTENT_ENCODING] == "base64"
    assert {"data#part0", "data#part1"} <= found.keys()
    assert msgpack.unpackb(body_bytes(found) or b"")["note"] == "y" * 20_000


def test_texts_and_json_keep_their_content_type() -> None:
    assert edited(encode_body("text"), {"data": "other"}, MSGPACK) == {"data": "other"}
    before = encode_body(Json({"a": 1}))
    assert edited(before, {"data": '{"a": 2}'}) == {"data": '{"a": 2}', KEY_CONTENT_TYPE: "application/json"}
    assert edited(before, {"n": "2"}) == {"n": "2"}, "no body, nothing that describes it"
    assert edited({"n": "1"}, {"data": "new"}) == {"data": "new"}


def test_bytes_that_are_not_decoded_stay_base64() -> None:
    before = encode_body(b"\xc1")
    for body_format in (None, MSGPACK):
        assert body_bytes(edited(before, {"data": "AAE="}, body_format)) == b"\0\1"
        assert edited(before, {"data": before["data"]}, body_format) == before
    assert problem(before, '{"a": 1}') == (
        "data: the body is damaged: it is not base64 (Only base64 data is allowed). The body of the message is base64"
    )
    assert "can't be decoded as msgpack here: " in problem(before, '{"a": 1}', MSGPACK)


def test_what_the_format_does_not_allow_names_the_field() -> None:
    assert problem(encode_body(ORDER), "{", MSGPACK).startswith("data: the body is not JSON: ")
    found = problem(encode_body(msgpack.packb({"photo": b"x"})), "{}", MSGPACK)
    assert found.startswith("data: field photo is bytes in the message")
    assert found.endswith("(the copy is encoded as msgpack again)")


def test_a_message_that_cannot_be_read_is_not_edited() -> None:
    with pytest.raises(ChangeRefused, match="can't be read: damaged"):
        as_stored({"data": "x"}, {"withheld": True, "reason": "damaged"}, None)
