"""The kinds of events, and which actions of the audit log belong to which. Pure."""

from enum import StrEnum

from console.alerts.rules import OF_GROUPS, Kind


class EventKind(StrEnum):
    """What happened."""

    ALERT_FIRED = "alert_fired"
    ALERT_RESOLVED = "alert_resolved"
    FAILOVER = "failover"
    """A broker group has another master, or the same one in a new epoch, after a failure."""
    SWITCH_OVER = "switch_over"
    """The same as planned: a user requested it, or the master stopped."""
    IN_SYNC = "in_sync"
    """Members joined or left the in-sync set."""
    MEMBERS = "members"
    STATE = "state"
    """A broker group or a node serves clients otherwise than before."""
    DRAIN = "drain"
    RESET = "reset"
    UNREACHABLE = "unreachable"
    REACHABLE = "reachable"
    RESTART = "restart"
    JOB = "job"
    """A background job is overdue, or no longer."""
    DEPLOYMENT = "deployment"
    """A document of settings was applied (`qmq apply`)."""
    CHANGE = "change"
    """Any other change, mostly by users."""


class EventSeverity(StrEnum):
    """How much attention an event needs."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


def _of_group(*actions: str) -> frozenset[str]:
    return frozenset(f"broker_group.{action}" for action in actions)


ACTIONS: dict[EventKind, frozenset[str]] = {
    EventKind.FAILOVER: _of_group("promote", "promote_by_operator", "replace_member"),
    EventKind.SWITCH_OVER: _of_group("resign"),
    EventKind.IN_SYNC: _of_group("add_in_sync", "remove_in_sync"),
    EventKind.MEMBERS: _of_group("add_member", "remove_member", "request_replacement", "recover"),
    EventKind.STATE: _of_group("state", "expire"),
    EventKind.DRAIN: _of_group("draining"),
    EventKind.RESET: frozenset({"consumer_group.reset_done", "consumer_group.reset_failed"}),
    EventKind.DEPLOYMENT: frozenset({"settings.apply"}),
}
"""Audited actions by kind; all others are a CHANGE."""
KIND_OF = {action: kind for kind, actions in ACTIONS.items() for action in actions}
WARNINGS = ACTIONS[EventKind.FAILOVER] | {"broker_group.remove_in_sync", "broker_group.remove_lost"}
"""Actions that are warnings, besides those that failed (`_failed`) and states in which sends are rejected."""
FAILED = "_failed"
SERVING = frozenset({EventKind.FAILOVER, EventKind.SWITCH_OVER, EventKind.STATE, EventKind.DRAIN})
"""What happens to a broker group and concerns the subjects that it serves."""
SERVING_ACTIONS = frozenset(action for kind in SERVING for action in ACTIONS[kind])

OF_SUBJECT = ("subject.", "route.", "message.", "delayed.")
OF_CONSUMER_GROUP = ("consumer_group.", "dead_letter.")
"""Beginnings of actions whose target is `subject/group`."""
OF_BROKER_GROUP = ("broker_group.",)
OF_NODE = ("node.",)
PUBLIC = (
    "subject.", "route.", "consumer_group.", "broker_group.", "node.", "settings.", "alert.", "alert_rule.", "silence.", "job.",
    "analytics.",
)  # fmt: skip
"""Beginnings of actions that each reader sees, without the user and their reason. Those of accounts, messages and secrets are
shown with the right to read the audit log only."""

BROKER_GROUP_ALERTS = frozenset(
    {
        Kind.GROUP_STATE, Kind.COPIES, Kind.BELOW_MINIMUM, Kind.NO_CANDIDATE, Kind.ONE_RACK, Kind.ROLE_CHANGES,
    }
)  # fmt: skip
NODE_ALERTS = frozenset(
    {
        Kind.REPLICATION, Kind.DISK, Kind.DISK_IN_A_DAY, Kind.DISK_STUCK, Kind.DAMAGE, Kind.SCRUB, Kind.LATENESS, Kind.CLOCK,
        Kind.UNKNOWN,
    }
)  # fmt: skip
GROUP_ALERTS = OF_GROUPS


def severity_of(action: str, state: str) -> EventSeverity:
    """Return how severe an audited action is.

    Args:
        state: what a broker group does since then; "" for other actions.
    """
    if action in ACTIONS[EventKind.STATE] and state == "offline":
        return EventSeverity.CRITICAL
    is_limited = action in ACTIONS[EventKind.STATE] and state in ("read_only", "write_only")
    if is_limited or action in WARNINGS or action.endswith(FAILED):
        return EventSeverity.WARNING
    return EventSeverity.INFO
