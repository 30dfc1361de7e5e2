"""One audit row, inside the caller's transaction."""

from typing import Any

from metaserver.models import AuditEntry

METASERVER = "metaserver"
"""The actor of what no person asked for."""


def record(*, actor: str, action: str, target: str, reason: str = "", before: Any = None, after: Any = None) -> None:
    """Note a change."""
    AuditEntry.objects.create(
        actor=actor, action=action, target=target[:300], reason=reason[:500], before=before, after=after
    )
