"""The delay node's part of `/stats`."""

from itertools import islice
from typing import Any

from delay_node.dispatcher import Dispatcher
from delay_node.lateness import LatenessWindow
from delay_node.store import DelayStore
from delay_node.trusted_clock import TrustedClock
from qmq.policy import NodePolicy, sends_policy

RULES_SHOWN_MAX = 1_000
"""Subjects whose rules `/stats` lists."""
PROBLEMS_SHOWN_MAX = 20
"""Subjects with undeliverable messages that `/stats` lists."""


def delay_stats(
    store: DelayStore,
    dispatcher: Dispatcher,
    clock: TrustedClock,
    policy: NodePolicy,
    delivered_per_second: float,
    lateness: LatenessWindow,
) -> dict[str, Any]:
    """Return what `/stats` contains beside the part of every node."""
    now_ms, held = clock.now_ms(), clock.held
    return {
        "pending": store.pending,
        "due_soon": dispatcher.due_soon,
        "overdue": dispatcher.lanes.overdue,
        "put_aside": store.refused,
        "unreadable_messages": store.counters.lost + store.bodies.unreadable,
        "hours": len(store.hours),
        "subjects": len(store.subjects),
        "wheel": {"messages": store.wheel.count, "memory_bytes": store.wheel.memory_bytes},
        "hours_memory_bytes": store.hours.memory_bytes,
        "unwritten_bytes": store.hours.unwritten_bytes,
        "delivered": store.counters.delivered,
        "delivered_per_second": delivered_per_second,
        "lateness_p99_seconds": lateness.quantile(0.99),
        "cancelled": store.counters.cancelled,
        "moved": store.counters.moved,
        "is_loading": dispatcher.frontier_ms is not None,
        "undeliverable": dispatcher.lanes.problems(PROBLEMS_SHOWN_MAX),
        "subject_rules": [
            {"subject": name, **sends_policy(rules)}
            for name, rules in islice(policy.subjects.items(), RULES_SHOWN_MAX)
            if rules.closed or rules.has_quota
        ],
        "clock": {
            "now_ms": now_ms,
            "ahead_ms": held.ahead_ms if held is not None else 0,
            "held_since_ms": held.since_ms if held is not None else None,
        },
    }
