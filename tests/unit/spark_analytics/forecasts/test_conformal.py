from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from spark_analytics.forecasts import conformal
from spark_analytics.forecasts.conformal import (
    CALIBRATION,
    Calibration,
    Cases,
    Rule,
    current,
    empty,
    extended,
    from_table,
    intervals,
    learned,
    missed,
    outlooks,
    to_table,
)

RULE = Rule("drain", 2, scores_max=100, scores_min=30, step=0.02, is_shared=True, kept_ms=1_000)
OWN = replace(RULE, is_shared=False)
KEYS = [("orders", "billing"), ("orders", "mail"), ("users", "billing")]


def cases(series, scores, *, classes=0, missed=(np.nan, np.nan), due_ms=None) -> Cases:
    count = len(scores)
    return Cases(
        np.broadcast_to(np.array(series), count),
        np.broadcast_to(np.array(classes), count),
        np.array(scores, dtype=np.float64),
        np.broadcast_to(np.array(missed, dtype=np.float64), (count, 2)),
        np.arange(1, count + 1) if due_ms is None else np.array(due_ms),
    )


def known(*scores_of_series, rule=RULE) -> Calibration:
    state = extended(empty(rule), KEYS)
    for series, scores in enumerate(scores_of_series):
        state = learned(rule, state, cases(series, scores))
    return state


def ends(rule, state, series=0, number=0) -> tuple[float, float]:
    found = intervals(rule, state, np.array([series]), np.array([number]))
    return float(found.low[0]), float(found.high[0])


def chosen(state: Calibration, series: int) -> list[float]:
    scores = state.scores[series, 0]
    return [float(score) for score in scores[~np.isnan(scores)]]


def same(one: Calibration, other: Calibration) -> bool:
    return one.keys == other.keys and all(
        np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True)
        for name in ("scores", "levels", "learned_ms")
    )


def test_the_ends_miss_ten_percent_of_the_scores_each():
    assert ends(RULE, known(range(1, 101))) == (10.0, 91.0)


def test_the_next_score_counts_among_the_ranks():
    # Of 39 scores and the next one, 4 are below the lower end.
    assert ends(RULE, known(range(1, 40))) == (4.0, 36.0)


def test_with_fewer_than_30_cases_the_interval_is_unknown():
    assert np.isnan(ends(RULE, known(range(29)))).all()
    assert np.isfinite(ends(RULE, known(range(30)))).all()


def test_cases_of_another_class_do_not_count():
    assert np.isnan(ends(RULE, known(range(100)), number=1)).all()


def test_only_the_last_100_scores_of_a_series_and_class_count():
    state = known([*range(1000, 1050), *range(1, 101)])

    assert chosen(state, 0) == list(range(1, 101))


def test_a_series_without_cases_has_those_of_all_series():
    state = known(range(1, 101))

    assert ends(RULE, state, series=1) == ends(RULE, state)
    assert ends(RULE, state, series=-1) == ends(RULE, state)


def test_a_series_with_some_cases_is_filled_up_from_all():
    # 20 own ones far above, and 80 of 320 others: 19 own ones are left above the upper end of 10 %, one of which is the end.
    state = known(range(500, 520), range(1, 101), range(1, 101))

    low, high = ends(RULE, state)

    assert 510 <= high < 520
    assert 1 <= low <= 20


def test_a_series_with_100_cases_stands_for_itself():
    assert ends(RULE, known(range(1, 101), range(1001, 1101), range(1001, 1101))) == (10.0, 91.0)


def test_a_rule_that_does_not_share_leaves_a_series_without_cases_unknown():
    state = known(range(1, 101), rule=OWN)

    assert ends(OWN, state) == (10.0, 91.0)
    assert np.isnan(ends(OWN, state, series=1)).all()


def test_nothing_learned_is_unknown():
    assert np.isnan(ends(RULE, empty(RULE), series=-1)).all()


def test_a_missed_end_moves_outwards_by_18_thousandths_and_a_held_one_inwards_by_2():
    state = learned(RULE, known(), cases(0, [0.0], missed=(1, 0)))

    assert state.levels[0] == pytest.approx([0.082, 0.102])
    assert state.levels[1] == pytest.approx([0.1, 0.1])


def test_levels_stay_within_half_a_percent_and_30_percent():
    state = learned(RULE, known(), cases(0, [0.0] * 200, missed=(1, 0)))

    assert state.levels[0] == pytest.approx([0.005, 0.3])


def test_an_end_at_the_lowest_level_has_none_with_100_scores():
    state = known(range(1, 101))
    state = replace(state, levels=np.full((3, 2), 0.005))

    assert ends(RULE, state) == (-np.inf, np.inf)


def test_a_forecast_without_an_interval_moves_no_level():
    assert known(range(100)).levels.tolist() == [[0.1, 0.1]] * 3


def test_the_order_in_which_cases_arrive_does_not_matter():
    random = np.random.default_rng(1)
    all_cases = cases(
        random.integers(0, 3, 300),
        random.normal(size=300),
        classes=random.integers(0, 2, 300),
        missed=random.integers(0, 2, (300, 2)),
        due_ms=random.permutation(300) + 1,
    )
    mixed = random.permutation(300)
    other = Cases(*(getattr(all_cases, name)[mixed] for name in ("series", "classes", "scores", "missed", "due_ms")))

    assert same(learned(RULE, known(), all_cases), learned(RULE, known(), other))


