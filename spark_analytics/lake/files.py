"""The lake's small files: what a folder of this machine and a Hadoop file system have to be able to do for it.

Rows are written and read by Spark. What decides which of them count is in small files, and goes through here:
one that is created is there whole or not at all, it is on the disk, and only one of two writers makes it.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit
from uuid import uuid4

from qmq.errors import QmqError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCK_NAME = "_lock"


class LakeError(QmqError):
    """The lake can't be used as it is; the text says what to do."""

    code = "analytics.lake"


class LakeBusy(LakeError):
    """Another run writes to the lake."""

    code = "analytics.lake_busy"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file below a folder: its path from the root, its size, and when it was last written (ms since the epoch)."""

    path: str
    size_bytes: int
    changed_ms: int


class LakeFiles(Protocol):
    """Files below a root, named by their paths from it."""

    root: str
    """The URI for Spark."""

    def lock(self) -> None:
        """Be the only writer until this process ends or `unlock`s. LakeBusy: another one is."""

    def unlock(self) -> None:
        """Let others write."""

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder, in no order; none when there is no such folder."""

    def read(self, path: str) -> bytes:
        """A file's bytes. FileNotFoundError: it is not there."""

    def create(self, path: str, content: bytes) -> None:
        """Create a file atomically and durably. FileExistsError: another writer created it first."""

    def move(self, source: str, target: str) -> None:
        """Give a file another name; folders on the way are made."""

    def delete(self, path: str) -> None:
        """Take away a file or a folder with all it holds; it may be gone already."""

    def sync(self, paths: Iterable[str]) -> None:
        """Return when these files, and the names of all folders above them, outlast a power cut."""

    def walk(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder."""


class LocalFiles:
    """A folder of this machine."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).absolute()
        self.root = self._folder.as_uri()
        self._lock_fd = -1

    def lock(self) -> None:
        """Be the only writer: an flock, which ends with the process however that ends."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._folder / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LakeError(f"the lake {self._folder} can't be written: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(fd)
            raise LakeBusy(
                f"another analytics run is writing to the lake {self._folder}; wait until it ends"
            ) from error
        self._lock_fd = fd

    def unlock(self) -> None:
        """Let others write."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder."""
        try:
            return os.listdir(self._folder / folder)
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        return (self._folder / path).read_bytes()

    def create(self, path: str, content: bytes) -> None:
        """Written under another name, synced, then linked: a link is made once or fails, and never shows a part."""
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{target.name}.{uuid4().hex}")
        try:
            with open(draft, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(draft, target)
        finally:
            draft.unlink(missing_ok=True)
        self._sync_names(target.parent)

    def move(self, source: str, target: str) -> None:
        """Rename it."""
        place = self._folder / target
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self._folder / source, place)

    def delete(self, path: str) -> None:
        """Take away a file or a folder."""
        place = self._folder / path
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def sync(self, paths: Iterable[str]) -> None:
        """fsync each file and each folder above it, folders once."""
        folders: dict[Path, None] = {}
        for path in paths:
            place = self._folder / path
            _fsync(place)
            folders |= dict.fromkeys(parent for parent in place.parents if parent.is_relative_to(self._folder))
        for folder in folders:
            _fsync(folder)

    def walk(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder."""
        for parent, _, names in os.walk(self._folder / folder):
            for name in names:
                place = Path(parent) / name
                with suppress(FileNotFoundError):
                    status = place.stat()
                    path = place.relative_to(self._folder).as_posix()
                    yield FoundFile(path, status.st_size, status.st_mtime_ns // 1_000_000)

    def _sync_names(self, folder: Path) -> None:
        for place in (folder, *folder.parents):
            if not place.is_relative_to(self._folder):
                break
            _fsync(place)


class HadoopFiles:
    """Any file system that Hadoop knows, by the URI of a folder in it.

    A closed file is considered durable: HDFS keeps copies on several machines, object stores answer when they do. The file
    system has to refuse a rename onto a name that exists, as HDFS does; on one that does not, start one writer only.
    """

    def __init__(self, spark: "SparkSession", uri: str) -> None:
        self.root = uri.rstrip("/")
        # The gateway has no types.
        jvm: Any = spark._jvm
        context: Any = spark.sparkContext
        self._path: Any = jvm.org.apache.hadoop.fs.Path
        self._io: Any = jvm.org.apache.commons.io.IOUtils
        configuration = context._jsc.hadoopConfiguration()
        root = self._path(self.root)
        self._files: Any = root.getFileSystem(configuration)
        self._context: Any = jvm.org.apache.hadoop.fs.FileContext.getFileContext(root.toUri(), configuration)
        self._no_options: Any = context._gateway.new_array(jvm.org.apache.hadoop.fs.Options.Rename, 0)
        self._qualified = str(self._files.makeQualified(root).toString()).rstrip("/")

    def lock(self) -> None:
        """There is nothing to hold: of two writers one fails at its next change."""

    def unlock(self) -> None:
        """Nothing is held."""

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder."""
        place = self._at(folder)
        if not self._files.exists(place):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(place)]

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        place = self._at(path)
        if not self._files.exists(place):
            raise FileNotFoundError(path)
        stream = self._files.open(place)
        try:
            return bytes(self._io.toByteArray(stream))
        finally:
            stream.close()

    def create(self, path: str, content: bytes) -> None:
        """Written under another name, closed, then renamed without leave to replace."""
        draft = self._at(f"{path}.draft-{uuid4().hex}")
        target = self._at(path)
        stream = self._files.create(draft, True)
        try:
            stream.write(content)
        finally:
            stream.close()
        try:
            if self._files.exists(target):
                raise FileExistsError(path)
            self._context.rename(draft, target, self._no_options)
        except Exception as error:
            self._files.delete(draft, False)
            if "FileAlreadyExistsException" in str(error):
                raise FileExistsError(path) from error
            raise

    def move(self, source: str, target: str) -> None:
        """Rename it."""
        place = self._at(target)
        self._files.mkdirs(place.getParent())
        if not self._files.rename(self._at(source), place):
            raise LakeError(f"{source} of the lake {self.root} can't be renamed to {target}")

    def delete(self, path: str) -> None:
        """Take away a file or a folder."""
        self._files.delete(self._at(path), True)

    def sync(self, paths: Iterable[str]) -> None:
        """Closed files last."""

    def walk(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder."""
        place = self._at(folder)
        if not self._files.exists(place):
            return
        found = self._files.listFiles(place, True)
        while found.hasNext():
            status = found.next()
            path = str(status.getPath().toString()).removeprefix(f"{self._qualified}/")
            yield FoundFile(path, int(status.getLen()), int(status.getModificationTime()))

    def _at(self, path: str) -> Any:
        return self._path(f"{self.root}/{path}" if path else self.root)


def local_folder(lake: str) -> str | None:
    """The folder that a path or `file:` URI names; None: a URI of another file system.

    Raises:
        LakeError: a `file:` URI of another host.
    """
    place = urlsplit(lake)
    if len(place.scheme) < 2:
        return lake
    if place.scheme != "file":
        return None
    if place.netloc not in ("", "localhost"):
        raise LakeError(f"{lake}: a file URI names a folder of this machine: file:///FOLDER")
    return place.path


def _fsync(place: Path) -> None:
    fd = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
