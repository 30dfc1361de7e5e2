"""`spark.read.format("qmq")` and `spark.readStream.format("qmq")`.

    spark.read.format("qmq").options(metaserver="localhost:8080", table="index", subjects="order.*").load()

Tables and their columns are in `spark_analytics.schemas`, options in `spark_analytics.source.options.OPTIONS`. Options select what
is read from nodes: names, times, and columns (an explicit schema does too), because Spark does not report the selected columns to a
Python data source.

Filters of a query are not pushed down: Spark (4.3, `PythonDataSourceV2`) keeps the reader that filters were pushed into with the
DataFrame, and another query of the same DataFrame would silently read what the first one's filters left.
"""

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from qmq.errors import SettingError
from spark_analytics.schemas import SCHEMAS, SEQUENCES_PER_LOG
from spark_analytics.source.gaps import Hole, Reason, record, recorded_batch
from spark_analytics.source.listing import read_listings
from spark_analytics.source.offset_files import RANGES_INLINE_MAX, Offsets
from spark_analytics.source.offsets import Key, Observed, Offset, Place, StreamError, advance, between
from spark_analytics.source.options import STREAMED, ReadOptions, parse_options
from spark_analytics.source.partitions import Bundle, Forgotten, Range, plan
from spark_analytics.source.planning import entry_at, observe, plan_ranges
from spark_analytics.source.reading import Task, forgotten_batch, nodes_batch, read_bundle
from spark_analytics.source.selection import HIGHEST

NAME = "qmq"


class QmqDataSource(DataSource):
    """The data source `qmq`; see the module."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> StructType:
        """The table's columns, or those that option `columns` names. Raises SettingError."""
        options = parse_options(self.options)
        schema = SCHEMAS[options.table]
        return StructType([schema[name] for name in options.columns])

    def reader(self, schema: StructType) -> "QmqReader":
        """Raises SettingError."""
        return QmqReader(parse_options(self.options), schema)

    def streamReader(self, schema: StructType) -> "QmqStreamReader":
        """Raises SettingError: the table is none of STREAMED."""
        return QmqStreamReader(parse_options(self.options), schema)


def arrow_schema(table: str, wanted: StructType) -> pa.Schema:
    """The Arrow schema of these columns.

    Raises:
        SettingError: the table has no such column, has it with another type, or it can be null where null is not allowed.
    """
    known = SCHEMAS[table]
    for field in wanted:
        if field.name not in known.names:
            raise SettingError(f"table {table} has no column {field.name}; it has {', '.join(known.names)}")
        ours = known[field.name]
        if field.dataType.simpleString() != ours.dataType.simpleString():
            raise SettingError(
                f"column {field.name} of table {table} is {ours.dataType.simpleString()}, the schema says"
                f" {field.dataType.simpleString()}"
            )
        if ours.nullable and not field.nullable:
            raise SettingError(f"column {field.name} of table {table} may be null, but the schema says NOT NULL")
    return to_arrow_schema(wanted, timezone="UTC")


def _task(options: ReadOptions, schema: pa.Schema) -> Task:
    return Task(options.table, schema, options.selection, options.token, options.on_gap, options.holes)


# --- batch ----------------------------------------------------------------------------------------------------------


class QmqReader(DataSourceReader):
    """A table as it is when it is planned."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self._options = options
        self._schema = arrow_schema(options.table, schema)

    def partitions(self) -> Sequence[InputPartition]:
        """One for each range, or bundle of small ones. Raises: as `plan_ranges`."""
        if self._options.table in ("nodes", "holes"):
            return [InputPartition(self._options.table)]
        ranges = plan_ranges(self._options)
        return [InputPartition(bundle) for bundle in plan(ranges, self._options.rows_per_partition)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Raises: as `read_bundle`."""
        task = _task(self._options, self._schema)
        match partition.value:
            case "nodes":
                yield nodes_batch(task, self._options.metaserver)
            case "holes":
                yield recorded_batch(self._options.holes, self._schema)
            case Bundle() as bundle:
                yield from read_bundle(task, bundle)


