"""Masking rules: what they name, and what is shown instead."""

import json
from base64 import b64encode
from typing import Any

import pytest

from qmq.client.bodies import Json, encode_body
from qmq.protocol import content_encoding
from qmq.protocol.masking import HIDDEN, NO_MASKS, Masks
from qmq.protocol.masking import json_body as bodies
from qmq.protocol.masking import masks as limits
from qmq.protocol.masking.json_body import Why
from qmq.protocol.masking.rules import STEPS_MAX, path_problem, property_problem
from qmq.protocol.messages import KEY_ATTEMPT, KEY_CONTENT_ENCODING, KEY_CONTENT_TYPE, RESERVED_KEYS, set_large_string

SECRET = "4111111111111111"


def masks(*rules: dict[str, Any], key: bytes = b"k") -> Masks:
    return Masks.of([{"properties": [], "json_paths": [], "how": "hide"} | rule for rule in rules], key)


def shown(properties: dict[str, str], *rules: dict[str, Any]) -> dict[str, str]:
    return masks(*rules).apply(properties)[0]


def body(value: Any, *paths: str, how: str = "hide") -> Any:
    return json.loads(shown({"data": json.dumps(value)}, {"json_paths": list(paths), "how": how})["data"])


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("card", ["card"], ["cards", "Card", "a card", "car"]),
        ("card_*", ["card_", "card_number"], ["card", "a_card_number"]),
        ("*_id", ["_id", "user_id"], ["user_ids"]),
        ("a*b*c", ["abc", "a1b2c", "abbcc"], ["acb", "ab", "xabc"]),
        ("a*a", ["aa", "aba"], ["a"]),
        ("*", ["x", "data"], []),
        ("**", ["x"], []),
        ("a.c", ["a.c"], ["abc"]),
    ],
)
def test_patterns_of_properties(pattern: str, names: list[str], others: list[str]) -> None:
    found = shown(dict.fromkeys([*names, *others], SECRET), {"properties": [pattern]})
    assert {name: value == HIDDEN for name, value in found.items()} == {
        **dict.fromkeys(names, True),
        **dict.fromkeys(others, False),
    }


def test_a_pattern_with_many_stars_takes_no_exponential_time() -> None:
    assert shown({"a" * 30_000: "x"}, {"properties": ["a*" * 90 + "b"]}) == {"a" * 30_000: "x"}


def test_what_the_protocol_needs_is_never_masked() -> None:
    properties = dict.fromkeys(RESERVED_KEYS, "7") | {"traceparent": "00-1"}
    found = shown(properties, {"properties": ["*"]})
    assert found == dict.fromkeys(RESERVED_KEYS, "7") | {"traceparent": HIDDEN}
    assert "never masked" in property_problem(KEY_ATTEMPT)


@pytest.mark.parametrize(
    ("how", "value", "expected"),
    [
        ("hide", SECRET, HIDDEN),
        ("last4", SECRET, HIDDEN + "1111"),
        ("last4", "1234567", HIDDEN),
        ("last4", "12345678", HIDDEN + "5678"),
        ("last4", "", HIDDEN),
    ],
)
def test_what_is_shown_instead(how: str, value: str, expected: str) -> None:
    assert shown({"card": value}, {"properties": ["card"], "how": how}) == {"card": expected}


def test_hashes_are_equal_for_equal_values_and_one_key() -> None:
    rule = {"properties": ["*"], "json_paths": [], "how": "hash"}
    one, same, other = ({"a": SECRET}, {"b": SECRET}, {"a": SECRET + "0"})
    assert masks(rule).apply(one)[0]["a"] == masks(rule).apply(same)[0]["b"]
    assert masks(rule).apply(one)[0]["a"] != masks(rule).apply(other)[0]["a"]
    assert masks(rule).apply(one)[0]["a"] != masks(rule, key=b"another").apply(one)[0]["a"]
    assert SECRET not in masks(rule).apply(one)[0]["a"]


def test_rules_apply_to_the_result_of_those_before() -> None:
    last4, hide = ({"properties": ["card"], "how": how} for how in ("last4", "hide"))
    assert shown({"card": SECRET}, last4, hide) == shown({"card": SECRET}, hide, last4) == {"card": HIDDEN}


