"""Why messages became dead letters: the causes that consumers recorded, and how often each occurs."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from console.cluster import limits
from console.cluster.asking import brokers
from console.cluster.dead_letters.counts import count_dead_letters
from console.cluster.dead_letters.reading import dead_subject
from console.cluster.masking import ALL
from console.cluster.merging import Row
from console.cluster.messages import or_empty
from console.models import DeadLetterDecision
from qmq.node_admin import NodeAdmin
from qmq.protocol.messages import KEY_RETRY_CAUSE
from qmq.protocol.names import dead_letter_subject

DEAD_LETTERS_MAX = 10_000
"""Dead letters of one broker group whose causes are counted: the newest ones."""
PAGE = 500
CAUSES_MAX = 50
"""Causes that are named; dead letters with others are counted together."""
GROUPS_MAX = 50
"""Consumer groups whose causes are counted together."""
OF_EACH_MAX = 1_000
"""Dead letters of each of them on one broker group that are read: the newest ones."""
SERIES_MAX = 5
"""Causes that have a line of their own over time."""
POINTS_MAX = 60
STEPS_SECONDS = (60, 600, 3_600, 6 * 3_600, 86_400)
MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class CauseCount:
    """A cause and its dead letters; None: the consumer recorded no cause."""

    cause: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class CauseSeries:
    """Dead letters with a cause (None: none was recorded), by step."""

    cause: str | None
    messages: Sequence[int]


@dataclass(frozen=True, slots=True)
class Timeline:
    """When the counted dead letters became ones."""

    step_seconds: int
    at_ms: Sequence[int]
    series: Sequence[CauseSeries]
    """Of the SERIES_MAX most frequent causes."""
    others: Sequence[int]


@dataclass(frozen=True, slots=True)
class Causes:
    """Causes of dead letters, the most frequent one first. Deleted dead letters are not counted."""

    counts: Sequence[CauseCount]
    others: int
    """Dead letters with causes beyond the first CAUSES_MAX."""
    uncounted: int
    """Older dead letters that were not read: the maximum, or the time, was reached."""
    timeline: Timeline
    unreachable: Mapping[str, str] = field(default_factory=dict)
    groups_left_out: bool = False
    """Whether there are more consumer groups with dead letters than GROUPS_MAX."""


def cause_of(message: Row) -> str | None:
    """Return the cause that a consumer wrote into the next attempt or the dead letter; None if it recorded none. Pure."""
    return message.get("properties", {}).get(KEY_RETRY_CAUSE) or None


def count_causes(subject: str, group: str) -> Causes:
    """Count the causes of the newest dead letters of a consumer group, DEAD_LETTERS_MAX of each broker group.

    Raises:
        NotFound: the subject is unknown.
        CallTimeout: no node answered in time.
    """
    dead_subject(subject, group)
    return _count([(subject, group)], DEAD_LETTERS_MAX)


def count_all_causes() -> Causes:
    """Count the causes of the newest dead letters of the first GROUPS_MAX consumer groups, OF_EACH_MAX of each on each broker
    group.

    Raises:
        CallTimeout: no node answered in time.
    """
    page = count_dead_letters(limit=GROUPS_MAX)
    found = _count([(row.subject, row.group) for row in page.rows], OF_EACH_MAX)
    return replace(found, unreachable={**page.unreachable, **found.unreachable}, groups_left_out=page.next is not None)


Key = tuple[str | None, int]
"""A cause, and the minute in which the dead letter was stored."""


def _count(groups: Sequence[tuple[str, str]], most: int) -> Causes:
    deleted = DeadLetterDecision.objects.filter(state=DeadLetterDecision.State.DELETED)
    hidden = {
        (subject, group): set(
            deleted.filter(subject=subject, group=group).values_list("broker_group", "sequence", "message_id")
        )
        for subject, group in groups
    }

    async def count(broker_group: str, admin: NodeAdmin) -> tuple[Counter[Key], int]:
        deadline = time.monotonic() + limits.CAUSES_SECONDS
        found: Counter[Key] = Counter()
        left = 0
        for subject, group in groups:
            name, gone = dead_letter_subject(subject, group), hidden[subject, group]
            first = await or_empty(admin.messages(name, sequence=0, limit=1, masks=ALL))
            begin, end = first["begin_sequence"], first["end_sequence"]
            # Backwards, so that what the limits leave out is the oldest.
            low = high = end
            while low > max(begin, end - most) and time.monotonic() < deadline:
                low = max(begin, end - most, high - PAGE)
                at: int | None = low
                while at is not None and at < high:
                    page = await or_empty(admin.messages(name, sequence=at, limit=high - at, masks=ALL))
                    found.update(
                        (cause_of(message), message["stored_at_ms"] // MINUTE_MS) for message in page["messages"]
                        if message["sequence"] < high
                        and not message.get("withheld")
                        and (broker_group, message["sequence"], message.get("message_id", "")) not in gone
                    )  # fmt: skip
                    at = page["next_sequence"]
                high = low
            left += low - begin
        return found, left

    answers = brokers().ask(count)
    by_minute: Counter[Key] = Counter()
    for found, _ in answers.values.values():
        by_minute.update(found)
    total: Counter[str | None] = Counter()
    for (cause, _), messages in by_minute.items():
        total[cause] += messages
    ordered = total.most_common()
    return Causes(
        [CauseCount(cause, messages) for cause, messages in ordered[:CAUSES_MAX]],
        sum(messages for _, messages in ordered[CAUSES_MAX:]),
        sum(left for _, left in answers.values.values()),
        timeline_of(by_minute, [cause for cause, _ in ordered[:SERIES_MAX]]),
        answers.unreachable,
    )


def timeline_of(by_minute: Mapping[Key, int], causes: Sequence[str | None]) -> Timeline:
    """Counts over time: the smallest step with at most POINTS_MAX points. Other causes are counted together. Pure."""
    if not by_minute:
        return Timeline(STEPS_SECONDS[0], [], [], [])
    minutes = [minute for _, minute in by_minute]
    low, high = min(minutes) * 60, max(minutes) * 60
    fine = (step for step in STEPS_SECONDS if high // step - low // step < POINTS_MAX)
    # Retention bounds the age of dead letters, but not what clocks of nodes say.
    step = next(fine, (high - low) // POINTS_MAX + STEPS_SECONDS[-1])
    first, points = low // step, high // step - low // step + 1
    series = {cause: [0] * points for cause in causes}
    others = [0] * points
    for (cause, minute), messages in by_minute.items():
        series.get(cause, others)[minute * 60 // step - first] += messages
    return Timeline(
        step,
        [(first + point) * step * 1000 for point in range(points)],
        [CauseSeries(cause, counts) for cause, counts in series.items()],
        others,
    )
