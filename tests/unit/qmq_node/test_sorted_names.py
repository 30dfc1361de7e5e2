"""Pages of names: in order, complete, and at the cost of a page."""

import random

import pytest

from qmq_node import sorted_names
from qmq_node.sorted_names import SortedNames


class CountedName(str):
    """Counts how often names are compared."""

    __slots__ = ()
    compared = 0

    def __lt__(self, other: str) -> bool:
        CountedName.compared += 1
        return str.__lt__(self, other)

    def __gt__(self, other: str) -> bool:
        CountedName.compared += 1
        return str.__gt__(self, other)


def pages(names: SortedNames, limit: int) -> list[str]:
    found: list[str] = []
    while page := names.page(found[-1] if found else "", limit):
        found += page
    return found


@pytest.mark.parametrize("seed", range(20))
def test_pages_hold_every_name_in_order_whatever_was_added_and_removed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sorted_names, "SINGLE_ADDS_MAX", 3)
    rng = random.Random(seed)
    names, expected = SortedNames(), set()
    for _ in range(300):
        name = f"{rng.choice('ab%é')}{rng.randrange(40)}"
        if name in expected:
            names.remove(name)
            expected.remove(name)
        else:
            names.add(name)
            expected.add(name)
        if rng.random() < 0.2:
            assert pages(names, rng.randrange(1, 9)) == sorted(expected)
        assert len(names) == len(expected)
    assert names.page("a2", 2) == sorted(name for name in expected if name > "a2")[:2]
    for prefix, after in [("a", ""), ("a", "%"), ("a", "a3"), ("b1", "b"), ("b", "é"), ("", "a2")]:
        of_prefix = sorted(name for name in expected if name.startswith(prefix) and name > after)
        assert names.page(after, 3, prefix) == of_prefix[:3]


@pytest.mark.slow
def test_a_page_of_100000_names_compares_a_few() -> None:
    names = SortedNames()
    for number in range(100_000):
        names.add(CountedName(f"s{number:06d}"))
    assert names.page("", 2) == ["s000000", "s000001"]
    CountedName.compared = 0
    after = CountedName("s050000")
    assert names.page(after, 1_000)[0] == "s050001"
    assert CountedName.compared < 20
    names.add(CountedName("s0500005"))
    assert names.page(after, 1) == ["s0500005"]
    assert CountedName.compared < 80
