"""Folders that driver, executors and the lake's log reach: paths and URIs as Spark takes them, for pyarrow."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from qmq.errors import SettingError


def without_hadoop(place: str) -> str:
    """A URI as programs other than Hadoop write it: Hadoop has names of its own for S3."""
    scheme, colon, rest = place.partition(":")
    return f"s3:{rest}" if colon and scheme in ("s3a", "s3n") else place


def open_place(place: str, name: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """A file system and a path in it. `name` says in an error what the place is.

    Raises:
        SettingError: there is no such file system.
    """
    scheme, colon, _ = place.partition(":")
    if not colon or len(scheme) < 2 or "/" in scheme:
        return pyarrow.fs.LocalFileSystem(), str(Path(place).absolute())
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), unquote(urlsplit(place).path)
    try:
        system, path = pyarrow.fs.FileSystem.from_uri(without_hadoop(place))
    except (pa.ArrowInvalid, OSError) as error:
        raise SettingError(f"{name} is {place[:200]!r}, which can't be opened: {error}") from error
    return system, path.rstrip("/")
