"""How long commands wait before they report that something is missing."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from qmq.net.timing import Timeouts

REACH_SECONDS = 8.0
"""A command that has not reached the metaserver or a node by then fails; with the interpreter's start that is below 10 s."""
ANSWER_SECONDS = 10.0
"""A benchmark fails if its nodes do not respond for this long."""
HINT_SECONDS = 3.0
"""`qmq consume` prints a hint when nothing has arrived by then."""
TIMEOUTS = Timeouts(connect=3.0)
"""A connection that is not open by then is not waited for: several must fit REACH_SECONDS."""


@contextmanager
def _log_filter(passes: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    logger = logging.getLogger("qmq.client")
    logger.addFilter(passes)
    try:
        yield
    finally:
        logger.removeFilter(passes)


def failures_are_raised() -> AbstractContextManager[None]:
    """Drop the client's critical log records: the failure that each one reports is raised to the command, which prints one line."""
    return _log_filter(lambda record: record.levelno < logging.CRITICAL)


def only_the_error() -> AbstractContextManager[None]:
    """Hold the client's warnings back: a command that fails prints one line, which contains the last of them."""
    return _log_filter(lambda record: record.levelno >= logging.CRITICAL)
