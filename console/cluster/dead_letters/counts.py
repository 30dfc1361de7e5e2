"""How many dead letters each consumer group has."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from django.db.models import Count, Q

from console.cluster.asking import Page, ask, brokers
from console.cursors import decode_cursor, encode_cursor
from console.models import DeadLetterDecision
from qmq.node_admin import NodeAdmin
from qmq.protocol.names import DEAD_PREFIX, dead_letter_subject, split_subject

QUESTIONS_MAX = 16
"""Questions to one node at a time, for the ages of dead letters."""

State = DeadLetterDecision.State


@dataclass(frozen=True, slots=True)
class DeadLetterTotal:
    """The dead letters of one consumer group of a subject, on the broker groups that answered."""

    subject: str
    group: str
    stored: int
    """What the logs hold."""
    open: int
    """Of these, those nothing was decided about."""
    replayed: int
    deleted: int
    oldest_ms: int | None
    newest_ms: int | None
    broker_groups: Mapping[str, int]
    """Stored dead letters by broker group."""


@dataclass(slots=True)
class _Stored:
    """One dead-letter subject: [begin, end) by broker group, and the times of its first and last dead letter."""

    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    times_ms: list[int] = field(default_factory=list)


def count_dead_letters(
    *, subject: str | None = None, group: str | None = None, limit: int, cursor: str | None = None
) -> Page[DeadLetterTotal]:
    """Count dead letters by subject and consumer group, in the order of their names.

    Raises:
        ChangeRefused: the cursor does not belong to this query.
        CallTimeout: no node answered in time.
    """
    nodes = brokers()
    query = ("dead letter counts", subject, group)
    after: str = "" if cursor is None else decode_cursor(cursor, query)

    async def work() -> tuple[dict[str, _Stored], str | None, dict[str, str]]:
        lists = await nodes.answers(lambda _, admin: _names_on(admin, subject, group, after, limit + 1))
        names = sorted({name for found in lists.values.values() for name in found})
        page = names[:limit]
        stored = {name: _Stored() for name in page}
        for broker_group, found in lists.values.items():
            for name in page:
                if name in found and found[name][1] > found[name][0]:
                    stored[name].ranges[broker_group] = found[name]
        times = await nodes.only(lists.values).answers(lambda name, admin: _add_times(admin, name, stored))
        return stored, page[-1] if len(names) > limit else None, lists.unreachable | times.unreachable

    stored, last, unreachable = ask(work)
    split = {name: split_subject(name) for name in stored}
    decided = _count_decisions({(split[n].subject, split[n].group): s.ranges for n, s in stored.items()})
    counts = []
    for name, here in stored.items():
        key = split[name].subject, split[name].group
        total = sum(end - begin for begin, end in here.ranges.values())
        states = decided.get(key, {})
        replayed, deleted = states.get(State.REPLAYED, 0), states.get(State.DELETED, 0)
        counts.append(
            DeadLetterTotal(
                *key, total, total - sum(states.values()), replayed, deleted, min(here.times_ms, default=None),
                max(here.times_ms, default=None), {g: end - begin for g, (begin, end) in here.ranges.items()},
            )
        )  # fmt: skip
    return Page(counts, encode_cursor(query, last) if last is not None else None, unreachable)


async def _names_on(
    admin: NodeAdmin, subject: str | None, group: str | None, after: str, limit: int
) -> dict[str, tuple[int, int]]:
    """The first dead-letter subjects of a node behind `after`, with [begin, end); a node lists its subjects by name."""
    if subject is not None and group is not None:
        wanted = dead_letter_subject(subject, group)
        page = await admin.stats(wanted)
        return {row["subject"]: (row["begin_sequence"], row["end_sequence"]) for row in page["subjects"]
                if row["subject"] > after}  # fmt: skip
    prefix = DEAD_PREFIX if subject is None else f"{DEAD_PREFIX}{subject}%"
    found: dict[str, tuple[int, int]] = {}
    at: str | None = max(after, prefix)
    while at is not None and len(found) < limit:
        page = await admin.stats(after=at, limit=limit)
        at = page["next_after"]
        for row in page["subjects"]:
            name = split_subject(row["subject"])
            if not row["subject"].startswith(prefix):
                at = None
                break
            if name.kind == "dead" and name.group and group in (None, name.group) and len(found) < limit:
                found[row["subject"]] = (row["begin_sequence"], row["end_sequence"])
    return found


async def _add_times(admin: NodeAdmin, broker_group: str, stored: Mapping[str, _Stored]) -> None:
    slots = asyncio.Semaphore(QUESTIONS_MAX)

    async def look(name: str, sequence: int) -> list[int]:
        async with slots:
            page = await admin.messages(name, sequence=sequence, limit=1)
        return [message["stored_at_ms"] for message in page["messages"] if "stored_at_ms" in message]

    work = []
    for name, here in stored.items():
        if broker_group in here.ranges:
            begin, end = here.ranges[broker_group]
            work += [(here, look(name, place)) for place in sorted({begin, end - 1})]
    for (here, _), times in zip(work, await asyncio.gather(*(question for _, question in work)), strict=True):
        here.times_ms += times


def _count_decisions(
    stored: Mapping[tuple[str, str], Mapping[str, tuple[int, int]]],
) -> dict[tuple[str, str], dict[str, int]]:
    """By (subject, group): decisions about dead letters that are still stored, by state."""
    places = [
        Q(subject=subject, group=group, broker_group=name, sequence__gte=begin, sequence__lt=end)
        for (subject, group), ranges in stored.items()
        for name, (begin, end) in ranges.items()
    ]
    counted: dict[tuple[str, str], dict[str, int]] = {}
    for first in range(0, len(places), 100):
        rows = DeadLetterDecision.objects.filter(reduce(or_, places[first : first + 100]))
        for row in rows.order_by().values("subject", "group", "state").annotate(letters=Count("pk")):
            states = counted.setdefault((row["subject"], row["group"]), {})
            states[row["state"]] = states.get(row["state"], 0) + row["letters"]
    return counted
