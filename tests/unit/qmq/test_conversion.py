"""Values of one dataclass as values of another one."""

from dataclasses import dataclass

import pytest

from qmq.conversion import convert


@dataclass(frozen=True)
class Sent:
    name: str
    size: int
    is_new: bool


@dataclass(frozen=True)
class Stored:
    name: str
    size: int
    owner: str = ""


def test_fields_are_those_of_the_source_unless_they_are_given() -> None:
    assert convert(Stored, Sent("a", 1, True), owner="b", size=2) == Stored("a", 2, "b")


def test_a_field_that_the_source_lacks_is_not_forgotten() -> None:
    with pytest.raises(AttributeError, match="owner"):
        convert(Stored, Sent("a", 1, True))
    with pytest.raises(TypeError, match="origin"):
        convert(Stored, Sent("a", 1, True), owner="", origin="b")
