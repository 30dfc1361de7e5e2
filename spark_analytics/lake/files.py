"""The lake's files beside its log: what a folder of this machine and other storage have to be able to do for it.

Spark writes rows, the log (`lake.delta`) says which of them count. Checkpoints of streams and small records of our own
are read and written here, and here files are made to last.
"""

import fcntl
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit
from uuid import uuid4

import pyarrow.fs

from qmq.errors import QmqError
from spark_analytics.places import open_place, without_hadoop

LOCK_NAME = "_lock"
CONDITIONAL_NAME = "_conditional_writes"
"""An empty object in a lake on S3, which was written once. That it can't be written again shows what the log needs."""
CHECK_RETRIES_MAX = 3
"""How often that is tried again when the server does not answer, or answers 5xx."""


class LakeError(QmqError):
    """The lake can't be used as it is; the text says what to do."""

    code = "analytics.lake"


class LakeBusy(LakeError):
    """Another run writes to the lake."""

    code = "analytics.lake_busy"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file below a folder: its path from the root, and its size."""

    path: str
    size_bytes: int


class LakeFiles(Protocol):
    """Files below a root, named by their paths from it."""

    root: str
    """The URI for Spark."""
    log_root: str
    """The same place for the log's library."""
    is_local: bool
    """A power cut can leave half of a file, and folders have to be removed: a folder of this machine, or one that is
    mounted."""
    system: pyarrow.fs.FileSystem
    """For pyarrow."""

    def lock(self) -> None:
        """Be the only writer until this process ends or `unlock`s. LakeBusy: another one is."""

    def unlock(self) -> None:
        """Let others write."""

    def path_of(self, path: str) -> str:
        """A path for `system`."""

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder, in no order; none when there is no such folder."""

    def read(self, path: str) -> bytes:
        """A file's bytes. FileNotFoundError: it is not there."""

    def create(self, path: str, content: bytes) -> None:
        """Create a file, whole and durable or not at all. FileExistsError: it is there already."""

    def delete(self, path: str) -> None:
        """Take away a file or a folder with all it holds; it may be gone already."""

    def delete_empty(self, folders: Iterable[str]) -> None:
        """Take away those of these folders that hold nothing, and what is empty above them then."""

    def sync(self, paths: Iterable[str]) -> None:
        """Return when these files and folders, and the names of all folders above them, outlast a power cut."""

    def walk(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder."""


class LocalFiles:
    """A folder of this machine, or one that several machines share."""

    is_local = True

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).absolute()
        self.root = self._folder.as_uri()
        self.log_root = str(self._folder)
        self.system: pyarrow.fs.FileSystem = pyarrow.fs.LocalFileSystem()
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

    def path_of(self, path: str) -> str:
        """A path for `system`."""
        return str(self._folder / path)

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
        for place in self._with_parents(target.parent):
            _fsync(place)

    def delete(self, path: str) -> None:
        """Take away a file or a folder."""
        place = self._folder / path
        if place.is_dir():
            shutil.rmtree(place)
        else:
            place.unlink(missing_ok=True)

    def delete_empty(self, folders: Iterable[str]) -> None:
        """Take away folders that hold nothing."""
        for folder in folders:
            for place in self._with_parents(self._folder / folder):
                try:
                    place.rmdir()
                except OSError:  # it holds something, or is gone
                    break

    def sync(self, paths: Iterable[str]) -> None:
        """fsync each file and each folder above it, folders once."""
        folders: dict[Path, None] = {}
        for path in paths:
            place = self._folder / path
            _fsync(place)
            folders |= dict.fromkeys(self._with_parents(place.parent))
        for folder in folders:
            _fsync(folder)

    def walk(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder."""
        for parent, _, names in os.walk(self._folder / folder):
            for name in names:
                place = Path(parent) / name
                with suppress(FileNotFoundError):
                    yield FoundFile(place.relative_to(self._folder).as_posix(), place.stat().st_size)

    def _with_parents(self, folder: Path) -> list[Path]:
        """A folder and those above it, the lake's own last."""
        return [place for place in (folder, *folder.parents) if place.is_relative_to(self._folder)]


class RemoteFiles:
    """Other storage, by the URI of a place in it: S3, and what else pyarrow opens.

    It writes a file whole or not at all, and durably. Nothing is locked: of two writers one fails at its next commit, by
    a write that fails where there is a file. Not every S3 server has that.
    """

    is_local = False

    def __init__(self, uri: str) -> None:
        self.root = uri.rstrip("/")
        self.log_root = without_hadoop(self.root)
        self.system, self._path = open_place(self.root, "the lake")

    def lock(self) -> None:
        """There is nothing to hold. An S3 server has to have conditional writes, though, which is tried out.

        Raises:
            LakeError: it has none, or the place can't be written.
        """
        if self.log_root.startswith("s3://"):
            self._check_conditional_writes()

    def unlock(self) -> None:
        """Nothing is held."""

    def _check_conditional_writes(self) -> None:
        """Write an object that must not be there, twice at most: it stays, and the next run's first write fails."""
        # A lake in a folder does not need the library.
        try:
            import obstore
            from obstore.exceptions import AlreadyExistsError, BaseError
            from obstore.store import from_url
        except ImportError as error:
            raise LakeError(
                "a lake on S3 needs obstore, which is not installed: pip install 'pyqmq[analytics]'"
            ) from error
        try:
            # The log's library is built on the same one: it finds the server by the same variables.
            store = from_url(self.log_root, retry_config={"max_retries": CHECK_RETRIES_MAX})
            for _ in range(2):
                obstore.put(store, CONDITIONAL_NAME, b"", mode="create")
        except AlreadyExistsError:
            return
        except (BaseError, OSError) as error:
            why = str(error).partition("\n")[0]
            if "501 Not Implemented" not in why:
                raise LakeError(f"the lake {self.root} can't be written: {why}") from error
        raise LakeError(
            f"the S3 server of the lake {self.root} has no conditional writes (If-None-Match), without which two runs could"
            " overwrite each other's commits: set QMQ_ANALYTICS_LAKE to one that has, or to a folder"
        )

    def path_of(self, path: str) -> str:
        """A path for `system`."""
        return f"{self._path}/{path}"

    def names(self, folder: str) -> list[str]:
        """Names of what is in a folder."""
        selector = pyarrow.fs.FileSelector(self.path_of(folder), allow_not_found=True)
        return [str(found.base_name) for found in self.system.get_file_info(selector)]

    def read(self, path: str) -> bytes:
        """A file's bytes."""
        with self.system.open_input_stream(self.path_of(path)) as stream:
            return bytes(stream.read())

    def create(self, path: str, content: bytes) -> None:
        """Written unless it is there. Two that write at the same moment both succeed; the log decides between their
        runs."""
        place = self.path_of(path)
        if self.system.get_file_info(place).type != pyarrow.fs.FileType.NotFound:
            raise FileExistsError(path)
        with self.system.open_output_stream(place) as stream:
            stream.write(content)

    def delete(self, path: str) -> None:
        """Take away a file or a folder."""
        place = self.path_of(path)
        kind = self.system.get_file_info(place).type
        if kind == pyarrow.fs.FileType.Directory:
            self.system.delete_dir(place)
        elif kind == pyarrow.fs.FileType.File:
            self.system.delete_file(place)

    def delete_empty(self, folders: Iterable[str]) -> None:
        """Object stores have no folders."""

    def sync(self, paths: Iterable[str]) -> None:
        """What was written lasts."""

    def walk(self, folder: str) -> Iterator[FoundFile]:
        """Every file below a folder."""
        selector = pyarrow.fs.FileSelector(self.path_of(folder), allow_not_found=True, recursive=True)
        for found in self.system.get_file_info(selector):
            if found.is_file:
                yield FoundFile(str(found.path).removeprefix(f"{self._path}/"), int(found.size))


def local_folder(lake: str) -> str | None:
    """The folder that a path or `file:` URI names; None: a URI of other storage.

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
