"""States second by second, against loops."""

from random import Random

import numpy as np
import pytest

from spark_analytics.transforms.seconds import NOTHING, held_until, in_flight, lowest_held, stored_second


def longs(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_a_value_holds_until_the_next() -> None:
    assert held_until(longs(8, 12, 12, 15), longs(1, 2, 3, 4), 10, 6, -1).tolist() == [1, 1, 3, 3, 3, 4]
    assert held_until(longs(12), longs(3), 10, 4, -1).tolist() == [-1, -1, 3, 3]
    assert held_until(longs(), longs(), 10, 2, 7).tolist() == [7, 7]


@pytest.mark.parametrize("seed", range(60))
def test_what_is_held_is_counted_and_its_lowest_found(seed: int) -> None:
    random = Random(seed)
    count = random.choice((1, 2, 3, 7, 64, 65, 200))
    runs = []
    for _ in range(random.choice((0, 1, 5, 40))):
        begin = random.randint(-20, count + 5)
        runs.append((begin, begin + random.choice((0, 1, 2, 30, 500)), random.randint(0, 1000), random.randint(1, 9)))
    begins, ends, sequences, messages = (np.array([run[i] for run in runs], dtype=np.int64) for i in range(4))
    for second, (n, lowest) in enumerate(
        zip(in_flight(begins, ends, messages, count), lowest_held(begins, ends, sequences, count), strict=True)
    ):
        here = [run for run in runs if run[0] <= second < run[1]]
        assert n == sum(run[3] for run in here)
        assert lowest == min((run[2] for run in here), default=NOTHING)


def test_a_sequence_was_stored_in_the_first_second_that_reached_it() -> None:
    first, end, seconds = longs(10, 14, 20), longs(14, 18, 25), longs(100, 101, 105)
    found = stored_second(longs(9, 10, 13, 14, 19, 24, 25), first, end, seconds)
    # 18 and 19 are withheld: the next known one's second is theirs. 9 lies before what is known, 25 behind it.
    np.testing.assert_array_equal(found, [np.nan, 100, 100, 101, 105, 105, np.nan])
    assert np.isnan(stored_second(longs(0), longs(), longs(), longs())).all()


def test_a_clock_that_stepped_back_moves_a_sequence_to_an_earlier_second_of_reach() -> None:
    # Sequences 5 to 8 were stored in second 200 and 201, then the clock went back to 190 for 9 and 10.
    first, end, seconds = longs(9, 5, 7), longs(11, 7, 9), longs(190, 200, 201)
    assert stored_second(longs(9), first, end, seconds).tolist() == [190.0]
