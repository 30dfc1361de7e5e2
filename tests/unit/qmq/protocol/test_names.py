"""Names: what is legal, and how retry and dead-letter subjects are put together."""

import pytest

from qmq.errors import IllegalName
from qmq.protocol.names import (
    check_consumer_id,
    check_group,
    check_subject,
    dead_letter_subject,
    real_subject,
    retry_subject,
    split_subject,
)


def test_retry_and_dead_letter_names_come_apart_as_they_were_put_together() -> None:
    assert retry_subject("orders", "billing") == "%RETRY%orders%billing"
    assert dead_letter_subject("orders", "billing") == "%DEAD_RETRY%orders%billing"
    for kind, name in (("retry", "%RETRY%orders%billing"), ("dead", "%DEAD_RETRY%orders%billing")):
        found = split_subject(name)
        assert (found.kind, found.subject, found.group) == (kind, "orders", "billing")
    assert split_subject("orders").kind == "real"


@pytest.mark.parametrize(
    ("name", "subject"),
    [
        ("orders", "orders"),
        ("a%b", "a%b"),
        ("%other", "%other"),
        ("%RETRY%orders%billing", "orders"),
        ("%DEAD_RETRY%orders%billing", "orders"),
        ("%RETRY%orders", ""),
        ("%DEAD_RETRY%", ""),
        ("%RETRY%a%b%billing", ""),
        ("%RETRY%%orders%billing", ""),
        ("%RETRY%orders%%billing", ""),
        ("%RETRY%orders%billing%", ""),
        ("%RETRY_%orders%billing", ""),
    ],
)
def test_the_real_subject_is_known_only_for_names_as_clients_write_them(name: str, subject: str) -> None:
    assert real_subject(name) == subject


def test_a_retry_of_a_retry_goes_to_the_same_subject() -> None:
    assert retry_subject("%RETRY%orders%billing", "billing") == "%RETRY%orders%billing"
    assert dead_letter_subject("%RETRY%orders%billing", "billing") == "%DEAD_RETRY%orders%billing"


@pytest.mark.parametrize("bad", ["", "a b", "a/b", "a\tb", "a\0b", "a\r", "a\u3000b", "x" * 101])
def test_illegal_subjects_are_refused_with_the_reason(bad: str) -> None:
    with pytest.raises(IllegalName) as caught:
        check_subject(bad)
    assert caught.value.code == "subject.name_illegal"


@pytest.mark.parametrize(
    "good", ["a", "order.paid", "订单", "a\u2007b", "x" * 100, "%RETRY%" + "x" * 100 + "%" + "g" * 100]
)
def test_legal_subjects_pass(good: str) -> None:
    check_subject(good)


@pytest.mark.parametrize("bad", ["", "a/b", "a\nb", "a\0b", "x" * 201])
def test_illegal_groups_and_consumer_ids_are_refused(bad: str) -> None:
    with pytest.raises(IllegalName):
        check_group(bad)
    with pytest.raises(IllegalName):
        check_consumer_id(bad)
