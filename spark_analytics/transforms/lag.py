"""Backlog, messages in flight, lag and time lag of consumer groups, second by second, summed up by step."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from qmq.protocol.names import RETRY_PREFIX
from spark_analytics.schemas import SEQUENCES_PER_LOG
from spark_analytics.transforms import seconds as by_second
from spark_analytics.transforms.frames import bucket, longs, original_subject, repeated, retrying_group, selected
from spark_analytics.transforms.outputs import LAG
from spark_analytics.transforms.runs import positions
from spark_analytics.transforms.windows import SECOND_MS, SHORT_STEPS, Window, check_steps

Flags = NDArray[np.bool_]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


def lag(
    stored: DataFrame,
    progress: DataFrame,
    state: DataFrame,
    runs: DataFrame,
    *,
    window: Window,
    buckets: int,
    steps: Sequence[int] = SHORT_STEPS,
    ranges: DataFrame | None = None,
    keep: Callable[[DataFrame], DataFrame] = lambda found: found,
) -> DataFrame:
    """Lag of each consumer group on each subject by step: `outputs.LAG`, as `qmq/lag.py` defines it.

    The state at a second is what holds after all events before its end; a second without events has the state of the one before.

    - **backlog**: messages stored less the group's position (messages), never below 0; what retention removed does not count.
    - **in flight**: handed out, and neither acked nor settled by the broker (messages).
    - **lag**: both. What waits in the group's retry subject, and what it holds of that, belongs to the original subject's group; so
      does what a group that pulls a dead-letter subject has there. Counts are summed over broker groups.
    - **time lag**: the second's end less the store time, to the second, of the oldest message not acked (seconds); the greatest of
      the broker groups'; 0 when all are acked; null when that store time is not among `stored`.

    `_max`, `_min` and `_mean` are over the states of the step's seconds in which the group existed, `_last` is the last of these.
    A group that did not exist in a step has no row there; one that was forgotten exists until then.

    Args:
        stored: STORED_SECONDS up to the window's end: the window's, and those before it back to the oldest message that a group
            has not acked (`state.stored_tail` keeps these).
        progress: entries of the window.
        state: GROUP_STATE at the window's beginning.
        runs: RUNS of the same progress, state and window.
        window: whole steps, not beyond the watermark.
        buckets: parts that the work is split into (`frames.bucket_count`).
        ranges: RANGES up to the window's end, with the last samples before it; without them, messages that retention removed
            count until the group moves.
        keep: makes a frame whose rows stay in memory or on disk. What workers find is read twice: a row of each group where nothing
            happens in the window, and all rows of others.
    """
    check_steps(window, steps)
    before = window.from_ms // SECOND_MS - 1
    known = state.where(F.col("next_sequence").isNotNull())
    moved = _rows_of(positions(progress, window=window), _MOVED, buckets, "second", "next_sequence")
    carried = _rows_of(known.withColumn("second", F.lit(before)), _MOVED, buckets, "second", "next_sequence")
    pulled, ended = F.floor(F.col("pulled_ms") / SECOND_MS), F.floor(F.col("ended_ms") / SECOND_MS)
    end = F.coalesce(ended, F.lit(window.to_ms // SECOND_MS))
    # What was handed out and done within a second is seen at no second's end.
    seen = runs.withColumn("pulled", pulled).withColumn("ended", end).where(F.col("pulled") < F.col("ended"))
    held = _rows_of(seen, _HELD, buckets, "begin", "messages", "pulled", "ended")
    events = moved.unionByName(carried).unionByName(held, allowMissingColumns=True)
    inside = _of_retries(stored.where(F.col("second") < window.to_ms // SECOND_MS))
    facts = _rows_of(inside, _STORED, buckets, "second", "first_sequence", "end_sequence")
    if ranges is not None:
        inside = ranges.where(F.col("at_ms") < window.to_ms).withColumn("second", F.floor(F.col("at_ms") / SECOND_MS))
        facts = facts.unionByName(_rows_of(_of_retries(inside), _RANGE, buckets, "second", "begin", "end"))
    found = keep(
        facts.groupBy("bucket")
        .cogroup(events.groupBy("bucket"))
        .applyInArrow(partial(_of_bucket, window, tuple(steps)), LAG)
    )
    is_idle = F.col("step_ms") == _IDLE
    return selected(found.where(~is_idle).unionByName(_of_idle(found.where(is_idle), window, steps)), LAG)


def _of_idle(found: DataFrame, window: Window, steps: Sequence[int]) -> DataFrame:
    """The rows of groups where nothing happens in the window, from their rows of the first second: counts stay, and a time lag
    grows by a second each second, unless all messages are acked."""
    rows = repeated(found.drop("step_ms", "at_ms"), window=window, steps=steps)
    first, step_ms = F.col("time_lag_seconds_last"), F.col("step_ms")
    last = first + (F.col("at_ms") + step_ms - window.from_ms) / SECOND_MS - 1
    ages = {"max": last, "mean": last - (step_ms / SECOND_MS - 1) / 2, "last": last}
    times = {f"time_lag_seconds_{name}": F.when(first > 0, age).otherwise(first) for name, age in ages.items()}
    return rows.select(*(times[name].alias(name) if name in times else name for name in LAG.names))


# Rows of the two sides that meet in a worker: what kind of row it is, and numbers that mean what is said above.
_MOVED, _HELD, _STORED, _RANGE = "moved", "held", "stored", "range"
_FORGOTTEN, _UNKNOWN = -1, -2
"""In place of a group's position: it was forgotten, and nothing is known of it."""
_IDLE = 0
"""In place of a step: the row of a group where nothing happens in the window, as it is at the end of the first second."""


