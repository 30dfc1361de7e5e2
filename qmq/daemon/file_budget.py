"""How many connections and index files a process may open, so that connections leave file descriptors for the log."""

import logging
from dataclasses import dataclass

from qmq.net.open_files import raise_open_files_limit

logger = logging.getLogger("qmq")

RESERVED_FILES = 512
"""For segments, index files, the admin server and the interpreter; half of all descriptors where there are few."""
INDEX_FILES_MAX = 256


@dataclass(frozen=True, slots=True)
class FileBudget:
    """Connections and index files that may be open at a time."""

    connections: int
    index_files: int


def file_budget(connections_max: int) -> FileBudget:
    """Raise the soft limit to the hard limit, and divide the descriptors."""
    files = raise_open_files_limit()
    reserved = min(RESERVED_FILES, files // 2)
    connections = min(connections_max, files - reserved)
    if connections < connections_max:
        logger.warning(
            "connections_max is %d, but only %d files may be open: %d connections are accepted; raise `ulimit -n`",
            connections_max,
            files,
            connections,
        )
    return FileBudget(connections, min(INDEX_FILES_MAX, reserved // 2))
