"""Tables as Parquet files by hour, in a folder or any Hadoop file system.

    LAKE/TABLE/date=YYYY-MM-DD/hour=HH/VERSION-N.parquet    rows, by the hour (UTC) of the table's moment
    LAKE/TABLE/_log/VERSION.json                            which of these files count (spark_analytics.lake.log)
    LAKE/TABLE/_staging/                                    what is being written
    LAKE/_checkpoints/TABLE/                                how far the stream that fills it has read

Every write has the same steps: Spark writes to staging; the files are moved to their places, unreferenced; they are synced
with the names of the folders above them; one change in the log makes them count. So at any kill the table is as it was before the
write or as it is after it. After a power cut too, because what a change names was on the disk before the change was made; what
a writer left behind is deleted by `retain`.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from spark_analytics.lake.files import HadoopFiles, LakeError, LakeFiles, LocalFiles, local_folder
from spark_analytics.lake.log import LOG_FOLDER, Batch, Change, DataFile, Snapshot, TableLog, now_ms
from spark_analytics.lake.tables import STREAMED, TABLES, LakeTable
from spark_analytics.local_rows import local_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

STAGING_FOLDER = "_staging"
CHECKPOINTS_FOLDER = "_checkpoints"
WATERMARK_SECONDS = 120
"""How late rows may be: a row that a node stored less than this long before it was read may be missing from what was read, as rows
are visible once they are synced, and the node's clock may step back by this much."""
COMPACT_AFTER = timedelta(hours=1)
"""How long after its end an hour is compacted: late rows come before, as a rule."""
COMPACTED_BYTES = 128 << 20
"""About how large compacted files are; Spark splits larger ones between tasks anyway."""
COMPACTIONS_MAX = 200
"""Maximum number of hours of one table compacted in one run; the next run continues."""
GONE_GRACE = timedelta(hours=2)
"""How long files stay after they stopped counting, for readers that began before: no run is allowed as long."""
ORPHAN_GRACE = timedelta(days=1)
"""Minimum age of unreferenced files before they are deleted, because another writer may be about to reference them."""
_HOUR_MS = 3_600_000


