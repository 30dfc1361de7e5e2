"""What a metaserver knows of members that could not lead, or had problems."""

from metaserver.memory.fitness import (
    AVOIDED_SECONDS,
    AVOIDED_SECONDS_MAX,
    CUT_OFF_SECONDS,
    PAUSE_SECONDS,
    PAUSE_SECONDS_MAX,
    Fitness,
)

MEMBERS = ("a", "b", "c")


def test_nothing_is_held_against_members_that_are_not_known() -> None:
    fitness = Fitness()
    assert (fitness.problem("a", 0.0), fitness.is_avoided("a", 0.0), fitness.may_replace_cut_off(0.0)) == (
        "",
        False,
        True,
    )
    fitness.could_not_lead(0.0)
    assert fitness.problem("a", 0.0) == "", "whether it served before this metaserver started is not known"


def test_a_member_that_has_not_served_when_the_next_epoch_begins_could_not_lead() -> None:
    fitness = Fitness()
    fitness.epoch_began(MEMBERS, "b", 0.0)
    fitness.epoch_began(MEMBERS, "c", 1.0)
    assert (
        fitness.problem("b", 1.0)
        == "it could not lead when it was promoted, 1 in a row; it is tried again after a pause"
    )
    assert fitness.problem("b", 1.0 + PAUSE_SECONDS) == ""
    assert fitness.is_avoided("b", 1.0 + PAUSE_SECONDS)
    assert not fitness.is_avoided("b", 1.0 + AVOIDED_SECONDS)
    assert fitness.problem("c", 1.0) == ""


def test_a_member_that_has_served_could_lead() -> None:
    fitness = Fitness()
    fitness.epoch_began(MEMBERS, "b", 0.0)
    fitness.served("a")
    fitness.served("b")
    fitness.epoch_began(MEMBERS, "c", 1.0)
    assert (fitness.problem("b", 1.0), fitness.is_avoided("b", 1.0)) == ("", False)


def test_an_epoch_counts_once() -> None:
    fitness = Fitness()
    fitness.epoch_began(MEMBERS, "b", 0.0)
    for _ in range(5):
        fitness.could_not_lead(0.0)
    fitness.epoch_began(MEMBERS, "b", 0.0)
    assert fitness.problem("b", PAUSE_SECONDS) == ""


def test_pauses_double_and_are_bounded() -> None:
    fitness, now, pauses = Fitness(), 0.0, []
    for _ in range(9):
        fitness.epoch_began(MEMBERS, "b", now)
        fitness.could_not_lead(now)
        begin = now
        while fitness.problem("b", now):
            now += 0.5
        pauses.append(now - begin)
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert PAUSE_SECONDS_MAX == 30


def avoided_seconds(fitness: Fitness, now: float) -> float:
    seconds = 0.0
    while fitness.is_avoided("b", now + seconds):
        seconds += 1.0
    return seconds


def test_a_member_whose_problem_comes_and_goes_is_avoided_for_a_time_that_doubles() -> None:
    fitness, now, seconds = Fitness(), 0.0, []
    for _ in range(8):
        fitness.reported("b", has_problem=True, now=now)
        now += 5.0
        fitness.reported("b", has_problem=True, now=now)
        fitness.reported("b", has_problem=False, now=now + 1)
        seconds.append(avoided_seconds(fitness, now))
        now += seconds[-1]
    assert seconds == [10, 20, 40, 80, 160, 320, 600, 600]
    assert (AVOIDED_SECONDS, AVOIDED_SECONDS_MAX) == (10, 600)


def test_a_master_is_not_replaced_again_at_once_because_it_is_cut_off() -> None:
    fitness = Fitness()
    fitness.cut_off(0.0)
    assert not fitness.may_replace_cut_off(CUT_OFF_SECONDS - 1)
    assert fitness.may_replace_cut_off(CUT_OFF_SECONDS)


def test_what_is_known_of_nodes_that_are_no_members_any_more_is_dropped() -> None:
    fitness = Fitness()
    fitness.reported("b", has_problem=True, now=0.0)
    fitness.epoch_began(("a", "c"), "a", 0.0)
    assert not fitness.is_avoided("b", 0.0)