def test_cases_hour_by_hour_teach_the_same_as_all_at_once():
    random = np.random.default_rng(2)
    columns = (
        np.tile([0, 1, 2], 100),
        random.integers(0, 2, 300),
        random.normal(size=300),
        random.integers(0, 2, (300, 2)).astype(float),
        np.repeat(np.arange(1, 101), 3),
    )
    by_hour = known()
    for begin in range(0, 300, 3):
        by_hour = learned(RULE, by_hour, Cases(*(column[begin : begin + 3] for column in columns)))

    assert same(by_hour, learned(RULE, known(), Cases(*columns)))


def test_cases_that_are_known_already_change_nothing():
    once = learned(RULE, known(), cases(0, range(50), missed=(1, 0)))

    assert same(learned(RULE, once, cases(0, range(50), missed=(1, 0))), once)


def test_learning_leaves_the_state_before_it_alone():
    before = known()

    learned(RULE, before, cases(0, range(50), missed=(1, 0)))

    assert same(before, known())


def test_series_that_are_there_keep_what_they_learned():
    state = extended(known(range(100)), [KEYS[0], ("new", "group"), ("new", "group")])

    assert state.keys == (*KEYS, ("new", "group"))
    assert chosen(state, 0) == list(range(100))
    assert state.places([("new", "group"), ("not", "there"), KEYS[1]]).tolist() == [3, -1, 1]


def test_series_without_a_case_for_long_are_forgotten():
    state = known(range(10), range(5))

    kept = current(RULE, state, now_ms=1_006)

    assert kept.keys == (KEYS[0],)
    assert chosen(kept, 0) == list(range(10))


def test_the_state_comes_back_from_its_rows():
    state = learned(RULE, known(range(150), [0.5, -np.inf, np.inf]), cases(2, [1.0, 2.0], classes=1, missed=(1, 0)))

    table = to_table(RULE, state)

    assert table.schema == CALIBRATION
    assert same(from_table(RULE, table), state)
    assert same(from_table(RULE, pa.Table.from_pylist(table.to_pylist(), schema=CALIBRATION)), state)


def test_the_rows_are_the_same_whatever_the_order_of_series():
    forward = learned(RULE, extended(empty(RULE), KEYS), cases([0, 1, 2], [1.0, 2.0, 3.0]))
    backward = learned(RULE, extended(empty(RULE), KEYS[::-1]), cases([2, 1, 0], [1.0, 2.0, 3.0]))

    assert to_table(RULE, forward) == to_table(RULE, backward)


def test_many_series_are_read_in_parts(monkeypatch):
    monkeypatch.setattr(conformal, "SERIES_AT_ONCE", 2)
    state = known(range(10), range(40), range(120))

    assert same(from_table(RULE, to_table(RULE, state)), state)


def test_an_empty_state_comes_back_from_its_rows():
    assert same(from_table(RULE, to_table(RULE, empty(RULE))), empty(RULE))


def test_rows_of_another_kind_are_left_out():
    other = to_table(replace(RULE, kind="disk"), known(range(10)))

    assert from_table(RULE, pa.concat_tables([other, to_table(RULE, known(range(3)))])).keys == tuple(KEYS)
    assert from_table(RULE, other).keys == ()


def test_a_class_that_the_rule_does_not_have_is_named():
    rows = to_table(replace(RULE, classes_count=4), extended(empty(replace(RULE, classes_count=4)), KEYS[:1]))
    rows = rows.set_column(5, CALIBRATION.field("classes"), pa.array([[3]], pa.list_(pa.int8())))
    rows = rows.set_column(6, CALIBRATION.field("scores"), pa.array([[0.5]], pa.list_(pa.float32())))

    with pytest.raises(
        ValueError, match=r"class 3 in the calibration of 'drain', which has 2 classes\. Delete the rows"
    ):
        from_table(RULE, rows)


def test_more_scores_than_the_rule_keeps_are_named():
    with pytest.raises(ValueError, match="100 scores of a class in the calibration of 'drain', which keeps 50"):
        from_table(replace(RULE, scores_max=50), to_table(RULE, known(range(100))))


def test_a_truth_at_an_end_is_not_missed():
    low, high = np.array([10.0, 10, 10, np.nan, 10]), np.array([20.0, 20, 20, np.nan, np.inf])
    truth = np.array([10 - 1e-7, 20 + 1e-7, 20.1, 15, np.inf])

    assert missed(low, high, truth)[[0, 1, 2, 4]].tolist() == [[0, 0], [0, 0], [0, 1], [0, 0]]
    assert np.isnan(missed(low, high, truth)[3]).all()


def test_what_did_not_happen_is_above_an_upper_end():
    assert missed(np.array([1.0]), np.array([2.0]), np.array([np.inf])).tolist() == [[0, 1]]


def test_outlooks():
    low, high = np.array([1.0, 1, np.inf, np.nan]), np.array([2.0, np.inf, np.inf, np.nan])

    assert outlooks(low, high).tolist() == ["expected", "possible", "never", "unknown"]
