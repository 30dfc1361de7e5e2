"""Rules: make, change, delete; those that come with the product."""

from collections.abc import Callable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.alerts.arrivals import WINDOW_SECONDS_MAX
from console.alerts.models import Alert, AlertChannel, AlertRule, Resolution
from console.alerts.rules import Kind, Severity, default_clear_threshold, literal_subject
from console.alerts.services import values as check
from metaserver import queries
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
from qmq.words import counted

RULES_MAX = 500
CHANNELS_OF_A_RULE_MAX = 10

FIELDS = (
    "name",
    "target",
    "threshold",
    "clear_threshold",
    "for_seconds",
    "clear_for_seconds",
    "window_seconds",
    "severity",
    "channels",
    "owner",
    "is_enabled",
)
"""What an operator may set; `kind` once, when the rule is made."""

BUILTIN: dict[str, dict[str, Any]] = {
    "group_offline": {
        "name": "Broker group offline",
        "kind": Kind.GROUP_STATE,
        "threshold": 1.0,
        "clear_threshold": 1.0,
        "severity": Severity.CRITICAL,
    },
    "disk": {
        "name": "Disk usage above 85%",
        "kind": Kind.DISK,
        "threshold": 85.0,
        "clear_threshold": 80.0,
        "for_seconds": 60,
        "severity": Severity.WARNING,
    },
    "damage": {
        "name": "Corrupted messages",
        "kind": Kind.DAMAGE,
        "threshold": 0.0,
        "severity": Severity.CRITICAL,
    },
    "time_lag": {
        "name": "Consumer group 15 minutes behind",
        "kind": Kind.TIME_LAG,
        "threshold": 900.0,
        "clear_for_seconds": 60,
        "severity": Severity.WARNING,
    },
    "dead_letters": {
        "name": "New dead letters",
        "kind": Kind.DEAD_LETTERS,
        "threshold": 0.0,
        "window_seconds": 600,
        "severity": Severity.WARNING,
    },
    "duplicate_ids": {
        "name": "Duplicate consumer IDs",
        "kind": Kind.DUPLICATE_IDS,
        "threshold": 0.0,
        "for_seconds": 120,
        "clear_for_seconds": 60,
        "severity": Severity.WARNING,
    },
    "lateness": {
        "name": "Delayed messages more than 5 seconds late",
        "kind": Kind.LATENESS,
        "threshold": 5.0,
        "for_seconds": 10,
        "clear_for_seconds": 60,
        "severity": Severity.WARNING,
    },
    "loop_late": {
        "name": "Background job overdue",
        "kind": Kind.LOOP_LATE,
        "threshold": 3.0,
        "severity": Severity.WARNING,
    },
    "unknown": {
        "name": "No measurements for a minute",
        "kind": Kind.UNKNOWN,
        "threshold": 0.0,
        "for_seconds": 60,
        "clear_for_seconds": 10,
        "severity": Severity.WARNING,
    },
}
"""The rules every installation begins with, by key."""


def ensure_builtin_rules() -> int:
    """Make the built-in rules that are missing; how many. What an operator changed about them stays."""
    made = 0
    with transaction.atomic():
        have = set(AlertRule.objects.filter(builtin__isnull=False).values_list("builtin", flat=True))
        for key, values in BUILTIN.items():
            if key in have:
                continue
            name = str(values["name"])
            if AlertRule.objects.filter(name=name).exists():
                name = f"{name} (built in)"
            clear = values.get("clear_threshold", default_clear_threshold(values["threshold"]))
            AlertRule.objects.create(**{**values, "name": name, "builtin": key, "clear_threshold": clear})
            made += 1
    return made


