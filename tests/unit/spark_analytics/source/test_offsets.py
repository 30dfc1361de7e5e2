"""Where streams stand: every row once, whatever comes, goes, or is capped."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_analytics.source import offsets
from spark_analytics.source.offsets import (
    Held,
    Key,
    Observed,
    Offset,
    Place,
    StreamError,
    advance,
    between,
    complete_ms,
    complete_without_news,
    share,
)

A, B, G = ("g1", "a", ""), ("g1", "b", ""), ("g2", "a", "billing")


def seen(read_at_ms: int = 5, **held: Held) -> Observed:
    keys = {"a": A, "b": B, "g": G}
    ranges = {keys[name]: one for name, one in held.items()}
    return Observed(ranges, {key[0]: read_at_ms for key in ranges})


class Heard:
    """What `advance` tells of histories that end; those made anew go on at entry `resume`."""

    def __init__(self, resume: int = -1) -> None:
        self.resume = resume
        self.told: list[tuple[str, Key, int]] = []

    def forgotten(self, key: Key, place: Place) -> None:
        self.told.append(("forgotten", key, place.next))

    def rebuilt(self, key: Key, place: Place, done_ms: int) -> int:
        self.told.append((f"rebuilt, done to {done_ms}", key, place.next))
        return self.resume

    def emptied(self, broker_group: str, log_number: int) -> None:
        self.told.append(("emptied", (broker_group, "", ""), log_number))


def rows(start: Offset, end: Offset) -> dict[Key, tuple[int, int]]:
    return {key: (begin, after) for key, begin, after in between(start, end)}


def test_a_stream_begins_where_it_is_told_and_goes_on_where_it_was() -> None:
    first = advance(Offset(), seen(a=Held(3, 10, 7)), None)
    assert rows(Offset(), first) == {A: (7, 10)}
    second = advance(first, seen(a=Held(5, 12, 9)), None)
    assert rows(first, second) == {A: (10, 12)}


def test_what_comes_to_a_known_broker_group_is_read_from_its_very_beginning() -> None:
    first = advance(Offset(), seen(a=Held(0, 1, 0)), None)
    second = advance(first, seen(a=Held(0, 1, 0), b=Held(4, 9, 4)), None)
    assert rows(first, second) == {B: (0, 9)}, "entries 0 to 4 are gone already: the reader says so"
    third = advance(first, seen(a=Held(0, 1, 0), g=Held(4, 9, 4)), None)
    assert rows(first, third) == {G: (4, 9)}, "a broker group that is new begins where it can"


def test_a_batch_that_is_run_again_begins_where_it_began() -> None:
    end = Offset.of_json(
        json.loads(json.dumps(advance(Offset(), seen(a=Held(3, 10, 3), g=Held(1, 2, 1)), None).to_json()))
    )
    assert rows(Offset.of_json({}), end) == {A: (3, 10), G: (1, 2)}


def test_offsets_survive_json() -> None:
    offset = advance(Offset(), seen(a=Held(0, 5, 0), b=Held(0, 0, 0), g=Held(2, 9, 2, 77)), None)
    assert Offset.of_json(json.loads(json.dumps(offset.to_json()))) == offset
    assert complete_ms(json.dumps(offset.to_json())) == {"g1": 5, "g2": 5}
    with pytest.raises(StreamError, match="not written by data source"):
        Offset.of_json({"ranges": {"g1": {"a": ["x", 1]}}})


def test_nothing_new_is_the_same_offset() -> None:
    start = advance(Offset(), seen(a=Held(0, 5, 0), g=Held(0, 3, 0, 70)), None)
    later = seen(99, a=Held(2, 5, 2), g=Held(1, 3, 1, 71))
    assert advance(start, later, None) is start
    only_time = advance(start, later, None, may_only_complete=True)
    assert (rows(start, only_time), only_time.complete_ms) == ({}, {"g1": 99, "g2": 99})


def test_without_news_an_offset_is_complete_up_to_when_nodes_were_asked() -> None:
    assert complete_without_news(Offset(), seen(a=Held(0, 0, 0))) is None, "a range is news"
    begun = advance(Offset(), seen(a=Held(0, 10, 0), g=Held(0, 4, 0, 50)), None)
    assert complete_without_news(begun, seen(90, a=Held(2, 10, 2), g=Held(1, 4, 1, 60))) == {"g1": 90, "g2": 90}
    assert complete_without_news(begun, seen(90, a=Held(0, 10, 0))) == {"g1": 90, "g2": 5}, "one is not asked"
    assert complete_without_news(begun, seen(3, a=Held(0, 10, 0), g=Held(0, 4, 0, 50))) == {"g1": 5, "g2": 5}
    for news in (
        seen(90, a=Held(0, 11, 0)),
        seen(90, a=Held(0, 10, 0), b=Held(0, 0, 0)),
        seen(90, g=Held(0, 4, 0, 70)),
        Observed({}, {"g2": 90}),
        seen(90, a=Held(0, 9, 0)),
        Observed({}, {"g1": 90}, logs={"g1": 1}),
    ):
        assert complete_without_news(begun, news) is None, news
    assert complete_without_news(Offset(), Observed({}, {"g1": 90})) == {"g1": 90}, "nothing was ever there"


def test_a_broker_group_is_complete_when_all_its_ranges_are() -> None:
    both = seen(50, a=Held(0, 10, 0), b=Held(0, 2, 0), g=Held(0, 1, 0))
    capped = advance(Offset(), both, 6)
    assert capped.complete_ms == {"g2": 50}
    assert advance(capped, both, 100).complete_ms == {"g1": 50, "g2": 50}
    assert advance(Offset({}, {"g1": 70}), seen(50, a=Held(0, 0, 0)), None).complete_ms == {"g1": 70}, "never back"


def test_a_subject_that_holds_less_than_was_read_stops_the_stream() -> None:
    start = Offset({A: Place(0, 10)})
    with pytest.raises(StreamError, match="restored to an older state"):
        advance(start, seen(a=Held(0, 9, 0)), None)
    with pytest.raises(StreamError, match="restored"):
        advance(start, seen(a=Held(0, 9, 0)), None, lost=Heard())


@pytest.mark.parametrize(
    ("held", "at_ms"),
    [(Held(0, 4, 0, 70), 70), (Held(0, 40, 0, 71), 71), (Held(0, 0, 0, -1), 90)],
    ids=["lower", "grown", "empty"],
)
def test_a_group_that_was_made_again_is_an_error_or_the_end_of_the_old_one_and_the_new_one(
    held: Held, at_ms: int
) -> None:
    start = Offset({G: Place(0, 10, 0, 69 if held.end == 4 else 70)}, {"g2": 60})
    with pytest.raises(StreamError, match=r"history of group billing .* no longer exists"):
        advance(start, seen(90, g=held), None)
    heard = Heard()
    ended = advance(start, seen(90, g=held), 3, lost=heard)
    assert heard.told == [("forgotten", G, 10)]
    assert rows(start, ended) == {G: (10, 11)}
    assert (ended.ranges[G].base, ended.ranges[G].forgotten_at_ms) == (0, at_ms)
    assert ended.complete_ms == {"g2": 60}, "what the new group did comes later"
    begun = advance(ended, seen(90, g=held), 3, lost=heard)
    assert rows(ended, begun) == ({G: (0, 3)} if held.end else {})
    assert (begun.ranges[G].base, begun.ranges[G].forgotten_at_ms) == (11, 0), "positions go on behind the old ones"
    again = advance(begun, seen(g=Held(0, 50, 0, held.began_at_ms)), None)
    assert rows(begun, again) == {G: (begun.ranges[G].next, 50)}
    assert len(heard.told) == 1
    assert Offset.of_json(json.loads(json.dumps(ended.to_json()))) == ended


def test_a_group_that_is_gone_is_an_error_or_a_row_and_told_once() -> None:
    start = Offset({A: Place(0, 5), G: Place(0, 10, 0, 70, base=100)}, {"g1": 1, "g2": 1})
    there = Observed({A: Held(0, 5, 0)}, {"g1": 50, "g2": 60})
    with pytest.raises(StreamError, match=r"history of group billing .* no longer exists"):
        advance(start, there, None)
    heard = Heard()
    end = advance(start, there, None, lost=heard)
    assert (heard.told, rows(start, end)) == ([("forgotten", G, 10)], {G: (10, 11)})
    assert (end.ranges[G].base, end.ranges[G].forgotten_at_ms) == (100, 60)
    assert end.complete_ms == {"g1": 50, "g2": 60}
    assert advance(end, there, None) is end
    back = advance(end, seen(g=Held(0, 2, 0, 80)), None)
    assert (rows(end, back), back.ranges[G].base) == ({G: (0, 2)}, 111)


def test_a_group_that_was_made_again_soon_goes_on_with_its_history() -> None:
    start = Offset({G: Place(0, 10, 0, 70, base=100)}, {"g2": 1})
    gone = advance(start, Observed({}, {"g2": 60}), None, lost=Heard())
    back = advance(gone, seen(65, g=Held(0, 13, 0, 70)), None)
    assert rows(gone, back) == {G: (10, 13)}
    assert back.ranges[G].base == 101


def test_a_group_is_not_gone_because_its_node_or_the_options_leave_it_out() -> None:
    start = Offset({G: Place(0, 10, 0, 70)}, {"g2": 1})
    assert advance(start, Observed({}, {"g1": 50}), None, lost=Heard()) is start
    assert advance(start, Observed({}, {"g2": 50}, lambda key: key[2] != "billing"), None, lost=Heard()) is start


def test_a_history_that_its_node_made_anew_goes_on_where_it_was_complete() -> None:
    start = Offset({G: Place(0, 10, 0, 70)}, {"g2": 90})
    heard = Heard(resume=4)
    end = advance(start, seen(95, g=Held(0, 7, 0, 75)), None, lost=heard)
    assert heard.told == [("rebuilt, done to 90", G, 10)]
    assert rows(start, end) == {G: (4, 7)}
    assert end.ranges[G].base == 6, "entry 4 is the stream's position 10"
    assert end.complete_ms == {"g2": 95}


def test_a_history_that_retention_shortens_is_still_the_same() -> None:
    start = Offset({G: Place(0, 10, 0, 70)})
    assert rows(start, advance(start, seen(g=Held(6, 12, 6, 99)), None)) == {G: (10, 12)}
    empty = Offset({G: Place(0, 0, 0, -1)})
    assert rows(empty, advance(empty, seen(g=Held(0, 2, 0, 70)), None)) == {G: (0, 2)}


def emptied(number: int, read_at_ms: int = 90, **held: Held) -> Observed:
    """What is seen of broker groups g1 and g2 after they began again with empty logs."""
    keys = {"a": A, "b": B, "g": G}
    ranges = {keys[name]: one for name, one in held.items()}
    return Observed(ranges, dict.fromkeys(("g1", "g2"), read_at_ms), logs={"g1": number, "g2": number})


@pytest.mark.parametrize("end", [4, 40], ids=["less than was read", "more than was read"])
def test_what_an_emptied_broker_group_stores_is_read_from_its_beginning(end: int) -> None:
    start = Offset({A: Place(0, 10), B: Place(0, 7)}, {"g1": 60})
    with pytest.raises(StreamError, match=r"^broker group g1 began again with an empty log"):
        advance(start, emptied(1, a=Held(0, end, 0)), None)
    heard = Heard()
    after = advance(start, emptied(1, a=Held(0, end, 0)), None, lost=heard)
    assert rows(start, after) == {A: (0, end)}
    assert heard.told == [("emptied", ("g1", "", ""), 1)]
    assert (B in after.ranges, after.logs) == (False, {"g1": 1, "g2": 1})
    assert after.complete_ms == {"g1": 90, "g2": 90}
    assert Offset.of_json(json.loads(json.dumps(after.to_json()))) == after
    assert rows(after, advance(after, emptied(1, a=Held(0, end + 2, 0)), None)) == {A: (end, end + 2)}


@pytest.mark.parametrize("held", [Held(0, 4, 0, 70), Held(0, 40, 0, 20), None], ids=["fewer", "more", "not made again"])
def test_the_groups_of_an_emptied_broker_group_end_and_those_made_again_begin_behind(held: Held | None) -> None:
    start = Offset({G: Place(0, 10, 0, 20)}, {"g2": 60})
    now = emptied(1, **({"g": held} if held else {}))
    heard = Heard()
    ended = advance(start, now, None, lost=heard)
    assert rows(start, ended) == {G: (10, 11)}
    assert ended.ranges[G].forgotten_at_ms == (held.began_at_ms if held else 90)
    assert heard.told == [("emptied", ("g2", "", ""), 1)]
    begun = advance(ended, now, None, lost=heard)
    assert rows(ended, begun) == ({G: (0, held.end)} if held else {})
    assert begun.ranges[G].base == (11 if held else 0)
    assert len(heard.told) == 1


def test_a_broker_group_whose_older_folder_was_put_back_stops_the_stream() -> None:
    start = Offset({A: Place(0, 10)}, {"g1": 60}, {"g1": 2})
    with pytest.raises(StreamError, match=r"^broker group g1 serves an older log again"):
        advance(start, emptied(1, a=Held(0, 40, 0)), None, lost=Heard())


def test_ranges_of_deleted_subjects_and_groups_leave_the_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short-lived groups that come and go for weeks never reach the limit."""
    monkeypatch.setattr(offsets, "RANGES_MAX", 40)
    day_ms = 86_400_000
    offset, first = Offset(), ("g2", "a", "of day 0")
    for day in range(30):
        groups = {("g2", "a", f"of day {day}"): Held(0, 5, 0, day * day_ms + number) for number in range(1)}
        groups |= {("g2", "a", f"of day {day}, {number}"): Held(0, 5, 0, day * day_ms) for number in range(9)}
        offset = advance(offset, Observed(groups, {"g2": (day + 1) * day_ms}), None, lost=Heard())
    assert first not in offset.ranges
    back = advance(offset, Observed({first: Held(0, 3, 0, 31 * day_ms)}, {"g2": 31 * day_ms}), None, lost=Heard())
    assert rows(offset, back)[first] == (0, 3), "made again much later it is a new group"

    both = advance(Offset(), seen(a=Held(0, 5, 0), b=Held(0, 5, 0)), None)
    assert B not in advance(both, seen(a=Held(0, 6, 0)), None).ranges
    assert B in advance(both, Observed({A: Held(0, 6, 0)}, {"g1": 9}, lambda key: key != B), None).ranges


