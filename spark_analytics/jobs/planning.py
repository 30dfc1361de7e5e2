"""Which windows a job computes, and what of them it publishes. Pure.

A job has published what ended up to some time, and everything up to the watermark is known: what is between is due. Only whole
steps are published: an hour's row comes when the hour is over and complete. So the same window gives the same rows whenever it is
computed, and a run that was killed is simply due again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from console.analytics.rows import Window
from console.analytics.steps import DAY_MS, Step

HOUR_MS = Step.HOUR.ms


@dataclass(frozen=True, slots=True)
class Piece:
    """A window that is computed at once. It is whole steps of all its publications, and begins with an hour."""

    window: Window
    publications: tuple[tuple[Step, Window], ...]
    """Steps, and the part of the window that is published at each."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one run does: the pieces of one UTC day, and up to when the tables are complete behind it."""

    window: Window
    pieces: tuple[Piece, ...]


def due(done_ms: int, to_ms: int, steps: Sequence[Step]) -> list[Chunk]:
    """What is to be computed so that all whole steps which end in (done, to] are published; by day, oldest first.

    Args:
        done_ms: everything that ended up to here is published.
        to_ms: the watermark, or an earlier end that was requested.
        steps: those of the job's tables.
    """
    chunks = []
    for begin in range(_floor(done_ms, DAY_MS), to_ms, DAY_MS):
        end = min(begin + DAY_MS, to_ms)
        pieces = tuple(_pieces(max(begin, done_ms), end, sorted(steps, key=lambda step: step.ms)))
        if pieces:
            window = Window(min(piece.window.from_ms for piece in pieces), max(piece.window.to_ms for piece in pieces))
            chunks.append(Chunk(window, pieces))
    return chunks


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


def states_due(last_ms: int, to_ms: int) -> list[Window]:
    """Windows in a row from a state that is known to an hour's beginning; a state is kept at the end of each.

    Those are the ends of days and the last hour's: where windows begin that are computed when they are over.
    """
    windows = []
    begin, end = last_ms, _floor(to_ms, HOUR_MS)
    while begin < end:
        until = min(end, _floor(begin, DAY_MS) + DAY_MS)
        windows.append(Window(begin, until))
        begin = until
    return windows


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
