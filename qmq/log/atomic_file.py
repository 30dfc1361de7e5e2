"""The one way to replace a small file: temporary file, sync, rename, sync of the folder."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmq.log.disk import Buffer, Disk


def replace_file(disk: "Disk", path: str, parts: "Sequence[Buffer]", *, temporary: str = "") -> None:
    """Replace a file, or create it; durable when this returns. The folder must exist.

    A power cut at any moment leaves the old file or the new one, whole. A temporary file of an interrupted call is removed by
    the next call.

    Args:
        parts: the content, written one after the other.
        temporary: path of the temporary file, in the same folder; default: `path` with `.tmp`.

    Raises:
        OSError: the old file is unchanged, except when only the sync of the folder failed.
    """
    temporary = temporary or f"{path}.tmp"
    folder = os.path.dirname(temporary) or "."
    if os.path.basename(temporary) in disk.list_dir(folder):
        disk.remove(temporary)
    file = disk.create(temporary, 0)
    try:
        file.pwritev(parts, 0)
        file.datasync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(folder)
