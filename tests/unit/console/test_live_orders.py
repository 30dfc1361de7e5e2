"""Orders that follow changes are those that sorting everything gives."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.reports import live_orders
from console.reports.live_orders import CHANGED_SHARE_MAX, ORDERS_MAX, LiveOrders

keys = st.sampled_from([f"{subject}\n{group}" for subject in ("a", "a\tb", "b") for group in "xyz"])
entries = st.dictionaries(keys, st.none() | st.integers(-2, 2) | st.just(float("inf")))


def value_of(entry: Any, field: str) -> Any:
    return entry[field]


def sorted_again(state: dict[str, Any], named: list[str], is_down: bool) -> list[str]:
    known = [key for key in named if key in state and state[key]["lag"] is not None]
    known.sort(key=lambda key: state[key]["lag"], reverse=is_down)
    return known + [key for key in named if key not in known]


@given(st.lists(st.tuples(entries, st.frozensets(keys)), max_size=6), st.booleans())
def test_an_order_that_follows_changes_is_the_sorted_one(
    steps: list[tuple[dict[str, Any], frozenset[str]]], is_down: bool
) -> None:
    orders, before = LiveOrders(value_of), dict[str, Any]()
    for numbers, stored in steps:
        # Entries that did not change are the same objects, as a reader of the snapshot gives them.
        state = {
            key: before[key] if key in before and before[key]["lag"] == number else {"lag": number}
            for key, number in numbers.items()
        }
        named = sorted(stored | state.keys(), key=lambda key: key.partition("\n"))
        assert list(orders.ordered(state, named, "lag", is_down)) == sorted_again(state, named, is_down)
        before = state


def test_a_change_costs_what_changed_until_it_is_a_large_share() -> None:
    computed: list[str] = []

    def counting(entry: Any, field: str) -> Any:
        computed.append(entry["name"])
        return entry[field]

    orders, named = LiveOrders(counting), [f"s{number:03}" for number in range(100)]
    state: dict[str, Any] = {name: {"name": name, "lag": number} for number, name in enumerate(named)}
    orders.ordered(state, named, "lag", True)
    assert len(computed) == 100
    computed.clear()
    changed = state | {"s003": {"name": "s003", "lag": 1_000}, "s007": {"name": "s007", "lag": None}}
    found = orders.ordered(changed, named, "lag", True)
    assert sorted(set(computed)) == ["s003", "s007"]
    assert (found[0], found[-1], found[98:], len(found)) == ("s003", "s007", ["s000", "s007"], 100)
    assert orders.ordered(changed, named, "lag", True) is found
    computed.clear()
    orders.ordered({name: dict(entry) for name, entry in changed.items()}, named, "lag", True)
    assert len(computed) == 100 > 100 * CHANGED_SHARE_MAX


def test_the_orders_that_were_requested_last_are_kept() -> None:
    orders = LiveOrders(value_of)
    for number in range(ORDERS_MAX + 3):
        orders.ordered({}, [], f"field{number}", False)
    assert len(orders) == live_orders.ORDERS_MAX
