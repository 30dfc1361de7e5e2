"""How the file descriptors a process may open are shared out: connections never take what the log and indexes need."""

import logging
from dataclasses import dataclass

from qmq.net.open_files import raise_open_files_limit

logger = logging.getLogger("qmq")

RESERVED_FILES = 512
"""For segments, index files, the admin server and what the interpreter opens; half of all where there are few."""
INDEX_FILES_MAX = 256


@dataclass(frozen=True, slots=True)
class FileBudget:
    """Connections and index files that may be open at a time."""

    connections: int
    index_files: int


def file_budget(connections_max: int) -> FileBudget:
    """Raise the soft limit to the hard one, and share out what there is."""
    files = raise_open_files_limit()
    reserved = min(RESERVED_FILES, files // 2)
    connections = min(connections_max, files - reserved)
    if connections < connections_max:
        logger.warning(
            "connections_max is %d, but only %d files may be open: %d connections are taken; raise `ulimit -n`",
            connections_max,
            files,
            connections,
        )
    return FileBudget(connections, min(INDEX_FILES_MAX, reserved // 2))
