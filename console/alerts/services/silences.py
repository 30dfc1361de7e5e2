"""Silences: who shall not be told of what, until when, why."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

from console.alerts.models import Silence
from console.alerts.rules import matcher
from console.alerts.services import values as check
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, ChangeRefused, Conflict, NotFound, changing, check_version

SILENCE_MAX = timedelta(days=30)
SILENCES_MAX = 500
"""Silences at a time that have not ended."""
REASON_CHARS_MAX = 500

IsSilenced = Callable[[str, str], bool]
"""Whether a rule's name and a target are silenced."""


def described(row: Silence) -> dict[str, Any]:
    """A silence as audit entries show it."""
    return {
        "rule": row.rule,
        "target": row.target,
        "starts_at": row.starts_at.isoformat(),
        "ends_at": row.ends_at.isoformat(),
        "reason": row.reason,
    }


def create_silence(
    *,
    rule: str,
    target: str,
    starts_at: datetime | None,
    ends_at: datetime,
    now: datetime,
    actor: Actor,
    reason: str,
    dry_run: bool = False,
) -> Change:
    """Tell nobody of alerts whose rule's name and target these globs mean. `starts_at` None: from now on.

    Raises:
        ChangeRefused: a value is not allowed, it would last longer than SILENCE_MAX, or there are SILENCES_MAX.
    """
    begins = starts_at or now
    wrong = {"rule": check.glob_problem(rule), "target": check.glob_problem(target)}
    wrong["reason"] = check.text_problem(reason, REASON_CHARS_MAX, 1)
    if ends_at <= max(now, begins):
        wrong["ends_at"] = "it has to lie ahead, and behind starts_at"
    elif ends_at - begins > SILENCE_MAX or begins - now > SILENCE_MAX:
        wrong["ends_at"] = f"a silence lasts {SILENCE_MAX.days} days at most, and begins within as many"
    check.refuse("silence", {key: text for key, text in wrong.items() if text})
    with changing(dry_run=dry_run):
        if Silence.objects.filter(ends_at__gt=now).count() >= SILENCES_MAX:
            raise ChangeRefused(f"there are {SILENCES_MAX} silences already", code="silence.too_many")
        row = Silence.objects.create(
            rule=rule, target=target, starts_at=begins, ends_at=ends_at, reason=reason, created_by=actor.name[:200],
            created_at=now,
        )  # fmt: skip
        after = described(row)
        about = f"silence {rule}: {target}"
        audit.record(actor=actor, action="silence.create", target=about, reason=reason, after=after)
        return Change(str(row.pk), None, after, row.version)


def end_silence(
    silence: str,
    *,
    now: datetime,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """End a silence before its time; alerts that fire and were told to nobody are told at the next look.

    Raises:
        Conflict: it ended already.
        NotFound, Stale.
    """
    with changing(dry_run=dry_run):
        row = Silence.objects.select_for_update().filter(pk=check.row_id("silence", silence)).first()
        if row is None:
            raise NotFound(f"there is no silence {silence}", code="silence.unknown")
        check_version(f"silence {silence}", row.version, expected_version)
        if row.ends_at <= now:
            raise Conflict(f"silence {silence} ended at {row.ends_at.isoformat()}", code="silence.ended")
        before = described(row)
        row.ends_at, row.ended_by = now, actor.name[:200]
        row.starts_at = min(row.starts_at, now)
        row.version += 1
        row.save()
        after = described(row)
        target = f"silence {row.rule}: {row.target}"
        audit.record(actor=actor, action="silence.end", target=target, reason=reason, before=before, after=after)
        return Change(str(row.pk), before, after, row.version)


def silenced_at(now: datetime) -> IsSilenced:
    """The silences of a moment, as a question: one query."""
    active = Silence.objects.filter(starts_at__lte=now, ends_at__gt=now).values_list("rule", "target")
    return _asking((rule, target) for rule, target in active[:SILENCES_MAX])


def _asking(patterns: Iterable[tuple[str, str]]) -> IsSilenced:
    pairs = [(matcher(rule), matcher(target)) for rule, target in patterns]
    return lambda rule, target: any(of_rule(rule) and of_target(target) for of_rule, of_target in pairs)
