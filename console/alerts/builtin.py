"""The rules that every installation begins with."""

from typing import Any

from django.db import transaction

from console.alerts.models import AlertRule
from console.alerts.rules import Kind, Severity, default_clear_threshold


def _warning(name: str, above: float, **values: Any) -> dict[str, Any]:
    return {"name": name, "threshold": above, "severity": Severity.WARNING, **values}


def _critical(name: str, above: float, **values: Any) -> dict[str, Any]:
    return _warning(name, above, **values) | {"severity": Severity.CRITICAL}


SCRUB_SECONDS = 7 * 86_400.0
"""In which a node reads all of its stored data again, by default."""

BUILTIN: dict[str, dict[str, Any]] = {
    "group_offline": _critical("Broker group offline", 1.0, kind=Kind.GROUP_STATE, clear_threshold=1.0),
    "copies": _warning("Fewer copies than configured", 0.0, for_seconds=300),
    "below_minimum": _critical("Fewer in-sync members than the minimum", 0.0, for_seconds=10),
    "no_candidate": _warning("No member could replace the master", 0.0, for_seconds=60),
    "one_rack": _warning("All copies on one rack", 0.0, for_seconds=300),
    "role_changes": _warning("More than 3 role changes in an hour", 3.0),
    "replication": _critical("Replication alarm", 0.0),
    "disk": _warning("Disk usage above 85%", 85.0, clear_threshold=80.0, for_seconds=60),
    "disk_in_a_day": _warning("Disk may be full within a day", 99.0, clear_threshold=95.0),
    "disk_stuck": _critical("Disk does not complete writes", 3.0, clear_threshold=0.0, clear_for_seconds=10),
    "damage": _critical("Corrupted messages", 0.0),
    "scrub": _warning("Stored data not read again within 7 days", SCRUB_SECONDS),
    "time_lag": _warning("Consumer group 15 minutes behind", 900.0, clear_for_seconds=60),
    "dead_letters": _warning("New dead letters", 0.0, window_seconds=600),
    "duplicate_ids": _warning("Duplicate consumer IDs", 0.0, for_seconds=120, clear_for_seconds=60),
    "lateness": _warning("Delayed messages more than 5 seconds late", 5.0, for_seconds=10, clear_for_seconds=60),
    "clock": _critical("Wrong clock on a delay node", 0.0),
    "job_late": _warning("Background job overdue", 3.0),
    "outbox_age": _warning("Outbox more than 5 minutes behind", 300.0),
    "outbox_failed": _warning("Outbox rows wait for an operator", 0.0),
    "outbox_unreachable": _warning("Outbox database failing", 0.0, for_seconds=60),
    "unknown": _warning("No measurements for a minute", 0.0, for_seconds=60, clear_for_seconds=10),
}
"""By key, which is the rule's kind unless it says another."""


def ensure_builtin_rules(**_: Any) -> int:
    """Make the built-in rules that are missing; how many. What an operator changed about them stays."""
    made = 0
    with transaction.atomic():
        have = set(AlertRule.objects.filter(builtin__isnull=False).values_list("builtin", flat=True))
        for key, given in BUILTIN.items():
            if key in have:
                continue
            values = {"kind": key, "clear_threshold": default_clear_threshold(given["threshold"]), **given}
            if AlertRule.objects.filter(name=values["name"]).exists():
                values["name"] += " (built in)"
            AlertRule.objects.create(builtin=key, **values)
            made += 1
    return made
