"""Definitions of fields: what they refuse, what they store, and the schema they give."""

from copy import deepcopy
from typing import Any

import pytest

from metaserver.services.fields import Choice, Field, Flag, Number, Text, Texts, TextsByName, Values, Whole

NAME = Text(chars_min=1, chars_max=3, is_line=True)
CODE = Text(chars_max=5, pattern="[a-z]+", pattern_problem="must be letters")
ODD = Text(chars_max=5, check=lambda text: "" if len(text) % 2 else "must be odd")
AMOUNT = Whole(minimum=1, maximum=9, unit="apples")
SHARE = Number(minimum=0, maximum=1e18, nullable=True)
COLOUR = Choice(values=["red", "blue"])
NAMES = Texts(item=NAME, items_min=1, items_max=2)
HEADERS = TextsByName(item=NAME, items_max=2)
SIZE = Values(fields={"colour": COLOUR, "amount": AMOUNT})
NO_NAME = "must be text of 1 to 3 characters"
NO_AMOUNT = "must be a whole number of apples from 1 to 9"
NO_SHARE = "must be null or a number from 0 to 1e+18"
NO_NAMES = "must be a list of 1 to 2 texts"


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        (NAME, "abc", ""), (NAME, "", NO_NAME), (NAME, "abcd", NO_NAME),
        (NAME, 5, NO_NAME), (NAME, None, "must not be null"),
        (NAME, "a\n", "must be one line of printable characters"), (Text(chars_max=9), "a\x00", "must not contain NUL characters"),
        (Text(chars_max=9), "a\ud800", "must not contain unpaired surrogates"), (Text(chars_max=9), "a\nb", ""),
        (CODE, "abc", ""), (CODE, "ab1", "must be letters"), (CODE, "abc\n", "must be letters"),
        (ODD, "abc", ""), (ODD, "ab", "must be odd"),
        (AMOUNT, 1, ""), (AMOUNT, 9, ""), (AMOUNT, 0, f"0: {NO_AMOUNT}"),
        (AMOUNT, 10, f"10: {NO_AMOUNT}"), (AMOUNT, True, f"True: {NO_AMOUNT}"),
        (AMOUNT, 1.5, f"1.5: {NO_AMOUNT}"), (AMOUNT, "1", f"'1': {NO_AMOUNT}"),
        (SHARE, None, ""), (SHARE, 0.5, ""), (SHARE, 10**400, f"1{'0' * 79}: {NO_SHARE}"),
        (SHARE, float("nan"), f"nan: {NO_SHARE}"), (SHARE, float("inf"), f"inf: {NO_SHARE}"),
        (Flag(), True, ""), (Flag(), 1, "must be true or false"),
        (COLOUR, "red", ""), (COLOUR, "pink", "'pink': must be one of red, blue"),
        (COLOUR, ["red"], "['red']: must be one of red, blue"),
        (NAMES, ["a", "b"], ""), (NAMES, [], NO_NAMES), (NAMES, ["a", "b", "c"], NO_NAMES),
        (NAMES, "ab", NO_NAMES), (NAMES, ["a", ""], "'': must be text of 1 to 3 characters"),
        (NAMES, ["\n"], r"'\n': must be one line of printable characters"),
        (HEADERS, {"X": "a"}, ""), (HEADERS, {"X": "abcd"}, "'X': must be text of 1 to 3 characters"),
        (HEADERS, [], "must be at most 2 names with values"),
        (HEADERS, {"X": "\n"}, "'X': must be one line of printable characters"),
        (SIZE, {}, ""), (SIZE, {"colour": "red", "amount": 3}, ""), (SIZE, [], "must be an object"),
        (SIZE, {"weight": 1}, "weight: unknown; allowed: colour, amount"), (SIZE, {"amount": 0}, f"amount: 0: {NO_AMOUNT}"),
    ],
)  # fmt: skip
def test_a_value_is_refused_by_its_field(field: Field, value: object, problem: str) -> None:
    assert field.problem(value) == problem


def test_the_shape_is_told_from_the_meaning() -> None:
    assert (ODD.shape_problem("ab"), ODD.problem("ab")) == ("", "must be odd")
    assert (NAMES.shape_problem(["\n"]), NAMES.shape_problem(["abcd"])) == (
        "",
        "'abcd': must be text of 1 to 3 characters",
    )
    assert (HEADERS.shape_problem({"X": "\n"}), SIZE.shape_problem({"colour": "pink"}) != "") == ("", True)


@pytest.mark.parametrize(
    ("field", "given", "meant"),
    [
        (NAME, " a ", "a"), (Text(chars_max=9, is_trimmed=False), " a ", " a "), (NAME, 5, 5), (AMOUNT, 5.0, 5), (AMOUNT, 5.5, 5.5),
        (AMOUNT, True, True), (NAMES, [" a", 5], ["a", 5]), (NAMES, None, None), (SHARE, 1.0, 1.0),
    ],
)  # fmt: skip
def test_a_request_may_have_spaces_around_texts_and_decimals_in_whole_numbers(
    field: Field, given: Any, meant: Any
) -> None:
    assert repr(field.cleaned(given)) == repr(meant)


def test_a_list_that_is_a_set_is_stored_in_order_and_once() -> None:
    assert NAMES.stored(["b", "a", "b"]) == ["a", "b"]
    assert Texts(item=NAME, items_max=3, is_set=False).stored(["b", "a", "b"]) == ["b", "a"]
    assert Texts(item=NAME, items_max=3, nullable=True).stored(None) is None


def test_the_schema_says_the_limits() -> None:
    assert NAME.value_schema() == {"type": "string", "minLength": 1, "maxLength": 3}
    assert CODE.value_schema() == {"type": "string", "maxLength": 5, "pattern": "^[a-z]+$"}
    assert AMOUNT.value_schema() == {"type": "integer", "minimum": 1, "maximum": 9}
    assert Whole(minimum=0, maximum=1 << 40).value_schema()["format"] == "int64"
    assert SHARE.value_schema() == {"type": "number", "format": "double", "minimum": 0, "maximum": 1e18}
    assert NAMES.value_schema() == {"type": "array", "items": NAME.value_schema(), "minItems": 1, "maxItems": 2}
    assert HEADERS.value_schema() == {"type": "object", "additionalProperties": NAME.value_schema()}
    assert COLOUR.value_schema() == {"type": "string", "enum": ["red", "blue"]}
    assert Flag().value_schema() == {"type": "boolean"}
    assert SIZE.value_schema()["properties"].keys() == {"colour", "amount"}


def test_a_copy_of_a_serializer_shares_its_definitions() -> None:
    assert deepcopy(SIZE) is SIZE