def _of_retries(frame: DataFrame) -> DataFrame:
    """With the group whose retries a subject holds; null for another subject."""
    return frame.withColumn("group", retrying_group(F.col("subject")))


def _rows_of(frame: DataFrame, kind: str, buckets: int, *numbers: str) -> DataFrame:
    """Rows of a kind, with columns as its numbers: `a`, `b` and so on."""
    columns = [F.col(number).cast("long").alias(name) for name, number in zip("abcd", numbers, strict=False)]
    placed = frame.withColumn("original", original_subject(F.col("subject")))
    names = ("original", "broker_group", "subject", "group")
    return placed.select(bucket(buckets, "original").alias("bucket"), *names, F.lit(kind).alias("kind"), *columns)


@dataclass(slots=True)
class _Part:
    """What is known of a group on one subject of one broker group."""

    is_retry: bool = False
    moved: pa.Table | None = None
    held: pa.Table | None = None


@dataclass(slots=True)
class _Stored:
    """What is known of one subject of one broker group."""

    seconds: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    first_sequences: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    end_sequences: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    range_seconds: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    range_begins: Longs = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


def _of_bucket(window: Window, steps: tuple[int, ...], facts: pa.Table, events: pa.Table) -> pa.Table:
    """The rows of all groups of the subjects in a bucket; one of each group whose subject has no row in the window."""
    busy = _busy(window, facts, events)
    stored: dict[tuple[str, str], _Stored] = {}
    groups: dict[tuple[str, str], dict[tuple[str, str], _Part]] = {}
    for (original, broker_group, subject, group, kind), rows in _parts(facts):
        here = stored.setdefault((broker_group, subject), _Stored())
        if kind == _STORED:
            here.seconds, here.first_sequences, here.end_sequences = (longs(rows, name) for name in "abc")
            if group is not None:
                # A group begins with all that is in its retry subject, also when it has not pulled there yet.
                groups.setdefault((original, group), {}).setdefault((broker_group, subject), _Part()).is_retry = True
        else:
            here.range_seconds, here.range_begins = longs(rows, "a"), longs(rows, "b")
    for (original, broker_group, subject, group, kind), rows in _parts(events):
        part = groups.setdefault((original, group), {}).setdefault((broker_group, subject), _Part())
        if kind == _MOVED:
            part.moved = rows
        else:
            part.held = rows
    tables = []
    first = Window(window.from_ms, window.from_ms + SECOND_MS)
    for (original, group), parts in sorted(groups.items()):
        seconds, of_steps = (window, steps) if original in busy else (first, (_IDLE,))
        states = _States(seconds)
        forgotten: dict[str, Flags] = {}
        # The original subject first: what waits in the retry subject of a group that was forgotten there has no owner.
        for place, part in sorted(parts.items(), key=lambda item: (item[0][1] != original, item[0])):
            broker_group, subject = place
            hidden = forgotten.get(broker_group) if subject.startswith(RETRY_PREFIX) else None
            is_forgotten = states.add(stored.get(place, _Stored()), part, hidden)
            if subject == original:
                forgotten[broker_group] = is_forgotten
        if states.exists.any():
            tables += [_rows(original, group, states, seconds, step_ms) for step_ms in of_steps]
    return pa.concat_tables(tables) if tables else _SCHEMA.empty_table()


