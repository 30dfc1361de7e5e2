"""Rules: make, change, delete."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from django.utils import timezone

from console.alerts.arrivals import WINDOW_SECONDS_MAX
from console.alerts.models import Alert, AlertChannel, AlertRule, Resolution
from console.alerts.rules import Conditions, Kind, Severity, default_clear_threshold, literal_subject
from console.alerts.services.closing import close_alerts
from console.alerts.services.values import GLOB, SECONDS, THRESHOLD
from console.resource_fields import NAME, TEAM, team_problem, with_id
from metaserver import queries
from metaserver.errors import Conflict, NotAllowed
from metaserver.services.changes import Actor, Change, Request, VersionedRequest
from metaserver.services.fields import Choice, Flag, Texts, Whole
from metaserver.services.notes import NoteCode
from metaserver.services.resources import Edit, Resource
from qmq.protocol.reasons import Reason

RULES_MAX = 500


def described(row: AlertRule) -> dict[str, Any]:
    """A rule as audit entries and plans show it."""
    return {
        "kind": row.kind,
        **{key: getattr(row, key) for key in ALERT_RULE.fields},
        "channels": sorted(channel.name for channel in row.channels.all()) if row.pk else [],
        "owner": row.owner or None,
    }


ALERT_RULE: Resource[AlertRule] = Resource(
    kind="alert_rule",
    noun="alert rule",
    fields={
        "name": NAME,
        "target": replace(
            GLOB,
            help="glob on subject/group, node, broker group or background job; without '/', it also matches the subject alone",
        ),
        "threshold": THRESHOLD,
        "clear_threshold": replace(THRESHOLD, nullable=True, help="null: 80% of the threshold"),
        "for_seconds": SECONDS,
        "clear_for_seconds": SECONDS,
        "window_seconds": Whole(
            minimum=60,
            maximum=WINDOW_SECONDS_MAX,
            unit="seconds",
            help="for dead letters: the window in which they are counted",
        ),
        "severity": Choice(values=[severity.value for severity in Severity]),
        "channels": Texts(item=NAME, items_max=10, help="names"),
        "owner": replace(
            TEAM, help="the team that can change the rule; for a rule about one subject, the subject's owner"
        ),
        "is_enabled": Flag(),
    },
    described=described,
    about=lambda row: f"alert rule {row.name}",
    target=lambda row: str(row.pk),
)
KIND = Choice(values=[kind.value for kind in Kind])
"""Of what a rule is about: given once, when the rule is made."""


def create_rule(kind: str, values: Mapping[str, Any], **request: Unpack[Request]) -> Change:
    """Create a rule. `name`, `threshold` and `severity` are required.

    A rule about one subject belongs to the subject's owner. Without `owner`, any other rule of an operator who is in exactly
    one team belongs to that team.

    Raises:
        ChangeRefused: a value is not allowed, or there are RULES_MAX rules.
        NotAllowed: it would belong to a team that the actor is not in.
        Conflict: there is a rule of this name.
    """
    needed = {key: "is required" for key in ("name", "threshold", "severity") if key not in values}
    ALERT_RULE.refuse(needed | {"kind": KIND.problem(kind)})
    teams = request["actor"].teams
    row = AlertRule(kind=kind, owner=next(iter(teams)) if teams and len(teams) == 1 else "")
    with ALERT_RULE.creating(row, values["name"], **request) as edit:
        if AlertRule.objects.count() >= RULES_MAX:
            raise ALERT_RULE.too_many(RULES_MAX)
        channels = _set(edit, {"clear_threshold": None, **values}, request["actor"])
        edit.save(ALERT_RULE.exists(row.name))
        row.channels.set(channels or ())
    return edit.change


def update_rule(rule: str, values: Mapping[str, Any], **request: Unpack[VersionedRequest]) -> Change:
    """Change what `values` names and nothing else. A `clear_threshold` of None: 80 % of the threshold.

    Open alerts of targets the rule no longer means end at the next look.

    Raises:
        NotAllowed: it comes with the product and the actor is no administrator; or it belongs, before or after, to a team that
            the actor is not in.
        NotFound, Stale, ChangeRefused, Conflict.
    """
    with ALERT_RULE.editing(lambda: locked(rule, request["actor"]), **request) as edit:
        channels = _set(edit, values, request["actor"])
        if channels is not None:
            edit.row.channels.set(channels)
    return edit.change


def delete_rule(rule: str, **request: Unpack[VersionedRequest]) -> Change:
    """Delete a rule; its open alerts end, its history stays.

    Raises:
        Conflict: it comes with the product; it can be disabled.
        NotAllowed: as `update_rule`.
        NotFound, Stale.
    """
    with ALERT_RULE.editing(lambda: locked(rule, request["actor"]), action="delete", **request) as edit:
        row = edit.row
        if row.builtin is not None:
            raise Conflict(
                f"Rule {row.name} is built in and can't be deleted. Disable it instead.", code="alert_rule.builtin"
            )
        open_alerts = Alert.objects.filter(rule=row, open_key__isnull=False)
        closed = close_alerts(open_alerts, Resolution.RULE_DELETED, timezone.now())
        edit.notes = (Reason.of(NoteCode.ALERTS_RESOLVED, count=closed),) if closed else ()
        edit.delete()
    return edit.change


def conditions_of(values: Mapping[str, Any]) -> Conditions:
    """The conditions of a rule that is not stored, from its fields; `clear_threshold` can be absent.

    Raises:
        ChangeRefused: a value is not allowed, or the threshold is missing.
    """
    fields = {**ALERT_RULE.fields, "kind": KIND}
    missing = {} if "threshold" in values else {"threshold": "is required"}
    ALERT_RULE.refuse(missing | {name: fields[name].problem(value) for name, value in values.items()})
    threshold = values["threshold"]
    clear = values.get("clear_threshold", default_clear_threshold(threshold))
    if clear > threshold:
        ALERT_RULE.refuse({"clear_threshold": _too_high(clear, threshold)})
    return Conditions(threshold, clear, values.get("for_seconds", 0), values.get("clear_for_seconds", 0))


def _too_high(clear: float, threshold: float) -> str:
    return f"{clear:g} is above the threshold of {threshold:g}; must be at most the threshold, or null"


def locked(rule: str, actor: Actor) -> AlertRule:
    """A rule's row, locked until the transaction ends.

    Raises:
        NotFound.
        NotAllowed: the actor may not change the rule, whose subject may have another owner by now.
    """
    row = ALERT_RULE.locked(with_id(AlertRule.objects.all(), rule), rule)
    if row.builtin is not None and actor.teams is not None:
        raise NotAllowed(f"Alert rule {row.name} is built in. Only administrators can change it.")
    actor.require_owner(f"alert rule {row.name}", _subject_owner(row) or row.owner)
    return row


def _subject_owner(row: AlertRule) -> str | None:
    """Return the owner of the one subject that a rule is about, None if there is no such owner."""
    subject = literal_subject(Kind(row.kind), row.target)
    return None if subject is None else queries.owners_of([subject]).get(subject)


def _set(edit: Edit[AlertRule], values: Mapping[str, Any], actor: Actor) -> list[AlertChannel] | None:
    """Set the row's fields. Returns the channels, when they are among the values. Raises as `create_rule`."""
    row, channels = edit.row, dict[str, AlertChannel]()

    def find_channels(names: list[str]) -> str:
        channels.update({channel.name: channel for channel in AlertChannel.objects.filter(name__in=names)})
        unknown = sorted(set(names) - channels.keys())
        return f"channel {unknown[0]!r} not found" if unknown else ""

    def set_clear_threshold(value: float | None) -> None:
        if value is not None:
            row.clear_threshold = value

    def set_owner(value: str | None) -> str:
        row.owner = value or ""
        return team_problem(value)

    edit.set(values, {"channels": find_channels, "clear_threshold": set_clear_threshold, "owner": set_owner})
    if "clear_threshold" in values and values["clear_threshold"] is None:
        row.clear_threshold = default_clear_threshold(row.threshold)
    if row.clear_threshold > row.threshold:
        ALERT_RULE.refuse({"clear_threshold": _too_high(row.clear_threshold, row.threshold)})
    if AlertRule.objects.filter(name=row.name).exclude(pk=row.pk).exists():
        raise ALERT_RULE.exists(row.name)
    row.owner = _subject_owner(row) or row.owner
    if values.get("owner") and row.owner != values["owner"]:
        ALERT_RULE.refuse({"owner": f"must be {row.owner}, the team that owns the subject of {row.target}"})
    actor.require_owner(f"alert rule {row.name}", row.owner)
    return list(channels.values()) if "channels" in values else None