def described(row: AlertRule) -> dict[str, Any]:
    """A rule as audit entries and plans show it."""
    return {
        "name": row.name,
        "kind": row.kind,
        "target": row.target,
        "threshold": row.threshold,
        "clear_threshold": row.clear_threshold,
        "for_seconds": row.for_seconds,
        "clear_for_seconds": row.clear_for_seconds,
        "window_seconds": row.window_seconds,
        "severity": row.severity,
        "channels": sorted(channel.name for channel in row.channels.all()) if row.pk else [],
        "owner": row.owner or None,
        "is_enabled": row.is_enabled,
    }


def create_rule(
    kind: str, values: Mapping[str, Any], *, actor: Actor, reason: str = "", dry_run: bool = False
) -> Change:
    """Create a rule. `name`, `threshold` and `severity` are needed.

    A rule about one subject belongs to the subject's owner. Without `owner`, any other rule of an operator who is in exactly
    one team belongs to that team.

    Raises:
        ChangeRefused: a value is not allowed, or there are RULES_MAX rules.
        NotAllowed: it would belong to a team that the actor is not in.
        Conflict: there is a rule of this name.
    """
    wrong = {key: "needed" for key in ("name", "threshold", "severity") if key not in values}
    if kind not in set(Kind):
        wrong["kind"] = f"must be one of {', '.join(Kind)}"
    check.refuse("alert_rule", wrong)
    with changing(dry_run=dry_run):
        if AlertRule.objects.count() >= RULES_MAX:
            raise ChangeRefused(
                f"There are already {RULES_MAX} rules, the maximum. Delete one first.", code="alert_rule.too_many"
            )
        row = AlertRule(kind=kind, owner=next(iter(actor.teams)) if actor.teams and len(actor.teams) == 1 else "")
        channels = _set(row, {"clear_threshold": None, **values}, actor)
        row.save()
        row.channels.set(channels or ())
        after = described(row)
        target = f"alert rule {row.name}"
        audit.record(actor=actor, action="alert_rule.create", target=target, reason=reason, after=after)
        return Change(str(row.pk), None, after, row.version)


