"""A range of numbers: measurements of the last hour, and summaries of what was before."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from console.analytics.rows import Window
from console.reports.timelines.points import Column, Figures, Points, factor_for, figures, thinned
from console.reports.timelines.summaries import Summaries, read_summaries
from console.snapshot.history import ARRIVAL_SECONDS, SPAN_SECONDS, STEP_SECONDS, History, read_history

SPAN_DAYS_MAX = 30
"""The longest range."""
POINTS_MAX = 750
"""Points of each field: hours of 30 days, two minutes of a day. Of more the highest values are kept."""
_STEP_MS = STEP_SECONDS * 1000


@dataclass(frozen=True, slots=True)
class Timeline:
    """Columns of a range."""

    step_seconds: int
    """Length of the points from the border on."""
    at_ms: list[int]
    fields: dict[str, Column]
    reason: str | None
    """Why nothing was measured in the last hour; None: something was, or the range is older."""
    border_ms: int | None
    """Points before it are summaries, others measurements; None: all are of one kind."""
    summary: Summaries | None
    """None: the range is within the last hour."""
    summary_step_seconds: int
    figures: dict[str, Figures]


def last_hour(now_ms: int) -> Window:
    """Return the range that measurements are kept of, without the steps that have not arrived yet."""
    return Window(now_ms - (SPAN_SECONDS + ARRIVAL_SECONDS + STEP_SECONDS) * 1000, now_ms)


def read_timeline(url: str, section: str, name: str, key: Mapping[str, str], window: Window, now: datetime) -> Timeline:
    """Return a range of a series, at most POINTS_MAX points of each field.

    Args:
        section: of the history; a range before the last hour needs one of SOURCES.
        name: of the series in the history.
        key: the same as values of the columns of summary tables.
        window: at most SPAN_DAYS_MAX days.
    """
    now_ms = int(now.timestamp() * 1000)
    hour = last_hour(now_ms)
    if window.to_ms > hour.from_ms:
        history = read_history(url, section, name, lambda: now_ms / 1000)
    else:
        history = History([], {})
    factor = factor_for((window.to_ms - window.from_ms) // _STEP_MS, POINTS_MAX)
    if window.from_ms >= hour.from_ms:
        measured = _measured(history, window)
        at_ms, fields = thinned(measured, factor)
        whole = {field: figures([measured], field) for field in fields}
        return Timeline(STEP_SECONDS * factor, at_ms, fields, history.reason, None, None, 0, whole)
    measured = _begun(_measured(history, window))
    at_ms, fields = thinned(measured, factor)
    border_ms = at_ms[0] if at_ms else None
    summary = read_summaries(section, key, Window(window.from_ms, border_ms or window.to_ms), now)
    older = factor_for(len(summary.points.at_ms), POINTS_MAX - len(at_ms))
    older_at_ms, older_fields = thinned(summary.points, older)
    names = dict.fromkeys((*history.fields, *older_fields))
    joined = {
        field: older_fields.get(field, [None] * len(older_at_ms)) + fields.get(field, [None] * len(at_ms))
        for field in names
    }
    return Timeline(
        STEP_SECONDS * factor,
        older_at_ms + at_ms,
        joined,
        history.reason,
        border_ms,
        summary,
        older * summary.points.step_ms // 1000,
        {field: figures([summary.points, measured], field) for field in names},
    )


def _measured(history: History, window: Window) -> Points:
    times = [int(datetime.fromisoformat(at).timestamp() * 1000) for at in history.at]
    kept = [index for index, at in enumerate(times) if window.from_ms <= at < window.to_ms]
    columns = {field: [values[index] for index in kept] for field, values in history.fields.items()}
    return Points(_STEP_MS, [times[index] for index in kept], columns, columns)


def _begun(points: Points) -> Points:
    """The points from the first measured one on: what is before it is known from summaries."""
    columns, count = points.highest.values(), len(points.at_ms)
    first = next((i for i in range(count) if any(values[i] is not None for values in columns)), count)
    kept = {field: values[first:] for field, values in points.highest.items()}
    return Points(points.step_ms, points.at_ms[first:], kept, kept)
