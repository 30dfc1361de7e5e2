"""The limit of open files, which bounds connections: raised as far as this process may raise it, and divided."""

import logging
import resource
from dataclasses import dataclass

logger = logging.getLogger("qmq")

FILES_UNLIMITED = 1 << 20
"""What a process without a limit counts on."""
RESERVED_FILES = 512
"""For segments, index files, the admin server and the interpreter; half of all descriptors where there are few."""
INDEX_FILES_MAX = 256


def raise_open_files_limit(files_wanted: int = 0) -> int:
    """Raise the soft limit to the hard one and return it.

    Args:
        files_wanted: when the hard limit is below it, a warning with both is logged.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    files = hard if hard != resource.RLIM_INFINITY else FILES_UNLIMITED
    if files < files_wanted:
        logger.warning(
            "only %d files may be open, %d are wanted: fewer connections are served at a time; raise `ulimit -Hn`",
            files,
            files_wanted,
        )
    return files


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
