"""The numbers of subjects and groups for /stats, with their definitions in `qmq.lag`; unknown values are null, with a reason."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker_node.admin.view import NodeView
from broker_node.storage.consume_log import KNOWN_LOOK_MAX, stored_at_ms
from broker_node.storage.oldest_sequence import begin_adjusted
from broker_node.storage.subject import Group, Subject
from qmq.errors import LogError
from qmq.lag import STORE_TIMES, Lag, lag_of, time_lag_seconds
from qmq_node.log.index import IndexView
from qmq_node.policy import NO_RULES, sends_policy
from qmq_node.slices import Pacer

STATS_SUBJECTS_MAX = 1_000
"""Most subjects of one answer; request the rest with `?after=`."""
PACE_UNITS = 100
"""Subjects, groups and consumers whose numbers are collected in one iteration of the event loop."""
SLICE_SUBJECTS = 50
"""Subjects whose index entries are read by one call of a thread."""
NOT_LONG_ENOUGH = "measured for less than a second"
Row = tuple[dict[str, Any], list["Age"]]
"""The numbers of a subject, and the ages to be added to them."""


@dataclass(frozen=True, slots=True)
class Age:
    """The age of a message that a group has not acknowledged; `read` adds it to the group's numbers."""

    stats: dict[str, Any]
    name: str
    """Of the age, one of STORE_TIMES."""
    sequence: int
    view: IndexView
    now_ms: int

    def read(self) -> None:
        """Add the age and the store time. For any thread."""
        try:
            at_ms = stored_at_ms(self.view, self.sequence)
        except LogError as error:
            self.stats["reason"] = f"the index entry of the oldest unacknowledged message can't be read: {error}"
            return
        if at_ms is None:
            self.stats["reason"] = "the oldest unacknowledged message is withheld: its commit is corrupted"
            return
        self.stats[STORE_TIMES[self.name]] = at_ms
        self.stats[self.name] = time_lag_seconds(self.now_ms, at_ms)


def encoded(value: dict[str, Any]) -> bytes:
    """Returns JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def encoded_page(key: str, items: Sequence[bytes], head: dict[str, Any]) -> bytes:
    """Returns an object of `head` and a list of encoded items. Items are encoded one by one, so that other threads run between."""
    return b'{"%s":[' % key.encode() + b",".join(items) + b"]," + encoded(head)[1:]


async def subject_pages(view: NodeView, subjects: Sequence[Subject]) -> list[bytes]:
    """Returns the encoded numbers of subjects. Index entries are read, and JSON is made, in a thread."""
    pacer, pages = Pacer(PACE_UNITS), []
    for begin in range(0, len(subjects), SLICE_SUBJECTS):
        rows = [await _row(view, subject, pacer) for subject in subjects[begin : begin + SLICE_SUBJECTS]]
        pages += await asyncio.to_thread(_complete, rows)
    return pages


def _complete(rows: Sequence[Row]) -> list[bytes]:
    """Reads the ages and encodes. For any thread."""
    found = []
    for stats, ages in rows:
        for age in ages:
            age.read()
        found.append(encoded(stats))
    return found


async def _row(view: NodeView, subject: Subject, pacer: Pacer) -> Row:
    """The numbers of one subject with its groups, and the policy that applies to them."""
    await pacer.spend()
    await begin_adjusted(view.store, subject)
    policy = view.node.policy.subjects.get(subject.name, NO_RULES)
    rates, steady = view.rates.per_second(subject.meter), view.rates.steady_per_second(subject.meter)
    stats: dict[str, Any] = {
        "subject": subject.name,
        "begin_sequence": subject.begin,
        "end_sequence": subject.visible_end,
        "unsynced": subject.next_sequence - subject.visible_end,
        "withheld": subject.withheld_count,
        "send_rate": rates and rates[0],
        "steady_send_rate": steady and steady[0],
        "send_bytes_rate": rates and rates[1],
        **sends_policy(policy),
        "retention_hours": policy.retention_hours,
        "allowed_groups": policy.allowed_groups,
        "groups": [],
    }
    if rates is None:
        stats["reason"] = NOT_LONG_ENOUGH
    ages: list[Age] = []
    for group in list(subject.groups.values()):
        await pacer.spend(1 + len(group.progress.consumers))
        numbers, of_group = group_numbers(view, subject, group)
        numbers |= _members(view, subject, group)
        stats["groups"].append(numbers)
        ages += of_group
    return stats, ages


def group_numbers(view: NodeView, subject: Subject, group: Group) -> tuple[dict[str, Any], list[Age]]:
    """Returns the numbers of a group without its consumers, and the ages to add to them."""
    progress = group.progress
    lag = lag_of(subject.visible_end, progress.next_sequence, subject.begin, progress.in_flight)
    rates, steady = view.rates.per_second(group.meter), view.rates.steady_per_second(group.meter)
    oldest = _oldest(subject, group, lag)
    stats: dict[str, Any] = {
        "group": progress.group,
        "broadcast": progress.broadcast,
        "next_sequence": progress.next_sequence,
        "backlog": lag.backlog,
        "in_flight": lag.in_flight,
        "lag": lag.total,
        **{name: 0.0 if sequence is None else None for name, sequence in oldest.items()},
        **dict.fromkeys(STORE_TIMES.values()),
        "pull_rate": rates and rates[0],
        "ack_rate": rates and rates[1],
        "steady_ack_rate": steady and steady[1],
        "skipped_by_retention": group.skipped_total,
        "withheld": subject.withheld_count,
        "retried": group.retried_total,
        "redelivered": group.redelivered_total,
    }
    if steady is None:
        stats["reason"] = NOT_LONG_ENOUGH
    now_ms = view.node.clock.wall_ms()
    ages = []
    for name, sequence in oldest.items():
        if sequence is not None and sequence < subject.visible_end:
            entries = subject.consume_log.view(sequence, sequence + KNOWN_LOOK_MAX)
            ages.append(Age(stats, name, sequence, entries, now_ms))
    return stats, ages


def _oldest(subject: Subject, group: Group, lag: Lag) -> dict[str, int | None]:
    """By age, those of STORE_TIMES: the consume sequence of the message; None without one, whose age is 0."""
    return {
        "time_lag_seconds": max(group.progress.lowest_not_done(), subject.begin) if lag.total else None,
    }


def _members(view: NodeView, subject: Subject, group: Group) -> dict[str, Any]:
    """The consumers of a group, and whether it is paused."""
    progress, now = group.progress, view.node.clock.monotonic()
    consumers = []
    for consumer in progress.consumers.values():
        presence = consumer.presence(now, view.lease_seconds)
        consumer.reported = presence
        consumers.append(
            {
                "consumer_id": consumer.consumer_id,
                "pulled": consumer.log.pulled,
                "acked": consumer.log.acked,
                "in_flight": consumer.log.in_flight,
                "last_seen_seconds": round(now - consumer.seen_at, 3),
                "paused": view.handlers.pulls.is_paused(subject.name, progress.group, consumer.consumer_id),
                "online": presence[0],
                "duplicate": presence[1],
            }
        )
    return {"paused": view.handlers.pulls.is_paused(subject.name, progress.group, ""), "consumers": consumers}
