"""Whatever a body contains, `decode` returns a value or raises BodyUndecodable, in time that grows with its size alone."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Optional
from uuid import UUID

import msgspec
import pydantic
import pytest

from qmq.client.bodies import decode_body
from qmq.client.models import EQUAL_HASHES_MAX, Mismatch, check_hashes
from qmq.errors import BodyUndecodable
from tests.support.load.nonsense import VALUES


class Struct(msgspec.Struct):
    at: datetime


class Model(pydantic.BaseModel):
    at: datetime


@dataclass
class Plain:
    at: datetime


@dataclass
class Node:
    node: Optional["Node"] = None


class Fussy(pydantic.BaseModel):
    at: int

    @pydantic.field_validator("at")
    @classmethod
    def check(cls, value: int) -> int:
        raise KeyError(value)


@dataclass
class Divides:
    at: int

    def __post_init__(self) -> None:
        self.at = 1 // (self.at - self.at)


@pytest.mark.parametrize("what", VALUES)
@pytest.mark.parametrize("type_", [Struct, Model, Plain, dict[str, datetime], dict[datetime, int]])
def test_a_time_is_a_time_or_undecodable(type_: Any, what: str) -> None:
    text = VALUES[what].decode("utf-8", "replace")
    key, value = (text, "1") if type_ == dict[datetime, int] else ("at", text)
    with suppress(BodyUndecodable):
        assert decode_body({key: value}, type_)
        assert "digits" not in what or "wide" in what or "Arabic" in what


def test_a_body_that_is_nested_deeply_is_undecodable() -> None:
    causes = set()
    for depth in (*range(50, 1000, 50), 100_000):
        try:
            assert decode_body({"data": '{"node":' * depth + "null" + "}" * depth}, Node)
        except BodyUndecodable as error:
            causes.add(type(error.__cause__))
    assert RecursionError in causes


@pytest.mark.parametrize(("type_", "text"), [(Fussy, "KeyError: 1"), (Divides, "ZeroDivisionError")])
def test_an_error_that_a_type_raises_is_named(type_: type, text: str) -> None:
    for properties in ({"at": "1"}, {"data": '{"at": 1}'}):
        with pytest.raises(BodyUndecodable, match=text) as caught:
            decode_body(properties, type_)
        assert caught.value.__cause__ is not None


EQUAL = [number * (2**61 - 1) for number in range(1, EQUAL_HASHES_MAX + 2)]


@pytest.mark.parametrize(
    ("type_", "write"),
    [
        (set[int], json.dumps),
        (frozenset[tuple[int, int]], lambda items: json.dumps([[item, item] for item in items])),
        (set[Decimal], json.dumps),
        (set[UUID], lambda items: json.dumps([str(UUID(int=item)) for item in items])),
        (dict[int, int], lambda items: json.dumps(dict.fromkeys(items, 1))),
    ],
)
def test_keys_with_equal_hashes_are_limited(type_: Any, write: Callable[[list[int]], str]) -> None:
    properties = {"qmq_contentType": "application/json"}
    assert len(decode_body(properties | {"data": write(EQUAL[1:])}, type_)) == EQUAL_HASHES_MAX
    with pytest.raises(BodyUndecodable, match="have the same hash"):
        decode_body(properties | {"data": write(EQUAL)}, type_)


def test_equal_items_are_no_keys_with_equal_hashes() -> None:
    check_hashes([*[7] * 1000, *range(1, 1000), *EQUAL[1:] * 3])
    with pytest.raises(Mismatch):
        check_hashes(EQUAL)
