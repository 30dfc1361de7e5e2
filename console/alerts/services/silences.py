"""Silences: who shall not be told of what, until when, why."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from console.alerts.models import Alert, Silence
from console.alerts.rules import OF_GROUPS, Kind, literal_subject, matcher
from console.alerts.services import values as check
from metaserver import queries
from metaserver.ownership import may_change
from metaserver.services import audit
from metaserver.services.changes import (
    Actor,
    Change,
    ChangeRefused,
    Conflict,
    NotAllowed,
    NotFound,
    changing,
    check_version,
)

SILENCE_MAX = timedelta(days=30)
SILENCES_MAX = 500
"""Silences at a time that have not ended."""
REASON_CHARS_MAX = 500

IsSilenced = Callable[[Alert], bool]
"""Whether an alert is silenced."""


def described(row: Silence) -> dict[str, Any]:
    """A silence as audit entries show it."""
    return {
        "rule": row.rule,
        "target": row.target,
        "owner": row.owner or None,
        "is_system": row.is_system,
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
    owner: str | None = None,
    actor: Actor,
    reason: str,
    dry_run: bool = False,
) -> Change:
    """Suppress notifications of alerts that match both globs. `starts_at` None: from now on.

    A silence applies to alerts of its owner and of subjects without an owner. One that an administrator creates without an
    owner applies to all alerts. An operator's silence without `owner` gets the owner of the subject that `target` names if the
    operator is in that team, otherwise the operator's team if there is exactly one, otherwise none.

    Raises:
        ChangeRefused: a value is not allowed, it would last longer than SILENCE_MAX, or there are SILENCES_MAX.
        NotAllowed: an operator silences everything without naming an owner, or names a team of others.
    """
    begins = starts_at or now
    wrong = {"rule": check.glob_problem(rule), "target": check.glob_problem(target)}
    if owner is not None:
        wrong["owner"] = check.team_problem(owner)
    wrong["reason"] = check.text_problem(reason, REASON_CHARS_MAX, 1)
    if ends_at <= max(now, begins):
        wrong["ends_at"] = "must be in the future and after starts_at"
    elif ends_at - begins > SILENCE_MAX or begins - now > SILENCE_MAX:
        wrong["ends_at"] = (
            f"must be at most {SILENCE_MAX.days} days after starts_at, which must be within {SILENCE_MAX.days} days"
        )
    check.refuse("silence", {key: text for key, text in wrong.items() if text})
    with changing(dry_run=dry_run):
        if Silence.objects.filter(ends_at__gt=now).count() >= SILENCES_MAX:
            raise ChangeRefused(
                f"There are already {SILENCES_MAX} silences, the maximum. End one first.", code="silence.too_many"
            )
        team = _owner(rule, target, owner, actor)
        row = Silence.objects.create(
            rule=rule, target=target, owner=team or "", is_system=team is None, starts_at=begins, ends_at=ends_at,
            reason=reason, created_by=actor.name[:200], created_at=now,
        )  # fmt: skip
        after = described(row)
        about = f"silence {rule}: {target}"
        audit.record(actor=actor, action="silence.create", target=about, reason=reason, after=after)
        return Change(str(row.pk), None, after, row.version, () if row.is_system else (_scope(row),))


def _scope(row: Silence) -> str:
    if not row.owner:
        return "Applies to alerts of subjects without an owner."
    return f"Applies to alerts of team {row.owner} and of subjects without an owner."


def end_silence(
    silence: str,
    *,
    now: datetime,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """End a silence before its time. Notifications of alerts that still fire are sent at the next evaluation.

    Raises:
        Conflict: it ended already.
        NotAllowed: it belongs to another team, or to the system and the actor is no administrator.
        NotFound, Stale.
    """
    with changing(dry_run=dry_run):
        row = Silence.objects.select_for_update().filter(pk=check.row_id("silence", silence)).first()
        if row is None:
            raise NotFound(f"Silence {silence} not found.", code="silence.unknown")
        if row.is_system and actor.teams is not None:
            raise NotAllowed(f"Silence {silence} applies to all alerts of the system. Only administrators can end it.")
        actor.require_owner(f"silence {silence}", row.owner)
        check_version(f"silence {silence}", row.version, expected_version)
        if row.ends_at <= now:
            raise Conflict(f"Silence {silence} already ended at {row.ends_at.isoformat()}.", code="silence.ended")
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
    """Return a function that matches alerts against the silences of a moment. Takes one query."""
    active = Silence.objects.filter(starts_at__lte=now, ends_at__gt=now)
    silences = [
        (matcher(rule), matcher(target), is_system, {owner})
        for rule, target, is_system, owner in active.values_list("rule", "target", "is_system", "owner")[:SILENCES_MAX]
    ]

    def is_silenced(alert: Alert) -> bool:
        # In the order of the costs: a page of alerts is matched against all silences.
        rule, target = alert.rule_name, alert.target
        return any(
            of_rule(rule)
            and of_target(target)
            and (is_system or (alert.kind in OF_GROUPS and may_change(alert.owner, teams)))
            for of_rule, of_target, is_system, teams in silences
        )

    return is_silenced


def _owner(rule: str, target: str, given: str | None, actor: Actor) -> str | None:
    """Return the owner of a new silence: a team, "" for subjects without an owner, None for the whole system."""
    if given is not None:
        actor.require_owner(f"a silence with owner {given}", given)
        return given
    if actor.teams is None:
        return None
    if not (rule + target).strip("*"):
        raise NotAllowed(
            "Only administrators can silence all alerts. Specify an owner to silence the alerts of a team."
        )
    subject = literal_subject(Kind.LAG, target)
    owner = queries.owners_of([subject]).get(subject) if subject is not None else None
    if owner is not None and owner in actor.teams:
        return owner
    return next(iter(actor.teams)) if len(actor.teams) == 1 else ""
