"""The timer wheel against a sorted list."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from delay_node.records import HOUR_MS, hour_of, number_of, ref_of
from delay_node.wheel import Wheel, key_of

BASE = 472_000 * HOUR_MS
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 20_000), st.integers(0, 500)),
        st.tuples(st.just("pop"), st.integers(0, 22_000), st.integers(1, 30)),
        st.tuples(st.just("second"), st.integers(0, 20), st.integers(1, 40)),
        st.tuples(st.just("recent"), st.integers(0, 22_000), st.integers(1, 30)),
    ),
    max_size=120,
)


@given(steps)
def test_it_gives_what_a_sorted_list_gives(script: list[tuple[str, int, int]]) -> None:
    wheel, model, number = Wheel(), [], 0
    for what, first, second in script:
        if what == "add":
            wheel.add(BASE + first, number)
            model.append((BASE + first, number))
            number += 1
        elif what == "second":
            dues = [BASE + first * 1000 + i * 7 % 1000 for i in range(second)]
            wheel.add_second(
                (BASE + first * 1000) // 1000, array("Q", [key_of(d, number + i) for i, d in enumerate(dues)])
            )
            model += [(due, number + i) for i, due in enumerate(dues)]
            number += second
        else:
            model.sort()
            since = 0
            if what == "pop":
                taken = wheel.pop(BASE + first, second)
            else:
                since = (BASE + first - 1_500) // 1000 * 1000
                taken = wheel.pop_recent(BASE + first - 1_500, BASE + first, second)
            expected = [item for item in model if since <= item[0] <= BASE + first][:second]
            assert [(due, number_of(ref)) for due, ref in taken] == expected
            assert all(hour_of(ref) == due // HOUR_MS for due, ref in taken)
            model = [item for item in model if item not in set(expected)]
        assert wheel.count == len(model)
        soonest = wheel.next_due_ms()
        assert (soonest is None) == (not model)
        if soonest is not None:
            # Exact in the second that is being worked off, else that second's begin: never after the first message.
            assert min(model)[0] - 1000 < soonest <= min(model)[0]


def test_a_message_takes_few_bytes() -> None:
    wheel = Wheel()
    for number in range(200_000):
        wheel.add(BASE + number * 13 % HOUR_MS, number)
    assert wheel.memory_bytes < 12 * 200_000
    assert wheel.due_before(BASE + HOUR_MS) == 200_000
    assert len(wheel.pop(BASE + HOUR_MS, 1 << 30)) == 200_000
    assert wheel.next_due_ms() is None


def test_refs_hold_hour_and_number() -> None:
    for hour, number in ((0, 0), (472_000, 7), ((1 << 32) - 1, (1 << 32) - 1)):
        assert (hour_of(ref_of(hour, number)), number_of(ref_of(hour, number))) == (hour, number)


def test_a_second_in_work_takes_further_messages_in_order() -> None:
    wheel = Wheel()
    for number in range(300):
        wheel.add(BASE + 999 - number * 3, number)
    taken = wheel.pop(BASE + 999, 100)
    wheel.add(BASE + 1, 900)
    wheel.add(BASE + 998, 901)
    assert wheel.next_due_ms() == BASE + 1
    taken += wheel.pop(BASE + 999, 1_000)
    assert number_of(taken[100][1]) == 900
    dues = [due for due, _ in taken]
    assert dues[:100] == sorted(dues[:100])
    assert dues[100:] == sorted(dues[100:])
    assert len(taken) == 302
    assert wheel.count == 0