def test_a_subject_that_was_removed_and_returned_goes_on_at_its_origin() -> None:
    first = advance(Offset(), seen(a=Held(0, 10, 0), b=Held(0, 5, 0)), None)
    returned = seen(a=Held(70, 73, 70, origin=70), b=Held(0, 6, 0))
    # Whether or not the stream was there while the subject was not.
    for start in (first, advance(first, seen(b=Held(0, 6, 0)), None)):
        second = Offset.of_json(advance(start, returned, None).to_json())
        assert rows(start, second)[A] == (70, 73)
        # A batch that is cut short by a limit gets real rows, and a hole behind the origin is still one.
        capped = advance(start, returned, 2, lost=Heard())
        assert rows(start, capped)[A][0] == 70
        third = advance(second, seen(a=Held(75, 80, 75, origin=70), b=Held(0, 6, 0)), None)
        assert rows(second, third) == {A: (73, 80)}


def test_too_many_ranges_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "RANGES_MAX", 1)
    with pytest.raises(StreamError, match="2 ranges; a stream can have 1"):
        advance(Offset(), seen(a=Held(0, 1, 0), b=Held(0, 1, 0)), None)


@settings(deadline=None)
@given(
    st.dictionaries(st.tuples(st.just("g"), st.text(max_size=3), st.just("")), st.integers(1, 50)), st.integers(1, 200)
)
def test_rows_are_shared_evenly(left: dict[Key, int], rows_max: int) -> None:
    taken = share(left, rows_max)
    assert sum(taken.values()) == min(rows_max, sum(left.values()))
    assert all(0 < count <= left[key] for key, count in taken.items())
    held_back = [taken.get(key, 0) for key in left if taken.get(key, 0) < left[key]]
    assert not taken or not held_back or max(taken.values()) <= min(held_back) + 1


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=6), st.integers(1, 7))
def test_however_it_grows_and_is_capped_every_row_is_read_once(steps: list[list[int]], cap: int) -> None:
    ends = {A: 0, B: 0, G: 0}
    offset, read = Offset(), {key: [] for key in ends}  # type: ignore[var-annotated]
    for step in steps:
        ends = {key: end + more for (key, end), more in zip(ends.items(), step, strict=True)}
        now = Observed({key: Held(0, end, 0) for key, end in ends.items()}, {"g1": 1, "g2": 1})
        for _ in range(100):
            after = advance(offset, now, cap)
            if after is offset:
                break
            got = rows(offset, after)
            assert sum(end - begin for begin, end in got.values()) <= cap
            for key, (begin, end) in got.items():
                read[key] += range(begin, end)
            offset = after
        assert read == {key: list(range(end)) for key, end in ends.items()}


def test_a_history_whose_first_entry_can_not_be_read_is_the_same() -> None:
    start = advance(Offset(), seen(g=Held(2, 9, 2, 77)), None)
    hole = advance(start, seen(g=Held(2, 12, 2, -1)), None)
    assert rows(start, hole) == {G: (9, 12)}
    assert hole.ranges[G].began_at_ms == 77
    again = advance(hole, seen(g=Held(2, 13, 2, 77)), None)
    assert rows(hole, again) == {G: (12, 13)}
    moved = advance(again, seen(g=Held(5, 14, 5, -1)), None)
    assert moved.ranges[G].began_at_ms == -1
    with pytest.raises(StreamError):
        advance(hole, seen(g=Held(2, 13, 2, 78)), None)
    with pytest.raises(StreamError):
        advance(hole, seen(g=Held(2, 2, 2, -1)), None)
