"""Folders of a stream's own small files: paths and URIs as Spark takes them, opened without Spark."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from qmq.errors import SettingError


def open_folder(folder: str, option: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """A file system and a path in it. Raises SettingError, which names the option that `folder` comes from."""
    scheme, colon, rest = folder.partition(":")
    if not colon or len(scheme) < 2 or "/" in scheme:
        return pyarrow.fs.LocalFileSystem(), str(Path(folder).absolute())
    if scheme == "file":
        return pyarrow.fs.LocalFileSystem(), unquote(urlsplit(folder).path)
    try:
        # Hadoop has names of its own for S3.
        system, path = pyarrow.fs.FileSystem.from_uri(f"s3:{rest}" if scheme in ("s3a", "s3n") else folder)
    except (pa.ArrowInvalid, OSError) as error:
        raise SettingError(f"option {option} is {folder[:200]!r}, which can't be opened: {error}") from error
    return system, path.rstrip("/")
