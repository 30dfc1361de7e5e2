"""Slaves whose commits share syncs although their disks are fast enough."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from qmq_node.replication.slave import sync_sharing


@contextmanager
def early_sharing() -> Iterator[None]:
    """Commits share syncs at once, and have their own again after a second with few of them, again and again."""
    with ExitStack() as stack:
        for name, value in (
            ("SHARING_WAITED_SECONDS", 0.0),
            ("SHARING_WAITING_MIN", 1),
            ("SHARING_SECONDS_MIN", 1.0),
        ):
            stack.enter_context(patch.object(sync_sharing, name, value))
        yield
