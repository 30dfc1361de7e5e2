"""Pages of several broker groups become one, in order, and nothing is lost or shown twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.cluster.merging import merged

Log = dict[str, list[int]]
logs: st.SearchStrategy[Log] = st.dictionaries(
    st.sampled_from(["g1", "g2", "g3"]), st.lists(st.integers(0, 50), max_size=20), min_size=1
)


def page_of(times: list[int], place: int, limit: int) -> dict[str, Any]:
    """What a node answers: some messages from a sequence on."""
    messages = [{"sequence": n, "stored_at_ms": times[n]} for n in range(place, min(place + limit, len(times)))]
    reached = place + len(messages)
    return {
        "messages": messages,
        "begin_sequence": 0,
        "end_sequence": len(times),
        "next_sequence": reached if reached < len(times) else None,
    }


def newest_page_of(times: list[int], until: int, limit: int) -> dict[str, Any]:
    """What a node answers: some messages below a sequence, the newest first."""
    begin = max(0, until - limit)
    messages = [{"sequence": n, "stored_at_ms": times[n]} for n in reversed(range(begin, until))]
    return {
        "messages": messages,
        "begin_sequence": 0,
        "end_sequence": len(times),
        "next_sequence": begin if begin > 0 else None,
    }


def read_all(log: Log, limit: int, node_limit: int, *, in_order: bool, newest: bool = False) -> list[dict[str, Any]]:
    places = {group: len(times) if newest else 0 for group, times in log.items()}
    found: list[dict[str, Any]] = []
    page = newest_page_of if newest else page_of
    for _ in range(200):
        if all(places[g] == (0 if newest else len(times)) for g, times in log.items()):
            return found
        pages = {g: page(times, places[g], node_limit) for g, times in log.items()}
        taken, places = merged(pages, limit, in_order=in_order, newest=newest)
        assert len(taken) <= limit
        found += taken
    raise AssertionError("no end")


@given(logs, st.integers(1, 8), st.integers(1, 8), st.booleans(), st.booleans())
def test_everything_comes_once(log: Log, limit: int, node_limit: int, in_order: bool, newest: bool) -> None:
    rows = read_all(log, limit, node_limit, in_order=in_order, newest=newest)
    found = [(row["broker_group"], row["sequence"]) for row in rows]
    assert sorted(found) == sorted((g, n) for g, times in log.items() for n in range(len(times)))
    for group in log:
        own = [n for g, n in found if g == group]
        assert own == sorted(range(len(log[group])), reverse=newest), "a group's own order"


@given(logs, st.integers(1, 8), st.integers(1, 8))
def test_steady_clocks_make_one_order(log: Log, limit: int, node_limit: int) -> None:
    steady = {group: sorted(times) for group, times in log.items()}
    times = [row["stored_at_ms"] for row in read_all(steady, limit, node_limit, in_order=True)]
    assert times == sorted(times)


@given(logs, st.integers(1, 8), st.integers(1, 8))
def test_newest_first_is_the_other_order_reversed(log: Log, limit: int, node_limit: int) -> None:
    steady = {group: sorted(times) for group, times in log.items()}
    oldest = read_all(steady, limit, node_limit, in_order=True)
    assert read_all(steady, limit, node_limit, in_order=True, newest=True) == oldest[::-1]


@given(logs)
def test_a_clock_that_steps_back_moves_only_messages_of_its_own_group(log: Log) -> None:
    """On one page a message counts as stored no later than those after it: the others are in the order of these times."""
    rows = read_all(log, 100, 100, in_order=True, newest=True)
    counted = {(group, number): min(times[number:]) for group, times in log.items() for number in range(len(times))}
    found = [counted[row["broker_group"], row["sequence"]] for row in rows]
    assert found == sorted(found, reverse=True)


def test_newest_first_a_message_that_can_not_be_read_keeps_its_place() -> None:
    page = {
        "messages": [
            {"sequence": 2, "withheld": True},
            {"sequence": 1, "withheld": True},
            {"sequence": 0, "stored_at_ms": 5},
        ],
        "begin_sequence": 0,
        "end_sequence": 3,
        "next_sequence": None,
    }
    taken, places = merged({"g1": page, "g2": newest_page_of([1, 6], 2, 5)}, 4, in_order=True, newest=True)
    assert [(row["broker_group"], row["sequence"]) for row in taken] == [("g1", 2), ("g1", 1), ("g2", 1), ("g1", 0)]
    assert places == {"g1": 0, "g2": 1}


def test_a_message_that_can_not_be_read_keeps_its_place() -> None:
    page = {
        "messages": [{"sequence": 0, "stored_at_ms": 5}, {"sequence": 1, "withheld": True}],
        "begin_sequence": 0,
        "end_sequence": 2,
        "next_sequence": None,
    }
    taken, places = merged({"g1": page, "g2": page_of([1, 6], 0, 5)}, 10, in_order=True)
    assert [(row["broker_group"], row["sequence"]) for row in taken] == [("g2", 0), ("g1", 0), ("g1", 1), ("g2", 1)]
    assert places == {"g1": 2, "g2": 2}
