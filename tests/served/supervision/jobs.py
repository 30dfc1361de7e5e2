"""Jobs that only some nodes have."""

LEADING = {
    "every": {"replication_checks"},
    "one_shot": {
        "replication_feed", "replication_send", "replication_read", "replication_membership_change", "replication_follow",
        "replication_copy", "replication_range",
    },
}  # fmt: skip
"""Of a master with slaves: tests/sim/leading/test_jobs.py breaks each of them."""