def test_a_large_text_in_parts_is_masked_as_one() -> None:
    properties: dict[str, str] = {}
    set_large_string(properties, "card", "x" * 20_000 + SECRET)
    assert len(properties) == 3
    assert shown(properties, {"properties": ["card"], "how": "last4"}) == {"card": HIDDEN + "1111"}
    del properties["card#part0"]
    assert shown(properties, {"properties": ["card"]}) == {"card": HIDDEN}, "also without its begin"


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("a", {"a": "s", "b": "s"}, {"a": HIDDEN, "b": "s"}),
        ("$.a", {"a": "s"}, {"a": HIDDEN}),
        ("a.b", {"a": {"b": "s"}, "b": "s"}, {"a": {"b": HIDDEN}, "b": "s"}),
        ("a[*].b", {"a": [{"b": "s"}, {"c": 1}, 3]}, {"a": [{"b": HIDDEN}, {"c": 1}, 3]}),
        ("a[1]", {"a": [1, 2, 3]}, {"a": [1, HIDDEN, 3]}),
        ("[0].x", [{"x": 1}, {"x": 2}], [{"x": HIDDEN}, {"x": 2}]),
        ("$[*]", [1, [2]], [HIDDEN, HIDDEN]),
        ("a.*", {"a": {"b": 1, "c": [2]}}, {"a": {"b": HIDDEN, "c": HIDDEN}}),
        ('["a.b"]', {"a.b": "s", "a": {"b": "s"}}, {"a.b": HIDDEN, "a": {"b": "s"}}),
        ("a", {"a": {"b": [1]}}, {"a": HIDDEN}),
        ("a", {"a": None}, {"a": HIDDEN}),
        ("a", {"a": True}, {"a": HIDDEN}),
        ("nothing", {"a": 1}, {"a": 1}),
        ("a[9]", {"a": [1]}, {"a": [1]}),
        ("a[0]", {"a": {"0": 1}}, {"a": {"0": 1}}),
        ("a.b", {"a": "text"}, {"a": "text"}),
        ("a", "text", "text"),
    ],
)
def test_paths(path: str, value: Any, expected: Any) -> None:
    assert body(value, path) == expected


def test_numbers_in_a_body_keep_their_end() -> None:
    assert body({"a": 1234567890, "b": 12, "c": True}, "*", how="last4") == {
        "a": HIDDEN + "7890",
        "b": HIDDEN,
        "c": HIDDEN,
    }


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("", "wrong at '.'"),
        ("$", "whole body"),
        ("a..b", "wrong at '..b'"),
        ("a[", "wrong at '['"),
        ("a[-1]", "wrong at '[-1]'"),
        ("a[?(@.b)]", "wrong at"),
        ("$..a", "wrong at"),
        ("a[1:2]", "wrong at"),
        (".".join("a" * (STEPS_MAX + 1)), f"{STEPS_MAX + 1} steps"),
    ],
)
def test_what_is_no_path(path: str, problem: str) -> None:
    assert problem in path_problem(path)


def marks_of(properties: dict[str, str], *paths: str) -> list[tuple[str, str, Why | None]]:
    found, marks, _ = masks({"json_paths": list(paths)}).apply(properties)
    assert SECRET not in str(found)
    return [(mark.property, mark.rule, mark.why) for mark in marks]


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (SECRET + "x", Why.NOT_JSON),
        ('{"a": ' + SECRET, Why.NOT_JSON),
        ("", Why.NOT_JSON),
        ("9" * 5_000 + SECRET, Why.NOT_JSON),
        ("[" * (bodies.DEPTH_MAX + 1) + SECRET + "]" * (bodies.DEPTH_MAX + 1), Why.TOO_DEEP),
        ("[" * 20_000 + SECRET, Why.TOO_DEEP),
        ('["' + "\\" * 2 + '[", ' + "[" * 200 + SECRET, Why.TOO_DEEP),
        ('"' + SECRET + "x" * bodies.BODY_BYTES_MAX + '"', Why.TOO_LARGE),
        ('"' + SECRET + "é" * (bodies.BODY_BYTES_MAX // 2) + '"', Why.TOO_LARGE),
        ("[" + "1," * 500_000 + SECRET + "]", Why.TOO_LARGE),
    ],
)
def test_a_body_that_cannot_be_masked_is_hidden_with_the_reason(data: str, why: Why) -> None:
    assert marks_of({"data": data}, "[*]", "a.b") == [("data", "[*]", why)]


def test_brackets_in_texts_do_not_count_as_depth() -> None:
    value = {"a": '["\\' + "[" * 500, "b": "s"}
    assert body(value, "b") == value | {"b": HIDDEN}


def test_a_body_in_base64_is_decoded() -> None:
    packed = {"data": b64encode(json.dumps({"a": SECRET}).encode()).decode(), KEY_CONTENT_ENCODING: "base64"}
    assert shown(packed, {"json_paths": ["a"]}) == {"data": f'{{"a": "{HIDDEN}"}}'}
    assert marks_of(packed | {"data": "%"}, "a") == [("data", "a", Why.NOT_JSON)]
    assert marks_of(packed | {"data": b64encode(b"\xff").decode()}, "a") == [("data", "a", Why.NOT_JSON)]
    assert marks_of(packed | {KEY_CONTENT_ENCODING: "br"}, "a") == [("data", "a", Why.COMPRESSED)]


