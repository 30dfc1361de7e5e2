"""Intervals from how far earlier forecasts were off: conformal prediction with adaptive levels (Gibbs and Candès, 2021).

A forecast that came due is a case. Its *score* says how far the truth was from the point; the interval of a new forecast reaches
from one quantile of earlier scores to another. The quantiles' levels begin at LEVEL, 10 % below and 10 % above, and adapt with each
case: an end that was missed moves outwards, an end that held moves inwards a little, such that each end is missed in 10 % of cases
in the long run, also where scores change with time.

`Calibration` is the whole state, a value: `learned` returns a new one. `CALIBRATION` describes the table that holds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
Longs = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Key = tuple[str, str]
"""Names of a series: subject and group, or broker group and node."""

EXPECTED, POSSIBLE, NEVER, UNKNOWN = "expected", "possible", "never", "unknown"
"""Outlooks: reached within the interval; perhaps, as there is no upper end; not even at the lower end; too few cases came due."""

LEVEL = 0.1
"""Share of cases that each end is meant to miss; where levels begin."""
INTERVAL_RATIO = 1 - 2 * LEVEL
"""Share of cases that intervals are meant to hold."""
LEVEL_MIN = 0.005
LEVEL_MAX = 0.3
_ROUNDING = 1e-6
"""Relative: a truth at the end of an interval is in it, although scores are logarithms in single precision."""

CALIBRATION = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("key", pa.list_(pa.string()), nullable=False),
        pa.field("level_low", pa.float64(), nullable=False),
        pa.field("level_high", pa.float64(), nullable=False),
        pa.field("learned_ms", pa.int64(), nullable=False),
        pa.field("classes", pa.list_(pa.int8()), nullable=False),
        pa.field("scores", pa.list_(pa.float32()), nullable=False),
    ]
)
"""A row is a series: the kind of forecast (`Rule.kind`), the series' names, the level of each end, when its last case came due (ms
since the epoch), and its scores, oldest first within a class, with the class of each. A score can be infinite."""

SERIES_AT_ONCE = 1_000
"""Series whose rows are read together, so that what is computed meanwhile stays small."""
_DELETE = "Delete the rows of this kind; its forecasts then learn from the beginning."


@dataclass(frozen=True, slots=True)
class Rule:
    """How forecasts of one kind are calibrated."""

    kind: str
    classes_count: int
    scores_max: int
    """Latest scores that are kept of a series and class."""
    scores_min: int
    """Fewer say nothing: the forecast is unknown."""
    step: float
    """How far a case moves a level: by step x (LEVEL - missed)."""
    is_shared: bool
    """Whether a series with fewer than scores_max scores of a class borrows from all series."""
    kept_ms: int
    """Time without a case after which a series is forgotten."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """What forecasts of one kind have learned."""

    keys: tuple[Key, ...]
    scores: Floats
    """(series, classes, scores_max): the latest is last, NaN stands in front where there are fewer."""
    levels: Doubles
    """(series, 2): of the lower and the upper end."""
    learned_ms: Longs
    """(series,): when the latest case came due, in ms since the epoch; cases up to it are known."""

    def places(self, keys: Sequence[Key]) -> Longs:
        """Return the row of each series, -1 for one that is not there."""
        rows = {key: row for row, key in enumerate(self.keys)}
        return np.array([rows.get(key, -1) for key in keys], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Cases:
    """Forecasts that came due; arrays of one length."""

    series: Longs
    """Row of `Calibration.keys`."""
    classes: Longs
    scores: Doubles
    missed: Doubles
    """(cases, 2): 1 where the truth was below the lower end, or above the upper end, else 0; NaN if there was no interval."""
    due_ms: Longs


@dataclass(frozen=True, slots=True)
class Intervals:
    """Ends as scores; -inf or inf: none; NaN: unknown."""

    low: Doubles
    high: Doubles
    scores_count: Longs
    """Scores that the ends rest on."""


def empty(rule: Rule) -> Calibration:
    """Return the state before the first case."""
    return Calibration(
        (),
        np.empty((0, rule.classes_count, rule.scores_max), dtype=np.float32),
        np.empty((0, 2)),
        np.empty(0, dtype=np.int64),
    )


def extended(calibration: Calibration, keys: Sequence[Key]) -> Calibration:
    """Return the state with series that it does not have yet behind those it has, each once, without cases."""
    known = set(calibration.keys)
    added = [key for key in dict.fromkeys(keys) if key not in known]
    return Calibration(
        (*calibration.keys, *added),
        np.concatenate(
            [calibration.scores, np.full((len(added), *calibration.scores.shape[1:]), np.nan, dtype=np.float32)]
        ),
        np.concatenate([calibration.levels, np.full((len(added), 2), LEVEL)]),
        np.concatenate([calibration.learned_ms, np.zeros(len(added), dtype=np.int64)]),
    )


def intervals(rule: Rule, calibration: Calibration, series: Longs, classes: Longs) -> Intervals:
    """Return the ends for new forecasts of series, each of a class.

    A series' own latest scores of the class count; where it has fewer than scores_max and the rule says so, evenly spaced ones of
    those of all series fill them up. So does a series that is not there (-1).
    """
    if len(calibration.keys):
        sample = np.where((series >= 0)[:, None], calibration.scores[series, classes], np.nan)
        levels = np.where((series >= 0)[:, None], calibration.levels[series], LEVEL)
    else:
        sample, levels = np.full((len(series), rule.scores_max), np.nan, np.float32), np.full((len(series), 2), LEVEL)
    if rule.is_shared:
        for number in np.unique(classes):
            _fill(sample, np.flatnonzero(classes == number), calibration.scores[:, number])
    sample.sort(axis=1)  # NaN last
    count = (~np.isnan(sample)).sum(axis=1)
    # Ranks of n + 1 equally likely places for the next score: the end is the first rank at which at most `level` lies outside.
    outside = np.floor(levels * (count + 1)[:, None] + _ROUNDING).astype(np.int64)
    rows = np.arange(len(sample))
    low = np.where(outside[:, 0] < 1, -np.inf, sample[rows, np.maximum(outside[:, 0] - 1, 0)])
    high = np.where(outside[:, 1] < 1, np.inf, sample[rows, np.maximum(count - np.maximum(outside[:, 1], 1), 0)])
    is_known = count >= rule.scores_min
    return Intervals(np.where(is_known, low, np.nan), np.where(is_known, high, np.nan), count)


def _fill(sample: Floats, rows: Longs, scores: Floats) -> None:
    """Fill the rows of a sample with evenly spaced scores of all series."""
    pool = np.sort(scores[~np.isnan(scores)])
    size = sample.shape[1]
    wanted = min(size, len(pool))
    own = sample[rows]
    own_count = (~np.isnan(own)).sum(axis=1)
    lent = wanted - own_count
    # Own scores stand at the end of a row, so borrowed ones take the places in front of them.
    place = np.arange(size)[None, :] - (size - wanted)
    is_lent = (place >= 0) & (place < lent[:, None])
    rank = ((place + 0.5) / np.maximum(lent, 1)[:, None] * len(pool)).astype(np.int64)
    own[is_lent] = pool[rank[is_lent]]
    sample[rows] = own


def learned(rule: Rule, calibration: Calibration, cases: Cases) -> Calibration:
    """Return the state with more cases, in the order in which they came due; those known already change nothing.

    The result is the same for one call with all cases, in any order, as for several calls, each with later ones. A series has at
    most one case at a time.
    """
    new = np.flatnonzero(cases.due_ms > calibration.learned_ms[cases.series])
    order = new[np.lexsort((cases.classes[new], cases.due_ms[new], cases.series[new]))]
    series, classes, due_ms = cases.series[order], cases.classes[order], cases.due_ms[order]
    missed = cases.missed[order]
    scores, levels, learned_ms = calibration.scores.copy(), calibration.levels.copy(), calibration.learned_ms.copy()
    begins = np.flatnonzero(np.append(True, np.diff(series) != 0)) if len(series) else np.empty(0, dtype=np.int64)
    number = np.arange(len(series)) - np.repeat(begins, np.diff(np.append(begins, len(series))))
    # The first case of each series, then the second of each and so on.
    for each in range(int(number.max()) + 1 if len(number) else 0):
        at = np.flatnonzero(number == each)
        rows, numbers = series[at], classes[at]
        kept = np.roll(scores[rows, numbers], -1, axis=1)
        kept[:, -1] = cases.scores[order[at]]
        scores[rows, numbers] = kept
        moved = levels[rows] + rule.step * (LEVEL - np.nan_to_num(missed[at], nan=LEVEL))
        levels[rows] = np.clip(moved, LEVEL_MIN, LEVEL_MAX)
        learned_ms[rows] = due_ms[at]
    return replace(calibration, scores=scores, levels=levels, learned_ms=learned_ms)


def missed(low: Doubles, high: Doubles, truth: Doubles) -> Doubles:
    """Return a row for each case, as in `Cases.missed`.

    Args:
        low: lower ends, -inf for none, NaN for unknown.
        high: upper ends, inf for none.
        truth: what happened; inf for what did not happen in time.
    """
    slack = _ROUNDING * np.where(np.isfinite(truth), np.abs(truth), 0.0)
    found = np.stack([truth < low - slack, truth > high + slack], axis=1).astype(np.float64)
    found[np.isnan(low) | np.isnan(high)] = np.nan
    return found


def current(rule: Rule, calibration: Calibration, now_ms: int) -> Calibration:
    """Return the state without series whose last case came due more than `rule.kept_ms` before a time."""
    is_kept = calibration.learned_ms >= now_ms - rule.kept_ms
    return Calibration(
        tuple(key for key, keep in zip(calibration.keys, is_kept, strict=True) if keep),
        calibration.scores[is_kept],
        calibration.levels[is_kept],
        calibration.learned_ms[is_kept],
    )


def to_table(rule: Rule, calibration: Calibration) -> pa.Table:
    """Return the state as rows of CALIBRATION, by key."""
    order = sorted(range(len(calibration.keys)), key=calibration.keys.__getitem__)
    rows = np.array(order, dtype=np.int64)
    scores = calibration.scores[rows]
    is_there = ~np.isnan(scores)
    ends = np.append(0, np.cumsum(is_there.sum(axis=(1, 2)))).astype(np.int32)
    classes = np.broadcast_to(np.arange(rule.classes_count, dtype=np.int8)[None, :, None], scores.shape)
    return pa.table(
        {
            "kind": pa.array([rule.kind] * len(rows), pa.string()),
            "key": pa.array([list(calibration.keys[row]) for row in order], pa.list_(pa.string())),
            "level_low": calibration.levels[rows, 0],
            "level_high": calibration.levels[rows, 1],
            "learned_ms": calibration.learned_ms[rows],
            "classes": pa.ListArray.from_arrays(ends, classes[is_there]),
            "scores": pa.ListArray.from_arrays(ends, scores[is_there]),
        },
        schema=CALIBRATION,
    )


def from_table(rule: Rule, table: Any) -> Calibration:
    """Return the state of a kind from rows of CALIBRATION; those of other kinds are left out.

    Raises:
        ValueError: a row has a class that the rule does not have, or more scores of a class than it keeps.
    """
    table = table.filter(pc.equal(table.column("kind"), rule.kind)).combine_chunks()
    keys = tuple((str(first), str(second)) for first, second in table.column("key").to_pylist())
    parts = range(0, len(keys), SERIES_AT_ONCE)
    found = [_scores(rule, table.slice(begin, SERIES_AT_ONCE)) for begin in parts]
    scores = np.concatenate([empty(rule).scores, *found])
    levels = np.stack([_column(table, "level_low"), _column(table, "level_high")], axis=1)
    return Calibration(keys, scores, levels, _column(table, "learned_ms").astype(np.int64))


def _scores(rule: Rule, table: Any) -> Floats:
    """The scores of some rows, as in `Calibration`."""
    counts = pc.list_value_length(table.column("scores")).to_numpy()
    values = pc.list_flatten(table.column("scores")).to_numpy()
    numbers = pc.list_flatten(table.column("classes")).to_numpy().astype(np.int64)
    for number in np.unique(numbers[(numbers < 0) | (numbers >= rule.classes_count)])[:1]:
        raise ValueError(
            f"class {number} in the calibration of '{rule.kind}', which has {rule.classes_count} classes. {_DELETE}"
        )
    slots = np.repeat(np.arange(len(counts)), counts) * rule.classes_count + numbers
    sizes = np.bincount(slots, minlength=len(counts) * rule.classes_count)
    if sizes.max(initial=0) > rule.scores_max:
        raise ValueError(
            f"{sizes.max()} scores of a class in the calibration of '{rule.kind}', which keeps {rule.scores_max}. {_DELETE}"
        )
    order = np.argsort(slots, kind="stable")
    slots = slots[order]
    # The latest score of a series and class is in the last place.
    places = np.arange(len(slots)) - np.cumsum(sizes)[slots] + rule.scores_max
    found = np.full((len(sizes), rule.scores_max), np.nan, dtype=np.float32)
    found[slots, places] = values[order]
    return found.reshape(len(counts), rule.classes_count, rule.scores_max)


def _column(table: Any, name: str) -> NDArray[Any]:
    return np.asarray(table.column(name).to_numpy())


def outlooks(low: Doubles, high: Doubles) -> NDArray[np.str_]:
    """Return the outlook of intervals of times; inf: never, NaN: unknown."""
    return np.select([np.isnan(low), np.isfinite(high), np.isfinite(low)], [UNKNOWN, EXPECTED, POSSIBLE], NEVER)
