"""The key of a delivery: the same for all its attempts, and no other message's."""

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qmq.errors import KeyInvalid
from qmq.idempotent.keys import KEY_BYTES_MAX, Key, marker_key
from qmq_testing import delivery


@dataclass
class Keyed:
    subject: str
    group: str
    message_id: str
    properties: dict[str, str] = field(default_factory=dict)


MESSAGE = delivery({"order": "17", "blank": ""}, subject="order.paid", group="billing", message_id="m1")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (None, b"order.paid%billing%m1"),
        ("order", b"order.paid%billing%17"),
        (lambda delivery: f"{delivery.properties['order']}/\u00e4", "order.paid%billing%17/\u00e4".encode()),
    ],
)
def test_the_message_id_a_property_or_what_a_function_returns_is_the_key(key: Key, expected: bytes) -> None:
    assert marker_key(MESSAGE, key) == expected


def test_a_retry_has_the_key_of_the_first_attempt() -> None:
    again = delivery("", subject="order.paid", group="billing", message_id="m1", attempt=3, retry_cause="Busy")
    assert marker_key(again) == marker_key(MESSAGE)


@pytest.mark.parametrize(
    ("key", "code", "words"),
    [
        ("customer", "idempotent.key_missing", ["m1", "'customer'"]),
        ("blank", "idempotent.key_empty", ["m1", "empty"]),
        (lambda delivery: 17, "idempotent.key_type", ["m1", "int"]),
        (lambda delivery: None, "idempotent.key_type", ["m1", "NoneType"]),
    ],
)
def test_a_key_that_can_not_be_stored_is_an_error_that_names_it(key: Key, code: str, words: list[str]) -> None:
    with pytest.raises(KeyInvalid) as raised:
        marker_key(MESSAGE, key)
    assert raised.value.code == code
    assert all(word in str(raised.value) for word in words)


def test_a_key_of_the_greatest_length_is_stored_whole_and_a_longer_one_is_an_error_with_its_length() -> None:
    room = KEY_BYTES_MAX - len(b"order.paid%billing%")
    assert len(marker_key(MESSAGE, lambda delivery: "x" * room)) == KEY_BYTES_MAX
    # Bytes count, not characters.
    for too_long in ("x" * (room + 1), "x" * (room - 1) + "\u00e4"):
        with pytest.raises(KeyInvalid, match=str(KEY_BYTES_MAX + 1)) as raised:
            marker_key(MESSAGE, lambda delivery, value=too_long: value)
        assert raised.value.code == "idempotent.key_too_long"


NAMES = st.text("ab%2 ", min_size=1, max_size=4)
MESSAGES = st.builds(Keyed, NAMES, NAMES, NAMES)


@given(MESSAGES, MESSAGES)
@example(Keyed("a%b", "c", "d"), Keyed("a", "b", "c%d"))
@example(Keyed("a%b", "c", "d"), Keyed("a", "b%c", "d"))
@example(Keyed("a", "b%c", "d"), Keyed("a", "b", "c%d"))
@example(Keyed("a%", "b", "c"), Keyed("a", "%b", "c"))
def test_different_messages_have_different_keys_although_names_may_contain_the_separator(
    one: Keyed, other: Keyed
) -> None:
    assert (marker_key(one) == marker_key(other)) is (one == other)


def test_a_key_that_is_no_unicode_text_is_stored() -> None:
    assert marker_key(MESSAGE, lambda delivery: "\ud800") != marker_key(MESSAGE, lambda delivery: "\ud801")
