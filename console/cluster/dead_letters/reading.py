"""Dead letters with what was decided about each."""

from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from django.db.models import Q

from console.cluster.asking import Page, brokers
from console.cluster.merging import Row, next_places
from console.cluster.messages import OLDEST, SUBJECT_UNKNOWN, check_filter, has_property, read_one, real_subject
from console.cursors import decode_cursor, encode_cursor
from console.models import DeadLetterDecision
from metaserver.errors import NotFound
from qmq.node_admin import NodeAdmin
from qmq.protocol.masking import Masks
from qmq.protocol.messages import KEY_RETRY_CAUSE
from qmq.protocol.names import dead_letter_subject


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as its node shows it (with `broker_group`), and what was decided about it."""

    message: Row
    decision: DeadLetterDecision | None

    @property
    def state(self) -> str:
        """A word of `DeadLetterDecision.State`, or "open"."""
        return str(self.decision.state) if self.decision is not None else "open"


def dead_letters_of(
    subject: str,
    group: str,
    *,
    states: Sequence[str],
    cause: str | None = None,
    filter_text: str = "",
    limit: int,
    cursor: str | None = None,
    masks: Masks,
    caller: str = "",
) -> Page[DeadLetter]:
    """Return a page of dead letters in these states ("open" and those of `DeadLetterDecision`), with this cause, that match a
    filter, by the time when they became ones. A page can contain fewer than `limit` rows, or none, and have a next one, because
    filtered rows are read as well.

    Raises:
        as `messages.read_page`.
    """
    name = dead_subject(subject, group)
    query = ("dead letters", name, sorted(states), cause, filter_text)
    filters = [*([has_property(KEY_RETRY_CAUSE, cause)] if cause is not None else []), *filter(None, [filter_text])]
    places: dict[str, int] = {} if cursor is None else decode_cursor(cursor, query)

    def question(broker_group: str, admin: NodeAdmin) -> Awaitable[Row]:
        sequence = places.get(broker_group, 0)
        if not filters:
            return admin.messages(name, sequence=sequence, limit=limit, masks=masks)
        return admin.search(
            name, filters=filters, order=OLDEST, sequence=sequence, limit=limit, masks=masks, caller=caller
        )

    answers = brokers().ask(question)
    check_filter(answers)
    messages, places, has_more = next_places(answers, places, limit, in_order=True)
    known = decisions_about(subject, group, messages)
    dead_letters = [DeadLetter(message, known.get(place_of(message))) for message in messages]
    return Page(
        [dead_letter for dead_letter in dead_letters if dead_letter.state in states],
        encode_cursor(query, places) if has_more else None,
        answers.unreachable,
    )


def dead_letter_of(subject: str, group: str, broker_group: str, sequence: int, *, masks: Masks) -> DeadLetter:
    """One dead letter.

    Raises:
        NotFound: there is none.
        ConnectionLost: the broker group can't be reached.
    """
    message = read_one(dead_subject(subject, group), broker_group, sequence, masks=masks)
    return DeadLetter(message, decisions_about(subject, group, [message]).get(place_of(message)))


def dead_subject(subject: str, group: str) -> str:
    """The name of a dead-letter subject. Raises NotFound when its real subject is unknown."""
    if real_subject(subject).kind != "real":
        raise NotFound(
            f"{subject!r} is a retry or dead-letter subject. Specify the subject itself and the consumer group.",
            code=SUBJECT_UNKNOWN,
        )
    return dead_letter_subject(subject, group)


def place_of(message: Row) -> tuple[str, int]:
    return message["broker_group"], message["sequence"]


def decisions_about(subject: str, group: str, messages: Iterable[Row]) -> dict[tuple[str, int], DeadLetterDecision]:
    """Decisions about these dead letters, by place. A decision about another dead letter with the same number is none."""
    ids = {place_of(message): message.get("message_id", "") for message in messages}
    by_group: dict[str, list[int]] = {}
    for broker_group, sequence in ids:
        by_group.setdefault(broker_group, []).append(sequence)
    if not by_group:
        return {}
    rows = DeadLetterDecision.objects.filter(
        reduce(or_, [Q(broker_group=g, sequence__in=numbers) for g, numbers in by_group.items()]),
        subject=subject,
        group=group,
    )
    return {(r.broker_group, r.sequence): r for r in rows if r.message_id == ids[(r.broker_group, r.sequence)]}
