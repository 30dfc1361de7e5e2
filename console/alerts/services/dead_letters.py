"""Counts dead letters as they come, so that a rule can ask how many came in its window."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from django.db import IntegrityError, transaction

from console.alerts.arrivals import Arrivals, noted
from console.alerts.models import DeadLetterCount
from console.alerts.readings import dead_letter_counts, is_complete

TARGETS_MAX = 20_000
"""Most consumer groups with dead letters that are counted."""
_BEGUN = ""


def count_dead_letters(snapshot: Mapping[str, Any], now: float) -> dict[str, Arrivals | None]:
    """Record arrivals since the last sample and return them by `subject/group`; None where they could not be measured.

    A group's first dead letter creates its dead-letter subject. Once the whole system has been seen, a new subject counts from 0;
    before that, existing dead letters count as old.
    """
    counts = dead_letter_counts(snapshot)
    rows = {row.target: row for row in DeadLetterCount.objects.all()[: TARGETS_MAX + 1]}
    has_begun = _BEGUN in rows
    found: dict[str, Arrivals | None] = {}
    with transaction.atomic():
        for target, count in counts.items():
            row = rows.get(target)
            if count is None:
                found[target] = None
            elif row is not None:
                found[target] = _update(row, count, now)
            elif len(rows) + len(found) < TARGETS_MAX:
                found[target] = _begin(target, count, now, has_begun)
        if not has_begun and is_complete(snapshot):
            _insert(_BEGUN, 0, [])
    return found


def _update(row: DeadLetterCount, count: int, now: float) -> Arrivals:
    if count == row.count:
        return list(row.arrivals)
    arrivals = noted(row.arrivals, row.count, count, now)
    # Compared, so that of two processes that look at once only one counts.
    if DeadLetterCount.objects.filter(pk=row.pk, count=row.count).update(count=count, arrivals=arrivals):
        return arrivals
    return list(row.arrivals)


def _begin(target: str, count: int, now: float, has_begun: bool) -> Arrivals:
    arrivals = noted([], 0, count, now) if has_begun else []
    return arrivals if _insert(target, count, arrivals) else []


def _insert(target: str, count: int, arrivals: Arrivals) -> bool:
    key = blake2b(target.encode(), digest_size=32).hexdigest()
    try:
        with transaction.atomic():
            DeadLetterCount.objects.create(key=key, target=target, count=count, arrivals=arrivals)
    except IntegrityError:
        return False
    return True
