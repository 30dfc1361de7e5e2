"""What a person sees: lines everywhere, a bar on a terminal only."""

from io import StringIO

import pytest

from spark_analytics.jobs import progress
from spark_analytics.jobs.progress import Progress, bar
from tests.support.waiting import eventually


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_without_a_terminal_there_are_lines_and_nothing_else() -> None:
    out = StringIO()
    shown = Progress(out, tasks=lambda: (1, 2))
    with shown.doing("lag"):
        shown.say("lag: 12 rows")
    assert out.getvalue() == "lag: 12 rows\n"


def test_on_a_terminal_a_bar_moves_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    out, tasks = Terminal(), [0, 4]
    shown = Progress(out)
    shown.watch(lambda: (tasks[0], tasks[1]))
    with shown.doing("lag"):
        eventually(lambda: "0/4 tasks" in out.getvalue(), what="the bar is there")
        tasks[0] = 3
        eventually(lambda: "[##################......] 3/4 tasks" in out.getvalue(), what="the bar has moved")
        shown.say("lag: 12 rows")
    assert "\r\x1b[Klag: 12 rows\n" in out.getvalue()
    assert out.getvalue().endswith("\r\x1b[K")


def test_a_session_that_ends_breaks_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> tuple[int, int]:
        raise ConnectionError("the JVM is gone")

    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.001)
    out = Terminal()
    with Progress(out, tasks=gone).doing("lag"):
        eventually(lambda: "lag  0 s" in out.getvalue(), what="the lag is printed as 0 s")


def test_a_bar_says_what_is_known() -> None:
    assert bar("lag", 0, 0, 3.4) == "lag  3 s"
    assert bar("lag", 2, 2, 61.0) == f"lag  [{'#' * 24}] 2/2 tasks, 61 s"
    assert bar("lag", 9, 2, 1.0).startswith(f"lag  [{'#' * 24}]")