class _Footers:
    """How many rows Parquet files have, from their footers.

    The JVM's classes and settings are looked up once: doing so for each file took longer than reading it.
    """

    def __init__(self, spark: "SparkSession") -> None:
        # The gateway has no types.
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext
        self._configuration = context._jsc.hadoopConfiguration()
        self._options = jvm.org.apache.parquet.HadoopReadOptions.builder(self._configuration).build()
        self._path = jvm.org.apache.hadoop.fs.Path
        self._file = jvm.org.apache.parquet.hadoop.util.HadoopInputFile
        self._reader = jvm.org.apache.parquet.hadoop.ParquetFileReader

    def rows_of(self, path: str) -> int:
        """Rows of the file of this path or URI."""
        opened = self._file.fromPath(self._path(path), self._configuration)
        reader = self._reader.open(opened, self._options)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()


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
        self._now_ms = now_ms
        self._watermark_seconds = watermark_seconds
        self.spark = spark
        self.files: LakeFiles = HadoopFiles(spark, root) if folder is None else LocalFiles(folder)
        self._logs = {name: TableLog(self.files, name, now_ms) for name in TABLES}
        # Paths are named one by one; looking each up in a job of its own would take longer than reading them.
        spark.conf.set("spark.sql.sources.parallelPartitionDiscovery.threshold", "100000")

    @property
    def root(self) -> str:
        """The URI for Spark."""
        return self.files.root

    def checkpoint(self, table: str) -> str:
        """Where the stream that fills a table keeps how far it is: a path from the root."""
        return f"{CHECKPOINTS_FOLDER}/{table}"

    def snapshot(self, table: str) -> Snapshot:
        """Which files of a table count now."""
        return self._log(table).snapshot()

    def commit(self, table: str, base: Snapshot, change: Change) -> Snapshot:
        """Commit a change to a table whose snapshot is `base`. LakeBusy: another run has changed it since."""
        return self._log(table).commit(base, change)

    def watermark_ms(self, tables: Iterable[str] = STREAMED) -> int | None:
        """The time in ms since the epoch before which these tables have every row of every broker group that could be read; None:
        not known yet.

        It is the least of the tables' watermarks of these broker groups, less `watermark_seconds` for late rows. A broker group
        that could not be read last time holds nothing up: `missing` names those of which rows may be missing before a time.
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
        """The broker groups that could not be read last time and may have rows before a moment that these tables do not have."""
        found: set[str] = set()
        for name in tables:
            known = self.snapshot(name)
            for group in known.missing:
                complete_ms = known.watermarks.get(group)
                if complete_ms is None or complete_ms - self._watermark_seconds * 1000 < to_ms:
                    found.add(group)
        return tuple(sorted(found))

    def complete_ms(self, at_ms: int) -> int:
        """Before which time (ms since the epoch) a broker group's rows are there that was read at `at_ms` of its clock."""
        return at_ms - self._watermark_seconds * 1000

    def first_ms(self, table: str) -> int | None:
        """When the first hour begins that a table has rows of; None: it has none."""
        partitions = {item.partition for item in self.snapshot(table).files.values()}
        return min((hour_of(partition) for partition in partitions), default=None)

    def files_of(self, table: str, from_ms: int, to_ms: int) -> list[DataFile]:
        """The files with rows of the hours that [from, to) touches."""
        begin = from_ms - from_ms % _HOUR_MS
        found = self.snapshot(table).files.values()
        return sorted((item for item in found if begin <= hour_of(item.partition) < to_ms), key=lambda item: item.path)

    def read(self, table: str, schema: "StructType", from_ms: int, to_ms: int) -> "DataFrame":
        """A table's rows whose moment lies in [from, to), in ms since the epoch; other hours' files are not opened."""
        from pyspark.sql import functions as F

        moment = F.col(_table(table).moment)
        rows = self._read_files(table, schema, self.files_of(table, from_ms, to_ms))
        return rows.where((moment >= _timestamp(from_ms)) & (moment < _timestamp(to_ms)))

    def append(
        self,
        table: str,
        rows: "DataFrame",
        *,
        batch: Batch | None = None,
        watermarks: dict[str, int] | None = None,
        late_before_ms: int | None = None,
    ) -> int:
        """Add rows in one change; how many. A batch that is in the table already adds nothing. The change counts rows before
        `late_before_ms` by their hour as late: their steps may be published already.

        Raises:
            LakeError: the table was filled by another stream: its checkpoint was lost or replaced.
            LakeBusy: another run has changed the table in the meantime; nothing is added.
        """
        base = self.snapshot(table)
        if batch is not None and base.batch is not None:
            if base.batch.stream != batch.stream:
                raise LakeError(
                    f"{self.root}/{table} was filled by a stream whose checkpoint is missing: restore {CHECKPOINTS_FOLDER}/{table} "
                    "or remove the table's folder and its checkpoint to read again what the nodes still have"
                )
            if batch.number <= base.batch.number:
                return 0
        added = self._write(table, rows, base.version + 1)
        self.files.sync(self._checkpoint_files(table, batch))
        late = self._late(table, rows.schema, added, late_before_ms) if late_before_ms is not None else None
        self.commit(table, base, Change(added=added, batch=batch, watermarks=watermarks, late=late))
        return sum(item.rows for item in added)

    def _late(self, table: str, schema: "StructType", added: Sequence[DataFile], before_ms: int) -> dict[int, int]:
        """Rows of new files before a moment, counted by hour. Of whole hours the files' names suffice."""
        late: dict[int, int] = {}
        last: list[DataFile] = []
        for item in added:
            hour = hour_of(item.partition)
            if hour + _HOUR_MS <= before_ms:
                late[hour] = late.get(hour, 0) + item.rows
            elif hour < before_ms:
                last.append(item)
        if last:
            from pyspark.sql import functions as F

            moment = F.col(_table(table).moment)
            rows = self._read_files(table, schema, last).where(moment < _timestamp(before_ms)).count()
            if rows:
                hour = before_ms - before_ms % _HOUR_MS
                late[hour] = late.get(hour, 0) + rows
        return late

    def replace(self, table: str, rows: "DataFrame", from_ms: int, to_ms: int) -> int:
        """Make `rows` all that the table has of the hours [from, to), in one change; how many they are.

        Raises:
            LakeError: [from, to) is not whole hours, or rows are outside of it.
            LakeBusy: another run has changed the table in the meantime; nothing is changed.
        """
        if from_ms % _HOUR_MS or to_ms % _HOUR_MS:
            raise LakeError(f"{table}: only whole hours can be replaced, not {from_ms} to {to_ms}")
        base = self.snapshot(table)
        added = self._write(table, rows, base.version + 1)
        outside = [item.path for item in added if not from_ms <= hour_of(item.partition) < to_ms]
        if outside:
            raise LakeError(f"{table}: rows outside of the replaced hours: {outside[0]}")
        removed = [path for path, item in base.files.items() if from_ms <= hour_of(item.partition) < to_ms]
        if added or removed:
            self.commit(table, base, Change(added=added, removed=tuple(removed)))
        return sum(item.rows for item in added)

    def compact(self, table: str, schema: "StructType") -> Iterator[str]:
        """Make few files of many, hour by hour, for hours that ended a while ago; yields each hour's folder that was done.

        One change takes the old files out and puts the new ones in: a reader has every row once, before, while and after.
        """
        done_before = self._now_ms() - int(COMPACT_AFTER.total_seconds() * 1000) - _HOUR_MS
        by_partition: dict[str, list[DataFile]] = {}
        for item in self.snapshot(table).files.values():
            by_partition.setdefault(item.partition, []).append(item)
        many = [
            partition
            for partition, items in sorted(by_partition.items())
            if hour_of(partition) <= done_before and len(items) > _files_for(items)
        ]
        for partition in many[:COMPACTIONS_MAX]:
            base = self.snapshot(table)
            old = [item for item in base.files.values() if item.partition == partition]
            order = list(_table(table).order)
            rows = self._read_files(table, schema, old)
            count = _files_for(old)
            packed = rows.coalesce(1) if count == 1 else rows.repartitionByRange(count, *order)
            added = self._write(table, packed, base.version + 1, order)
            before, after = sum(item.rows for item in old), sum(item.rows for item in added)
            if before != after:
                raise LakeError(f"{table}/{partition} has {before} rows, its compaction {after}: it is left as it is")
            self.commit(table, base, Change(added=added, removed=tuple(item.path for item in old)))
            yield partition

    def retain(self, table: str, keep_days: int) -> int:
        """Delete hours that started more than this number of days ago, and unreferenced files; return the number of deleted
        files.

        Files that stop counting now are deleted by a later call, when GONE_GRACE is over.
        """
        base, now_ms = self.snapshot(table), self._now_ms()
        oldest = now_ms - keep_days * 24 * _HOUR_MS
        removed = tuple(path for path, item in base.files.items() if hour_of(item.partition) < oldest)
        if removed:
            base = self.commit(table, base, Change(removed=removed))
        grace_ms = int(GONE_GRACE.total_seconds() * 1000)
        gone = tuple(path for path, at_ms in base.gone.items() if at_ms < now_ms - grace_ms)
        for path in gone:
            self.files.delete(f"{table}/{path}")
        if gone:
            base = self.commit(table, base, Change(forgotten=gone))
        self._log(table).prune()
        return len(removed) + len(gone) + self._delete_orphans(table, base, now_ms)

    def _delete_orphans(self, table: str, base: Snapshot, now_ms: int) -> int:
        """Files of writers that were killed."""
        oldest = now_ms - int(ORPHAN_GRACE.total_seconds() * 1000)
        deleted = 0
        for found in list(self.files.walk(table)):
            path = found.path.removeprefix(f"{table}/")
            if (
                path.startswith(f"{LOG_FOLDER}/")
                or path in base.files
                or path in base.gone
                or found.changed_ms > oldest
            ):
                continue
            self.files.delete(found.path)
            deleted += 1
        return deleted

    def _log(self, table: str) -> TableLog:
        _table(table)
        return self._logs[table]

    def _read_files(self, table: str, schema: "StructType", items: Sequence[DataFile]) -> "DataFrame":
        if not items:
            return local_frame(self.spark, [], schema)
        return self.spark.read.schema(schema).parquet(*(f"{self.root}/{table}/{item.path}" for item in items))

    def _write(self, table: str, rows: "DataFrame", version: int, order: Sequence[str] = ()) -> tuple[DataFile, ...]:
        """Write these rows to files in their final places, each sorted and synced, but not referenced yet."""
        from pyspark.sql import functions as F

        # A withheld message has no moment: it lies where it was read, and is in no window.
        moment = F.coalesce(F.col(_table(table).moment), F.current_timestamp())
        staging = f"{table}/{STAGING_FOLDER}/{uuid.uuid4().hex}"
        dated = rows.withColumn("date", F.date_format(moment, "yyyy-MM-dd")).withColumn(
            "hour", F.date_format(moment, "HH")
        )
        if order:
            # Spark sorts by the folders' columns what it writes, and leaves out any sort below that: this one it takes as it is.
            dated = dated.sortWithinPartitions("date", "hour", *order)
        dated.write.partitionBy("date", "hour").parquet(f"{self.root}/{staging}")
        staged = [found for found in self.files.walk(staging) if found.path.endswith(".parquet")]
        added = []
        for number, found in enumerate(sorted(staged, key=lambda item: item.path)):
            partition = found.path.removeprefix(f"{staging}/").rpartition("/")[0]
            hour_of(partition)
            # A name of its own, also beside what a killed writer of the same version left.
            path = f"{partition}/{version:010}-{number:04}-{staging[-8:]}.parquet"
            self.files.move(found.path, f"{table}/{path}")
            added.append(DataFile(path, self._footers.rows_of(f"{self.root}/{table}/{path}"), found.size_bytes))
        self.files.delete(staging)
        self.files.sync(f"{table}/{item.path}" for item in added)
        return tuple(added)

    @cached_property
    def _footers(self) -> _Footers:
        return _Footers(self.spark)

    def _checkpoint_files(self, table: str, batch: Batch | None) -> list[str]:
        """Sync the stream's plan of this batch. It must be as durable as the batch: after a power cut the stream would otherwise
        plan another batch with this number and another end, and all of it would count as done.
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


def hour_of(partition: str) -> int:
    """When a folder's hour begins, in ms since the epoch.

    Raises:
        LakeError: it is no hour's folder, such as that of rows without a moment.
    """
    try:
        return int(datetime.strptime(partition, "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError as error:
        raise LakeError(f"{partition!r} is the folder of no hour") from error


def _table(name: str) -> LakeTable:
    if name not in TABLES:
        raise LakeError(f"the lake has no table {name!r}; available: {', '.join(TABLES)}")
    return TABLES[name]


def _files_for(items: Sequence[DataFile]) -> int:
    return max(1, -(-sum(item.size_bytes for item in items) // COMPACTED_BYTES))


def _timestamp(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC) + timedelta(milliseconds=at_ms % 1000)
