"""Why messages became dead letters: the causes that consumers recorded, and how often each occurs."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.cluster import limits
from console.cluster.asking import brokers
from console.cluster.dead_letters.reading import dead_subject
from console.cluster.masking import ALL
from console.cluster.merging import Row
from console.cluster.messages import or_empty
from console.models import DeadLetterDecision
from qmq.node_admin import NodeAdmin
from qmq.protocol.messages import KEY_RETRY_CAUSE

DEAD_LETTERS_MAX = 10_000
"""Dead letters of one broker group whose causes are counted: the newest ones."""
PAGE = 500
CAUSES_MAX = 50
"""Causes that are named; dead letters with others are counted together."""


@dataclass(frozen=True, slots=True)
class CauseCount:
    """A cause and its dead letters; None: the consumer recorded no cause."""

    cause: str | None
    messages: int


@dataclass(frozen=True, slots=True)
class Causes:
    """Causes of the dead letters of a consumer group, the most frequent one first. Deleted dead letters are not counted."""

    counts: Sequence[CauseCount]
    others: int
    """Dead letters with causes beyond the first CAUSES_MAX."""
    uncounted: int
    """Older dead letters that were not read: DEAD_LETTERS_MAX, or the time, was reached."""
    unreachable: Mapping[str, str] = field(default_factory=dict)


def cause_of(message: Row) -> str | None:
    """Return the cause that a consumer wrote into the next attempt or the dead letter; None if it recorded none. Pure."""
    return message.get("properties", {}).get(KEY_RETRY_CAUSE) or None


def count_causes(subject: str, group: str) -> Causes:
    """Count the causes of the newest dead letters of a consumer group.

    Raises:
        NotFound: the subject is unknown.
        CallTimeout: no node answered in time.
    """
    name = dead_subject(subject, group)
    deleted = DeadLetterDecision.objects.filter(
        subject=subject, group=group, state=DeadLetterDecision.State.DELETED
    ).values_list("broker_group", "sequence", "message_id")
    hidden = set(deleted)

    async def count(broker_group: str, admin: NodeAdmin) -> tuple[Counter[str | None], int]:
        deadline = time.monotonic() + limits.CAUSES_SECONDS
        found: Counter[str | None] = Counter()
        first = await or_empty(admin.messages(name, sequence=0, limit=1, masks=ALL))
        begin, end = first["begin_sequence"], first["end_sequence"]
        # Backwards, so that what the limits leave out is the oldest.
        low = high = end
        while low > max(begin, end - DEAD_LETTERS_MAX) and time.monotonic() < deadline:
            low = max(begin, end - DEAD_LETTERS_MAX, high - PAGE)
            at: int | None = low
            while at is not None and at < high:
                page = await or_empty(admin.messages(name, sequence=at, limit=high - at, masks=ALL))
                found.update(
                    cause_of(message) for message in page["messages"]
                    if message["sequence"] < high
                    and not message.get("withheld")
                    and (broker_group, message["sequence"], message.get("message_id", "")) not in hidden
                )  # fmt: skip
                at = page["next_sequence"]
            high = low
        return found, low - begin

    answers = brokers().ask(count)
    total: Counter[str | None] = Counter()
    for found, _ in answers.values.values():
        total.update(found)
    ordered = total.most_common()
    return Causes(
        [CauseCount(cause, messages) for cause, messages in ordered[:CAUSES_MAX]],
        sum(messages for _, messages in ordered[CAUSES_MAX:]),
        sum(left for _, left in answers.values.values()),
        answers.unreachable,
    )
