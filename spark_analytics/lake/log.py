"""Which files of a table count: its log of changes.

`TABLE/_log/` has a file for each change, numbered without holes. A change names files that came and files that went, all at once:
a reader of a table folds the changes into a snapshot and reads exactly its files. So a batch is in the table whole or not at
all, a compaction swaps many files for one in one step, and a writer that is killed anywhere leaves unreferenced files.

Two things are remembered besides files: the last batch of the stream that fills the table, so that a batch which is run twice
counts once, and up to which time each broker group's rows are in the table (its watermarks).
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_analytics.lake.files import LakeBusy, LakeError, LakeFiles

LOG_FOLDER = "_log"
SNAPSHOT_EVERY = 50
"""Changes after which all of them are written down as one snapshot: readers fold no more than this many."""
LISTINGS_MAX = 5
"""How often a reader lists the log again because files it saw were forgotten meanwhile."""
_DIGITS = 20
_SNAPSHOT = ".snapshot.json"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file: its path from the table's folder, rows and size."""

    path: str
    rows: int
    size_bytes: int

    @property
    def partition(self) -> str:
        """The folder it is in: date=YYYY-MM-DD/hour=HH."""
        return self.path.rpartition("/")[0]


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
    """Broker group -> time in ms since the epoch up to which its rows are here; it replaces what was said before."""
    forgotten: tuple[str, ...] = ()
    """Files that went before and are not on the disk any more."""
    missing: tuple[str, ...] | None = None
    """Broker groups that could not be read last time; it replaces the ones named before."""
    late: Mapping[int, int] | None = None
    """Hour (ms since the epoch) -> rows added of it after its steps may have been published."""
    is_late_done: bool = False
    """What was late is due again, or was computed: it is no longer remembered."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A table after a change."""

    version: int = 0
    files: Mapping[str, DataFile] = field(default_factory=dict)
    gone: Mapping[str, int] = field(default_factory=dict)
    """Files that went and are on the disk still, for readers of older snapshots: path -> when they went."""
    batch: Batch | None = None
    watermarks: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    late: Mapping[int, int] = field(default_factory=dict)
    """Hours to compute again, and how many late rows they have."""

    def after(self, change: Change, version: int, at_ms: int) -> "Snapshot":
        """This snapshot with a change.

        Raises:
            LakeError: the change takes away what is not there, or brings what is.
        """
        unknown = [path for path in change.removed if path not in self.files]
        known = [item.path for item in change.added if item.path in self.files]
        if unknown or known:
            raise LakeError(f"change {version} does not fit the one before it: {', '.join([*unknown, *known][:3])}")
        removed = set(change.removed)
        files = {path: item for path, item in self.files.items() if path not in removed}
        files |= {item.path: item for item in change.added}
        forgotten = set(change.forgotten)
        late = {} if change.is_late_done else dict(self.late)
        for hour, rows in (change.late or {}).items():
            late[hour] = late.get(hour, 0) + rows
        gone = {path: at for path, at in self.gone.items() if path not in forgotten}
        return Snapshot(
            version,
            files,
            {**gone, **dict.fromkeys(change.removed, at_ms)},
            change.batch or self.batch,
            dict(change.watermarks) if change.watermarks is not None else self.watermarks,
            change.missing if change.missing is not None else self.missing,
            late,
        )


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


