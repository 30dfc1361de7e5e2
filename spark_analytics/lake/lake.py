"""Tables as Parquet files by hour or day, in a folder or other storage; each is a Delta table (`lake.delta`).

    LAKE/TABLE/ID/date=YYYY-MM-DD/hour=HH/part-N.parquet    rows of one write, by the hour (UTC) of the table's moment
    LAKE/gold_TABLE/ID/date=YYYY-MM-DD/part-N.parquet       the same by the day, of hours and days that jobs publish
    LAKE/TABLE/_delta_log/VERSION.json                      which of these files count
    LAKE/_checkpoints/TABLE/                                how far the stream that fills it has read

Every write has the same steps: Spark writes to a folder of the write's own, in the table's; the files are synced with
the names of the folders above them; one commit makes them count. So at any kill the table is as it was before the write
or as it is after it. After a power cut too, because what a commit names was on the disk before the commit was made;
what a writer left behind is deleted by `retain`.
"""

import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from spark_analytics.lake.delta import Batch, Change, DataFile, Snapshot, TableLog, now_ms
from spark_analytics.lake.files import LakeError, LakeFiles, LocalFiles, RemoteFiles, local_folder
from spark_analytics.lake.tables import STREAMED, TABLES, LakeTable
from spark_analytics.local_rows import local_frame
from spark_analytics.transforms.stored import silver_seconds
from spark_analytics.transforms.windows import DAY_MS, HOUR_MS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

CHECKPOINTS_FOLDER = "_checkpoints"
WATERMARK_SECONDS = 120
"""How late rows may be: a row that a node stored less than this long before it was read may be missing from what was
read, as rows are visible once they are synced, and the node's clock may step back by this much."""
COMPACT_AFTER = timedelta(hours=1)
"""How long after its end an hour or day is compacted: late rows come before, as a rule."""
COMPACTED_BYTES = 128 << 20
"""About how large compacted files are; Spark splits larger ones between tasks anyway."""
COMPACTIONS_MAX = 200
"""Maximum number of hours or days of one table compacted in one run; the next run continues."""
_PARTITIONS = {"date": "yyyy-MM-dd", "hour": "HH"}
"""Partition column -> how Spark writes a moment in its folder's name."""


