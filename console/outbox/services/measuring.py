"""Stores what passes over registered databases came to. No version is raised: nothing that an operator decides changes."""

from datetime import datetime
from typing import Any

from console.outbox.models import OutboxDatabase
from console.outbox.passes import Passed

_NO_ERROR: dict[str, Any] = {"error": "", "error_code": "", "error_since": None}
ERROR_CHARS_MAX = 500


def note_pass(passed: Passed, now: datetime) -> None:
    """Store the numbers or the failure of a pass and its cleanup, unless the database was changed since the pass began."""
    rows = OutboxDatabase.objects.filter(pk=passed.row.pk, version=passed.row.version)
    if passed.cleaned is not None and passed.cleaned.is_over:
        # Not in `error`: the rows of a database whose markers can't be deleted are relayed and counted.
        failure = passed.cleaned.failure
        text, code = ("", "") if failure is None else (str(failure)[:ERROR_CHARS_MAX], failure.code)
        rows.update(marker_cleanup_at=now, marker_error=text, marker_error_code=code)
    if passed.failure is not None:
        rows.filter(error_since__isnull=True).update(error_since=now)
        rows.update(error=str(passed.failure)[:ERROR_CHARS_MAX], error_code=passed.failure.code)
        return
    if passed.counts is None:
        # Passes are frequent: what is stored already is not stored again.
        if passed.is_recovered:
            rows.update(**_NO_ERROR)
        return
    counts = passed.counts
    # The digits behind the label only make holders unique.
    leader = (counts.leader or "").rpartition("#")
    rows.update(
        measured_at=now, pending=counts.pending, failed=counts.failed, oldest_ms=max(0, counts.oldest_ms or 0),
        leader=leader[0] or leader[2], rows_per_second=passed.rows_per_second, **_NO_ERROR,
    )  # fmt: skip
