"""What operators do with alerts: take them in hand."""

from datetime import datetime
from typing import Any

from console.alerts.models import Alert, AlertState
from console.alerts.services import values as check
from metaserver.services import audit
from metaserver.services.changes import Actor, Change, Conflict, NotFound, changing, check_version

NOTE_CHARS_MAX = 500


def described(row: Alert) -> dict[str, Any]:
    """What an operator decided about an alert."""
    return {
        "acknowledged_by": row.acknowledged_by or None,
        "acknowledged_at": None if row.acknowledged_at is None else row.acknowledged_at.isoformat(),
        "acknowledgement": row.acknowledgement,
    }


def acknowledge(
    alert: str,
    *,
    now: datetime,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
    dry_run: bool = False,
) -> Change:
    """Say that somebody has it in hand. Who did so first stays; again changes nothing.

    Raises:
        Conflict: it ended already.
        NotAllowed: its subject belongs to a team that the actor is not in.
        NotFound, Stale.
    """
    with changing(dry_run=dry_run):
        row = Alert.objects.select_for_update().filter(pk=check.row_id("alert", alert)).first()
        if row is None:
            raise NotFound(f"Alert {alert} not found.", code="alert.unknown")
        actor.require_owner(f"alert {alert}", row.owner)
        check_version(f"alert {alert}", row.version, expected_version)
        if row.state == AlertState.RESOLVED:
            raise Conflict(f"Alert {alert} is already resolved.", code="alert.resolved")
        before = described(row)
        if row.acknowledged_at is None:
            row.acknowledged_at, row.acknowledged_by = now, actor.name[:200]
            row.acknowledgement = reason[:NOTE_CHARS_MAX]
            row.version += 1
            row.save(update_fields=("acknowledged_at", "acknowledged_by", "acknowledgement", "version"))
            after, about = described(row), f"alert {row.rule_name}: {row.target}"
            audit.record(
                actor=actor, action="alert.acknowledge", target=about, reason=reason, before=before, after=after
            )
        return Change(str(row.pk), before, described(row), row.version)
