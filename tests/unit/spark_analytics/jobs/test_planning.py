"""What is due: whole steps only, each once, in windows that begin with an hour."""

from datetime import UTC, datetime
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, Step
from spark_analytics.jobs.planning import HOUR_MS, Chunk, Idle, Piece, again, due, portions, states_due

DAY = int(datetime(2026, 11, 21, tzinfo=UTC).timestamp() * 1000)
MINUTE_MS = Step.MINUTE.ms
SHORT, LONG = tuple(Step), (Step.HOUR, Step.DAY)


def at(hour: int, minute: int = 0) -> int:
    return DAY + hour * HOUR_MS + minute * MINUTE_MS


def window(begin: int, end: int) -> Window:
    return Window(begin, end)


def test_what_changed_is_computed_again_of_days_that_are_over_to_their_ends() -> None:
    hours = [(at(3), at(4)), (at(30), at(31)), (at(9), at(11)), (at(10), at(12)), (at(29), at(30))]
    assert again(hours, at(40)) == [window(at(3), at(24)), window(at(29), at(31))]
    assert again(hours, at(30, 30)) == [window(at(3), at(24)), window(at(29), at(30, 30))]
    assert again(hours, at(9)) == [window(at(3), at(4))], "what is behind it is due anyway"
    assert again([(at(3), at(24)), (at(24), at(25))], at(48)) == [window(at(3), at(48))]
    assert again([], at(40)) == []


def test_after_a_few_minutes_only_minutes_are_due() -> None:
    minutes = window(at(10, 3), at(10, 8))
    piece = Piece(window(at(10), at(10, 8)), ((Step.MINUTE, minutes),))
    assert due(at(10, 3), at(10, 8) + 20_000, SHORT) == [Chunk(piece.window, (piece,), DAY)]
    assert due(at(10, 3), at(10, 3) + 59_999, SHORT) == []


def test_an_hour_is_due_when_it_is_over_and_then_its_shorter_steps_come_with_it() -> None:
    (chunk,) = due(at(9, 57), at(10, 12), SHORT)
    assert chunk.pieces == (
        Piece(
            window(at(9), at(10)),
            (
                (Step.MINUTE, window(at(9, 57), at(10))),
                (Step.TEN_MINUTES, window(at(9, 50), at(10))),
                (Step.HOUR, window(at(9), at(10))),
            ),
        ),
        Piece(
            window(at(10), at(10, 10)),
            ((Step.MINUTE, window(at(10), at(10, 10))), (Step.TEN_MINUTES, window(at(10), at(10, 10)))),
        ),
        Piece(window(at(10), at(10, 12)), ((Step.MINUTE, window(at(10, 10), at(10, 12))),)),
    )


def test_a_day_that_is_over_is_computed_whole_and_the_next_is_another_run() -> None:
    first, second = due(at(22, 30), DAY + DAY_MS + 90 * MINUTE_MS, LONG)
    assert first.pieces == (
        Piece(
            window(DAY, DAY + DAY_MS),
            ((Step.HOUR, window(at(22), DAY + DAY_MS)), (Step.DAY, window(DAY, DAY + DAY_MS))),
        ),
    )
    hour = window(DAY + DAY_MS, DAY + DAY_MS + HOUR_MS)
    assert second == Chunk(hour, (Piece(hour, ((Step.HOUR, hour),)),), DAY + DAY_MS)


def days(*numbers: int) -> set[int]:
    return {DAY + number * DAY_MS for number in numbers}


def test_days_without_rows_in_a_row_are_one_run() -> None:
    year = Idle(days(*range(1, 366)), 400, {Step.MINUTE: at(7) + 364 * DAY_MS + 20_000, Step.TEN_MINUTES: 0})
    first, idle, last = due(at(9), DAY + 366 * DAY_MS + 5 * MINUTE_MS, SHORT, year)
    whole = window(DAY + DAY_MS, DAY + 366 * DAY_MS)
    assert idle == Chunk(
        whole,
        (
            Piece(
                whole,
                (
                    (Step.MINUTE, window(at(7) + 364 * DAY_MS, whole.to_ms)),  # earlier minutes are kept no longer
                    (Step.TEN_MINUTES, whole),
                    (Step.HOUR, whole),
                    (Step.DAY, whole),
                ),
            ),
        ),
        whole.from_ms,
    )
    assert (first.window, first.day_ms) == (window(DAY, DAY + DAY_MS), DAY)
    assert last.window.from_ms == last.day_ms == whole.to_ms


