"""What a master counts of its replication."""

from collections import Counter
from dataclasses import dataclass, field

from qmq_node.process.counters import Buckets, counted, counted_by

CONFIRM_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5)
"""Upper bounds of the buckets of `confirm_seconds`."""


@dataclass(slots=True)
class ReplicationCounters:
    """Counts since the node became master."""

    confirm_seconds: Buckets = field(default_factory=lambda: Buckets(*CONFIRM_SECONDS))
    """From the sync of each commit to its confirmation by all in-sync members."""

    sessions: int = counted("replication_slave_sessions", "Accepted sessions of slaves")
    rejected_follows: Counter[str] = counted_by(
        "result", "replication_rejected_follows", "Slaves that were not accepted, by result"
    )
    ended_sessions: Counter[str] = counted_by("reason", "replication_ended_sessions", "Sessions that ended, by reason")
    confirmations: int = counted("replication_confirmations", "Confirmations of slaves")
    rejected_confirmations: Counter[str] = counted_by(
        "reason", "replication_rejected_confirmations", "Confirmations that do not count, by reason"
    )
    alarms: int = counted("replication_alarms", "Events that the rules of replication exclude")
    sent_bytes: Counter[str] = counted_by(
        "source", "replication_sent_bytes", "Bytes sent to slaves: of commits from memory or disk, and of the state"
    )
    empty_frames: int = counted("replication_empty_frames", "Frames without commits that carry the high watermark")
    membership_changes: Counter[str] = counted_by(
        "result", "replication_membership_changes", "Requests to change the in-sync set, by result"
    )