def test_a_compressed_body_is_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = encode_body(Json({"a": SECRET, "b": "x" * 1_000}), compress_above=100)
    assert packed[KEY_CONTENT_ENCODING] == "zstd+base64"
    found = shown(packed, {"json_paths": ["a"]})
    assert json.loads(found["data"]) == {"a": HIDDEN, "b": "x" * 1_000}
    assert KEY_CONTENT_ENCODING not in found
    large = encode_body(Json([SECRET, "x" * bodies.BODY_BYTES_MAX]), compress_above=100)
    assert marks_of(large, "[0]") == [("data", "[0]", Why.TOO_LARGE)]
    assert marks_of(packed | {"data": "AAAA"}, "a") == [("data", "a", Why.NOT_JSON)]
    monkeypatch.setattr(content_encoding, "zstd_library", lambda: None)
    assert marks_of(packed, "a") == [("data", "a", Why.COMPRESSED)]


def test_a_name_that_occurs_twice_does_not_carry_a_value_past_its_rule() -> None:
    text = f'{{"a": {{"b": "{SECRET}"}}, "a": 1}}'
    assert shown({"data": text, KEY_CONTENT_TYPE: "application/json"}, {"json_paths": ["a.b"]}) == {
        "data": '{"a": 1}',
        KEY_CONTENT_TYPE: "application/json",
    }


def test_half_of_a_surrogate_pair_can_be_sent_on() -> None:
    found = shown({"data": '{"a": "\\ud800", "b": 1}'}, {"json_paths": ["b"]})["data"]
    assert json.loads(found.encode()) == {"a": "\ud800", "b": HIDDEN}


def test_the_marks_name_what_was_masked_and_why() -> None:
    rules = masks({"properties": ["card*"], "json_paths": ["a", "nothing"], "how": "hash"})
    found, marks, _ = rules.apply({"card": "1", "x": "2", "data": '{"a": 1}'})
    assert [(mark.property, mark.rule, mark.how) for mark in marks] == [
        ("card", "card*", "hash"),
        ("data", "a", "hash"),
    ]
    assert found["x"] == "2"


def test_a_masked_body_hides_its_paths_too() -> None:
    found, marks, _ = masks({"properties": ["data"], "json_paths": ["a"]}).apply({"data": SECRET})
    assert (found, [mark.why for mark in marks]) == ({"data": HIDDEN}, [None])


def test_rules_that_match_nothing_or_everything() -> None:
    properties = {"a": "1", "data": "not JSON"}
    assert masks({"properties": ["nothing"]}).apply(properties) == (properties, [], None)
    assert shown(properties, {"properties": ["*"]}) == dict.fromkeys(properties, HIDDEN)
    assert NO_MASKS.apply(properties) == (properties, [], None)


def test_of_a_message_with_too_many_properties_all_are_hidden() -> None:
    many = {f"p{n}": SECRET for n in range(limits.PROPERTIES_MAX)}
    assert len(shown(many, {"properties": ["x"]})) == limits.PROPERTIES_MAX
    found, (mark,), _ = masks({"properties": ["x"]}).apply(many | {KEY_ATTEMPT: "2"})
    assert (found, mark.property, mark.why) == ({KEY_ATTEMPT: "2"}, "*", Why.TOO_LARGE)


def test_which_values_may_be_shown_other_than_they_are() -> None:
    rules = masks({"properties": ["card*"]}, {"properties": [], "json_paths": ["a"]})
    names = ["card", "card#part0", "data", "data#part3", "x", KEY_ATTEMPT]
    assert [name for name in names if rules.may_change(name)] == names[:4]
    assert not masks({"properties": ["*"]}).may_change(KEY_ATTEMPT)


def test_requests_contain_the_rules() -> None:
    rules = masks({"properties": ["a*"], "json_paths": ["$.é"], "how": "hash"}, key=bytes(32))
    text = rules.encode()
    assert text is not None
    assert Masks.decode(text) == rules
    assert NO_MASKS.encode() is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "Expecting value"),
        ("[]", "object"),
        ("{}", "key and rules"),
        ('{"key": "", "rules": [1]}', "object"),
        ('{"key": "", "rules": [], "x": 1}', "key and rules"),
        ('{"key": "", "rules": [{"properties": [], "json_paths": [], "how": "hide", "roles": []}]}', "each with"),
        ('{"key": "", "rules": [{"properties": "a", "json_paths": [], "how": "hide"}]}', "each with"),
        ('{"key": "", "rules": [{"properties": [1], "json_paths": [], "how": "hide"}]}', "short text"),
        ('{"key": "", "rules": [{"properties": [], "json_paths": ["$"], "how": "hide"}]}', "whole body"),
        ('{"key": "", "rules": [{"properties": [], "json_paths": [], "how": "blur"}]}', "blur"),
        ('{"key": "x", "rules": []}', "hex"),
        (json.dumps({"key": "00" * 65, "rules": []}), "65 bytes"),
        ("[" * 2_000, "object|Expecting value"),  # too deep up to Python 3.12
        (" " * 30_000, "30000 characters"),
    ],
)
def test_what_is_not_understood_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Masks.decode(text)
