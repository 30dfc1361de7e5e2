"""How long commands wait before they report that something is missing."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

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
def failures_are_raised() -> Iterator[None]:
    """Drop the client's critical log records: the failure that each one reports is raised to the command, which prints one line."""

    def is_not_critical(record: logging.LogRecord) -> bool:
        return record.levelno < logging.CRITICAL

    logger = logging.getLogger("qmq.client")
    logger.addFilter(is_not_critical)
    try:
        yield
    finally:
        logger.removeFilter(is_not_critical)


@contextmanager
def only_the_error() -> Iterator[None]:
    """Hold the client's warnings back: a command that fails prints one line, which contains the last of them."""
    logger = logging.getLogger("qmq.client")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