def test_days_without_rows_are_windows_of_so_many_days_and_a_day_in_work_is_a_day() -> None:
    # Day 0 was begun, day 4 is not over.
    chunks = due(at(9), at(8) + 4 * DAY_MS, LONG, Idle(days(0, 1, 2, 3, 4), 2))
    assert [[(piece.window.from_ms - DAY) / DAY_MS for piece in chunk.pieces] for chunk in chunks] == [[0], [1, 3], [4]]
    assert {chunk.day_ms for chunk in chunks} == {DAY}, "each job goes through all of them before the next one"
    assert chunks[1].pieces[-1].window.to_ms == DAY + 4 * DAY_MS
    apart = due(DAY, DAY + 3 * DAY_MS, LONG, Idle(days(0, 2), 9))
    assert [chunk.day_ms for chunk in apart] == sorted(days(0, 1, 2))


def test_what_is_kept_no_longer_is_not_published_of_days_without_rows() -> None:
    late = dict.fromkeys(LONG, DAY + 4 * DAY_MS)
    (chunk,) = due(DAY, DAY + 6 * DAY_MS, LONG, Idle(days(*range(6)), 2, late))
    assert [(piece.window.from_ms - DAY) / DAY_MS for piece in chunk.pieces] == [4]
    assert due(DAY, DAY + 4 * DAY_MS, LONG, Idle(days(*range(6)), 2, late)) == []


@given(
    done=st.integers(0, 4 * DAY_MS),
    idle=st.sets(st.integers(0, 22).map(lambda number: number * DAY_MS)),
    days_max=st.integers(1, 5),
    spans=st.lists(st.integers(1, 3 * DAY_MS), min_size=1, max_size=6),
    steps=st.sampled_from([SHORT, LONG, (Step.MINUTE,), (Step.DAY,)]),
)
def test_whatever_runs_came_before_each_whole_step_is_published_once_it_is_over(
    done: int, idle: set[int], days_max: int, spans: list[int], steps: tuple[Step, ...]
) -> None:
    begin = done
    ends: dict[Step, int] = {step: done - done % step.ms for step in steps}
    for span in spans:
        to = done + span
        for chunk in due(done, to, steps, Idle(idle, days_max)):
            for piece in chunk.pieces:
                assert chunk.window.from_ms <= piece.window.from_ms < piece.window.to_ms <= chunk.window.to_ms
                assert piece.window.from_ms % HOUR_MS == 0
                touched = range(piece.window.from_ms // DAY_MS, -(-piece.window.to_ms // DAY_MS))
                assert len(touched) == 1 or (len(touched) <= days_max and {day * DAY_MS for day in touched} <= idle)
                for step, part in piece.publications:
                    assert piece.window.from_ms % step.ms == piece.window.to_ms % step.ms == 0
                    assert part.from_ms % step.ms == part.to_ms % step.ms == 0
                    assert piece.window.from_ms <= part.from_ms < part.to_ms <= piece.window.to_ms
                    assert part.from_ms <= ends[step], "no step is left out"
                    assert part.to_ms > ends[step], "and none comes for nothing"
                    ends[step] = part.to_ms
        done = to
    assert ends == {step: max(done - done % step.ms, begin - begin % step.ms) for step in steps}


def test_states_are_kept_at_the_ends_of_days_and_of_the_last_hour() -> None:
    assert states_due(at(9), at(10, 30)) == [window(at(9), at(10))]
    assert states_due(at(9), at(9, 59)) == []
    caught_up = states_due(at(22), at(10, 15) + 2 * DAY_MS)
    assert [found.to_ms for found in caught_up] == [DAY + DAY_MS, DAY + 2 * DAY_MS, at(10) + 2 * DAY_MS]
    assert caught_up[0].from_ms == at(22)
    year = states_due(at(22), at(10) + 366 * DAY_MS, Idle(days(*range(2, 366))))
    assert [found.to_ms - DAY for found in year] == [DAY_MS, 2 * DAY_MS, 366 * DAY_MS, 366 * DAY_MS + 10 * HOUR_MS]
    for before, after in pairwise(caught_up):
        assert before.to_ms == after.from_ms


def test_portions_have_no_more_rows_than_may_be_published_at_once() -> None:
    whole = window(0, 600)
    assert portions([], whole, 10) == [whole]
    assert portions([(0, 5), (60, 5), (120, 1), (300, 9), (360, 1)], whole, 10) == [
        window(0, 120),
        window(120, 360),
        window(360, 600),
    ]
    assert portions([(0, 1), (60, 11), (120, 1)], whole, 10) == [
        window(0, 60),
        window(60, 120),
        window(120, 600),
    ], "a moment with more is alone"
    assert portions([(0, 11), (60, 12)], whole, 10) == [window(0, 60), window(60, 600)]