def _busy(window: Window, facts: pa.Table, events: pa.Table) -> set[str]:
    """The original subjects of which anything happens in the window."""
    first, end = window.from_ms // SECOND_MS, window.to_ms // SECOND_MS
    is_held = pc.equal(events.column("kind"), _HELD)
    is_begun = pc.greater_equal(pc.if_else(is_held, events.column("c"), events.column("a")), first)
    is_ended = pc.and_(is_held, pc.less(events.column("d"), end))
    parts = (
        facts.filter(pc.greater_equal(facts.column("a"), first)),
        events.filter(pc.or_kleene(is_begun, is_ended)),
    )
    return {name for part in parts for name in pc.unique(part.column("original")).to_pylist()}


class _States:
    """A group's states at the ends of a window's seconds, summed over the places where it is."""

    def __init__(self, window: Window) -> None:
        self.first, self.count = window.from_ms // SECOND_MS, window.seconds
        self.exists = np.zeros(self.count, dtype=np.bool_)
        self.backlog = np.zeros(self.count, dtype=np.int64)
        self.in_flight = np.zeros(self.count, dtype=np.int64)
        self.time_lag = np.zeros(self.count)

    def add(self, stored: _Stored, part: _Part, hidden: Flags | None) -> Flags:
        """Add a place but for its `hidden` seconds; the seconds at whose end the group was forgotten there."""
        first, count = self.first, self.count
        end = by_second.held_until(stored.seconds, np.maximum.accumulate(stored.end_sequences), first, count, 0)
        begin = by_second.held_until(stored.range_seconds, np.maximum.accumulate(stored.range_begins), first, count, 0)
        # From the first message of another log on, everything that the broker group held before it is gone.
        begin = np.maximum(begin, end & -SEQUENCES_PER_LOG)
        none = np.zeros(0, dtype=np.int64)
        moved_at, moved_to = (none, none) if part.moved is None else (longs(part.moved, "a"), longs(part.moved, "b"))
        if part.is_retry and len(stored.seconds) and (not len(moved_at) or stored.seconds[0] < moved_at[0]):
            moved_at, moved_to = np.append(stored.seconds[0], moved_at), np.append(stored.first_sequences[0], moved_to)
        # A history with a hole: runs are known, and nothing else.
        moved = by_second.held_until(moved_at, moved_to, first, count, _UNKNOWN)
        is_forgotten: Flags = moved == _FORGOTTEN
        exists = moved >= 0 if hidden is None else (moved >= 0) & ~hidden
        if not exists.any():
            return is_forgotten
        position = np.maximum(moved, begin)
        backlog = np.where(exists, np.maximum(0, end - position), 0)
        oldest = np.where(backlog > 0, position, by_second.NOTHING)
        if part.held is not None:
            sequences, messages, pulled, ended = (longs(part.held, name) for name in "abcd")
            in_flight = by_second.in_flight(pulled - first, ended - first, messages, count)
            lowest = by_second.lowest_held(pulled - first, ended - first, sequences, count)
            if hidden is not None:
                in_flight[hidden], lowest[hidden] = 0, by_second.NOTHING
            self.in_flight += in_flight
            oldest = np.minimum(oldest, lowest)
        self.exists |= exists
        self.backlog += backlog
        is_behind = oldest != by_second.NOTHING
        since = by_second.stored_second(
            np.maximum(oldest[is_behind], begin[is_behind]),
            stored.first_sequences,
            stored.end_sequences,
            stored.seconds,
        )
        late = np.zeros(count)
        late[is_behind] = np.maximum(0.0, first + np.flatnonzero(is_behind) + 1 - since)
        # An unknown one (NaN) makes the sum unknown.
        self.time_lag = np.maximum(self.time_lag, late)
        return is_forgotten