def update_rule(
    rule: str,
    values: Mapping[str, Any],
    *,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Change what `values` names and nothing else. A `clear_threshold` of None: 80 % of the threshold.

    Open alerts of targets the rule no longer means end at the next look.

    Raises:
        NotAllowed: it comes with the product and the actor is no administrator; or it belongs, before or after, to a team that
            the actor is not in.
        NotFound, Stale, ChangeRefused, Conflict.
    """
    with changing(dry_run=dry_run):
        row = locked(rule)
        _authorize(row, actor)
        check_version(f"alert rule {row.name}", row.version, expected_version)
        before = described(row)
        channels = _set(row, values, actor)
        if channels is not None:
            row.channels.set(channels)
        after = described(row)
        if before != after:
            row.version += 1
            row.save()
            target = f"alert rule {row.name}"
            audit.record(
                actor=actor, action="alert_rule.update", target=target, reason=reason, before=before, after=after
            )
        return Change(str(row.pk), before, after, row.version)


def delete_rule(
    rule: str, *, actor: Actor, reason: str = "", expected_version: int | None = None, dry_run: bool = False
) -> Change:
    """Delete a rule; its open alerts end, its history stays.

    Raises:
        Conflict: it comes with the product; it can be disabled.
        NotAllowed: as `update_rule`.
        NotFound, Stale.
    """
    from console.alerts.services.evaluation import close_alerts

    with changing(dry_run=dry_run):
        row = locked(rule)
        _authorize(row, actor)
        check_version(f"alert rule {row.name}", row.version, expected_version)
        if row.builtin is not None:
            raise Conflict(
                f"Rule {row.name} is built in and can't be deleted. Disable it instead.", code="alert_rule.builtin"
            )
        before = described(row)
        pk = str(row.pk)
        open_alerts = Alert.objects.filter(rule=row, open_key__isnull=False)
        closed = close_alerts(open_alerts, Resolution.RULE_DELETED, timezone.now())
        target = f"alert rule {row.name}"
        row.delete()
        audit.record(actor=actor, action="alert_rule.delete", target=target, reason=reason, before=before)
        notes = (f"{counted(closed, 'open alert')} will be resolved.",) if closed else ()
        return Change(pk, before, None, 0, notes)


def locked(rule: str) -> AlertRule:
    """A rule's row, locked until the transaction ends. Raises NotFound."""
    row = AlertRule.objects.select_for_update().filter(pk=check.row_id("alert_rule", rule)).first()
    if row is None:
        raise NotFound(f"Alert rule {rule} not found.", code="alert_rule.unknown")
    return row


def _authorize(row: AlertRule, actor: Actor) -> None:
    """Raises NotAllowed unless the actor may change the rule, whose subject may have another owner by now."""
    if row.builtin is not None and actor.teams is not None:
        raise NotAllowed(f"Alert rule {row.name} is built in. Only administrators can change it.")
    actor.require_owner(f"alert rule {row.name}", _subject_owner(row) or row.owner)


def _subject_owner(row: AlertRule) -> str | None:
    """Return the owner of the one subject that a rule is about, None if there is no such owner."""
    subject = literal_subject(Kind(row.kind), row.target)
    return None if subject is None else queries.owners_of([subject]).get(subject)


def _set(row: AlertRule, values: Mapping[str, Any], actor: Actor) -> list[AlertChannel] | None:
    """Set the row's fields. Returns the channels, when they are among the values. Raises as `create_rule`."""
    wrong: dict[str, str] = {}
    for key, value in values.items():
        if key not in FIELDS:
            wrong[key] = f"unknown; allowed: {', '.join(FIELDS)}"
        elif key == "channels" or (key == "clear_threshold" and value is None):
            continue
        elif text := _CHECKS[key](value):
            wrong[key] = text
        else:
            setattr(row, key, "" if value is None else value)
    channels = None
    if "channels" in values:
        channels, text = _channels(values["channels"])
        if text:
            wrong["channels"] = text
    check.refuse("alert_rule", wrong)
    if "clear_threshold" in values and values["clear_threshold"] is None:
        row.clear_threshold = default_clear_threshold(row.threshold)
    if row.clear_threshold > row.threshold:
        text = f"{row.clear_threshold:g} is above the threshold of {row.threshold:g}; must be at most the threshold, or null"
        check.refuse("alert_rule", {"clear_threshold": text})
    if AlertRule.objects.filter(name=row.name).exclude(pk=row.pk).exists():
        raise Conflict(f"Alert rule {row.name!r} already exists. Choose another name.", code="alert_rule.exists")
    row.owner = _subject_owner(row) or row.owner
    if values.get("owner") and row.owner != values["owner"]:
        check.refuse("alert_rule", {"owner": f"must be {row.owner}, the team that owns the subject of {row.target}"})
    actor.require_owner(f"alert rule {row.name}", row.owner)
    return channels


def _channels(names: Any) -> tuple[list[AlertChannel], str]:
    if not isinstance(names, list) or len(names) > CHANNELS_OF_A_RULE_MAX:
        return [], f"must be a list of at most {CHANNELS_OF_A_RULE_MAX} channel names"
    rows = []
    for name in names:
        found = AlertChannel.objects.filter(name=name).first() if isinstance(name, str) else None
        if found is None:
            return [], f"channel {str(name)[:80]!r} not found"
        rows.append(found)
    return rows, ""


_CHECKS: dict[str, Callable[[Any], str]] = {
    "name": check.name_problem,
    "target": check.glob_problem,
    "threshold": check.number_problem,
    "clear_threshold": check.number_problem,
    "for_seconds": check.seconds_problem,
    "clear_for_seconds": check.seconds_problem,
    "window_seconds": lambda value: check.seconds_problem(value, 60, WINDOW_SECONDS_MAX),
    "severity": lambda value: "" if value in set(Severity) else f"must be one of {', '.join(Severity)}",
    "owner": lambda value: "" if value is None else check.team_problem(value),
    "is_enabled": check.flag_problem,
}
