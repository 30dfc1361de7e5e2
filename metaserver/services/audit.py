"""One audit entry, inside the caller's transaction, chained to the one before it.

The ledger's row is locked until the transaction ends. Lock order everywhere: the things that change, then the ledger.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b
from typing import Any

from django.db.models import F
from django.utils import timezone

from metaserver.models import AuditEntry, Ledger, MetadataChange
from metaserver.services.changes import Actor, Change

DIGEST_BYTES = 32
CHANGES_KEPT = 10_000
"""Newest MetadataChange rows that are kept; a reader that is further behind loads everything."""
TRIM_EVERY = 1_000
READ = ".read"
STEPS = frozenset(
    {*(f"route.{step}" for step in ("set", "step", "rebalance", "rejoin", "lost")), "consumer_group.reset", "consumer_group.forget"}
)  # fmt: skip
"""Actions that are parts of others: moves of subjects, and beginnings of changes whose outcome is another entry."""
AUDITED_TEXTS = ("actor", "action", "target", "reason", "address", "request_id", "client_request_id")
"""The texts that an entry's digest covers."""


def record(
    actor: Actor,
    action: str,
    target: str,
    *,
    reason: str = "",
    before: Any = None,
    after: Any = None,
    subject: str = "",
    broker_group: str = "",
) -> None:
    """Write one entry, of a change or of a read that is not open to all (its action ends in `.read`).

    Metaservers reload the rows of `subject` and `broker_group`, whose metadata the action changed, and of no other.
    """
    ledger, _ = Ledger.objects.select_for_update().get_or_create(id=1)
    values = {
        "at": timezone.now(),
        "actor": actor.name[:200],
        "action": action,
        "target": target[:300],
        "reason": reason[:500],
        "before": before,
        "after": after,
        "address": actor.address[:100],
        "request_id": actor.request_id[:64],
        "client_request_id": actor.client_request_id[:64],
    }
    digest = entry_digest(ledger.audit_digest, **values)
    is_event = not (action.endswith(READ) or action in STEPS or actor.is_applying)
    AuditEntry.objects.create(**values, digest=digest, is_event=is_event)
    changes = ledger.changes
    if subject or broker_group:
        changes += 1
        MetadataChange.objects.create(number=changes, subject=subject, broker_group=broker_group)
        if changes % TRIM_EVERY == 0:
            MetadataChange.objects.filter(number__lte=changes - CHANGES_KEPT).delete()
    Ledger.objects.filter(id=1).update(changes=changes, audit_digest=digest, audit_count=F("audit_count") + 1)


def record_change(actor: Actor, action: str, change: Change, reason: str = "") -> Change:
    """Write the entry of a change, unless it changed nothing. Returns it."""
    if change.is_change:
        record(actor, action, change.target, reason=reason, before=change.before, after=change.after)
    return change


def entry_digest(previous: str, *, at: datetime, before: Any, after: Any, **texts: str) -> str:
    """Return the digest of an entry: blake2b over the previous entry's digest and all of this one's values, as sorted JSON."""
    entry = {**texts, "at": at.isoformat(timespec="microseconds"), "before": before, "after": after}
    text = json.dumps([previous, entry], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


@dataclass(frozen=True, slots=True)
class AuditVerdict:
    """Result of the verification of a range of the audit log."""

    checked: int
    """Number of verified entries."""
    last_id: int
    """The entry from which the next verification continues."""
    is_end: bool
    """Whether this stretch reached the newest entry."""
    broken_id: int | None
    """The first entry that is not as it was written, or follows one that is gone; None: all fit."""
    problem: str
    """"" when all fit."""


def verify(after_id: int = 0, limit: int = 10_000) -> AuditVerdict:
    """Follow the chain over the entries after this one to the end that was written."""
    # Read first: entries that come meanwhile lie behind it in the chain.
    ledger = Ledger.objects.filter(id=1).values_list("audit_digest", "audit_count").first()
    newest, count = ledger if ledger is not None else ("", 0)
    before = AuditEntry.objects.filter(id__lte=after_id).order_by("-id").values_list("digest", flat=True).first()
    previous = before or ""
    checked, last_id = 0, after_id
    for row in AuditEntry.objects.filter(id__gt=after_id).order_by("id")[:limit].iterator(chunk_size=500):
        checked += 1
        last_id = row.pk
        values = {name: getattr(row, name) for name in AUDITED_TEXTS}
        if entry_digest(previous, at=row.at, before=row.before, after=row.after, **values) != row.digest:
            text = f"entry {row.pk} was modified, or an entry before it was deleted"
            return AuditVerdict(checked, last_id, False, row.pk, text)
        previous = row.digest
    is_end = checked < limit
    if is_end:
        last = AuditEntry.objects.filter(digest=newest).order_by("-id").first() if newest else None
        if newest and last is None:
            text = "the latest entry was deleted"
            return AuditVerdict(checked, last_id, True, None, text)
        there = AuditEntry.objects.filter(id__lte=last.pk if last is not None else 0).count()
        if there != count:
            return AuditVerdict(checked, last_id, True, None, f"{count} entries were written, but only {there} exist")
    return AuditVerdict(checked, last_id, is_end, None, "")