class Lake:
    """The tables below one root."""

    def __init__(
        self,
        spark: "SparkSession",
        root: str,
        now_ms: Callable[[], int] = now_ms,
        *,
        watermark_seconds: int = WATERMARK_SECONDS,
    ) -> None:
        """`now_ms` is the clock, in ms since the epoch; rows may be `watermark_seconds` late."""
        folder = local_folder(root)
        self.now_ms = now_ms
        self._watermark_seconds = watermark_seconds
        self.spark = spark
        self.files: LakeFiles = RemoteFiles(root) if folder is None else LocalFiles(folder)
        self._logs = {name: TableLog(self.files, table, now_ms) for name, table in TABLES.items()}
        # Paths are named one by one; looking each up in a job of its own would take longer than reading them.
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")
        # The type that the protocol has; Spark's own default is one of 96 bits without least and greatest values.
        spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")

    @property
    def root(self) -> str:
        """The URI for Spark."""
        return self.files.root

    def lock(self) -> list[str]:
        """Be the only writer until `unlock`, and mend what a power cut left by half; what was mended, a line each.

        Raises:
            LakeBusy: another run writes to the lake.
            LakeError: the lake is of another version, damaged, or can't be read.
        """
        self.files.lock()
        try:
            mended = [line for log in self._logs.values() for line in log.check()]
            for log in self._logs.values():
                log.add_columns()
        except OSError as error:
            self.unlock()
            raise LakeError(f"the lake {self.root} can't be read: {error}") from error
        except BaseException:
            self.unlock()
            raise
        return mended

    def unlock(self) -> None:
        """Let others write."""
        self.files.unlock()

    def checkpoint(self, table: str) -> str:
        """Where the stream that fills a table keeps how far it is: a path from the root."""
        return f"{CHECKPOINTS_FOLDER}/{table}"

    def checkpoint_is_missing(self, table: str) -> LakeError:
        """The error for a table that was filled by a stream of which nothing is known."""
        return LakeError(
            f"{self.root}/{table} was filled by a stream whose checkpoint is missing: restore {CHECKPOINTS_FOLDER}/{table} or"
            " remove the table's folder and its checkpoint to read again what the nodes still have"
        )

    def snapshot(self, table: str) -> Snapshot:
        """Which files of a table count now."""
        return self._log(table).snapshot()

    def commit(self, table: str, base: Snapshot, change: Change) -> Snapshot:
        """Commit a change to a table whose snapshot is `base`. LakeBusy: another run has changed it since."""
        return self._log(table).commit(base, change)

    def watermark_ms(self, tables: Iterable[str] = STREAMED) -> int | None:
        """The time in ms since the epoch before which these tables have every row of every broker group that could be
        read; None: not known yet.

        It is the least of the tables' watermarks of these broker groups, less `watermark_seconds` for late rows. A
        broker group that could not be read last time holds nothing up: `missing` names those of which rows may be
        missing before a time.
        """
        least: list[int] = []
        for name in tables:
            found = self.snapshot(name)
            read = [at_ms for group, at_ms in found.watermarks.items() if group not in found.missing]
            if not read:
                return None
            least.append(min(read))
        return min(least) - self._watermark_seconds * 1000 if least else None

    def missing(self, tables: Iterable[str], to_ms: int) -> tuple[str, ...]:
        """The broker groups that could not be read last time and may have rows before a moment that these tables do not
        have."""
        found: set[str] = set()
        for name in tables:
            known = self.snapshot(name)
            for group in known.missing:
                complete_ms = known.watermarks.get(group)
                if complete_ms is None or complete_ms - self._watermark_seconds * 1000 < to_ms:
                    found.add(group)
        return tuple(sorted(found))

    def complete_ms(self, at_ms: int) -> int:
        """Before which time (ms since the epoch) a broker group's rows are there that was read at `at_ms` of its
        clock."""
        return at_ms - self._watermark_seconds * 1000

    def first_ms(self, table: str) -> int | None:
        """When the first hour or day begins that a table has rows of; None: it has none."""
        return min((item.begin_ms for item in self.snapshot(table).files.values()), default=None)

    def files_of(self, table: str, from_ms: int, to_ms: int) -> list[DataFile]:
        """The files with rows of the table's hours or days that [from, to) touches."""
        begin = from_ms - from_ms % _table(table).part_ms
        found = self.snapshot(table).files.values()
        return sorted((item for item in found if begin <= item.begin_ms < to_ms), key=lambda item: item.path)

    def read(self, table: str, from_ms: int, to_ms: int) -> "DataFrame":
        """A table's rows whose moment lies in [from, to), in ms since the epoch; files of other hours or days are not
        opened."""
        from pyspark.sql import functions as F

        moment = F.col(_table(table).moment)
        rows = self._read_files(table, self.files_of(table, from_ms, to_ms))
        return rows.where((moment >= _timestamp(from_ms)) & (moment < _timestamp(to_ms)))

    def arrow(self, table: str, from_ms: int, to_ms: int, columns: Sequence[str] | None = None) -> pa.Table:
        """A table's rows of its hours or days that [from, to) touches, read by the driver itself: for small ones."""
        schema = to_arrow_schema(_table(table).schema, timezone="UTC")
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        parts = [
            pq.read_table(
                self.files.path_of(f"{table}/{item.path}"),
                schema=schema,
                filesystem=self.files.system,
                partitioning=None,
            )
            for item in self.files_of(table, from_ms, to_ms)
        ]
        return pa.concat_tables(parts) if parts else schema.empty_table()

    def append(
        self,
        table: str,
        rows: "DataFrame | pa.Table",
        *,
        batch: Batch | None = None,
        late_before_ms: int | None = None,
        is_of_many_hours: bool = False,
    ) -> int:
        """Add rows in one commit; how many. A batch that is in the table already adds nothing. The commit counts rows
        before `late_before_ms` by their hour as late: their steps may be published already. Rows of many hours are
        brought together by hour first: one file an hour, instead of one for each task and hour.

        Raises:
            LakeError: the table was filled by another stream: its checkpoint was lost or replaced.
            LakeBusy: another run has changed the table in the meantime; nothing is added.
        """
        base = self.snapshot(table)
        if batch is not None and base.batch is not None:
            if base.batch.stream != batch.stream:
                raise self.checkpoint_is_missing(table)
            if batch.number <= base.batch.number:
                return 0
        added = self._write(table, rows, is_by_part=is_of_many_hours)
        self.files.sync(self._checkpoint_files(table, batch))
        if silver := _table(table).silver:
            self._count(silver, self._read_files(table, added), batch)
        late = self._late(table, added, late_before_ms) if late_before_ms is not None else None
        self.commit(table, base, Change(added=added, batch=batch, late=late))
        return sum(item.rows for item in added)

    def _count(self, silver: str, rows: "DataFrame", batch: Batch | None) -> None:
        """Add what rows of a batch come to in each second. It is committed before them: a batch that is run again after
        a kill between the two is counted already, and has the same rows, as the stream's plan of it was on the disk.
        """
        base = self.snapshot(silver)
        removed: tuple[str, ...] = ()
        if batch is not None and base.batch is not None:
            if base.batch.stream != batch.stream:
                # The table was removed with its checkpoint, to be read again.
                removed = tuple(base.files)
            elif batch.number <= base.batch.number:
                return
        counted = silver_seconds(rows).select(*_table(silver).schema.names)
        self.commit(silver, base, Change(added=self._write(silver, counted), removed=removed, batch=batch))

    def _late(self, table: str, added: Sequence[DataFile], before_ms: int) -> dict[int, int]:
        """Rows of new files of a table by hour that are before a moment, counted by hour. Of whole hours the files' hours
        suffice."""
        late: dict[int, int] = {}
        last: list[DataFile] = []
        for item in added:
            if item.begin_ms + HOUR_MS <= before_ms:
                late[item.begin_ms] = late.get(item.begin_ms, 0) + item.rows
            elif item.begin_ms < before_ms:
                last.append(item)
        if last:
            from pyspark.sql import functions as F

            moment = F.col(_table(table).moment)
            rows = self._read_files(table, last).where(moment < _timestamp(before_ms)).count()
            if rows:
                hour = before_ms - before_ms % HOUR_MS
                late[hour] = late.get(hour, 0) + rows
        return late

    def replace(self, table: str, rows: "DataFrame | pa.Table", from_ms: int, to_ms: int) -> int:
        """Make `rows` all that the table has of its hours or days [from, to), in one commit; how many they are.

        Raises:
            LakeError: [from, to) is not whole hours or days, or rows are outside of it.
            LakeBusy: another run has changed the table in the meantime; nothing is changed.
        """
        part_ms = _table(table).part_ms
        if from_ms % part_ms or to_ms % part_ms:
            raise LakeError(f"{table}: only whole hours or days can be replaced, not {from_ms} to {to_ms}")
        base = self.snapshot(table)
        added = self._write(table, rows)
        outside = [item.path for item in added if not from_ms <= item.begin_ms < to_ms]
        if outside:
            raise LakeError(f"{table}: rows outside of the replaced hours or days: {outside[0]}")
        removed = [path for path, item in base.files.items() if from_ms <= item.begin_ms < to_ms]
        if added or removed:
            self.commit(table, base, Change(added=added, removed=tuple(removed)))
        return sum(item.rows for item in added)

    def compact(self, table: str) -> Iterator[int]:
        """Make few files of many, hour by hour or day by day, of those that ended a while ago; yields when each that was
        done begins (ms since the epoch).

        One commit takes the old files out and puts the new ones in: a reader has every row once, before, while and
        after.
        """
        done_before = self.now_ms() - int(COMPACT_AFTER.total_seconds() * 1000) - _table(table).part_ms
        parts: dict[int, list[DataFile]] = {}
        for item in self.snapshot(table).files.values():
            parts.setdefault(item.begin_ms, []).append(item)
        many = [
            begin for begin, items in sorted(parts.items()) if begin <= done_before and len(items) > _files_for(items)
        ]
        for begin in many[:COMPACTIONS_MAX]:
            base = self.snapshot(table)
            old = [item for item in base.files.values() if item.begin_ms == begin]
            order = list(_table(table).order)
            rows = self._read_files(table, old)
            count = _files_for(old)
            packed = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, *order)
            added = self._write(table, packed, order, without_moment_ms=begin)
            before, after = sum(item.rows for item in old), sum(item.rows for item in added)
            if before != after:
                raise LakeError(
                    f"{table}: {_timestamp(begin):%Y-%m-%d %H:00} has {before} rows, its compaction {after}: it is left as it is"
                )
            removed = tuple(item.path for item in old)
            self.commit(table, base, Change(added=added, removed=removed, is_same_data=True))
            yield begin

    def retain(self, table: str, keep_days: int) -> int:
        """Let go of hours or days that ended this number of days ago, and delete files that stopped counting some time
        ago or that a killed writer left; how many files went or stopped counting."""
        base = self.snapshot(table)
        ended_ms = self.now_ms() - keep_days * DAY_MS
        part_ms = _table(table).part_ms
        removed = tuple(path for path, item in base.files.items() if item.begin_ms + part_ms <= ended_ms)
        if removed:
            self.commit(table, base, Change(removed=removed))
        return len(removed) + self._log(table).clean()

    def _log(self, table: str) -> TableLog:
        _table(table)
        return self._logs[table]

    def _read_files(self, table: str, items: Sequence[DataFile]) -> "DataFrame":
        schema = _table(table).schema
        if not items:
            return local_frame(self.spark, [], schema)
        return self.spark.read.schema(schema).parquet(*(f"{self.root}/{table}/{item.path}" for item in items))

    def _write(
        self,
        table: str,
        rows: "DataFrame | pa.Table",
        order: Sequence[str] = (),
        *,
        is_by_part: bool = False,
        without_moment_ms: int | None = None,
    ) -> tuple[DataFile, ...]:
        """Write these rows to files in a folder of their own, each sorted and synced, but not named by a commit yet.

        A withheld message has no moment. It lies in the hour of `without_moment_ms`, or in the one it was read in, and
        is in no window. `is_by_part`: rows of an hour or day are brought together first.

        Raises:
            LakeError: rows have other columns than the table, or of another type.
        """
        from pyspark.sql import functions as F

        folder = f"{table}/{uuid.uuid4().hex}"
        if isinstance(rows, pa.Table):
            self._write_table(table, rows, folder)
            return self._written(table, folder)
        _check_columns(table, rows.schema)
        read_at = F.current_timestamp() if without_moment_ms is None else F.timestamp_millis(F.lit(without_moment_ms))
        moment = F.coalesce(F.col(_table(table).moment), read_at)
        partitions = _table(table).partitions
        dated = rows.withColumns({name: F.date_format(moment, _PARTITIONS[name]) for name in partitions})
        if is_by_part:
            dated = dated.repartition(*partitions)
        if order:
            # Spark sorts by the folders' columns what it writes, and leaves out any sort below that: this one it takes
            # as it is.
            dated = dated.sortWithinPartitions(*partitions, *order)
        writer = dated.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        writer.partitionBy(*partitions).parquet(f"{self.root}/{folder}")
        return self._written(table, folder)

    def _write_table(self, table: str, rows: pa.Table, folder: str) -> None:
        """The same for rows that the driver has, without Spark: a file an hour or day."""
        _check_columns(table, from_arrow_schema(rows.schema))
        part_ms, moment = _table(table).part_ms, rows.column(_table(table).moment)
        parts = pc.divide(moment.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()), part_ms)
        order = [(name, "ascending") for name in _table(table).order]
        for part in pc.unique(parts).to_pylist():
            place = self.files.path_of(f"{folder}/{_timestamp(part * part_ms).strftime(_table(table).folder)}")
            if self.files.is_local:
                self.files.system.create_dir(place, recursive=True)
            found = rows.filter(pc.equal(parts, part)).sort_by(order)
            pq.write_table(found, f"{place}/part-00000.parquet", filesystem=self.files.system)

    def _written(self, table: str, folder: str) -> tuple[DataFile, ...]:
        """The files that were written to a folder, synced."""
        added = []
        for found in sorted(self.files.walk(folder), key=lambda item: item.path):
            if found.path.endswith(".parquet"):
                added.append(self._data_file(table, found.path.removeprefix(f"{table}/"), found.size_bytes))
            else:
                self.files.delete(found.path)  # Hadoop's checksum of a file
        if not added:
            self.files.delete(folder)
        self.files.sync(f"{table}/{item.path}" for item in added)
        return tuple(added)

    def _data_file(self, table: str, path: str, size_bytes: int) -> DataFile:
        """What a commit says of a file, from its footer."""
        footer = pq.read_metadata(self.files.path_of(f"{table}/{path}"), filesystem=self.files.system)
        wanted = {*_table(table).order, _table(table).moment}
        least: dict[str, object] = {}
        greatest: dict[str, object] = {}
        for number in range(footer.num_columns):
            name = footer.schema.column(number).path
            found = [footer.row_group(part).column(number).statistics for part in range(footer.num_row_groups)]
            # Where one part has none, they are not known of the whole.
            if name in wanted and all(part is not None and part.has_min_max for part in found) and found:
                least[name] = _stated(min(part.min for part in found))
                greatest[name] = _stated(max(part.max for part in found))
        stats = {"numRecords": footer.num_rows, "minValues": least, "maxValues": greatest}
        begin_ms = begin_of(_table(table), path.split("/", 1)[1])
        return DataFile(path, footer.num_rows, size_bytes, begin_ms, json.dumps(stats))

    def _checkpoint_files(self, table: str, batch: Batch | None) -> list[str]:
        """Sync the stream's plan of this batch. It must be as durable as the batch: after a power cut the stream would
        otherwise plan another batch with this number and another end, and all of it would count as done.
        """
        if batch is None:
            return []
        folder = self.checkpoint(table)
        wanted = {"": ("metadata", ".metadata.crc"), "/offsets": (f"{batch.number}", f".{batch.number}.crc")}
        return [
            f"{folder}{part}/{name}"
            for part, names in wanted.items()
            for name in self.files.names(f"{folder}{part}")
            if name in names
        ]


