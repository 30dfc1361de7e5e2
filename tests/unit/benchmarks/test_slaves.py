"""Limits that the programs for slaves check, and the rows that they print."""

from benchmarks import delay_slaves
from benchmarks.compare import CASES
from benchmarks.slaves import (
    AtHalfLoad,
    Measured,
    Rates,
    finish,
    half_load_above,
    in_turns,
    medians,
    rates_above,
    ratio,
)

ONLY = Measured(1000.0, 2.0, 0.0, 1e6)
SEND, SEND_KB, DELAY = CASES["send-500"], CASES["send-1k-500"], CASES["delay-500"]


def rates(*of_slaves: Measured, alone: Measured = ONLY, name: str = "2", case: str = "send-500") -> Rates:
    return Rates(CASES[case], {"1": [alone] * len(of_slaves), name: of_slaves})


def test_steps_take_turns_in_being_the_first() -> None:
    order: list[str] = []
    found = in_turns({name: lambda name=name: order.append(name) or name for name in "abc"}, 2)
    assert order == ["a", "b", "c", "c", "a", "b"]
    assert found == {name: [name] * 2 for name in "abc"}


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert ratio([5.0], [10.0]) == (0.5, "0.50")
    assert ratio([5.0, 6.0, 9.0], [10.0, 10.0, 10.0]) == (0.6, "0.60 (0.55 to 0.75)")
    assert medians([Measured(1.0, 2.0, 3.0, 4.0), Measured(3.0, 4.0, 5.0, 6.0)]) == Measured(2.0, 3.0, 4.0, 5.0)


def test_a_group_at_its_limits_is_not_above_them() -> None:
    assert rates_above(rates(Measured(500.0, 2.5, 1.2, 1e6)), "2") == []
    assert rates_above(rates(Measured(500.0, 2.9, 1.2, 1e6), case="send-1k-500"), "2") == []
    assert half_load_above(SEND, AtHalfLoad(1, 1, 2.0, 0), AtHalfLoad(1, 1, 2.5, 1.4)) == []


def test_figures_above_their_limits_are_named() -> None:
    assert rates_above(rates(Measured(500.0, 2.6, 1.3, 1e6)), "2") == [
        "send 128 B, 500 a batch: the master of alone: 1.30, the limit is 1.25",
        "send 128 B, 500 a batch: a slave of alone: 0.65, the limit is 0.6",
    ]
    assert len(rates_above(rates(Measured(500.0, 3.0, 1.2, 1e6), case="send-1k-500"), "2")) == 1
    assert half_load_above(SEND_KB, AtHalfLoad(1, 1, 2.0, 0), AtHalfLoad(1, 1, 2.6, 1.6)) == [
        "send 1024 B, 500 a batch, at half load: the master of alone: 1.30, the limit is 1.25",
        "send 1024 B, 500 a batch, at half load: a slave of alone: 0.80, the limit is 0.7",
    ]
    assert (finish([]), finish(["one"])) == (0, 1)


def test_delayed_sends_have_another_limit_where_the_disk_is_the_limit() -> None:
    half = rates(Measured(500.0, 2.5, 1.9, 80.0), case="delay-500")
    assert delay_slaves.sends_above(half, "2", disk_rate=100.0) == []
    (problem,) = delay_slaves.sends_above(half, "2", disk_rate=1000.0)
    assert problem.endswith("2 members: rate of alone: 0.50, at least 0.6 is required")
    assert delay_slaves.sends_above(rates(Measured(500.0, 2.5, 1.9, 0.0), name="3", case="delay-500"), "3", 100.0) == []
    (problem,) = delay_slaves.sends_above(rates(Measured(700.0, 2.5, 2.1, 0.0), case="delay-500"), "2", 100.0)
    assert problem.endswith("2 members: a slave of alone: 1.05, the limit is 1")


def test_the_version_before_is_compared_with_ours() -> None:
    before = delay_slaves.BEFORE
    assert delay_slaves.sends_above(rates(Measured(1020.0, 2.0, 0.0, 0.0), name=before), before, 100.0) == []
    (problem,) = delay_slaves.sends_above(rates(Measured(1050.0, 2.0, 0.0, 0.0), name=before), before, 100.0)
    assert problem.endswith("rate of the version before: 0.95, at least 0.97 is required")


def test_a_slave_is_behind_since_the_newest_time_at_which_it_would_not_have_been() -> None:
    behind = delay_slaves.Behind()
    behind.saw(1.0, 100, 100)
    behind.saw(2.0, 300, 300)
    assert behind.seconds == 0.0
    behind.saw(3.0, 500, 400)
    assert behind.seconds == 1.0
    behind.saw(4.0, 900, 450)
    behind.saw(5.0, 900, 900)
    assert behind.seconds == 2.0
    behind.saw(6.0, 1200, 1100)
    assert behind.seconds == 2.0