class TableLog:
    """The log of one table."""

    def __init__(self, files: LakeFiles, table: str, now_ms: Callable[[], int] = now_ms) -> None:
        self._files = files
        self._folder = f"{table}/{LOG_FOLDER}"
        self._now_ms = now_ms
        self._last = Snapshot()

    def snapshot(self) -> Snapshot:
        """The table as it is now.

        Raises:
            LakeError: the log has a hole or a file that is none.
        """
        problem = ""
        for _ in range(LISTINGS_MAX):
            try:
                self._last = self._read()
            except FileNotFoundError as error:
                # Forgotten between list and read: a newer snapshot is there by now. If not, it is a hole.
                problem = str(error)
                continue
            return self._last
        raise LakeError(f"{problem} is missing in {self._folder}; restore it, or remove the table's folder")

    def commit(self, base: Snapshot, change: Change) -> Snapshot:
        """Commit a change to the table whose snapshot is `base`, and return the new snapshot.

        Raises:
            LakeBusy: another run has changed the table since.
        """
        version, at_ms = base.version + 1, self._now_ms()
        after = base.after(change, version, at_ms)
        content = {
            "at_ms": at_ms,
            "added": [[item.path, item.rows, item.size_bytes] for item in change.added],
            "removed": list(change.removed),
            "batch": _batch_values(change.batch),
            "watermarks": dict(change.watermarks) if change.watermarks is not None else None,
            "forgotten": list(change.forgotten),
            "missing": list(change.missing) if change.missing is not None else None,
            "late": sorted((change.late or {}).items()),
            "late_done": change.is_late_done,
        }
        try:
            self._files.create(self._path(version), _dump(content))
        except FileExistsError as error:
            raise LakeBusy(f"another run has changed {self._folder} in the meantime; run the job again") from error
        if version % SNAPSHOT_EVERY == 0 or change.forgotten:
            self._write_snapshot(after)
        self._last = after
        return after

    def prune(self) -> int:
        """Delete changes and snapshots that a newer snapshot has; how many."""
        numbers = {name: number for name in self._files.names(self._folder) if (number := _number(name)) is not None}
        newest = max((number for name, number in numbers.items() if name.endswith(_SNAPSHOT)), default=0)
        old = [name for name, number in numbers.items() if number < newest]
        for name in old:
            self._files.delete(f"{self._folder}/{name}")
        return len(old)

    def _read(self) -> Snapshot:
        names = [(name, number) for name in self._files.names(self._folder) if (number := _number(name)) is not None]
        changes = {number for name, number in names if not name.endswith(_SNAPSHOT)}
        newest = max((number for name, number in names if name.endswith(_SNAPSHOT)), default=0)
        found = self._read_snapshot(newest) if newest > self._last.version else self._last
        for version in range(found.version + 1, max(changes, default=0) + 1):
            found = self._read_change(found, version)
        return found

    def _read_change(self, before: Snapshot, version: int) -> Snapshot:
        content = self._load(self._path(version))
        try:
            change = Change(
                tuple(DataFile(*item) for item in content["added"]),
                tuple(content["removed"]),
                _batch(content["batch"]),
                content["watermarks"],
                tuple(content["forgotten"]),
                tuple(content["missing"]) if content["missing"] is not None else None,
                {int(hour): int(rows) for hour, rows in content["late"]},
                bool(content["late_done"]),
            )
            return before.after(change, version, int(content["at_ms"]))
        except (KeyError, TypeError, ValueError) as error:
            raise LakeError(f"{self._path(version)} is damaged: {error}") from error

    def _read_snapshot(self, version: int) -> Snapshot:
        path = self._snapshot_path(version)
        content = self._load(path)
        try:
            return Snapshot(
                version,
                {item[0]: DataFile(*item) for item in content["files"]},
                dict(content["gone"]),
                _batch(content["batch"]),
                dict(content["watermarks"]),
                tuple(content.get("missing", ())),
                {int(hour): int(rows) for hour, rows in content.get("late", ())},
            )
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise LakeError(f"{path} is damaged: {error}") from error

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        content = {
            "files": [[item.path, item.rows, item.size_bytes] for item in snapshot.files.values()],
            "gone": dict(snapshot.gone),
            "batch": _batch_values(snapshot.batch),
            "watermarks": dict(snapshot.watermarks),
            "missing": list(snapshot.missing),
            "late": sorted(snapshot.late.items()),
        }
        # It says what the changes say: a writer killed before this line leaves its readers a little more to fold.
        self._files.create(self._snapshot_path(snapshot.version), _dump(content))

    def _load(self, path: str) -> dict[str, Any]:
        try:
            content = json.loads(self._files.read(path))
        except ValueError as error:
            raise LakeError(f"{path} is damaged: {error}") from error
        if not isinstance(content, dict):
            raise LakeError(f"{path} is damaged: no object")
        return content

    def _path(self, version: int) -> str:
        return f"{self._folder}/{version:0{_DIGITS}}.json"

    def _snapshot_path(self, version: int) -> str:
        return f"{self._folder}/{version:0{_DIGITS}}{_SNAPSHOT}"


def _number(name: str) -> int | None:
    """The version that a file's name says; None: it is none of the log's."""
    digits, _, rest = name.partition(".")
    return int(digits) if rest in ("json", "snapshot.json") and len(digits) == _DIGITS and digits.isdigit() else None


def _batch(values: list[Any] | None) -> Batch | None:
    return Batch(str(values[0]), int(values[1])) if values is not None else None


def _batch_values(batch: Batch | None) -> list[Any] | None:
    return [batch.stream, batch.number] if batch is not None else None


def _dump(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