def begin_of(table: LakeTable, path: str) -> int:
    """When the hour or day of a file's folder begins, in ms since the epoch.

    Raises:
        LakeError: it is in no such folder.
    """
    partition = path.rpartition("/")[0]
    try:
        return int(datetime.strptime(partition, table.folder).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError as error:
        raise LakeError(f"{partition!r} is the folder of no hour or day") from error


def _table(name: str) -> LakeTable:
    if name not in TABLES:
        raise LakeError(f"the lake has no table {name!r}; available: {', '.join(TABLES)}")
    return TABLES[name]


def _check_columns(table: str, schema: "StructType") -> None:
    wanted = {column.name: column.dataType for column in _table(table).schema.fields}
    found = {column.name: column.dataType for column in schema.fields}
    if found != wanted:
        names = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
        raise LakeError(f"rows for table {table} of the lake have other columns, or of other types: {', '.join(names)}")


def _stated(value: object) -> object:
    """A least or greatest value as the protocol writes it."""
    return f"{value:%Y-%m-%dT%H:%M:%S}.{value.microsecond // 1000:03}Z" if isinstance(value, datetime) else value


def _files_for(items: Sequence[DataFile]) -> int:
    return max(1, -(-sum(item.size_bytes for item in items) // COMPACTED_BYTES))


def _timestamp(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC) + timedelta(milliseconds=at_ms % 1000)