_SCHEMA = to_arrow_schema(LAG)


def _rows(subject: str, group: str, states: _States, window: Window, step_ms: int) -> pa.Table:
    """A group's rows of one step: of the steps in which it existed."""
    length = step_ms // SECOND_MS if step_ms != _IDLE else 1
    whole = states.count // length * length
    exists = states.exists[:whole].reshape(-1, length)
    n = exists.sum(axis=1)
    of_steps = np.flatnonzero(n)
    exists, n = exists[of_steps], n[of_steps]
    # The last second of each step in which the group was there.
    lasts = (np.arange(len(of_steps)), length - 1 - np.argmax(exists[:, ::-1], axis=1))

    columns: dict[str, Any] = {
        "step_ms": np.full(len(of_steps), step_ms),
        "at_ms": window.from_ms + of_steps * step_ms,
        "subject": pa.array([subject] * len(of_steps), pa.string()),
        "group": pa.array([group] * len(of_steps), pa.string()),
    }
    lag = states.backlog + states.in_flight
    for name, seconds in (("backlog", states.backlog), ("in_flight", states.in_flight), ("lag", lag)):
        # All are 0 where the group was not there.
        values = seconds[:whole].reshape(-1, length)[of_steps]
        if name == "lag":
            columns["lag_messages_min"] = np.where(exists, values, by_second.NOTHING).min(axis=1)
        columns[f"{name}_messages_max"] = values.max(axis=1)
        columns[f"{name}_messages_mean"] = values.sum(axis=1) / n
        columns[f"{name}_messages_last"] = values[lasts]
    late = states.time_lag[:whole].reshape(-1, length)[of_steps]
    for name, times in (("max", late.max(axis=1)), ("mean", late.sum(axis=1) / n), ("last", late[lasts])):
        columns[f"time_lag_seconds_{name}"] = pa.array(times, mask=np.isnan(times))
    return pa.table(columns, schema=_SCHEMA)


def _parts(table: pa.Table) -> Iterator[tuple[tuple[str, ...], pa.Table]]:
    """A table's rows by original subject, broker group, subject, group and kind; within each by the first number."""
    names = ("original", "broker_group", "subject", "group", "kind")
    table = table.sort_by([(name, "ascending") for name in (*names, "a")])
    if not table.num_rows:
        return
    changes = np.zeros(table.num_rows, dtype=np.bool_)
    changes[0] = True
    for name in names:
        codes = np.asarray(pc.fill_null(table.column(name).combine_chunks().dictionary_encode().indices, -1))
        changes[1:] |= codes[1:] != codes[:-1]
    begins = np.flatnonzero(changes)
    ends = np.append(begins[1:], table.num_rows)
    keys = table.select(list(names)).take(pa.array(begins)).to_pylist()
    for key, begin, end in zip(keys, begins.tolist(), ends.tolist(), strict=True):
        yield tuple(key[name] for name in names), table.slice(begin, end - begin)