# --- stream ---------------------------------------------------------------------------------------------------------


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without garbage collection: it would walk again and again through as many objects as there are ranges, all of them in use."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class QmqStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A table as it grows. Subjects and groups that come are read from their beginning, without being named."""

    def __init__(self, options: ReadOptions, schema: StructType, *, inline_max: int = RANGES_INLINE_MAX) -> None:
        """`inline_max`: ranges above which an offset names a file."""
        if options.table not in STREAMED:
            raise SettingError(f"table {options.table} can't be a stream; {', '.join(STREAMED)} can")
        if options.selection.times.end < HIGHEST:
            raise SettingError("option to is not supported by streams, which continue with new messages")
        self._options = options
        self._schema = arrow_schema(options.table, schema)
        self._offsets = Offsets(options.offsets, kept=options.offsets_kept, inline_max=inline_max)
        self._target: Observed | None = None
        self._places: dict[Key, Range] = {}

    def initialOffset(self) -> dict[str, Any]:
        """Nothing was read yet."""
        return Offset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.rows_per_batch)

    @_uncollected()
    def prepareForTriggerAvailableNow(self) -> None:
        """What is there now is the query's end."""
        self._target = self._observe()

    @_uncollected()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Raises StreamError, OSError: the folder of option `offsets` can't be written; and as `observe`."""
        rows_max = (
            None if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_rows", self._options.rows_per_batch)
        )
        seen = self._target or self._observe()
        begun = self._offsets.of_json(start)
        end = advance(
            begun,
            seen,
            rows_max,
            may_only_complete=self._target is not None,
            lost=self if self._options.on_gap == "record" else None,
        )
        return start if end is begun else self._offsets.to_json(end, start)

    @_uncollected()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """What lies between two offsets. Raises StreamError, and as `observe`."""
        reached = self._offsets.of_json(end)
        forgotten: list[Forgotten] = []
        wanted: list[tuple[Key, int, int]] = []
        for key, begin, after in between(self._offsets.of_json(start), reached):
            at = reached.ranges[key]
            if at.forgotten_at_ms:
                forgotten.append(Forgotten(*key, at.base + begin, at.forgotten_at_ms))
            else:
                wanted.append((key, begin, after))
        if any(key not in self._places for key, _, _ in wanted):
            self._observe()
        sequence_bases = {name: number * SEQUENCES_PER_LOG for name, number in reached.logs.items()}
        ranges: list[Range] = []
        for key, begin, after in wanted:
            place = self._places.get(key)
            if place is None:
                broker_group, subject, group = key
                raise StreamError(
                    f"subject {subject}{f', group {group},' if group else ''} is no longer on broker group {broker_group}, or"
                    f" the options exclude it, but the checkpoint has an unfinished batch with it; restore the options"
                )
            base, sequence_base = reached.ranges[key].base, sequence_bases.get(key[0], 0)
            ranges.append(place._replace(begin=begin, end=after, base=base, sequence_base=sequence_base))
        bundles = [InputPartition(bundle) for bundle in plan(ranges, self._options.rows_per_partition)]
        return [InputPartition(tuple(forgotten)), *bundles] if forgotten else bundles

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a partition. Raises: as `read_bundle`."""
        match partition.value:
            case Bundle() as bundle:
                yield from read_bundle(_task(self._options, self._schema), bundle)
            case forgotten:
                yield forgotten_batch(self._schema, forgotten)

    # --- what `advance` reports of histories that end ---

    def forgotten(self, key: Key, place: Place) -> None:
        """Write down that what the group did last is not known."""
        self._record(key, place, "forgotten")

    def rebuilt(self, key: Key, place: Place, done_ms: int) -> int:
        """Record that the history was replaced, and find where to continue. Raises NodeUnreadable."""
        found = entry_at(self._options, self._places[key], done_ms)
        self._record(key, place, "rebuilt")
        return found

    def emptied(self, broker_group: str, log_number: int) -> None:
        """Write down that what the broker group held behind what was read is not known."""
        at = log_number * SEQUENCES_PER_LOG
        record(self._options.holes, Hole(self._options.table, broker_group, "", "", at, at, "emptied"))

    def _record(self, key: Key, place: Place, reason: Reason) -> None:
        at = place.base + place.next
        record(self._options.holes, Hole(self._options.table, *key, at, at, reason))

    def _observe(self) -> Observed:
        path = self._options.listings
        seen, self._places = observe(self._options, read_listings(path) if path else None)
        return seen
