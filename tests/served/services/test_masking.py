"""Masking rules of a subject: what they may be, how they are stored, and who changes them."""

from typing import Any

import pytest

from metaserver import queries
from metaserver.errors import ChangeRefused, NotAllowed
from metaserver.services import subjects as service
from metaserver.services.changes import Actor
from qmq.protocol.masking.rules import PATTERN_CHARS_MAX, PATTERNS_MAX, RULES_BYTES_MAX, RULES_MAX, STEPS_MAX
from tests.support.console.metadata import ACTOR

pytestmark = pytest.mark.django_db
RULE = {"properties": ["a", "b"], "json_paths": [], "roles": [], "how": "hide"}


@pytest.mark.parametrize(
    ("rules", "problem"),
    [
        (None, "must not be null"),
        ({}, "must be a list"),
        (["a"], "number 1: must be an object"),
        ([{}], "must name a property or a JSON path"),
        ([{"properties": ["a"], "x": 1}], "x: unknown"),
        ([{"properties": ["qmq_times"]}], "never masked"),
        ([{"properties": [""]}], f"1 to {PATTERN_CHARS_MAX}"),
        ([{"properties": ["x" * (PATTERN_CHARS_MAX + 1)]}], f"1 to {PATTERN_CHARS_MAX}"),
        ([{"properties": [f"p{n}" for n in range(PATTERNS_MAX + 1)]}], f"at most {PATTERNS_MAX}"),
        ([{"properties": ["a"]}] * (RULES_MAX + 1), f"at most {RULES_MAX}"),
        ([{"properties": [f"{n:0190}" for n in range(11)]}], f"the limit is {RULES_BYTES_MAX}"),
        ([{"json_paths": ["$"]}], "whole body"),
        ([{"json_paths": ["a[-1]"]}], "wrong at"),
        ([{"json_paths": [".".join("a" * (STEPS_MAX + 1))]}], f"at most {STEPS_MAX}"),
        ([{"properties": ["a"], "roles": ["viewer"]}], "must be operator or admin"),
        ([{"properties": ["a"], "how": "blur"}], "must be one of"),
    ],
)
def test_rules_that_are_not_allowed(rules: Any, problem: str) -> None:
    with pytest.raises(ChangeRefused, match=problem) as refused:
        service.create_subject("orders", {"masking": rules}, actor=ACTOR)
    assert list(refused.value.fields) == ["masking"]


def test_rules_are_stored_whole_and_hold_for_the_retries_and_dead_letters_of_their_subject() -> None:
    service.create_subject("orders", {"masking": [{"properties": ["b", "a", "a"]}]}, actor=ACTOR)
    names = ["orders", "%RETRY%orders%g", "%DEAD_RETRY%orders%g"]
    assert {name: display.masking for name, display in queries.display_of([*names, "nothing"]).items()} == {
        name: [RULE] for name in names
    }


def test_rules_are_changed_by_those_who_may() -> None:
    operator = Actor("olga", may_unmask=False)
    service.create_subject("orders", {"masking": [RULE]}, actor=ACTOR)
    assert not service.update_subject("orders", {"masking": [RULE]}, actor=operator).is_change
    for rules in ([], [RULE, RULE], [RULE | {"roles": ["operator"]}]):
        with pytest.raises(NotAllowed, match="Ask an administrator"):
            service.update_subject("orders", {"masking": rules, "description": "x"}, actor=operator)
    with pytest.raises(NotAllowed):
        service.create_subject("more", {"masking": [RULE]}, actor=operator)
    assert queries.display_of(["orders", "more"]).keys() == {"orders"}


RECORD = '{"type": "record", "name": "r", "fields": [{"name": "%s", "type": "string"}]}'


def test_a_format_of_bodies_is_stored_with_its_schema() -> None:
    service.create_subject("orders", {"body_format": "avro", "body_schema": RECORD % "card"}, actor=ACTOR)
    assert queries.display_of(["%RETRY%orders%g"]) == {"%RETRY%orders%g": ([], "avro", RECORD % "card")}
    service.update_subject("orders", {"body_format": "msgpack", "body_schema": ""}, actor=ACTOR)
    assert queries.display_of(["orders"])["orders"][1:] == ("msgpack", "")


@pytest.mark.parametrize(
    ("values", "field", "problem"),
    [
        ({"body_format": "avro"}, "body_format", "needs a schema"),
        ({"body_schema": "{}"}, "body_schema", "json takes no schema"),
        ({"body_format": "msgpack", "body_schema": "{}"}, "body_schema", "msgpack takes no schema"),
        ({"body_format": "avro", "body_schema": '"nothing"'}, "body_schema", "'nothing' is unknown"),
        ({"body_format": "avro", "body_schema": "x" * 10_001}, "body_schema", "at most 10000"),
        ({"body_format": "cbor"}, "body_format", "known are json, msgpack, avro"),
        ({"body_format": "../x"}, "body_format", "must be the name of a format"),
        ({"body_format": None}, "body_format", "must not be null"),
    ],
)
def test_formats_that_can_not_be_used(values: dict[str, Any], field: str, problem: str) -> None:
    with pytest.raises(ChangeRefused, match=problem) as refused:
        service.create_subject("orders", values, actor=ACTOR)
    assert list(refused.value.fields) == [field]


def test_with_masks_only_those_who_may_unmask_change_the_format() -> None:
    """With another schema a value has another name than the rule."""
    operator = Actor("olga", may_unmask=False)
    values = {"masking": [RULE], "body_format": "avro", "body_schema": RECORD % "card"}
    service.create_subject("orders", values, actor=ACTOR)
    for change in ({"body_schema": RECORD % "other"}, {"body_format": "msgpack", "body_schema": ""}):
        with pytest.raises(NotAllowed, match="which has masking rules"):
            service.update_subject("orders", change, actor=operator)
    assert not service.update_subject("orders", values, actor=operator).is_change
    service.update_subject("orders", {"body_schema": RECORD % "other"}, actor=ACTOR)
    service.create_subject("plain", {}, actor=ACTOR)
    service.update_subject("plain", {"body_format": "msgpack"}, actor=operator)
