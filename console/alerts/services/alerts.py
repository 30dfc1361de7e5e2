"""What operators do with alerts: acknowledge them."""

from datetime import datetime
from typing import Any, Unpack

from console.alerts.models import Alert, AlertState
from console.resource_fields import with_id
from metaserver.errors import Conflict
from metaserver.services.changes import Actor, Change, VersionedRequest
from metaserver.services.resources import Resource

NOTE_CHARS_MAX = 500


def described(row: Alert) -> dict[str, Any]:
    """What an operator decided about an alert."""
    return {
        "acknowledged_by": row.acknowledged_by or None,
        "acknowledged_at": None if row.acknowledged_at is None else row.acknowledged_at.isoformat(),
        "acknowledgement": row.acknowledgement,
    }


ALERT: Resource[Alert] = Resource(
    kind="alert",
    noun="alert",
    fields={},
    described=described,
    about=lambda row: f"alert {row.rule_name}: {row.target}",
    target=lambda row: str(row.pk),
)


def acknowledge(alert: str, *, now: datetime, **request: Unpack[VersionedRequest]) -> Change:
    """Note that someone takes care of it. The first acknowledgement stays; another one changes nothing.

    Raises:
        Conflict: it ended already.
        NotAllowed: its subject belongs to a team that the actor is not in.
        NotFound, Stale.
    """
    actor = request["actor"]
    with ALERT.editing(lambda: _locked(alert, actor), action="acknowledge", **request) as edit:
        row = edit.row
        if row.state == AlertState.RESOLVED:
            raise Conflict(f"Alert {alert} is already resolved.", code="alert.resolved")
        if row.acknowledged_at is None:
            row.acknowledged_at, row.acknowledged_by = now, actor.name[:200]
            row.acknowledgement = request.get("reason", "")[:NOTE_CHARS_MAX]
    return edit.change


def _locked(alert: str, actor: Actor) -> Alert:
    row = ALERT.locked(with_id(Alert.objects.all(), alert), alert)
    actor.require_owner(f"alert {alert}", row.owner)
    return row
