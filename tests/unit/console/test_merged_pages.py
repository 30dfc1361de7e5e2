"""Pages of several broker groups become one, in order, and nothing is lost or shown twice."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.cluster.messages import merged

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
        "end_sequence": len(times),
        "next_sequence": reached if reached < len(times) else None,
    }


def read_all(log: Log, limit: int, node_limit: int, *, in_order: bool) -> list[dict[str, Any]]:
    places = dict.fromkeys(log, 0)
    found: list[dict[str, Any]] = []
    for _ in range(200):
        if all(places[g] == len(times) for g, times in log.items()):
            return found
        pages = {g: page_of(times, places[g], node_limit) for g, times in log.items()}
        taken, places = merged(pages, limit, in_order=in_order)
        assert len(taken) <= limit
        found += taken
    raise AssertionError("no end")


@given(logs, st.integers(1, 8), st.integers(1, 8), st.booleans())
def test_everything_comes_once(log: Log, limit: int, node_limit: int, in_order: bool) -> None:
    found = [(row["broker_group"], row["sequence"]) for row in read_all(log, limit, node_limit, in_order=in_order)]
    assert sorted(found) == sorted((g, n) for g, times in log.items() for n in range(len(times)))
    for group in log:
        assert [n for g, n in found if g == group] == list(range(len(log[group]))), "a group's own order"


@given(logs, st.integers(1, 8), st.integers(1, 8))
def test_steady_clocks_make_one_order(log: Log, limit: int, node_limit: int) -> None:
    steady = {group: sorted(times) for group, times in log.items()}
    times = [row["stored_at_ms"] for row in read_all(steady, limit, node_limit, in_order=True)]
    assert times == sorted(times)


def test_a_message_that_can_not_be_read_keeps_its_place() -> None:
    page = {
        "messages": [{"sequence": 0, "stored_at_ms": 5}, {"sequence": 1, "withheld": True}],
        "end_sequence": 2,
        "next_sequence": None,
    }
    taken, places = merged({"g1": page, "g2": page_of([1, 6], 0, 5)}, 10, in_order=True)
    assert [(row["broker_group"], row["sequence"]) for row in taken] == [("g2", 0), ("g1", 0), ("g1", 1), ("g2", 1)]
    assert places == {"g1": 2, "g2": 2}
