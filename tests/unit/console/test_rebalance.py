"""Plans of a rebalance and the steps of a move: few, none lost, an end."""

from hypothesis import given
from hypothesis import strategies as st

from console.placement.plan import TOLERANCE, Move, advance, plan
from metaserver.choices import Phase
from metaserver.domain import Route

NAMES = [f"g{n}" for n in range(6)]


def route(number: int, groups: tuple[str, ...], **phases: Phase) -> Route:
    return Route(f"s{number:03}", groups, 1, 0, phases)


def applied(routes: list[Route], moves: list[Move]) -> list[Route]:
    """The routes after the moves went all their steps."""
    by_subject = {move.route.subject: move.route for move in moves}
    after = []
    for item in routes:
        current = by_subject.get(item.subject, item)
        for _ in range(10):
            step = advance(current, ready=current.broker_groups, empty=current.broker_groups)
            if step is None:
                break
            assert step.reason
            current = step.route
            assert current.writable, "somebody takes what is sent, at every step"
        assert not current.phases
        after.append(current)
    return after


def test_two_added_groups_take_their_share() -> None:
    routes = [route(n, ("g0", "g1")) for n in range(20)]
    for _ in range(50):
        moves = plan(routes, NAMES[:4], [], minimum=2, most=5)
        assert len(moves) <= 5
        if not moves:
            break
        routes = applied(routes, moves)
    load = {name: sum(name in r.broker_groups for r in routes) for name in NAMES[:4]}
    assert sum(load.values()) == 40
    assert max(load.values()) <= 10 * (1 + TOLERANCE)
    assert all(len(r.broker_groups) == 2 for r in routes)


def test_a_subject_of_one_group_gets_a_second() -> None:
    (move,) = plan([route(1, ("g0",))], ["g0", "g1"], [], minimum=2, most=10)
    assert (move.route.broker_groups, move.route.phases) == (("g0", "g1"), {"g1": Phase.JOINING})
    assert "1 of 2" in move.reason


def test_a_draining_group_is_left_by_all_its_subjects() -> None:
    routes = [route(n, ("g0", "g1")) for n in range(6)]
    moves = plan(routes, ["g1", "g2"], ["g0"], minimum=2, most=100)
    assert {m.route.subject for m in moves} == {r.subject for r in routes}
    assert all(m.route.phases == {"g2": Phase.JOINING, "g0": Phase.LEAVING} for m in moves)
    assert all(r.broker_groups == ("g1", "g2") for r in applied(routes, moves))


def test_the_last_group_that_takes_messages_is_never_left() -> None:
    assert plan([route(1, ("g0",))], [], ["g0"], minimum=2, most=10) == []
    assert plan([route(1, ("g0", "g1"))], ["g1"], ["g0"], minimum=2, most=10)[0].route.phases == {"g0": Phase.LEAVING}


def test_a_group_that_is_offline_is_not_drained_but_made_up_for() -> None:
    (move,) = plan([route(1, ("g0", "g1"))], ["g1", "g2"], [], minimum=2, most=10)
    assert (move.route.broker_groups, move.route.phases) == (("g0", "g1", "g2"), {"g2": Phase.JOINING})


def test_a_subject_that_moves_is_left_alone() -> None:
    routes = [route(n, ("g0", "g1", "g2"), g0=Phase.DRAINING) for n in range(10)]
    assert plan(routes, ["g0", "g1", "g2", "g3"], [], minimum=2, most=10) == []


def test_a_move_waits_for_each_of_its_steps() -> None:
    moving = route(1, ("g0", "g1", "g2"), g2=Phase.JOINING, g0=Phase.LEAVING)
    assert set(moving.writable) == {"g0", "g1"}
    assert advance(moving, ready=[], empty=["g0"]) is None, "not before the new group is ready"
    opened = advance(moving, ready=["g2"], empty=["g0"])
    assert opened is not None
    assert set(opened.route.writable) == {"g0", "g1", "g2"}
    draining = advance(opened.route, ready=[], empty=["g0"])
    assert draining is not None
    assert draining.route.phases == {"g0": Phase.DRAINING}
    assert "g0" in draining.route.broker_groups, "it is still read"
    assert advance(draining.route, ready=[], empty=[]) is None, "not before it is empty"
    gone = advance(draining.route, ready=[], empty=["g0"])
    assert gone is not None
    assert (gone.route.broker_groups, gone.route.phases) == (("g1", "g2"), {})


@given(
    st.lists(st.sets(st.sampled_from(NAMES), min_size=1, max_size=4), max_size=40),
    st.sets(st.sampled_from(NAMES), min_size=1),
    st.sets(st.sampled_from(NAMES)),
    st.integers(1, 3),
)
def test_rebalancing_ends_and_never_leaves_a_subject_unwritable(
    groups: list[set[str]], taking: set[str], leaving: set[str], minimum: int
) -> None:
    taking -= leaving
    routes = [route(n, tuple(sorted(g))) for n, g in enumerate(groups)]
    before = {r.subject: set(r.broker_groups) for r in routes}
    for _ in range(200):
        moves = plan(routes, taking, leaving, minimum=minimum, most=3)
        for move in moves:
            assert move.route.writable
            assert before[move.route.subject] <= set(move.route.broker_groups), "nothing is left before it is drained"
        if not moves:
            break
        routes = applied(routes, moves)
        before = {r.subject: set(r.broker_groups) for r in routes}
    else:
        raise AssertionError("it goes on for ever")
    if taking:
        for item in routes:
            assert len(set(item.broker_groups) & taking) >= min(minimum, len(taking))
            assert not set(item.broker_groups) & leaving
