"""Silences: which notifications are suppressed, until when, and why."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Unpack

from console.alerts.models import Alert, Silence
from console.alerts.rules import OF_GROUPS, Kind, literal_subject, matcher
from console.alerts.services.values import GLOB
from console.resource_fields import TEAM, team_problem, with_id
from metaserver import queries
from metaserver.domain import may_change
from metaserver.errors import ChangeRefused, Conflict, NotAllowed
from metaserver.services.changes import Actor, Change, Request, VersionedRequest
from metaserver.services.fields import Field, Text
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Resource
from qmq.protocol.reasons import Reason

SILENCE_MAX = timedelta(days=30)
SILENCES_MAX = 500
"""Silences at a time that have not ended."""

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


FIELDS: Mapping[str, Field] = {
    "rule": replace(GLOB, help="glob on rule names"),
    "target": replace(GLOB, help="glob on targets"),
    "owner": replace(
        TEAM,
        help="the team whose alerts are silenced, and those of subjects without an owner; null: all alerts (administrators only)",
    ),
    "reason": Text(chars_min=1, chars_max=500, is_line=True),
}
SILENCE: Resource[Silence] = Resource(
    kind="silence",
    noun="silence",
    fields={},
    described=described,
    about=lambda row: f"silence {row.rule}: {row.target}",
    target=lambda row: str(row.pk),
)


def create_silence(
    *,
    rule: str,
    target: str,
    ends_at: datetime,
    now: datetime,
    starts_at: datetime | None = None,
    owner: str | None = None,
    **request: Unpack[Request],
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
    actor, reason = request["actor"], request.get("reason", "")
    given = {"rule": rule, "target": target, "owner": owner, "reason": reason}
    wrong = {key: FIELDS[key].problem(value) for key, value in given.items()}
    wrong["owner"] = wrong["owner"] or team_problem(owner)
    if ends_at <= max(now, begins):
        wrong["ends_at"] = "must be in the future and after starts_at"
    elif ends_at - begins > SILENCE_MAX or begins - now > SILENCE_MAX:
        wrong["ends_at"] = (
            f"must be at most {SILENCE_MAX.days} days after starts_at, which must be within {SILENCE_MAX.days} days"
        )
    SILENCE.refuse(wrong)
    row = Silence(
        rule=rule, target=target, starts_at=begins, ends_at=ends_at,
        reason=reason, created_by=actor.name[:200], created_at=now,
    )  # fmt: skip
    with SILENCE.creating(row, target, **request) as edit:
        if Silence.objects.filter(ends_at__gt=now).count() >= SILENCES_MAX:
            raise ChangeRefused(
                f"There are already {SILENCES_MAX} silences, the maximum. End one first.", code="silence.too_many"
            )
        found = _owner(rule, target, owner, actor)
        row.owner, row.is_system = found or "", found is None
        edit.notes = () if row.is_system else (_scope(row),)
    return edit.change


def _scope(row: Silence) -> Reason:
    if not row.owner:
        return Reason.of(NoteCode.SILENCES_UNOWNED)
    return Reason.of(NoteCode.SILENCES_TEAM, team=row.owner)


def end_silence(silence: str, *, now: datetime, **request: Unpack[VersionedRequest]) -> Change:
    """End a silence before its time. Notifications of alerts that still fire are sent at the next evaluation.

    Raises:
        Conflict: it ended already.
        NotAllowed: it belongs to another team, or to the system and the actor is no administrator.
        NotFound, Stale.
    """
    with SILENCE.editing(lambda: _locked(silence, request["actor"]), action="end", **request) as edit:
        row = edit.row
        if row.ends_at <= now:
            raise Conflict(f"Silence {silence} already ended at {row.ends_at.isoformat()}.", code="silence.ended")
        row.ends_at, row.ended_by = now, request["actor"].name[:200]
        row.starts_at = min(row.starts_at, now)
    return edit.change


def _locked(silence: str, actor: Actor) -> Silence:
    row = SILENCE.locked(with_id(Silence.objects.all(), silence), silence)
    if row.is_system and actor.teams is not None:
        raise NotAllowed(f"Silence {silence} applies to all alerts of the system. Only administrators can end it.")
    actor.require_owner(f"silence {silence}", row.owner)
    return row


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
