"""Names: what is legal, and how retry and dead-letter subjects are put together."""

import pytest

from qmq.errors import IllegalName
from qmq.protocol.names import (
    check_consumer_id,
    check_group,
    check_new_group,
    check_new_subject,
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


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "%RETRY%..%g", "a b", "a/b", "a\tb", "a\0b", "a\r", "a\u3000b", "x" * 101]
)
def test_illegal_subjects_are_refused_with_the_reason(bad: str) -> None:
    with pytest.raises(IllegalName) as caught:
        check_subject(bad)
    assert caught.value.code == "subject.name_illegal"


@pytest.mark.parametrize(
    "good", ["a", "order.paid", "订单", "a\u2007b", "x" * 100, "%RETRY%" + "x" * 100 + "%" + "g" * 100]
)
def test_legal_subjects_pass(good: str) -> None:
    check_subject(good)


@pytest.mark.parametrize("bad", ["", ".", "..", "a/b", "a\nb", "a\0b", "x" * 201])
def test_illegal_groups_and_consumer_ids_are_refused(bad: str) -> None:
    with pytest.raises(IllegalName):
        check_group(bad)
    with pytest.raises(IllegalName):
        check_consumer_id(bad)


HIDDEN = {
    "a control character": "a\x05b",
    "DEL": "a\x7fb",
    "a C1 control character": "a\x85b",
    "NBSP": "a\xa0b",
    "a figure space": "a\u2007b",
    "a narrow NBSP": "a\u202fb",
    "a zero-width space": "a\u200bb",
    "a zero-width joiner": "a\u200db",
    "a word joiner": "a\u2060b",
    "a byte order mark": "\ufeffab",
    "a soft hyphen": "a\xadb",
    "a right-to-left override": "a\u202eb",
    "a right-to-left mark": "a\u200fb",
    "a bidirectional isolate": "a\u2066b",
    "an Arabic letter mark": "a\u061cb",
    "a Hangul filler": "a\u3164b",
    "a blank Braille pattern": "a\u2800b",
    "a variation selector": "a\ufe0fb",
    "a combining grapheme joiner": "a\u034fb",
    "a tag character": "a\U000e0041b",
    "a line separator": "a\u2028b",
    "half a surrogate pair": "a\ud800b",
    "not NFC": "cafe\u0301",
    "not NFC, a singleton": "\u212b",
}


@pytest.mark.parametrize("bad", HIDDEN.values(), ids=HIDDEN.keys())
@pytest.mark.parametrize("form", ["{}", "%RETRY%{}%g", "%DEAD_RETRY%orders%{}"])
def test_new_names_hold_nothing_that_can_not_be_seen_or_is_written_in_two_ways(bad: str, form: str) -> None:
    with pytest.raises(IllegalName) as caught:
        check_new_subject(form.format(bad))
    assert caught.value.code == "subject.name_illegal"
    assert str(caught.value).isprintable(), "the message shows what it refuses in escapes"
    with pytest.raises(IllegalName) as caught:
        check_new_group(bad)
    assert caught.value.code == "group.name_illegal"


@pytest.mark.parametrize("good", ["a", "order.paid", "订单", "caf\u00e9", "عربي", "日本語", "naïve-Ω", "🚀"])
def test_new_names_in_any_script_are_legal(good: str) -> None:
    check_new_subject(good)
    check_new_subject(f"%RETRY%{good}%{good}")
    check_new_group(good)


def test_groups_may_hold_plain_spaces() -> None:
    check_new_group("billing eu")
    with pytest.raises(IllegalName):
        check_new_subject("billing eu")
