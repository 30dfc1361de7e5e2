"""Which files of a table count: its Delta log. The one module that knows the library `deltalake`.

Spark writes Parquet files; one commit makes them count, by the protocol that pandas, polars, DuckDB, Trino and Spark
with Delta's own jars read (reader version 1, writer version 2). A batch is in the table whole or not at all, a
compaction swaps many files for one in one step, and a writer that is killed anywhere leaves files that nothing names.

A commit of PyQMQ says besides its files, in its commit info under `qmq`: the stream that fills the table, the broker
groups' watermarks, the ones that are missing, the hours that got late rows, and when files of killed writers were last
looked for. The newest commit that has this counts, so commits of other programs do no harm. The stream's batch is the
transaction `txn` of the stream's id.

The library syncs nothing. After each commit the files of the log since the last one are synced with their folder, and
the caller hears of it then. A commit that a power cut left by half was therefore never confirmed; `check` takes it
back.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, Transaction
from pyspark.sql.pandas.types import to_arrow_schema

from spark_analytics.lake.files import LakeBusy, LakeError, LakeFiles
from spark_analytics.lake.tables import LakeTable

LOG_FOLDER = "_delta_log"
OLD_LOG_FOLDER = "_log"
"""The log of tables before Delta."""
LAYOUT = "qmq.layout"
"""The property of a table that says how it is laid out."""
LAYOUT_VERSION = 1
CHECKPOINT_EVERY = 100
"""Commits after which the library writes all files that count down: readers fold no more commits than this."""
LOG_DAYS = 2
"""How long commits stay that a checkpoint of the log has: for readers of earlier versions."""
GONE_HOURS = 2
"""How long files stay after they stopped counting, for readers that began before: no run is allowed as long."""
ORPHAN_HOURS = 24
"""Minimum age of files that no commit names before they are deleted, because a writer may be about to name them."""
TAKEN_BACK_MAX = 10
"""Commits at the log's end that can be torn at once: other programs make some that are not synced."""
_DIGITS = 20
_HOUR_MS = 3_600_000
_STATE = "qmq"
_ACTIONS = "actions"
_DRAWN = re.compile(r"\x1b\[\d+m|↳")
"""How the library draws the causes of an error, a line each."""
_NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
"""What the library would do by itself behind a commit, unsynced."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file: its path from the table's folder, rows, size, when the hour or day begins that its rows are of (ms
    since the epoch), and the least and greatest values of its columns, as JSON of the protocol."""

    path: str
    rows: int
    size_bytes: int
    begin_ms: int
    stats: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream: the stream's id, which its checkpoint keeps, and the batch's number in it."""

    stream: str
    number: int


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a table."""

    added: tuple[DataFile, ...] = ()
    removed: tuple[str, ...] = ()
    batch: Batch | None = None
    watermarks: Mapping[str, int] | None = None
    """Broker group -> time in ms since the epoch up to which its rows are in the table; replaces all earlier ones."""
    missing: tuple[str, ...] | None = None
    """Broker groups that could not be read last time; it replaces the ones named before."""
    late: Mapping[int, int] | None = None
    """Hour (ms since the epoch) -> rows added of it after its steps may have been published."""
    is_late_done: bool = False
    """What was late is due again, or was computed: it is no longer remembered."""
    is_same_data: bool = False
    """The same rows in other files."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table after a commit; version -1: there is none yet."""

    version: int = -1
    files: Mapping[str, DataFile] = field(default_factory=dict)
    batch: Batch | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    late: Mapping[int, int] = field(default_factory=dict)
    """Hours to compute again, and how many late rows they have."""
    swept_ms: int = 0
    """When files that no commit names were last looked for."""

    def after(self, change: Change, version: int) -> "Snapshot":
        """This snapshot with a change.

        Raises:
            LakeError: the change takes away what is not there, or brings what is.
        """
        unknown = [path for path in change.removed if path not in self.files]
        known = [item.path for item in change.added if item.path in self.files]
        if unknown or known:
            raise LakeError(f"commit {version} does not fit the one before it: {', '.join([*unknown, *known][:3])}")
        removed = set(change.removed)
        files = {path: item for path, item in self.files.items() if path not in removed}
        files |= {item.path: item for item in change.added}
        late = {} if change.is_late_done else dict(self.late)
        for hour, rows in (change.late or {}).items():
            late[hour] = late.get(hour, 0) + rows
        return replace(
            self,
            version=version,
            files=files,
            batch=change.batch or self.batch,
            watermarks=dict(change.watermarks) if change.watermarks is not None else self.watermarks,
            missing=change.missing if change.missing is not None else self.missing,
            late=late,
        )


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class TableLog:
    """The Delta log of one table of the lake."""

    def __init__(self, files: LakeFiles, table: LakeTable, now_ms: Callable[[], int] = now_ms) -> None:
        self._files, self._table, self._now_ms = files, table, now_ms
        self._folder = f"{table.name}/{LOG_FOLDER}"
        self._uri = f"{files.log_root}/{table.name}"
        self._opened: DeltaTable | None = None
        self._last = Snapshot()
        self._synced = -1
        """The last version whose file is known to be on the disk. A process begins with none: the one before it may
        have been killed between a commit and its sync."""
        self._new_columns: list[str] = []

    def snapshot(self) -> Snapshot:
        """The table as it is now.

        Raises:
            LakeError: the log can't be read, is of a newer version, or is of another program.
        """
        delta = self._open()
        if delta is None:
            return Snapshot()
        if delta.version() != self._last.version:
            self._last = self._read(delta)
        return self._last

    def commit(self, base: Snapshot, change: Change) -> Snapshot:
        """Commit a change to the table whose snapshot is `base`, and return the new snapshot. It lasts then.

        Raises:
            LakeBusy: another run has changed the table since.
            LakeError: the log can't be written.
        """
        return self._commit(base, change, base.after(change, base.version + 1))

    def check(self) -> list[str]:
        """Take back commits at the log's end that a power cut left by half, and make a torn checkpoint of the log
        again; what was done, a line each. No other process may write meanwhile. Other storage than a folder writes all
        or nothing, and has no lock: there nothing is taken back.

        Raises:
            LakeError: the table is of an earlier format, or files are missing that were confirmed.
        """
        if OLD_LOG_FOLDER in self._files.names(self._table.name):
            raise self._old_format()
        done = [*self._take_back(), *self._check_checkpoint()]
        if done:
            self._opened, self._last = None, Snapshot()
        return done

    def clean(self) -> int:
        """Delete files that stopped counting GONE_HOURS ago, once a day also those of killed writers, and old commits
        that a checkpoint of the log has; how many files of rows went."""
        base, delta = self.snapshot(), self._opened
        if delta is None:
            return 0
        is_sweep = self._now_ms() - base.swept_ms >= ORPHAN_HOURS * _HOUR_MS
        if is_sweep:
            base = self._commit(base, Change(), replace(base, version=base.version + 1, swept_ms=self._now_ms()))
        went: list[str] = []
        with _lake_errors(f"{self._uri} can't be cleaned"):
            for hours, is_full in ((GONE_HOURS, False), *(((ORPHAN_HOURS, True),) if is_sweep else ())):
                vacuum = partial(delta.vacuum, hours, enforce_retention_duration=False, full=is_full)
                # The library names files that are gone until the next checkpoint of the log, and commits that it deletes.
                if due := self._existing(vacuum(dry_run=True)):
                    vacuum(dry_run=False, commit_properties=_properties(base), post_commithook_properties=_NO_HOOKS)
                    went += due
            delta.cleanup_metadata()
        self._files.delete_empty({f"{self._table.name}/{path}".rpartition("/")[0] for path in went})
        self._sync()
        return len(went)

    def _existing(self, paths: Sequence[str]) -> list[str]:
        places = [self._files.path_of(f"{self._table.name}/{path}") for path in paths]
        found = self._files.system.get_file_info(places)
        return [path for path, place in zip(paths, found, strict=True) if place.is_file]

    def _commit(self, base: Snapshot, change: Change, after: Snapshot) -> Snapshot:
        delta = self._open(may_create=base.version < 0, is_newest=False)
        if delta is None or delta.version() != max(base.version, 0):
            raise self._busy()
        actions: list[AddAction | RemoveAction] = [self._added(item, change) for item in change.added]
        actions += [self._removed(base.files[path], change) for path in change.removed]
        if base.version < 0:
            after = replace(after, version=1)
        try:
            with _lake_errors(f"{self._uri} can't be written"):
                delta.create_write_transaction(
                    actions,
                    mode="append",
                    schema=delta.schema(),
                    partition_by=list(self._table.partitions),
                    commit_properties=_properties(after, change),
                    post_commithook_properties=_NO_HOOKS,
                )
        except CommitFailedError as error:
            self._opened = None
            raise self._busy() from error
        delta.update_incremental()
        self._sync()
        if after.version % CHECKPOINT_EVERY == 0:
            self._write_checkpoint(delta)
        self._last = after
        return after

    def _open(self, *, may_create: bool = False, is_newest: bool = True) -> DeltaTable | None:
        """The table as of its newest version, or where it was opened last; None: there is none."""
        with _lake_errors(
            f"{self._uri} can't be read; restore its {LOG_FOLDER}, or delete the table's folder and its checkpoint"
        ):
            if self._opened is not None:
                if is_newest:
                    self._opened.update_incremental()
                return self._opened
            has_log = self._has_log()
            if not has_log and not may_create:
                return None
            found = DeltaTable(self._uri) if has_log else self._create()
        self._check_layout(found)
        self._opened = found
        return found

    def _has_log(self) -> bool:
        return any(_version(name) is not None for name in self._files.names(self._folder))

    def _create(self) -> DeltaTable:
        found = DeltaTable.create(
            self._uri,
            _delta_schema(self._table),
            partition_by=list(self._table.partitions),
            configuration={
                LAYOUT: str(LAYOUT_VERSION),
                "delta.checkpointInterval": str(CHECKPOINT_EVERY),
                "delta.deletedFileRetentionDuration": f"interval {GONE_HOURS} hours",
                "delta.logRetentionDuration": f"interval {LOG_DAYS} days",
            },
            raise_if_key_not_exists=False,
        )
        self._sync()
        return found

    def _check_layout(self, delta: DeltaTable) -> None:
        found = delta.metadata().configuration.get(LAYOUT)
        if found is None:
            raise LakeError(f"{self._uri} is a Delta table of another program; set another place for the lake")
        if found != str(LAYOUT_VERSION):
            raise LakeError(
                f"{self._uri} has version {found} of the lake's layout, and this PyQMQ knows {LAYOUT_VERSION}: update it"
            )
        if delta.metadata().partition_columns != list(self._table.partitions):
            raise self._old_format()
        there = _types(json.loads(delta.schema().to_json()))
        wanted = _types(json.loads(_delta_schema(self._table).to_json()))
        for name, kind in wanted.items():
            if name in there and there[name] != kind:
                raise LakeError(
                    f"column {name} of {self._uri} has type {there[name]}, and this PyQMQ writes {kind}: delete the table's"
                    " folder and its checkpoint; the next run reads again what the nodes still have"
                )
        self._new_columns = [name for name in wanted if name not in there]

    def add_columns(self) -> list[str]:
        """Add the columns that this version has and the table has not, in one commit; older files have nulls there.
        Their names."""
        base, delta = self.snapshot(), self._opened
        if delta is None or not self._new_columns:
            return []
        fields = [found for found in _delta_schema(self._table).fields if found.name in self._new_columns]
        with _lake_errors(f"{self._uri} can't be written"):
            delta.alter.add_columns(fields, commit_properties=_properties(base), post_commithook_properties=_NO_HOOKS)
        delta.update_incremental()
        self._sync()
        added, self._new_columns = self._new_columns, []
        return added

    def _old_format(self) -> LakeError:
        return LakeError(
            f"the lake {self._files.root} is in the format of an earlier version: delete it; the next run reads again what the"
            " nodes still have"
        )

    def _busy(self) -> LakeBusy:
        return LakeBusy(f"another run has changed {self._uri} in the meantime; run the job again")

    def _read(self, delta: DeltaTable) -> Snapshot:
        with _lake_errors(f"{self._uri} can't be read"):
            actions = pa.table(delta.get_add_actions(flatten=True))
            state = self._state(delta)
        names = ("path", "num_records", "size_bytes", *(f"partition.{name}" for name in self._table.partitions))
        columns = [actions.column(name).to_pylist() for name in names]
        files: dict[str, DataFile] = {}
        for path, rows, size, date, *hour in zip(*columns, strict=True):
            if date is None or None in hour:
                raise LakeError(f"{self._uri}: {path} is of no hour or day")
            begin = datetime(date.year, date.month, date.day, hour[0] if hour else 0, tzinfo=UTC)
            # Other programs may leave out how many rows a file has.
            counted = rows if rows is not None else self._rows_of(path)
            files[path] = DataFile(path, counted, size, int(begin.timestamp() * 1000))
        stream = state.get("stream")
        number = delta.transaction_version(stream) if stream is not None else None
        return Snapshot(
            delta.version(),
            files,
            Batch(stream, number) if stream is not None and number is not None else None,
            dict(state.get("watermarks", {})),
            tuple(state.get("missing", ())),
            {int(hour): int(rows) for hour, rows in state.get("late", ())},
            int(state.get("swept_ms", 0)),
        )

    def _state(self, delta: DeltaTable) -> dict[str, Any]:
        """What the newest commit that has it says in its commit info."""
        for limit in (1, 10, 100, None):
            for info in delta.history(limit):
                if isinstance(info.get(_STATE), dict):
                    found: dict[str, Any] = info[_STATE]
                    return found
        return {}

    def _rows_of(self, path: str) -> int:
        place = self._files.path_of(f"{self._table.name}/{path}")
        return int(pq.read_metadata(place, filesystem=self._files.system).num_rows)

    def _added(self, item: DataFile, change: Change) -> AddAction:
        return AddAction(
            item.path, item.size_bytes, self._partition(item), self._now_ms(), not change.is_same_data, item.stats
        )

    def _removed(self, item: DataFile, change: Change) -> RemoveAction:
        return RemoveAction(item.path, not change.is_same_data, self._now_ms(), item.size_bytes, self._partition(item))

    def _partition(self, item: DataFile) -> dict[str, str | None]:
        begin = datetime.fromtimestamp(item.begin_ms // 1000, UTC)
        values = {"date": f"{begin:%Y-%m-%d}", "hour": str(begin.hour)}
        return {name: values[name] for name in self._table.partitions}

    # --- what lasts ---

    def _sync(self) -> None:
        """Sync what came to the log since it was synced last, also what other programs committed."""
        versions = sorted(
            version for name in self._files.names(self._folder) if (version := _version(name)) is not None
        )
        new = [f"{self._folder}/{version:0{_DIGITS}}.json" for version in versions if version > self._synced]
        self._files.sync(new)
        self._synced = versions[-1] if versions else -1

    def _write_checkpoint(self, delta: DeltaTable) -> None:
        """Write the files that count down. It says what the commits say: one that fails leaves readers more to fold."""
        with _lake_errors(f"{self._uri}: its log can't be written"):
            delta.create_checkpoint()
        names = self._files.names(self._folder)
        made = [name for name in names if name.startswith(f"{delta.version():0{_DIGITS}}.checkpoint")]
        self._files.sync(f"{self._folder}/{name}" for name in [*made, "_last_checkpoint"])

    def _take_back(self) -> list[str]:
        done: list[str] = []
        names = self._files.names(self._folder)
        for name in names:
            # The library writes a commit under a name of its own before it counts.
            if ".json#" in name:
                self._files.delete(f"{self._folder}/{name}")
        versions = sorted(version for name in names if (version := _version(name)) is not None)
        while versions:
            why, is_torn = self._problem(versions[-1])
            if not why:
                break
            if not self._files.is_local or len(done) == TAKEN_BACK_MAX or (done and not is_torn):
                raise LakeError(
                    f"{self._uri}: commit {versions[-1]} {why}, and may have been confirmed: restore the table's folder, or delete"
                    " it and its checkpoint; the next run reads again what the nodes still have"
                )
            version = versions.pop()
            for name in names:
                if name.startswith(f"{version:0{_DIGITS}}."):
                    self._files.delete(f"{self._folder}/{name}")
            done.append(f"{self._table.name}: took back commit {version}, which {why}")
        if done:
            self._files.sync([self._folder])
        return done

    def _problem(self, version: int) -> tuple[str, bool]:
        """What is wrong with a commit, "" for nothing, and whether its own file is torn."""
        content = self._files.read(f"{self._folder}/{version:0{_DIGITS}}.json")
        if not content.strip():
            return "is empty", True
        try:
            actions = [json.loads(line) for line in content.splitlines() if line.strip()]
            added = [(str(found["add"]["path"]), int(found["add"]["size"])) for found in actions if "add" in found]
            infos = [found["commitInfo"].get(_STATE) or {} for found in actions if "commitInfo" in found]
            wanted = infos[0].get(_ACTIONS) if infos else None
        except (AttributeError, ValueError, KeyError, TypeError):
            return "is torn", True
        is_first_whole = version > 0 or {"protocol", "metaData"} <= {name for found in actions for name in found}
        if not is_first_whole or (wanted is not None and wanted != len(actions) - 1):
            return "is torn", True
        for path, size in added:
            name = self._files.path_of(f"{self._table.name}/{path}")
            place = self._files.system.get_file_info(name)
            if not place.is_file:
                return f"names {path}, which is missing", False
            if place.size != size:
                return f"names {path} with {size} bytes, which has {place.size}", False
            if wanted is None:
                self._check_columns(version, path, pq.read_schema(name, filesystem=self._files.system))
        return "", False

    def _check_columns(self, version: int, path: str, found: pa.Schema) -> None:
        """Raises LakeError: a file of another program has columns of other types than the table."""
        for column in to_arrow_schema(self._table.schema, timezone="UTC"):
            if column.name in found.names and found.field(column.name).type != column.type:
                raise LakeError(
                    f"{self._uri}: commit {version} of another program added {path}, whose column {column.name} has type"
                    f" {found.field(column.name).type} instead of {column.type}: restore the table to version {version - 1}"
                )

    def _check_checkpoint(self) -> list[str]:
        """Make the newest checkpoint of the log again where it can't be read, and take back what names another one."""
        names = self._files.names(self._folder)
        versions = {int(name[:_DIGITS]) for name in names if ".checkpoint" in name and name[:_DIGITS].isdigit()}
        newest = max(versions, default=None)
        hint = self._hint() if "_last_checkpoint" in names else newest
        is_whole = newest is None or all(
            self._is_parquet(name) for name in names if name.startswith(f"{newest:0{_DIGITS}}.checkpoint")
        )
        if is_whole and hint == newest:
            return []
        self._files.delete(f"{self._folder}/_last_checkpoint")
        if is_whole:  # readers find the newest one by its name
            self._files.sync([self._folder])
            return [f"{self._table.name}: took back what names the checkpoint of its log, and named none"]
        for name in names:
            if name.startswith(f"{newest:0{_DIGITS}}.checkpoint"):
                self._files.delete(f"{self._folder}/{name}")
        with _lake_errors(
            f"{self._uri} can't be read: its checkpoint {newest} is torn, and commits before it are gone"
        ):
            self._write_checkpoint(DeltaTable(self._uri))
        return [f"{self._table.name}: wrote the checkpoint of its log again, which was torn"]

    def _hint(self) -> int | None:
        """The checkpoint that `_last_checkpoint` names; None: it names none."""
        try:
            return int(json.loads(self._files.read(f"{self._folder}/_last_checkpoint"))["version"])
        except (ValueError, KeyError, TypeError):
            return None

    def _is_parquet(self, name: str) -> bool:
        try:
            pq.read_table(
                self._files.path_of(f"{self._folder}/{name}"), filesystem=self._files.system, partitioning=None
            )
        except (pa.ArrowException, OSError):
            return False
        return True


@contextmanager
def _lake_errors(what: str) -> Iterator[None]:
    """Raise errors of the library, except of two writers, as LakeError, which begins with what failed."""
    try:
        yield
    except CommitFailedError:
        raise
    except (DeltaError, OSError) as error:
        raise LakeError(f"{what}: {' '.join(_DRAWN.sub('', str(error)).split())}") from error


def _properties(state: Snapshot, change: Change | None = None) -> CommitProperties:
    """Of a commit: what it says of the table, which batch it is, and how many actions: one that is torn at the end of a
    line looks whole otherwise. None: the library makes the actions."""
    info: dict[str, Any] = {
        "stream": state.batch.stream if state.batch is not None else None,
        "watermarks": dict(state.watermarks),
        "missing": list(state.missing),
        "late": sorted(state.late.items()),
        "swept_ms": state.swept_ms,
    }
    batch = change.batch if change is not None else None
    done = [Transaction(batch.stream, batch.number)] if batch is not None else None
    if change is not None:
        info[_ACTIONS] = len(change.added) + len(change.removed) + (batch is not None)
    return CommitProperties(custom_metadata={_STATE: info}, max_commit_retries=0, app_transactions=done)


def _delta_schema(table: LakeTable) -> Schema:
    """A table's columns as Delta names them, all nullable, as a column that comes later is null in older files."""
    fields = [{**found, "nullable": True} for found in table.schema.jsonValue()["fields"]]
    kinds = {"date": "date", "hour": "integer"}
    fields += [{"name": name, "type": kinds[name], "nullable": True, "metadata": {}} for name in table.partitions]
    return Schema.from_json(json.dumps({"type": "struct", "fields": fields}))


def _types(schema: Mapping[str, Any]) -> dict[str, str]:
    return {found["name"]: json.dumps(found["type"], sort_keys=True) for found in schema["fields"]}


def _version(name: str) -> int | None:
    """The version that a file of the log says; None: it is no commit."""
    digits, _, rest = name.partition(".")
    return int(digits) if rest == "json" and len(digits) == _DIGITS and digits.isdigit() else None
