"""What a metaserver reads of its database."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db.models.signals import post_init


@contextmanager
def rows_loaded() -> Iterator[Counter[str]]:
    """Counts the rows that Django makes objects of, by model."""
    found: Counter[str] = Counter()

    def count(sender: Any, **_: Any) -> None:
        found[sender.__name__] += 1

    post_init.connect(count)
    try:
        yield found
    finally:
        post_init.disconnect(count)
