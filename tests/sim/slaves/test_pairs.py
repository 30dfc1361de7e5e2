"""Which pairs of faults the schedules have: all of the fault list's, and in 10,000 seeds each pair of forms."""

from itertools import combinations, combinations_with_replacement

from tests.sim.slaves.cuts import SHAPES
from tests.sim.slaves.schedule import PAIRS, mix_of, pair_of
from tests.sim.slaves.storm import FAULTS

NUMBERS = tuple(f"F{number}" for number in (1, 2, 3, 4, 7, 10, *range(12, 19), *range(20, 26), 28, 29))
"""Of the faults that schedules have to combine."""
SEEDS_OF_CI, SEEDS_OF_ALL = 1_000, 10_000


def test_each_fault_of_the_list_has_a_form() -> None:
    assert set(NUMBERS) <= {number for numbers in FAULTS.values() for number in numbers}
    assert len(SHAPES) == 11


def test_ten_thousand_schedules_begin_with_each_pair_of_forms_in_both_orders() -> None:
    begun = [pair_of(seed) for seed in range(1, SEEDS_OF_ALL + 1)]
    for one, other in PAIRS:
        assert begun.count((one, other)) >= 3
        assert begun.count((other, one)) >= 3


def test_the_schedules_of_ci_have_each_pair_of_the_list() -> None:
    """They begin with 1,000 of the pairs of forms; with their further faults, they have all pairs of numbers."""
    assert len({frozenset(pair_of(seed)) for seed in range(1, SEEDS_OF_CI + 1)}) == min(SEEDS_OF_CI, len(PAIRS))
    found = set()
    for seed in range(1, SEEDS_OF_CI + 1):
        # A fault comes again and again, so that the numbers of one form are a pair, too.
        faults = [name for name in mix_of(seed).faults if name in FAULTS]
        for one, other in combinations_with_replacement(faults, 2):
            found |= {frozenset((a, b)) for a in FAULTS[one] for b in FAULTS[other]}
    missing = [pair for pair in combinations(NUMBERS, 2) if frozenset(pair) not in found]
    assert missing == []
