"""The limit of open files, which bounds connections: raised as far as this process may raise it."""

import logging
import resource

logger = logging.getLogger("qmq")

FILES_UNLIMITED = 1 << 20
"""What a process without a limit counts on."""


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
