"""SubjectNames against a set that is sorted each time."""

import random

import pytest

from broker_node.subject_names import INSORT_MAX, SubjectNames


@pytest.mark.parametrize("seed", range(10))
def test_pages_of_names_are_those_of_a_sorted_set(seed: int) -> None:
    rng = random.Random(seed)
    names, known = SubjectNames(), set()
    for _ in range(200):
        for _ in range(rng.choice((0, 1, 3, INSORT_MAX + 1))):
            name = f"s{rng.randrange(100_000)}"
            if name not in known:
                known.add(name)
                names.add(name)
        if known and rng.random() < 0.5:
            gone = rng.choice(sorted(known))
            known.discard(gone)
            names.remove(gone)
        after = rng.choice(("", "s5", *list(known)[:1]))
        count = rng.choice((1, 10, 1_000_000))
        assert names.after(after, count) == sorted(name for name in known if name > after)[:count]
        assert len(names) == len(known)
