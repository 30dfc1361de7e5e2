"""Which windows a job computes, and what of them it publishes. Pure.

A job has published what ended up to some time, and everything up to the watermark is known: what is between is due. Only whole
steps are published: an hour's row comes when the hour is over and complete. So the same window gives the same rows whenever it is
computed, and a run that was killed is simply due again.

**Days without rows.** A day (UTC) of which the lake has no rows is still computed: a group that has a position keeps its lag, which
gets older, and teams, forecasts and comparisons have rows too. But nothing happens in it, so what is at its beginning determines
all of it, and any number of such days in a row are one window: one state, one run a job.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, Step

HOUR_MS = Step.HOUR.ms


@dataclass(frozen=True, slots=True)
class Piece:
    """A window that is computed at once. It is whole steps of all its publications, and begins with an hour. If it is longer than a
    day, it is days without rows."""

    window: Window
    publications: tuple[tuple[Step, Window], ...]
    """Steps, and the part of the window that is published at each."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one run does: the pieces of one UTC day or of days without rows, and up to when the tables are complete behind it."""

    window: Window
    pieces: tuple[Piece, ...]
    day_ms: int
    """The UTC day it begins in; of days without rows the first of all in a row. What jobs have to do of a day is done job by job
    before the next day: later jobs read what earlier ones published."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Days without rows, and how they are computed."""

    days: Collection[int] = frozenset()
    """The beginnings of UTC days, in ms since the epoch."""
    days_max: int = 1
    """The most days of a window."""
    kept_since: Mapping[Step, int] = field(default_factory=dict)
    """Before which time (ms since the epoch) rows of a step are deleted; of days without rows they are not published."""

    def first(self, day_ms: int) -> int:
        """The first of the days in a row without rows that a day is one of; the day itself if it has rows."""
        while day_ms in self.days and day_ms - DAY_MS in self.days:
            day_ms -= DAY_MS
        return day_ms

    def end(self, day_ms: int, to_ms: int) -> int:
        """The end of the days in a row without rows from a day on that are over by `to_ms`; the day itself: it is none of them."""
        while day_ms in self.days and day_ms + DAY_MS <= to_ms:
            day_ms += DAY_MS
        return day_ms


def due(done_ms: int, to_ms: int, steps: Sequence[Step], idle: Idle = Idle()) -> list[Chunk]:
    """What is to be computed so that all whole steps which end in (done, to] are published; by day, oldest first.

    Args:
        done_ms: everything that ended up to here is published.
        to_ms: the watermark, or an earlier end that was requested.
        steps: those of the job's tables.
        idle: whole days without rows are one chunk, in windows of at most `days_max` days.
    """
    chunks = []
    ascending = sorted(steps, key=lambda step: step.ms)
    begin = _floor(done_ms, DAY_MS)
    while begin < to_ms:
        end = idle.end(begin, to_ms) if done_ms <= begin else begin
        if end > begin + DAY_MS:
            pieces = tuple(_idle_pieces(begin, end, ascending, idle))
        else:
            end = begin + DAY_MS
            pieces = tuple(_pieces(max(begin, done_ms), min(end, to_ms), ascending))
        if pieces:
            window = Window(min(piece.window.from_ms for piece in pieces), max(piece.window.to_ms for piece in pieces))
            chunks.append(Chunk(window, pieces, idle.first(begin)))
        begin = end
    return chunks


def _idle_pieces(begin_ms: int, end_ms: int, steps: list[Step], idle: Idle) -> Iterator[Piece]:
    """Pieces of whole days without rows. A step that is kept nowhere in a piece is not published there."""
    length = max(1, idle.days_max) * DAY_MS
    for begin in range(begin_ms, end_ms, length):
        end = min(begin + length, end_ms)
        published = []
        for step in steps:
            since = max(begin, _floor(idle.kept_since.get(step, begin), step.ms))
            if since < end:
                published.append((step, Window(since, end)))
        if published:
            yield Piece(Window(begin, end), tuple(published))


def _pieces(done_ms: int, to_ms: int, steps: list[Step]) -> Iterator[Piece]:
    """Pieces of one day. The longest step that has become whole comes first, with all shorter ones in it; what is behind it is
    left to the next shorter one."""
    covered_ms = 0
    for number in reversed(range(len(steps))):
        step = steps[number]
        end = _floor(to_ms, step.ms)
        if end <= max(_floor(done_ms, step.ms), covered_ms):
            continue
        published = []
        for shorter in steps[: number + 1]:
            part = Window(max(_floor(done_ms, shorter.ms), covered_ms), end)
            if part.from_ms < part.to_ms:
                published.append((shorter, part))
        begin = min(part.from_ms for _, part in published)
        yield Piece(Window(_floor(begin, max(step.ms, HOUR_MS)), end), tuple(published))
        covered_ms = end


def states_due(last_ms: int, to_ms: int, idle: Idle = Idle()) -> list[Window]:
    """Windows in a row from a state that is known to an hour's beginning; a state is kept at the end of each.

    Those are the ends of days and the last hour's: where windows begin that are computed when they are over. Days without rows in
    a row are one window.
    """
    windows = []
    begin, end = last_ms, _floor(to_ms, HOUR_MS)
    while begin < end:
        until = max(min(end, _floor(begin, DAY_MS) + DAY_MS), idle.end(begin, end))
        windows.append(Window(begin, until))
        begin = until
    return windows


def again(spans: Iterable[tuple[int, int]], done_ms: int) -> list[Window]:
    """What is to be computed again because of spans [from, to) that changed, in order: of the UTC days that are over up to their
    ends, as their rows have all hours. What is behind `done_ms` was not computed yet."""
    found: list[Window] = []
    for begin, end in sorted(spans):
        day_end = -_floor(-end, DAY_MS)
        end = day_end if day_end <= done_ms else min(end, done_ms)
        if found and begin <= found[-1].to_ms:
            begin, end = found[-1].from_ms, max(found.pop().to_ms, end)
        if begin < end:
            found.append(Window(begin, end))
    return found


def portions(rows_at: Sequence[tuple[int, int]], window: Window, rows_max: int) -> list[Window]:
    """Split a window into consecutive windows with at most a given number of rows each, or one moment that has more.

    Args:
        rows_at: moments and how many rows begin at each, in order.
    """
    cuts, rows = [window.from_ms], 0
    for at_ms, count in rows_at:
        if rows and rows + count > rows_max:
            cuts.append(at_ms)
            rows = 0
        rows += count
    return [Window(begin, end) for begin, end in zip(cuts, [*cuts[1:], window.to_ms], strict=True)]


def _floor(at_ms: int, step_ms: int) -> int:
    return at_ms - at_ms % step_ms
