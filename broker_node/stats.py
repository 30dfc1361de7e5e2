"""What `/stats` shows: numbers with their definitions in `qmq.lag`; what can't be known is null with a reason."""

from collections.abc import Callable, Iterable
from typing import Any

from broker_node.rates import RateTable
from broker_node.store import MessageStore
from broker_node.subject import Group, Subject
from qmq.lag import drain_seconds, lag_of, time_lag_seconds
from qmq.policy import SubjectPolicy, sends_policy

STATS_SUBJECTS_MAX = 1_000
"""Most subjects of one answer; the rest comes with `?after=`."""
IsPaused = Callable[[str, str, str], bool]
"""By subject, group and consumer id; "" for the whole group."""
NOT_LONG_ENOUGH = "measured for less than a second"


def rate_increases(subjects: Iterable[Subject]) -> dict[str, int]:
    """Return how much the counters of these subjects and their groups have increased since the previous call, by key."""
    increases: dict[str, int] = {}
    for subject in subjects:
        name = subject.name
        sent, size = subject.sampled
        if subject.sent_total > sent:
            increases[f"sent\n{name}"] = subject.sent_total - sent
            increases[f"bytes\n{name}"] = subject.bytes_total - size
            subject.sampled = subject.sent_total, subject.bytes_total
        for group_name, group in subject.groups.items():
            totals = group.pulled_total, group.acked_total
            if totals != group.sampled:
                pulled, acked = group.sampled
                increases[f"pulled\n{name}\n{group_name}"] = totals[0] - pulled
                increases[f"acked\n{name}\n{group_name}"] = totals[1] - acked
                group.sampled = totals
    return increases


def subject_stats(
    store: MessageStore,
    rates: RateTable,
    subject: Subject,
    lease_seconds: float,
    policy: SubjectPolicy,
    is_paused: IsPaused,
) -> dict[str, Any]:
    """One subject with its groups, and what a policy does to them."""
    store.adjust_begin(subject)
    sent = rates.per_second(f"sent\n{subject.name}")
    steady = rates.steady_per_second(f"sent\n{subject.name}")
    stats: dict[str, Any] = {
        "subject": subject.name,
        "begin_sequence": subject.begin,
        "end_sequence": subject.visible_end,
        "unsynced": subject.next_sequence - subject.visible_end,
        "withheld": subject.withheld_count,
        "send_rate": sent,
        "steady_send_rate": steady,
        "send_bytes_rate": rates.per_second(f"bytes\n{subject.name}"),
        **sends_policy(policy),
        "retention_hours": policy.retention_hours,
        "allowed_groups": policy.allowed_groups,
        "groups": [
            _group_stats(store, rates, subject, group, steady, lease_seconds, is_paused)
            for group in subject.groups.values()
        ],
    }
    if sent is None:
        stats["reason"] = NOT_LONG_ENOUGH
    return stats


def group_numbers(
    store: MessageStore, rates: RateTable, subject: Subject, group: Group, steady_sent: float | None
) -> dict[str, Any]:
    """One group without its consumers; `steady_sent` is the subject's smoothed number of messages per second."""
    progress = group.progress
    lag = lag_of(subject.visible_end, progress.next_sequence, subject.begin, progress.in_flight)
    acked = rates.per_second(f"acked\n{subject.name}\n{progress.group}")
    steady_acked = rates.steady_per_second(f"acked\n{subject.name}\n{progress.group}")
    stats: dict[str, Any] = {
        "group": progress.group,
        "broadcast": progress.broadcast,
        "next_sequence": progress.next_sequence,
        "backlog": lag.backlog,
        "in_flight": lag.in_flight,
        "lag": lag.total,
        "time_lag_seconds": None,
        "pull_rate": rates.per_second(f"pulled\n{subject.name}\n{progress.group}"),
        "ack_rate": acked,
        "steady_ack_rate": steady_acked,
        "drain_seconds": None,
        "skipped_by_retention": group.skipped_total,
        "withheld": subject.withheld_count,
        "retried": group.retried_total,
        "redelivered": group.redelivered_total,
    }
    oldest = max(progress.oldest_unacked(), subject.begin)
    has_age = lag.total > 0 and oldest < subject.visible_end
    stored_at_ms = subject.consume_log.stored_at_ms(oldest) if has_age else None
    if lag.total and stored_at_ms is None:
        stats["reason"] = "the oldest unacknowledged message is withheld: its commit is corrupted"
    else:
        stats["time_lag_seconds"] = time_lag_seconds(store.clock.wall_ms(), stored_at_ms)
    if steady_acked is not None and steady_sent is not None:
        stats["drain_seconds"] = drain_seconds(lag.total, steady_acked, steady_sent)
    else:
        stats["reason"] = NOT_LONG_ENOUGH
    return stats


def _group_stats(
    store: MessageStore,
    rates: RateTable,
    subject: Subject,
    group: Group,
    steady_sent: float | None,
    lease_seconds: float,
    is_paused: IsPaused,
) -> dict[str, Any]:
    progress = group.progress
    stats = group_numbers(store, rates, subject, group, steady_sent)
    stats["paused"] = is_paused(subject.name, progress.group, "")
    now = store.clock.monotonic()
    stats["consumers"] = [
        {
            "consumer_id": consumer.consumer_id,
            "pulled": consumer.log.pulled,
            "acked": consumer.log.acked,
            "in_flight": consumer.log.in_flight,
            "last_seen_seconds": round(now - consumer.seen_at, 3),
            "paused": is_paused(subject.name, progress.group, consumer.consumer_id),
            "online": now - consumer.seen_at < lease_seconds,
            "duplicate": consumer.sessions.are_duplicates(now, lease_seconds),
        }
        for consumer in progress.consumers.values()
    ]
    return stats
