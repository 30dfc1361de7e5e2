"""Texts with typing errors, and the names that they can mean."""

import pytest

from console.reports import typos


@pytest.mark.parametrize(
    ("text", "name", "edits"),
    [
        ("order", "order.created", 0),
        ("ordr", "order.created", 1),
        ("orrder", "order.created", 1),
        ("odrer", "order.created", 1),
        ("prder", "order.created", 1),
        ("craeted", "order.created", 1),
        ("custmoer.craeted", "customer.created", 2),
        ("fruad chekc", "fraud-check", 2),
        ("orders", "order.created", 1),
        ("shpments", "shipment", 2),
    ],
)
def test_words_begin_words_of_the_name_with_few_edits(text: str, name: str, edits: int) -> None:
    assert typos.distance(text, name) == edits


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("odr", "order.created"),  # too short for an edit
        ("oxxer", "order.created"),  # two edits in five characters
        ("cxxtomxr", "customer"),  # three in eight
        ("ordr paid", "order.created"),  # the other word is not there
        ("x" * 33, "x" * 32),
        ("rdexr", "border"),  # in the middle of a word
        ("order", ""),
    ],
)
def test_others_are_not_meant(text: str, name: str) -> None:
    assert typos.distance(text, name) is None


@pytest.mark.parametrize("word", ["orders", "customer", "mail", "settlement-batches"])
def test_a_name_within_the_edits_has_the_pairs_that_candidates_need(word: str) -> None:
    for at in range(len(word)):
        for typed in (word[:at] + word[at + 1 :], word[:at] + "x" + word[at:], word[:at] + "x" + word[at + 1 :]):
            if typos.distance(typed, word) is not None:
                shared = sum(pair in word for pair in typos.pairs(typed))
                assert shared >= typos.pairs_needed(typed), typed
